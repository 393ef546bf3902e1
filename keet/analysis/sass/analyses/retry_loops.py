"""Retry loops around a compare-and-swap, and how often warps repeat them.

Shared memory has no native addition of floats or 64-bit integers: the compiler writes a loop of
load, addition and compare-and-swap. A warp whose threads update different addresses runs it once
per update. Each further round serves threads whose swap failed, because another thread changed the
word first. Spin locks and hand-written loops such as a maximum of floats work the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from keet.analysis.sass.analyses.purpose import address_registers
from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind
from keet.analysis.sass.instructions.opcodes import SHARED, Role

_FAR = 256
"""Most values that are followed back from a loop's exit; no real retry loop has as many."""


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
    found = []
    for position in program.ran if program.executed else ():
        each = program.code[position]
        if each.role is not Role.ATOMIC or not each.has("CAS", "CAST") or _only_reads(each.text):
            continue
        around = program.flow.loops_around(program.flow.block_of[position])
        if around and around[0].entries and _retries(program, around[0], position):
            memory: Literal["global", "shared"] = "shared" if each.opcode in SHARED else "global"
            entries = around[0].entries
            repeated = _repeated(program, around[0], entries)
            found.append(RetryLoop(position, memory, entries, program.counts[position], repeated))
    return found


def _only_reads(text: str) -> bool:
    """Whether the new value is the expected one: it waits for another thread's value."""
    *_, expected, new = text.rstrip(" ;").split(",")
    return expected.strip() == new.strip()


def _retries(program: SassProgram, loop: Loop, swap: int) -> bool:
    """Whether the loop repeats the swap of one word until it succeeds.

    The address stays (probes of a hash table go to another one), and a branch out of the loop
    depends on the result.
    """
    words = address_registers(program.code[swap])
    read = program.values.read[swap]
    if not all(stays(program, loop, read[name]) for name in words if name in read):
        return False
    exits = (
        program.flow.blocks[block].end - 1
        for block in loop.blocks
        if any(each not in loop.blocks for each in program.flow.blocks[block].successors)
    )
    return any(_depends(program, loop, position, swap) for position in exits)


def stays(program: SassProgram, loop: Loop, value: int, depth: int = 8) -> bool:
    """Whether a value is the same in all rounds."""
    found = program.values.all[value]
    if found.block not in loop.blocks:
        return True
    if found.kind is not Kind.DEFINITION or not depth:
        return False
    if program.code[found.position].role in (Role.LOAD, Role.ATOMIC, Role.UNKNOWN):
        return False
    reads = program.values.read[found.position].values()
    return all(stays(program, loop, each, depth - 1) for each in reads)


def _depends(program: SassProgram, loop: Loop, branch: int, swap: int) -> bool:
    """Whether a branch depends on the swap's result of the same round, by value or by path."""
    values, flow = program.values, program.flow
    waiting = list(values.read[branch].values())
    seen: set[int] = set()
    while waiting and len(seen) < _FAR:
        current = waiting.pop()
        found = values.all[current]
        if current in seen or found.block not in loop.blocks:
            continue
        seen.add(current)
        if found.kind is Kind.DEFINITION:
            if found.position == swap:
                return True
            waiting += values.read[found.position].values()
            continue
        if found.kind is Kind.JOIN and found.block == loop.header:
            continue  # of an earlier round
        waiting += found.inputs
        if found.guard is not None:
            waiting.append(found.guard[0])
        above = flow.dominators.get(found.block, -1)
        if found.kind is Kind.JOIN and above in loop.blocks:
            waiting += values.read[flow.blocks[above].end - 1].values()
    return False


def _repeated(program: SassProgram, loop: Loop, entries: int) -> dict[int, int]:
    flow = program.flow
    meeting = {
        after
        for block in loop.blocks
        for after in flow.blocks[block].successors
        if after not in loop.blocks and loop.blocks.issuperset(flow.blocks[after].predecessors)
    }
    found: dict[int, int] = {}
    for block in sorted(loop.blocks | meeting):
        # A loop within it runs as often as it is entered.
        inner = [each for each in flow.loops_around(block) if each.depth > loop.depth]
        often = inner[-1].entries if inner and block in loop.blocks else None
        share = max(0.0, 1 - entries / often) if often else None
        for position in range(flow.blocks[block].start, flow.blocks[block].end):
            count = program.counts[position]
            more = count - entries if share is None else int(count * share)
            if more > 0:
                found[position] = more
    return found
