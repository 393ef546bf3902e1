"""Steps between two barriers of a block, in which only a part of its threads has work.

In a step of a reduction tree, or of a factorisation of a small matrix, all warps of the block
evaluate a condition and meet at a barrier, and few threads do something. A warp that has the whole
item, with its values in registers, executes as many instructions as those threads fill warps. What
went through shared memory stays in registers, or moves by shuffles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parallelism.inactive_threads import WARP, waits_at_barriers
from keet.analysis.parallelism.resident_warps import resident_blocks
from keet.analysis.parameters import NEGLIGIBLE
from keet.analysis.time_model import INDIRECT

if TYPE_CHECKING:
    from keet.analysis.machine_code.flow.program import SassProgram
    from keet.analysis.machine_code.launch_code import MachineCode

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
    """None if all threads have work between all barriers, or the report does not show it; also if
    blocks wait for what others write: with an item per warp, more would wait."""
    block, code = view.value("block_size"), view.code
    if code is None or not block or block <= WARP:
        return None
    program, warps = code.program, math.ceil(block / WARP)
    fewest = 1 / warps
    grid, sms, blocks = view.value("grid_size"), view.launch.device.sm_count, resident_blocks(view)
    if grid and sms and blocks is not None:  # an item has as many warps as keep the SMs as full
        needed = float(blocks.resident.value) * warps * sms / grid
        fewest = min(1.0, max(1.0, needed) / warps)

    stretches = _stretches(view)
    steps = [stretch for stretch in stretches if max(stretch.part, fewest) < 1]
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
    of_own_threads = _own_values(view, program)
    for stretch in stretches:
        near = max((idle[barrier] for barrier in stretch.barriers), default=0.0)
        needed = max(stretch.part, fewest)
        for at in stretch.positions:
            opcode, purpose, runs_at = program.code[at].opcode, code.purposes[at].value, runs_of[at]
            in_registers = opcode == "STS" or at in of_own_threads
            if needed < 1:
                times = max(stretch.rounds, runs_at) / runs_at
                less, alone = 1 - min(1.0, needed * times), 1 - min(1.0, fewest * times)
                if in_registers or (purpose == "control" and runs_at >= stretch.rounds):
                    less = near  # nor does a condition select the warps that have work
                elif opcode == "LDS":  # warps that have less than an item exchange more
                    less = near * alone + (1 - near) * less
            else:  # as far as these steps are most of the work
                is_broadcast = opcode == "LDS" and not getattr(program.code[at].memory, "name", "")
                less = 1.0 if in_registers else 1 - fewest if is_broadcast else 0.0
                less = (INDIRECT if purpose in _PER_WARP else less) * near * executed
            gone[at] = max(gone.get(at, 0.0), less)
    threads = sum(step.part * n for step, n in zip(steps, runs, strict=True)) / sum(runs)
    waits = waits_at_barriers(view)
    waited = sum(wait.samples * idle[wait.position] for wait in waits)
    samples = sum(wait.samples for wait in waits)
    return BlockSteps(gone, executed, threads, waited / samples if samples else 0.0)


def _stretches(view: LaunchView) -> list[_Stretch]:
    """Of code that ran. Empty if blocks wait for each other."""
    code = view.code
    if code is None or not view.by_address("thread_inst_executed_true"):
        return []
    from keet.analysis.machine_code.analyses.blame import before_barrier, polls_memory

    program, stretches = code.program, []
    barriers = [barrier for barrier in program.ran if program.code[barrier].is_barrier]
    ends = {program.flow.block_of[barrier] for barrier in barriers}
    for barrier in barriers:
        positions, before = before_barrier(program, barrier)
        if polls_memory(program, tuple(positions)):
            return []
        part = _WorkingThreads(view, code, barrier, positions, ends).part
        stretches.append(_Stretch(program.counts[barrier], positions, (barrier, *before), part))
    return stretches


class _Path(NamedTuple):
    """Instructions that the same threads execute."""

    block: int
    predicate: int | None
    """The value under which they run, in this block."""
    is_true: bool

    def is_opposite(self, other: _Path) -> bool:
        is_same = self.predicate is not None and self.predicate == other.predicate
        return is_same and self.is_true is not other.is_true


class _WorkingThreads:
    """The threads of a block that have work between two barriers."""

    def __init__(
        self,
        view: LaunchView,
        code: MachineCode,
        barrier: int,
        positions: Sequence[int],
        ends: Collection[int],
    ) -> None:
        """`ends`: blocks with a barrier."""
        self.code, self.program = code, code.program
        self.barrier, self.positions, self.ends = barrier, frozenset(positions), ends
        size = view.value("block_size") or 1.0
        self.fill = math.ceil(size / WARP) / size
        """Warps over threads of a block."""
        self.active = view.by_address("thread_inst_executed_true")
        self.reached = view.table.column("thread_inst_executed") or {}
        self.times: dict[int, float] = {}

    @property
    def part(self) -> float:
        """Their share, 0 to 1: the threads of the path that most take, and of the paths that others
        take instead."""
        lanes: dict[_Path, float] = {}
        for at in sorted(self.positions):
            if self.code.purposes[at].value in _WORK:
                path = self._path(at)
                lanes[path] = max(lanes.get(path, 0.0), self._lanes(at))
        part, taken = 0.0 if lanes else 1.0, list[tuple[_Path, set[int]]]()
        for path in sorted(lanes, key=lambda path: -lanes[path]):
            if part >= 1 or (part and lanes[path] < NEGLIGIBLE):
                break
            if all(path.is_opposite(other) or path.block not in near for other, near in taken):
                part += lanes[path]
                taken.append((path, self._in_a_row(path.block)))
        return min(1.0, part)

    def _path(self, at: int) -> _Path:
        predicate, is_true = self.program.code[at].guard or ("", True)
        value = self.program.values.read[at].get(predicate)
        return _Path(self.program.flow.block_of[at], value, is_true)

    def _lanes(self, at: int) -> float:
        """Share of the block's threads. Where loaded values decide which of them have work, any
        thread may be one that has: of each warp with work, all that reach the condition."""
        program, active = self.program, self.active.get(self.program.code[at].address, 0)
        lanes = self._reach(at) if self._by_data(at) else active
        lanes *= self._left_by_data(program.flow.block_of[at])
        rounds = max(program.counts[self.barrier], program.counts[at])
        return min(lanes, WARP * program.counts[at]) / rounds * self.fill

    def _left_by_data(self, block: int) -> float:
        """How many times as many threads would reach a block if no branch of the stretch depended
        on loaded values."""
        flow, chain = self.program.flow, list[tuple[int, int]]()
        while block not in self.times:
            above = flow.dominators.get(block, -1)
            if above < 0 or flow.blocks[above].end - 1 not in self.positions:
                self.times[block] = 1.0
                break
            chain.append((above, block))
            block = above
        times = self.times[block]
        for above, below in reversed(chain):
            branch, first = flow.blocks[above].end - 1, flow.blocks[below].start
            if self._by_data(branch):
                times *= max(1.0, self._reach(branch) / self._reach(first))
            self.times[below] = times
        return times

    def _by_data(self, at: int) -> bool:
        """Whether loaded values decide which threads execute an instruction or take a branch."""
        guard, values = self.program.code[at].guard, self.program.values
        value = values.read[at].get(guard[0]) if guard else None
        made = () if value is None else values.definitions(value)
        return any(position in self.code.decided_by_data for position in made)

    def _reach(self, at: int) -> float:
        """Threads, also those whose predicate is off."""
        count = WARP * self.program.counts[at]
        return max(1.0, self.reached.get(self.program.code[at].address, count))

    def _in_a_row(self, block: int) -> set[int]:
        """The block, and those that a thread may execute before or after it between the barriers.
        An iteration of a loop without the barrier is not after another."""
        flow = self.program.flow
        inside = {flow.block_of[at] for at in self.positions}
        at_barrier = flow.block_of[self.barrier]
        loops = [loop for loop in flow.loops if at_barrier not in loop.blocks]
        again = {(latch, loop.header) for loop in loops for latch in loop.latches}
        blocks = {block}
        for is_after in (True, False):
            waiting, seen = [block], {block}
            while waiting:
                current = waiting.pop()
                if current in self.ends and current != block:
                    continue
                basic_block = flow.blocks[current]
                for neighbour in basic_block.successors if is_after else basic_block.predecessors:
                    edge = (current, neighbour) if is_after else (neighbour, current)
                    if neighbour in inside and neighbour not in seen and edge not in again:
                        seen.add(neighbour)
                        waiting.append(neighbour)
            blocks |= seen
        return blocks


def _own_values(view: LaunchView, program: SassProgram) -> set[int]:
    """Loads of what the same threads store: they have the value. What one thread stores for others
    is loaded by more threads than store it."""
    threads = view.by_address("thread_inst_executed_true")
    stored = defaultdict[object, float](float)
    places: dict[int, object] = {}
    for at in program.ran:
        instruction, read = program.code[at], program.values.read[at]
        if instruction.opcode in ("LDS", "STS") and (memory := instruction.memory) is not None:
            places[at] = (memory, read.get(memory.name), read.get(memory.uniform))
            if instruction.opcode == "STS":
                stored[places[at]] += threads.get(instruction.address, 0)
    loads = ((at, place) for at, place in places.items() if program.code[at].opcode == "LDS")
    return {at for at, place in loads if threads.get(program.code[at].address, 0) <= stored[place]}
