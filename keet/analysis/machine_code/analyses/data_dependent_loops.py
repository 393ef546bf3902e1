"""Loops that end by what they load: retries of compare-and-swap, searches, and loops that a load
ends.

Shared memory has no native addition of floats or 64-bit integers: the compiler writes a loop of
load, addition and compare-and-swap. A warp whose threads update different addresses runs it once
per update. Each further round serves threads whose swap failed, because another thread changed the
word first. Spin locks and hand-written loops such as a maximum of floats work the same way.

In a search, every iteration looks at one element, and nearly all of them find nothing. All threads
of a warp look at the same element, so that the same list is searched again by every warp. What
looks alike is left out: loops in which each thread has elements of its own (they may have to be
read once), that compute, store or exchange something in every iteration (rare paths and bounds
checks beside other work), whose condition changes with what was found (a running maximum), and
whose addresses are loaded (binary searches, lists).

Where a load ends the loop, no iteration can start before the load of the one before has returned. A
search for a marker at the end of a list is such a loop. Its loads could be issued several at a time
if the length were known, or if it read ahead. A loop that waits for another thread loads the same
address again: it is left out, as are loads whose address the load before returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.loop_chains import FAR
from keet.analysis.machine_code.analyses.purpose import values_of_address
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.flow.values import Kind, SsaValue
from keet.analysis.machine_code.instructions.opcodes import SHARED, Role
from keet.analysis.parameters import Parameter

_MOST_VALUES = 256
"""Most values that are followed back from a loop's exit, an address or a condition."""


class RetryLoop(NamedTuple):
    swap: int
    """Position of the compare-and-swap."""
    memory: Literal["global", "shared"]
    entries: int
    """How often warps entered the loop: their updates."""
    executions: int
    """Executions of the compare-and-swap, in warps."""
    repeated: Mapping[int, int]
    """Executions beyond one per update, by position: in the loop, and where its threads meet."""


def retry_loops(program: SassProgram) -> list[RetryLoop]:
    """The loops that ran, in the order of the code. Empty without execution counts."""
    loops = []
    for position in program.ran if program.executed else ():
        instruction = program.code[position]
        if (
            instruction.role is not Role.ATOMIC
            or not instruction.has("CAS", "CAST")
            or _only_reads(instruction.text)
        ):
            continue
        around = program.flow.loops_around(program.flow.block_of[position])
        if around and around[0].entries and _retries(program, around[0], position):
            memory: Literal["global", "shared"] = (
                "shared" if instruction.opcode in SHARED else "global"
            )
            entries = around[0].entries
            repeated = _repeated(program, around[0], entries)
            loops.append(RetryLoop(position, memory, entries, program.counts[position], repeated))
    return loops


def _only_reads(text: str) -> bool:
    """Whether the new value is the expected one: it waits for another thread's value."""
    *_, expected, new = text.rstrip(" ;").split(",")
    return expected.strip() == new.strip()


def _retries(program: SassProgram, loop: Loop, swap: int) -> bool:
    """Whether the loop repeats the swap of one word until it succeeds.

    The address stays (probes of a hash table go to another one), and a branch out of the loop
    depends on the result.
    """
    if not _has_one_address(program, loop, swap):
        return False
    return any(_depends(program, loop, exit_, swap) for exit_ in program.flow.leaving(loop))


def stays(program: SassProgram, loop: Loop, value: int, depth: int = 8) -> bool:
    """Whether a value is the same in all rounds."""
    made = program.values.all[value]
    if made.block not in loop.blocks:
        return True
    if made.kind is not Kind.DEFINITION or not depth:
        return False
    if program.code[made.position].role in (Role.LOAD, Role.ATOMIC, Role.UNKNOWN):
        return False
    return all(stays(program, loop, source, depth - 1) for source in program.values.behind(made))


def _depends(program: SassProgram, loop: Loop, branch: int, swap: int) -> bool:
    """Whether a branch depends on the swap's result of the same round, by value or by path."""
    values, flow = program.values, program.flow

    def following(index: int) -> list[int]:
        value = values.all[index]
        is_earlier = value.kind is Kind.JOIN and value.block == loop.header
        if value.block not in loop.blocks or is_earlier:
            return []  # of an earlier round
        above = flow.dominators.get(value.block, -1)
        is_chosen = value.kind is Kind.JOIN and above in loop.blocks
        chosen = values.read[flow.blocks[above].end - 1].values() if is_chosen else ()
        return [*values.behind(value, with_guard=True), *chosen]

    behind = reached(values.read[branch].values(), following, _MOST_VALUES)
    return not behind.keys().isdisjoint(values.written[swap].values())


def _repeated(program: SassProgram, loop: Loop, entries: int) -> dict[int, int]:
    flow = program.flow
    meeting = {
        after
        for block in loop.blocks
        for after in flow.blocks[block].successors
        if after not in loop.blocks and loop.blocks.issuperset(flow.blocks[after].predecessors)
    }
    repeated: dict[int, int] = {}
    for block in sorted(loop.blocks | meeting):
        # A loop within it runs as often as it is entered.
        inner = [nested for nested in flow.loops_around(block) if nested.depth > loop.depth]
        often = inner[-1].entries if inner and block in loop.blocks else None
        share = max(0.0, 1 - entries / often) if often else None
        for position in flow.positions([block]):
            count = program.counts[position]
            more = count - entries if share is None else int(count * share)
            if more > 0:
                repeated[position] = more
    return repeated


SELDOM = Parameter(0.05, "share of the iterations in which a search finds something", "judgement")
LEAST_SEARCHED = Parameter(32, "iterations of a search: one per lane of a warp", "judgement")
_LOOKING_ROLES = (
    *(Role.INTEGER, Role.PREDICATE, Role.CONVERSION, Role.MOVE, Role.SPECIAL, Role.CONSTANT),
    *(Role.LOAD, Role.BRANCH, Role.CONVERGENCE, Role.NOTHING),
)
"""What an iteration that finds nothing does."""


class SearchLoop(NamedTuple):
    positions: tuple[int, ...]
    """Instructions of every iteration."""
    iterations: int
    """Executed by all warps together."""
    finds: int
    """Iterations with something to do."""


def search_loops(program: SassProgram) -> list[SearchLoop]:
    """By executed instructions, the most first. Empty without execution counts."""
    made = (_search(program, loop) for loop in program.flow.loops if program.executed)
    searches = [search for search in made if search is not None]
    return sorted(searches, key=lambda search: -search.iterations * len(search.positions))


def _search(program: SassProgram, loop: Loop) -> SearchLoop | None:
    flow, counts = program.flow, program.counts
    iterations = counts[flow.blocks[loop.header].start]
    if not iterations or (loop.trips or 0) < LEAST_SEARCHED:
        return None
    blocks = [block for block in sorted(loop.blocks) if flow.loop_of.get(block) == loop.index]
    times = {block: counts[flow.blocks[block].start] for block in blocks}
    usual = [block for block in blocks if times[block] > SELDOM * iterations]
    seldom = {block for block in loop.blocks if block not in usual}
    times_found = max((times[block] for block in blocks if block in seldom), default=0)
    # An inner loop belongs to what is done when something is found.
    inner = [nested for nested in flow.loops if nested.parent == loop.index]
    if not times_found or not all(_is_seldom_entered(program, nested, seldom) for nested in inner):
        return None
    positions = flow.positions(usual)
    if any(program.code[position].role not in _LOOKING_ROLES for position in positions):
        return None
    loads = [position for position in positions if program.code[position].role is Role.LOAD]
    is_same = loads and all(_is_same_in_warp(program, loop, load) for load in loads)
    if not is_same or not _is_unchanged(program, positions, seldom):
        return None
    return SearchLoop(tuple(positions), iterations, times_found)


def _is_seldom_entered(program: SassProgram, inner: Loop, seldom: Collection[int]) -> bool:
    return all(
        index in seldom
        for index, block in enumerate(program.flow.blocks)
        if inner.header in block.successors and index not in inner.blocks
    )


def _behind(program: SassProgram, values: Iterable[int]) -> list[SsaValue]:
    """All values that these depend on; more than `_MOST_VALUES` if these are not all."""
    every = program.values.all
    followed = reached(values, lambda index: program.values.behind(every[index]), _MOST_VALUES)
    return [every[index] for index in followed]


def _is_same_in_warp(program: SassProgram, loop: Loop, load: int) -> bool:
    """Whether the address is the same for all threads of a warp, and is not loaded in the loop."""
    behind = _behind(program, values_of_address(program, load))
    written = [value.position for value in behind if value.kind is Kind.DEFINITION]
    is_of_thread = any(
        program.code[position].role is Role.SPECIAL and "CTAID" not in program.code[position].text
        for position in written
    )
    is_loaded = any(
        program.code[position].role is Role.LOAD and program.flow.block_of[position] in loop.blocks
        for position in written
    )
    is_known = len(behind) <= _MOST_VALUES and all(value.kind is not Kind.CALL for value in behind)
    return is_known and not is_of_thread and not is_loaded


def _is_unchanged(program: SassProgram, positions: list[int], seldom: Collection[int]) -> bool:
    """Whether iterations do not depend on what earlier ones found."""
    reads = [value for position in positions for value in program.values.read[position].values()]
    return not any(
        value.kind is Kind.DEFINITION and program.flow.block_of[value.position] in seldom
        for value in _behind(program, reads)
    )


def exit_loads(program: SassProgram, loop: Loop) -> list[int]:
    """Positions of loads of the loop that decide whether it goes on, in order; those at an address
    that stays the same are left out."""
    values = program.values

    def is_load(value: SsaValue) -> bool:
        is_written = value.kind is Kind.DEFINITION and value.block in loop.blocks
        return is_written and program.code[value.position].opcode in FAR

    def following(index: int) -> Collection[int]:
        value = values.all[index]
        is_earlier = value.kind is Kind.JOIN and value.block == loop.header
        is_end = is_earlier or value.block not in loop.blocks or is_load(value)
        return () if is_end else values.behind(value)

    tested = (
        index for exit_ in program.flow.leaving(loop) for index in values.read[exit_].values()
    )
    behind = (values.all[index] for index in reached(tested, following))
    loads = {value.position for value in behind if is_load(value)}
    return sorted(load for load in loads if not _has_one_address(program, loop, load))


def _has_one_address(program: SassProgram, loop: Loop, access: int) -> bool:
    """Whether the address of an access is the same in all rounds."""
    return all(stays(program, loop, value) for value in values_of_address(program, access))
