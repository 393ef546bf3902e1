"""Everything that the machine-code analysis knows about the instructions of one source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from keet.analysis.sass import MachineCode
from keet.analysis.sass.analyses.atomics import Atomic
from keet.analysis.sass.analyses.blame import Wait
from keet.analysis.sass.analyses.loop_chains import LoopChains
from keet.analysis.sass.analyses.loop_invariants import Invariant
from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.sass.analyses.reuse import Access
from keet.analysis.sass.analyses.widths import Merge, lane_stride
from keet.analysis.sass.flow.control_flow import Loop
from keet.catalog import stalls
from keet.profile import Location
from keet.render.common.hotspot_rows import executed_share, shares

_T = TypeVar("_T")


class InstructionFacts(NamedTuple):
    position: int
    purpose: Purpose
    executed: int
    samples: int
    """Samples of all stall reasons, including those of issuing warps."""
    waits: list[Wait]
    """Most samples first."""


class Awaited(NamedTuple):
    """Samples at another line that wait for this line."""

    line: Location | None
    reason: str
    samples: int


class RoutineFacts(NamedTuple):
    """Instructions of a routine with a single caller, such as a division routine of the
    compiler."""

    line: Location | None
    """The other line: where the instructions are counted, or which line calls them."""
    instructions: int
    executed: int
    samples: int


class LoopFacts(NamedTuple):
    loop: Loop
    line: Location | None
    """Line of the first instruction of the loop's header."""
    chains: LoopChains | None
    """`None` for a loop that ran once per entry."""


class LineFacts(NamedTuple):
    line: Location
    instructions: list[InstructionFacts]
    """Instructions that were executed or sampled, in the order of the code, as in the line's row.
    """
    executed_share: float
    purposes: list[tuple[Purpose, float]]
    awaited: list[Awaited]
    accesses: list[Access]
    merges: list[Merge]
    atomics: list[Atomic]
    loops: list[LoopFacts]
    """Loops around the instructions of the line, outermost first."""
    invariants: list[Invariant]
    """Restricted to the instructions of the line; so are the shares."""
    calls: list[RoutineFacts]
    """Routines that only this line calls, with the line at which the report counts them."""
    callers: list[RoutineFacts]
    """Instructions of this line that are routines with a single caller, with the line that calls
    them."""


def line_facts(code: MachineCode, line: Location) -> LineFacts:
    return CodeByLine(code).facts(line)


class CodeByLine:
    """The code of one launch, indexed by source line: a listing asks for hundreds of lines."""

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.positions: dict[Location | None, list[int]] = {}
        """By the line at which the report counts them, in the order of the code.

        Samples need no execution: a warp that has ended is sampled at the instruction behind EXIT.
        """
        for position, count in enumerate(code.program.counts):
            if count or position in self._waits:
                self.positions.setdefault(self._counted_at(position), []).append(position)

    def _counted_at(self, position: int) -> Location | None:
        return self.code.locations.get(self.code.program.code[position].address)

    def facts(self, line: Location) -> LineFacts:
        own = self.positions.get(line, [])
        return LineFacts(
            line,
            [self.instruction(each) for each in own],
            executed_share(self.code, own),
            self._purposes(own),
            self._awaited.get(line, []),
            _at(own, self._accesses, self.code.accesses),
            _at(own, self._merges, self.code.merges),
            _at(own, self._atomics, self.code.atomics),
            self._loops(own),
            self._invariants(own),
            *self._routines.get(line, ([], [])),
        )

    def instruction(self, position: int) -> InstructionFacts:
        known = stalls()
        waits = self._waits.get(position, [])
        return InstructionFacts(
            position,
            self.code.purposes[position],
            self.code.program.counts[position],
            sum(wait.samples for wait in waits),
            [w for w in waits if w.reason in known and known[w.reason].counts_as_stall],
        )

    def _purposes(self, own: Iterable[int]) -> list[tuple[Purpose, float]]:
        counted: Counter[Purpose] = Counter()
        for position in own:
            if count := self.code.program.counts[position]:
                counted[self.code.purposes[position]] += count
        return shares(counted)

    @cached_property
    def _waits(self) -> Mapping[int, list[Wait]]:
        found: dict[int, list[Wait]] = {}
        for wait in self.code.waits:
            found.setdefault(wait.position, []).append(wait)
        return found

    @cached_property
    def _accesses(self) -> Numbers:
        return _numbers([(access.position,) for access in self.code.accesses])

    @cached_property
    def _merges(self) -> Numbers:
        return _numbers([merge.positions for merge in self.code.merges])

    @cached_property
    def _atomics(self) -> Numbers:
        return _numbers([(atomic.position,) for atomic in self.code.atomics])

    @cached_property
    def _invariant_at(self) -> Numbers:
        return _numbers([each.positions for each in self.code.invariants])

    @cached_property
    def _chains(self) -> Mapping[int, LoopChains]:
        return {each.loop: each for each in self.code.chains}

    @cached_property
    def _awaited(self) -> Mapping[Location | None, list[Awaited]]:
        known, code = stalls(), self.code
        sums: dict[Location | None, Counter[tuple[Location | None, str]]] = {}
        for wait in code.waits:
            if not wait.producers or not known[wait.reason].counts_as_stall:
                continue
            waiting, producer = self._counted_at(wait.position), code.location(wait.producers[0])
            if waiting != producer:
                sums.setdefault(producer, Counter())[waiting, wait.reason] += wait.samples
        return {
            line: [Awaited(where, reason, count) for (where, reason), count in own.most_common()]
            for line, own in sums.items()
        }

    @cached_property
    def _routines(self) -> Mapping[Location | None, tuple[list[RoutineFacts], list[RoutineFacts]]]:
        """By line: the routines that it calls, and the lines that call its routines."""
        moved: dict[tuple[Location | None, Location | None], list[int]] = {}
        for line, own in self.positions.items():
            for position in own:
                caller = self.code.location(position)
                if caller != line:
                    moved.setdefault((line, caller), []).append(position)
        found: dict[Location | None, tuple[list[RoutineFacts], list[RoutineFacts]]] = {}
        for (line, caller), own in moved.items():
            if not any(self.code.program.code[each].opcode == "RET" for each in own):
                continue  # a call that never returns is a jump: compilers end kernels with it
            found.setdefault(caller, ([], []))[0].append(self._routine(line, own))
            found.setdefault(line, ([], []))[1].append(self._routine(caller, own))
        return found

    def _routine(self, line: Location | None, own: Sequence[int]) -> RoutineFacts:
        facts = [self.instruction(each) for each in own]
        executed, samples = (sum(e.executed for e in facts), sum(e.samples for e in facts))
        return RoutineFacts(line, len(own), executed, samples)

    def _loops(self, own: Iterable[int]) -> list[LoopFacts]:
        program = self.code.program
        flow = program.flow
        blocks = {flow.block_of[position] for position in own}
        around = {loop.index: loop for block in blocks for loop in flow.loops_around(block)}
        ordered = sorted(around.values(), key=lambda loop: (loop.depth, loop.index))
        return [
            LoopFacts(
                loop,
                self.code.locations.get(program.code[flow.blocks[loop.header].start].address),
                self._chains.get(loop.index),
            )
            for loop in ordered
        ]

    def _invariants(self, own: Sequence[int]) -> list[Invariant]:
        inside, found = set(own), []
        for each in _at(own, self._invariant_at, self.code.invariants):
            part = tuple(position for position in each.positions if position in inside)
            trips = self.code.program.flow.loops[each.loop].trips
            if not trips:
                continue
            loads = sum(position in self._accesses for position in part)
            share = executed_share(self.code, part) * (1 - 1 / trips)
            found.append(Invariant(each.loop, part, share, loads))
        return found


Numbers = Mapping[int, list[int]]
"""Indices of the list items that concern an instruction, by the position of the instruction."""


def _numbers(positions: Iterable[Iterable[int]]) -> Numbers:
    """`positions`: for each list item, the instructions that it concerns."""
    found: dict[int, list[int]] = {}
    for number, own in enumerate(positions):
        for position in own:
            found.setdefault(position, []).append(number)
    return found


def _at(own: Iterable[int], numbers: Numbers, items: Sequence[_T]) -> list[_T]:
    """The items that concern the given instructions, in the order of the list."""
    wanted = {number for position in own for number in numbers.get(position, ())}
    return [items[number] for number in sorted(wanted)]


_LANE_DEPENDENT = frozenset(("data", "path", "unknown"))
"""Dependences that may differ between the lanes of a warp in a way that the form does not show."""


def known_stride(access: Access) -> int | None:
    """Bytes between the accesses of neighbouring threads; `None` if not known."""
    if access.shape is None or access.offset.depends & _LANE_DEPENDENT:
        return None
    return lane_stride(access.offset)
