"""Whether warps wait at a block-wide barrier for a few warps that work alone.

Samples of the instructions between two barriers show how long each takes, execution counts how many
warps of a block run it. While one of sixteen warps runs, fifteen wait: one sample of its
instructions explains fifteen samples at the barrier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.opcodes import Role


class BarrierWait(NamedTuple):
    """Samples of warps at one barrier."""

    position: int
    samples: int
    by_few: float
    """Samples that are explained by other warps of the block that work meanwhile."""
    alone: tuple[int, ...]
    """Positions that fewer than half of the block's warps run before it, most samples first."""


def barrier_waits(
    program: SassProgram, stalls: Mapping[str, Mapping[int, int]], warps: int
) -> list[BarrierWait]:
    """Most samples first. `stalls`: samples by reason and address; `warps`: warps per block."""
    waiting = _at_barriers(program, stalls.get("barrier", {}))
    work: Counter[int] = Counter()
    for reason, column in stalls.items():
        if reason != "barrier":
            work.update(column)
    return [_wait(program, work, each, samples, warps) for each, samples in waiting.most_common()]


def _at_barriers(program: SassProgram, samples: Mapping[int, int]) -> Counter[int]:
    """Samples by position of the barrier: warps are sampled at the instruction after it."""
    found: Counter[int] = Counter()
    for address, count in samples.items():
        position = program.positions.get(address)
        while position is not None and position >= 0 and program.code[position].opcode != "BAR":
            position -= 1
        if position is not None and position >= 0 and count:
            found[position] += count
    return found


def _wait(
    program: SassProgram, work: Mapping[int, int], barrier: int, samples: int, warps: int
) -> BarrierWait:
    rounds = program.counts[barrier] / warps
    explained, alone = 0.0, []
    for each in _before(program, barrier):
        running = max(1.0, _entered(program, each, barrier) / rounds) if rounds else warps
        # What every warp runs once is not the work of few, however often the barrier is reached.
        if running < warps / 2 and _entered(program, each) < program.counts[0] / 2:
            explained += work.get(program.code[each].address, 0) * (warps / running - 1)
            alone.append(each)
    alone.sort(key=lambda each: -work.get(program.code[each].address, 0))
    return BarrierWait(barrier, samples, min(explained, samples), tuple(alone))


def _entered(program: SassProgram, position: int, barrier: int | None = None) -> float:
    """Executions, of which all iterations of a loop count as one; of a loop around the barrier,
    each one counts."""
    flow, count = program.flow, float(program.counts[position])
    at = None if barrier is None else flow.block_of[barrier]
    for loop in flow.loops_around(flow.block_of[position]):
        count /= 1.0 if at in loop.blocks else loop.trips or 1.0
    return count


def _before(program: SassProgram, barrier: int) -> list[int]:
    """Executed positions on the paths from the previous barriers to this one.

    For a barrier in a loop, only those in the loop: code before the loop runs once for all
    iterations.
    """
    flow = program.flow
    found: list[int] = []
    start = flow.block_of[barrier]
    loop = flow.loops[flow.loop_of[start]].blocks if start in flow.loop_of else None
    seen: set[int] = set()
    waiting = [(start, barrier)] if start >= 0 else []
    while waiting:
        block, end = waiting.pop()
        position = end - 1
        while position >= flow.blocks[block].start and program.code[position].opcode != "BAR":
            if program.counts[position]:
                found.append(position)
            position -= 1
        if position >= flow.blocks[block].start:
            continue  # the barrier before
        for before in flow.blocks[block].predecessors:
            if before not in seen and (loop is None or before in loop):
                seen.add(before)
                waiting.append((before, flow.blocks[before].end))
    return found


def polls_memory(program: SassProgram, positions: tuple[int, ...]) -> list[int]:
    """Loads in loops that see what other blocks write: volatile, relaxed or acquire."""
    flow = program.flow
    return [
        each
        for each in positions
        if program.code[each].role is Role.LOAD
        and program.code[each].has("STRONG")
        and flow.block_of[each] in flow.loop_of
    ]
