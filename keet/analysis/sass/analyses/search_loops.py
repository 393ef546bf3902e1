"""Loops that search: every iteration looks at one element, and nearly all of them find nothing.

All threads of a warp look at the same element, so that the same list is searched again by every
warp. What looks alike is left out: loops in which each thread has elements of its own (they may
have to be read once), that compute, store or exchange something in every iteration (rare paths and
bounds checks beside other work), whose condition changes with what was found (a running maximum),
and whose addresses are loaded (binary searches, lists).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from keet.analysis.parameters import Parameter
from keet.analysis.sass.analyses.purpose import address_registers
from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind, SsaValue
from keet.analysis.sass.instructions.opcodes import Role

SELDOM = Parameter(0.05, "share of the iterations in which a search finds something", "judgement")
LEAST_SEARCHED = Parameter(32, "iterations of a search: one per lane of a warp", "judgement")
_FAR = 256
"""Most values that are followed back from an address or a condition."""
_LOOKS = (
    *(Role.INTEGER, Role.PREDICATE, Role.CONVERSION, Role.MOVE, Role.SPECIAL, Role.CONSTANT),
    *(Role.LOAD, Role.BRANCH, Role.CONVERGENCE, Role.NOTHING),
)
"""What an iteration that finds nothing does."""


class SearchLoop(NamedTuple):
    positions: tuple[int, ...]
    """Instructions of every iteration."""
    iterations: int
    """Executed by all warps together."""
    found: int
    """Iterations with something to do."""


def search_loops(program: SassProgram) -> list[SearchLoop]:
    """By executed instructions, the most first. Empty without execution counts."""
    made = (_search(program, loop) for loop in program.flow.loops if program.executed)
    found = [each for each in made if each is not None]
    return sorted(found, key=lambda each: -each.iterations * len(each.positions))


def _search(program: SassProgram, loop: Loop) -> SearchLoop | None:
    flow, counts = program.flow, program.counts
    iterations = counts[flow.blocks[loop.header].start]
    if not iterations or (loop.trips or 0) < LEAST_SEARCHED:
        return None
    own = [block for block in sorted(loop.blocks) if flow.loop_of.get(block) == loop.index]
    times = {block: counts[flow.blocks[block].start] for block in own}
    usual = [block for block in own if times[block] > SELDOM * iterations]
    seldom = {block for block in loop.blocks if block not in usual}
    found = max((times[block] for block in own if block in seldom), default=0)
    # An inner loop belongs to what is done when something is found.
    inner = [each for each in flow.loops if each.parent == loop.index]
    if not found or not all(_is_seldom_entered(program, each, seldom) for each in inner):
        return None
    positions = [
        each for block in usual for each in range(flow.blocks[block].start, flow.blocks[block].end)
    ]
    if any(program.code[each].role not in _LOOKS for each in positions):
        return None
    loads = [each for each in positions if program.code[each].role is Role.LOAD]
    is_same = loads and all(_is_same_in_warp(program, loop, each) for each in loads)
    if not is_same or not _is_unchanged(program, positions, seldom):
        return None
    return SearchLoop(tuple(positions), iterations, found)


def _is_seldom_entered(program: SassProgram, inner: Loop, seldom: Collection[int]) -> bool:
    return all(
        index in seldom
        for index, block in enumerate(program.flow.blocks)
        if inner.header in block.successors and index not in inner.blocks
    )


def _behind(program: SassProgram, values: Iterable[int]) -> Iterator[SsaValue]:
    """All values that these depend on, up to `_FAR` of them."""
    waiting = list(values)
    seen = set(waiting)
    while waiting and len(seen) <= _FAR:
        value = program.values.all[waiting.pop()]
        yield value
        is_written = value.kind is Kind.DEFINITION
        inputs = program.values.read[value.position].values() if is_written else value.inputs
        fresh = [each for each in inputs if each not in seen]
        seen.update(fresh)
        waiting += fresh


def _is_same_in_warp(program: SassProgram, loop: Loop, load: int) -> bool:
    """Whether the address is the same for all threads of a warp, and is not loaded in the loop."""
    read, names = program.values.read[load], address_registers(program.code[load])
    behind = list(_behind(program, [read[name] for name in names if name in read]))
    written = [each.position for each in behind if each.kind is Kind.DEFINITION]
    is_of_thread = any(
        program.code[each].role is Role.SPECIAL and "CTAID" not in program.code[each].text
        for each in written
    )
    is_loaded = any(
        program.code[each].role is Role.LOAD and program.flow.block_of[each] in loop.blocks
        for each in written
    )
    is_known = len(behind) <= _FAR and all(each.kind is not Kind.CALL for each in behind)
    return is_known and not is_of_thread and not is_loaded


def _is_unchanged(program: SassProgram, positions: list[int], seldom: Collection[int]) -> bool:
    """Whether iterations do not depend on what earlier ones found."""
    reads = [value for each in positions for value in program.values.read[each].values()]
    return not any(
        value.kind is Kind.DEFINITION and program.flow.block_of[value.position] in seldom
        for value in _behind(program, reads)
    )
