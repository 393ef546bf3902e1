"""Steps between two barriers of a block, in which only a part of its threads has work.

In a step of a reduction tree, or of a factorisation of a small matrix, all warps of the block
evaluate a condition and meet at a barrier, and few threads do something. A warp that has the whole
item, with its values in registers, executes as many instructions as those threads fill warps. What
went through shared memory stays in registers, or moves by shuffles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.kernel.inactive_threads import WARP, waits_at_barriers
from keet.analysis.kernel.resident_warps import resident_blocks
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.time_model import INDIRECT

if TYPE_CHECKING:
    from keet.analysis.sass.flow.program import SassProgram

_WORK = ("value", "memory", "unknown")
"""Purposes of instructions that show that a thread takes part in a step."""
_PER_WARP = ("address", "control")
"""Purposes of instructions that serve several values of a lane."""


class BlockSteps(NamedTuple):
    gone: Mapping[int, float]
    """By position, the share of the executions that goes if few warps have the whole item."""
    executed: float
    """Share of the executed instructions in such steps, 0 to 1."""
    threads: float
    """Share of the block's threads that take part in them, on average, 0 to 1."""
    waiting: float
    """Share of the waiting at barriers that goes with them, 0 to 1."""

    @property
    def idle(self) -> float:
        """Share of what the block's threads execute for which they have no work, 0 to 1."""
        return self.executed * (1 - self.threads)


class _Stretch(NamedTuple):
    """The code between the previous barriers and one."""

    rounds: int
    positions: Sequence[int]
    barriers: Sequence[int]
    """Around it."""
    part: float
    """Share of the block's threads that have work, 0 to 1."""


@cached_per_view
def block_steps(view: LaunchView) -> BlockSteps | None:
    """None if all threads have work between all barriers, or the report does not show it."""
    block, code = view.value("block_size"), view.code
    if code is None or not block or block <= WARP:
        return None
    program, warps = code.program, math.ceil(block / WARP)
    fewest = min(1.0, _warps_per_item(view, warps) / warps)
    stretches = _stretches(view, warps / block)
    steps = [each for each in stretches if max(each.part, fewest) < 1]
    if not steps:
        return None
    idle = defaultdict[int, float](float)
    """By barrier, the warps that have nothing to do before it or after it."""
    for step in steps:
        for barrier in step.barriers:
            share = (1 - max(step.part, fewest)) / (1 - 1 / warps)
            idle[barrier] = max(idle[barrier], share)
    gone: dict[int, float] = dict(idle)
    runs_of = program.counts
    runs = [sum(runs_of[at] for at in step.positions) for step in steps]
    executed = sum(runs) / sum(runs_of)
    own = _own_values(program)
    for each in stretches:
        near = max((idle[barrier] for barrier in each.barriers), default=0.0)
        needed = max(each.part, fewest)
        for at in each.positions:
            opcode, purpose, runs_at = program.code[at].opcode, code.purposes[at].value, runs_of[at]
            in_registers = opcode == "STS" or at in own
            if needed < 1:
                times = max(each.rounds, runs_at) / runs_at
                less, alone = 1 - min(1.0, needed * times), 1 - min(1.0, fewest * times)
                if in_registers or (purpose == "control" and runs_at >= each.rounds):
                    less = near  # nor does a condition select the warps that have work
                elif opcode == "LDS":  # warps that have less than an item exchange more
                    less = near * alone + (1 - near) * less
            else:  # as far as these steps are most of the work
                is_broadcast = opcode == "LDS" and not getattr(program.code[at].memory, "name", "")
                less = 1.0 if in_registers else 1 - fewest if is_broadcast else 0.0
                less = (INDIRECT if purpose in _PER_WARP else less) * near * executed
            gone[at] = max(gone.get(at, 0.0), less)
    waits = waits_at_barriers(view)
    samples = sum(wait.samples for wait in waits)
    waited = sum(wait.samples * idle[wait.position] for wait in waits)
    return BlockSteps(
        gone,
        executed,
        sum(step.part * n for step, n in zip(steps, runs, strict=True)) / sum(runs),
        waited / samples if samples else 0.0,
    )


def _stretches(view: LaunchView, fill: float) -> list[_Stretch]:
    """Of code that ran. `fill`: warps over threads of a block."""
    threads, code = view.by_address("thread_inst_executed_true"), view.code
    if code is None or not threads:
        return []
    from keet.analysis.sass.analyses.blame import before_barrier

    program, found = code.program, []
    for barrier in program.ran:
        rounds = program.counts[barrier]
        if program.code[barrier].opcode != "BAR":
            continue
        positions, before = before_barrier(program, barrier)
        lanes = (
            threads.get(program.code[at].address, 0) / max(rounds, program.counts[at])
            for at in positions
            if code.purposes[at].value in _WORK
        )
        part = min(1.0, max(lanes, default=WARP) * fill)
        found.append(_Stretch(rounds, positions, (barrier, *before), part))
    return found


def _own_values(program: SassProgram) -> set[int]:
    """Loads from where the same thread stores: it has the value."""

    def place(at: int) -> object:
        memory, read = program.code[at].memory, program.values.read[at]
        return memory and (memory, read.get(memory.name), read.get(memory.uniform))

    stored = {place(at) for at in program.ran if program.code[at].opcode == "STS"}
    loads = (at for at in program.ran if program.code[at].opcode == "LDS")
    return {at for at in loads if place(at) in stored}


def _warps_per_item(view: LaunchView, warps: int) -> float:
    """Warps that an item has to have so that as many of them are resident as now: 1 if the grid has
    enough items."""
    grid, sms, blocks = view.value("grid_size"), view.launch.device.sm_count, resident_blocks(view)
    if not grid or not sms or blocks is None:
        return 1.0
    return max(1.0, float((blocks.given or blocks.fit).value) * warps * sms / grid)
