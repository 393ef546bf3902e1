"""What a stalled instruction waits for: the other end of a wait.

A stall is sampled at the instruction that cannot issue. For a scoreboard or a fixed latency the
instruction to look at is the one whose result it needs; for a busy queue or pipe it is itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from keet.analysis.sass.instruction import Instruction
from keet.analysis.sass.opcodes import LONG_SCOREBOARD, SHORT_SCOREBOARD, Role, words
from keet.analysis.sass.program import Program

Link = Literal["result", "register reuse", "completion", "itself", "unknown"]
"""How the producer holds the waiting instruction up: it makes an operand; it still reads or writes
a register that is to be overwritten; it has to be complete; there is no producer; not found."""


class Wait(NamedTuple):
    """Samples of one stall reason at one instruction, and what they wait for."""

    position: int
    reason: str
    samples: int
    producers: tuple[int, ...]
    """Positions. Empty where the wait is for the instruction's own unit, or not known."""
    link: Link


def waits(program: Program, stalls: Mapping[str, Mapping[int, int]]) -> list[Wait]:
    """Every stall of the code, most samples first. `stalls` has samples by reason and address."""
    finder = _Finder(program)
    found = [
        finder.wait(position, reason, samples)
        for reason, column in stalls.items()
        for address, samples in column.items()
        if samples and (position := program.positions.get(address)) is not None
    ]
    return sorted(found, key=lambda wait: (-wait.samples, wait.position, wait.reason))


_SCOREBOARDS = {"long_scoreboard": LONG_SCOREBOARD, "short_scoreboard": SHORT_SCOREBOARD}
_OWN_UNIT = words(
    """lg_throttle mio_throttle tex_throttle math_pipe_throttle dispatch_stall barrier
    membar sleeping imc_miss no_instructions no_instruction branch_resolving misc
    warpgroup_arrive gmma selected not_selected"""
)
_DEFERRED = 3
"""Instructions after a wait for copies at which the stall is still sampled."""
_REACH = 2000
"""Instructions that a search for an overwritten register goes back: far beyond any latency."""


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program = program

    def wait(self, position: int, reason: str, samples: int) -> Wait:
        producers, link = self._producers(position, reason)
        return Wait(position, reason, samples, tuple(producers), link)

    def _producers(self, position: int, reason: str) -> tuple[list[int], Link]:
        if reason in _SCOREBOARDS:
            return self._behind_scoreboard(position, _SCOREBOARDS[reason])
        if reason == "wait":
            return self._fixed_latency(position)
        if reason == "drain":
            found = self._before(position, lambda each: each.role in (Role.STORE, Role.ATOMIC))
            return (found, "completion") if found else ([], "unknown")
        if reason == "barrier":
            found = self._before(position + 1, lambda each: each.opcode == "BAR")
            return (found, "completion") if found else ([], "itself")
        return [], "itself" if reason in _OWN_UNIT else "unknown"

    def _behind_scoreboard(self, position: int, opcodes: frozenset[str]) -> tuple[list[int], Link]:
        """Pending results first, then registers still in use, then results awaited before."""
        pending = self._operands(position, opcodes, only_pending=True)
        if pending:
            return pending, "result"
        each = self.program.code[position]
        if self._after_wait(position):
            copies = self._before(
                position,
                lambda one: one.role in (Role.COPY, Role.LOAD) and one.opcode in opcodes,
            )
            if copies:
                return copies, "completion"
        reused = self._before(position, lambda one: one.opcode in opcodes and _clashes(one, each))
        if reused:
            return reused, "register reuse"
        awaited = self._operands(position, opcodes, only_pending=False)
        return (awaited, "result") if awaited else ([], "unknown")

    def _after_wait(self, position: int) -> bool:
        """Whether the instruction is, or follows, one that waits for copies to complete."""
        near = self.program.code[max(0, position - _DEFERRED) : position + 1]
        return any(each.opcode in ("DEPBAR", "LDGDEPBAR", "WARPGROUP") for each in near)

    def _operands(self, position: int, opcodes: frozenset[str], *, only_pending: bool) -> list[int]:
        """Instructions of certain opcodes whose results an instruction reads, nearest first.

        A result that an earlier instruction of the same block has read is not pending any more.
        """
        values, flow = self.program.values, self.program.flow
        block = flow.block_of[position]
        before: set[int] = set()
        if only_pending and block >= 0:
            for each in range(flow.blocks[block].start, position):
                before.update(values.read[each].values())
        found: dict[int, None] = {}
        for value in values.read[position].values():
            if value not in before:
                found.update(dict.fromkeys(values.definitions(value)))
        wanted = [
            each for each in found if each != position and self.program.code[each].opcode in opcodes
        ]
        return sorted(wanted, key=lambda each: (position - each) % len(self.program.code))

    def _fixed_latency(self, position: int) -> tuple[list[int], Link]:
        """The nearest producer that stands right before; else the gap between two issues."""
        near = [
            each
            for value in self.program.values.read[position].values()
            for each in self.program.values.definitions(value)
            if 0 < position - each <= _LATENCY
            and self.program.code[each].opcode not in LONG_SCOREBOARD
        ]
        return ([max(near)], "result") if near else ([], "itself")

    def _before(self, position: int, matches: object) -> list[int]:
        """The nearest matching instructions on the paths that lead to a position."""
        assert callable(matches)
        flow, code = self.program.flow, self.program.code
        while position >= 0 and flow.block_of[position] < 0:
            position -= 1  # the end of the code, which no warp executes, waits for stores too
        if position < 0:
            return []
        start = flow.block_of[position]
        found: list[int] = []
        seen: set[int] = set()
        waiting = [(start, position)]
        budget = _REACH
        while waiting and budget > 0:
            block, end = waiting.pop(0)
            first = flow.blocks[block].start
            hit = next((p for p in range(end - 1, first - 1, -1) if matches(code[p])), None)
            budget -= end - first
            if hit is not None:
                found.append(hit)
                continue
            for before in flow.blocks[block].predecessors:
                if before not in seen:
                    seen.add(before)
                    waiting.append((before, flow.blocks[before].end))
        return found


_LATENCY = 8
"""Instructions. Fixed latencies are 4 to 6 cycles (measured for Volta to Hopper in the literature),
so a producer further up has finished."""


def _clashes(before: Instruction, after: Instruction) -> bool:
    """Whether `after` overwrites a register that `before` reads or writes."""
    return any(register in before.reads or register in before.writes for register in after.writes)
