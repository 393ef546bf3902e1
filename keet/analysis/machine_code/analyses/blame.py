"""Finds the instruction that a stalled instruction waits for.

A stall is sampled at the instruction that can't issue. For a scoreboard or a fixed latency, the
cause is the instruction whose result it needs; for a busy queue or pipe, it is itself.

Warps may wait at a block-wide barrier for a few warps that work alone. Samples of the instructions
between two barriers show how long each takes, execution counts how many warps of a block run it.
While one of sixteen warps runs, fifteen wait: one sample of its instructions explains fifteen
samples at the barrier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import (
    LONG_SCOREBOARD,
    SHORT_SCOREBOARD,
    Role,
    words,
)

Link = Literal["result", "register reuse", "completion", "itself", "unknown"]
"""Why the instruction waits for the producer: for an operand; until a register may be overwritten;
until the producer has completed; there is no producer; not found."""


class Wait(NamedTuple):
    """Samples of one stall reason at one instruction, and what they wait for."""

    position: int
    reason: str
    samples: int
    producers: tuple[int, ...]
    """Positions. Empty if the wait is for the instruction's own unit, or not known."""
    link: Link


def waits(program: SassProgram, stalls: Mapping[str, Mapping[int, int]]) -> list[Wait]:
    """Every stall of the code, most samples first. `stalls` has samples by reason and address."""
    finder = _Finder(program)
    stalled = [
        finder.wait(position, reason, samples)
        for reason, column in stalls.items()
        for address, samples in column.items()
        if samples and (position := program.positions.get(address)) is not None
    ]
    return sorted(stalled, key=lambda wait: (-wait.samples, wait.position, wait.reason))


def producers_of(program: SassProgram, position: int, reason: str) -> tuple[list[int], Link]:
    """The instructions that one instruction waits for, for one stall reason."""
    wait = _Finder(program).wait(position, reason, 1)
    return list(wait.producers), wait.link


_SCOREBOARDS = {"long_scoreboard": LONG_SCOREBOARD, "short_scoreboard": SHORT_SCOREBOARD}
_OWN_UNIT = words(
    """lg_throttle mio_throttle tex_throttle math_pipe_throttle dispatch_stall barrier
    membar sleeping imc_miss no_instructions no_instruction branch_resolving misc
    warpgroup_arrive gmma selected not_selected"""
)
_DEFERRED_INSTRUCTIONS = 3
"""The stall is still sampled up to this many instructions after a wait for copies."""
_MOST_INSTRUCTIONS_BACK = 2000
"""Most instructions that the search for an overwritten register goes back: beyond any latency."""
_MOST_BLOCKS = 2_000_000
"""Most blocks that all searches visit: bounds the time for hostile code."""


class _Finder:
    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.steps = _MOST_BLOCKS
        self.known: dict[object, list[int]] = {}
        self.touched: dict[frozenset[str], dict[str, list[int]]] = {}
        self.first_reads: dict[int, dict[int, int]] = {}

    def wait(self, position: int, reason: str, samples: int) -> Wait:
        producers, link = self._producers(position, reason)
        return Wait(position, reason, samples, tuple(producers), link)

    def _producers(self, position: int, reason: str) -> tuple[list[int], Link]:
        if reason in _SCOREBOARDS:
            return self._behind_scoreboard(position, _SCOREBOARDS[reason])
        if reason == "wait":
            return self._fixed_latency(position)
        if reason == "drain":
            stores = self._all("stores", lambda each: each.role in (Role.STORE, Role.ATOMIC))
            producers = self._before(position, [stores])
            return (producers, "completion") if producers else ([], "unknown")
        if reason == "barrier":
            barriers = self._all("barriers", lambda each: each.is_barrier)
            waits = self.program.code[position].is_barrier
            producers = [position] if waits else self._before(position, [barriers])
            return (producers, "completion") if producers else ([], "itself")
        return [], "itself" if reason in _OWN_UNIT else "unknown"

    def _behind_scoreboard(self, position: int, opcodes: frozenset[str]) -> tuple[list[int], Link]:
        """Tries pending results, then registers still in use, then results awaited before."""
        pending = self._operands(position, opcodes, only_pending=True)
        if pending:
            return pending, "result"
        instruction = self.program.code[position]
        if self._after_wait(position):
            loading = (Role.COPY, Role.LOAD)
            started = self._all(opcodes, lambda e: e.role in loading and e.opcode in opcodes)
            if copies := self._before(position, [started]):
                return copies, "completion"
        touched = self._touched(opcodes)
        reused = self._before(position, [touched[r] for r in instruction.writes if r in touched])
        if reused:
            return reused, "register reuse"
        awaited = self._operands(position, opcodes, only_pending=False)
        return (awaited, "result") if awaited else ([], "unknown")

    def _after_wait(self, position: int) -> bool:
        """Whether the instruction is, or follows, one that waits for copies to complete."""
        near = self.program.code[max(0, position - _DEFERRED_INSTRUCTIONS) : position + 1]
        return any(each.opcode in ("DEPBAR", "LDGDEPBAR", "WARPGROUP") for each in near)

    def _operands(self, position: int, opcodes: frozenset[str], *, only_pending: bool) -> list[int]:
        """Instructions of certain opcodes whose results an instruction reads, nearest first.

        A result that an earlier instruction of the same block has read is not pending any more.
        """
        values, code = self.program.values, self.program.code
        first = self._first_reads(self.program.flow.block_of[position]) if only_pending else {}
        definitions = dict.fromkeys(
            definition
            for value in values.read[position].values()
            if first.get(value, position) >= position
            for definition in values.definitions(value)
            if definition != position and code[definition].opcode in opcodes
        )
        return sorted(definitions, key=lambda definition: (position - definition) % len(code))

    def _fixed_latency(self, position: int) -> tuple[list[int], Link]:
        """The nearest producer within `_FIXED_LATENCY` instructions, or none."""
        values, code = self.program.values, self.program.code
        near = [
            definition
            for value in values.read[position].values()
            for definition in values.definitions(value)
            if 0 < position - definition <= _FIXED_LATENCY
            and code[definition].opcode not in LONG_SCOREBOARD
        ]
        return ([max(near)], "result") if near else ([], "itself")

    def _first_reads(self, block: int) -> dict[int, int]:
        """The position at which a block first reads each value."""
        if block not in self.first_reads:
            reads: dict[int, int] = {}
            span = self.program.flow.blocks[block] if block >= 0 else None
            for position in range(span.start, span.end) if span else ():
                for value in self.program.values.read[position].values():
                    reads.setdefault(value, position)
            self.first_reads[block] = reads
        return self.first_reads[block]

    def _all(self, key: object, matches: Callable[[Instruction], bool]) -> list[int]:
        """Positions of all instructions that match, cached under `key`."""
        if key not in self.known:
            self.known[key] = [at for at, each in enumerate(self.program.code) if matches(each)]
        return self.known[key]

    def _touched(self, opcodes: frozenset[str]) -> dict[str, list[int]]:
        """Positions of instructions of certain opcodes by the registers they read or write."""
        if opcodes not in self.touched:
            self.touched[opcodes] = defaultdict(list)
            for index, instruction in enumerate(self.program.code):
                if instruction.opcode in opcodes:
                    for register in {*instruction.reads, *instruction.writes}:
                        self.touched[opcodes][register].append(index)
        return self.touched[opcodes]

    def _before(self, position: int, wanted: Sequence[list[int]]) -> list[int]:
        """The nearest of the wanted positions on each of the paths that lead to a position."""
        flow = self.program.flow
        end = position
        while position >= 0 and flow.block_of[position] < 0:
            end = position  # also at the end of the code, which no warp executes
            position -= 1
        if position < 0 or not any(wanted):
            return []
        nearest: list[int] = []
        seen: set[int] = set()
        waiting = deque([(flow.block_of[position], end)])
        budget = _MOST_INSTRUCTIONS_BACK
        while waiting and budget > 0 and self.steps > 0:
            block, end = waiting.popleft()
            first = flow.blocks[block].start
            hit = max(_last_before(positions, end) for positions in wanted)
            budget -= end - first
            self.steps -= 1
            if hit >= first:
                nearest.append(hit)
                continue
            for before in flow.blocks[block].predecessors:
                if before not in seen:
                    seen.add(before)
                    waiting.append((before, flow.blocks[before].end))
        return nearest


_FIXED_LATENCY = 8
"""Instructions. Fixed latencies are 4 to 6 cycles (measured for Volta to Hopper in the literature),
so a producer further up has finished."""


def _last_before(positions: list[int], end: int) -> int:
    place = bisect_left(positions, end)
    return positions[place - 1] if place else -1


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
    waiting = _at_barriers(program, stalls.get("barrier", {})).most_common()
    work: Counter[int] = Counter()
    for reason, column in stalls.items():
        if reason != "barrier":
            work.update(column)
    return [_wait(program, work, barrier, samples, warps) for barrier, samples in waiting]


def _at_barriers(program: SassProgram, samples: Mapping[int, int]) -> Counter[int]:
    """Samples by position of the barrier: warps are sampled at the instruction after it."""
    waiting: Counter[int] = Counter()
    code = enumerate(program.code if samples else ())
    barriers = [position for position, instruction in code if instruction.is_barrier]
    for address, count in samples.items():
        position = program.positions.get(address)
        before = 0 if position is None else bisect_right(barriers, position)
        if before and count:
            waiting[barriers[before - 1]] += count
    return waiting


def _wait(
    program: SassProgram, work: Mapping[int, int], barrier: int, samples: int, warps: int
) -> BarrierWait:
    rounds = program.counts[barrier] / warps
    explained, alone = 0.0, []
    for position in before_barrier(program, barrier).positions:
        running = max(1.0, _entered(program, position, barrier) / rounds) if rounds else warps
        # What every warp runs once is not the work of few, however often the barrier is reached.
        if running < warps / 2 and _entered(program, position) < program.counts[0] / 2:
            explained += work.get(program.code[position].address, 0) * (warps / running - 1)
            alone.append(position)
    alone.sort(key=lambda position: -work.get(program.code[position].address, 0))
    return BarrierWait(barrier, samples, min(explained, samples), tuple(alone))


def _entered(program: SassProgram, position: int, barrier: int | None = None) -> float:
    """Executions, of which all iterations of a loop count as one; of a loop around the barrier,
    each one counts."""
    flow, count = program.flow, float(program.counts[position])
    at = None if barrier is None else flow.block_of[barrier]
    for loop in flow.loops_around(flow.block_of[position]):
        count /= 1.0 if at in loop.blocks else loop.trips or 1.0
    return count


class BeforeBarrier(NamedTuple):
    """The code between the previous barriers and one."""

    positions: list[int]
    """Those that ran."""
    barriers: list[int]
    """The previous barriers."""


def before_barrier(program: SassProgram, barrier: int) -> BeforeBarrier:
    """For a barrier in a loop, only what is in the loop: code before the loop runs once for all
    iterations.
    """
    flow = program.flow
    positions, barriers = list[int](), list[int]()
    start = flow.block_of[barrier]
    loop = flow.loops[flow.loop_of[start]].blocks if start in flow.loop_of else None
    seen: set[int] = set()
    waiting = [(start, barrier)] if start >= 0 else []
    while waiting:
        block, end = waiting.pop()
        within = range(end - 1, flow.blocks[block].start - 1, -1)
        before_it = next((at for at in within if program.code[at].is_barrier), None)
        after = within if before_it is None else range(end - 1, before_it, -1)
        positions += (position for position in after if program.counts[position])
        if before_it is not None:
            barriers.append(before_it)
            continue
        for before in flow.blocks[block].predecessors:
            if before not in seen and (loop is None or before in loop):
                seen.add(before)
                waiting.append((before, flow.blocks[before].end))
    return BeforeBarrier(positions, barriers)


def polls_memory(program: SassProgram, positions: tuple[int, ...]) -> list[int]:
    """Loads in loops that see what other blocks write: volatile, relaxed or acquire."""
    code = program.code
    loads = (position for position in positions if code[position].role is Role.LOAD)
    return [load for load in loads if code[load].has("STRONG") and program.loops_at(load)]
