"""The tool `why_waiting`: which instruction waits for which, and dependence chains of loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from keet.analysis.sass.analyses.blame import Link
from keet.analysis.sass.analyses.loop_chains import LoopChains
from keet.analysis.sass.analyses.repeated_work import Invariant
from keet.catalog import stalls
from keet.units import Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    place_name,
    quote,
)
from keet_tools.code_places import AnalysedCode

_SIZE = 6
_WAITS_FIRST, _LOOPS_FIRST = 4, 2
"""Rows of the first page: the largest waits, and the loops that run the most instructions."""
_LEAST = 0.001
_LEAST_INVARIANT = 0.01
_CHAIN = 8
"""Opcodes of a chain that are listed."""
_NOT_COLLECTED = "stalls were not sampled; profile again with `--section SourceCounters`"
_NONE_SAMPLED = "no stall was sampled in so short a launch; profile a larger problem"
_LINKED = {
    "result": "needs the result of",
    "register reuse": "overwrites a register still in use by",
    "completion": "has to wait until completion of",
}


def why_waiting(
    tool_input: ToolInput, line: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """What stalled code waits for: the producer and its line (or what waits for a line); loops."""
    code = AnalysedCode(tool_input, tool_input.launch(launch, report))
    say = AnswerText()
    writer = _Rows(code, say, by_line=code.address(line) is None)
    if line.strip():
        where, chosen = code.positions(line)
        rows = _largest_first(list(writer.waits(where)), list(writer.loops(set(chosen))))
        heading = f"{place_name(where)}: what it waits for, and what waits for it."
    else:
        rows = _largest_first(list(writer.waits(None)), list(writer.loops(None)))
        heading = "Largest waits, waiting line first; then loops."
    if not rows and not code.machine.stalls:
        raise Abstention(_no_samples(code))
    if not rows:
        return Answer(f"{heading} No stalls were sampled there, and no loop is around it.")
    shown, more = one_page(rows, page, _SIZE)
    return say.answer(f"{heading} {_basis(code, say)}", *(row() for row in shown), more)


def _basis(code: AnalysedCode, say: AnswerText) -> str:
    if not code.machine.stalls:
        return f"Loops alone: {_no_samples(code)}."
    total = code.ledger.measured("samples_total")
    return f"Shares are of all samples{f' ({say(total)})' if total else ''}."


def _no_samples(code: AnalysedCode) -> str:
    return _NOT_COLLECTED if code.table.samples is None else _NONE_SAMPLED


Row = Callable[[], str]


def _largest_first(waits: Sequence[Row], loops: Sequence[Row]) -> list[Row]:
    """The largest of both on the first page."""
    first = [*waits[:_WAITS_FIRST], *loops[:_LOOPS_FIRST]]
    return [*first, *waits[_WAITS_FIRST:], *loops[_LOOPS_FIRST:]]


class _Waiting(NamedTuple):
    """Waits in one row: of a line, or of an instruction if there are no lines."""

    consumer: str
    reason: str
    producer: str | None
    """`None`: no other instruction is waited for."""
    link: Link


class _Rows:
    """Rows are made when they are shown, so that only shown numbers become evidence."""

    def __init__(self, code: AnalysedCode, say: AnswerText, *, by_line: bool) -> None:
        self._code, self._say = code, say
        self._machine = code.machine
        self._by_line = by_line

    # --- waits

    def waits(self, where: str | None) -> Iterator[Row]:
        """Waits of and for a line or an instruction, or all; most samples first."""
        groups: dict[_Waiting, Counter[tuple[int, int]]] = {}
        for wait in self._machine.waits:
            if not _is_stall(wait.reason):
                continue
            producer = wait.producers[0] if wait.producers else None
            key = _Waiting(
                self._name(wait.position),
                wait.reason,
                None if producer is None else self._name(producer),
                wait.link,
            )
            if where is not None and where not in (key.consumer, key.producer):
                continue
            ends = (wait.position, -1 if producer is None else producer)
            groups.setdefault(key, Counter())[ends] += wait.samples
        total = self._code.table.total
        for key, counted in sorted(groups.items(), key=lambda item: -item[1].total()):
            if total and counted.total() >= _LEAST * total:
                yield partial(self._wait, key, counted)

    def _name(self, position: int) -> str:
        line = self._code.line_at(position) if self._by_line else None
        return line or self._code.offset_at(position)

    def _wait(self, key: _Waiting, counted: Counter[tuple[int, int]]) -> str:
        (consumer, producer), _ = counted.most_common(1)[0]
        stall = stalls()[key.reason]
        share = self._code.ledger.derived(
            f"waits_{key.reason}_{key.link.replace(' ', '_')}_for {key.producer or 'itself'}",
            Quantity(100 * counted.total() / self._code.table.total, "%"),
            f"share of samples that wait ({stall.label})",
            line=key.consumer,
        )
        mostly = "mostly " if len(counted) > 1 else ""
        waiting = f"{self._code.opcode_at(consumer)} at {self._code.offset_at(consumer)}"
        start = f"{place_name(key.consumer)} {self._say(share)} {stall.label}: {mostly}{waiting}"
        if key.producer is None:
            return f"{start} {_without_producer(key, stall.waits_for)}"
        made = f"{self._code.opcode_at(producer)} at {self._code.place_at(producer)}"
        return f"{start} {_LINKED.get(key.link, 'waits for')} {made}"

    # --- loops

    def loops(self, chosen: set[int] | None) -> Iterator[Row]:
        """Loops around some instructions, or all; most executed instructions first."""
        flow = self._machine.program.flow
        wanted = (
            None
            if chosen is None
            else {
                loop.index
                for position in chosen
                if flow.block_of[position] >= 0
                for loop in flow.loops_around(flow.block_of[position])
            }
        )
        still = {each.loop: each for each in self._machine.invariants}
        for chains in self._machine.chains:
            if wanted is None or chains.loop in wanted:
                yield partial(self._loop, chains, still.get(chains.loop))

    def _loop(self, chains: LoopChains, invariant: Invariant | None) -> str:
        flow = self._machine.program.flow
        header = flow.blocks[flow.loops[chains.loop].header].start
        facts = [
            *self._trips(chains, header),
            self._recurrence(chains, header),
            self._loads(chains, header),
            *self._invariant(invariant, header),
        ]
        return f"loop{chains.loop} at {self._code.place_at(header)}: {'; '.join(facts)}"

    def _number(self, header: int, name: str, amount: float, unit: str, label: str) -> str:
        return self._say(self._code.counted(f"loop_{name}", Quantity(amount, unit), label, header))

    def _trips(self, chains: LoopChains, header: int) -> Iterator[str]:
        if not self._machine.program.executed:
            return
        label = "instructions in the loop"
        share = self._number(header, "share", 100 * chains.share, "%", label)
        yield f"{share} of executed instructions"
        if chains.trips is not None:
            label = "iterations of the loop"
            yield f"{self._number(header, 'trips', chains.trips, 'iteration', label)} on average"

    def _recurrence(self, chains: LoopChains, header: int) -> str:
        chain = chains.recurrence
        if chain is None:
            return "iterations do not need each other's results"
        length = self._number(
            header,
            "recurrence",
            chain.length,
            "inst",
            "dependent instructions from one iteration to the next",
        )
        loads = self._number(
            header, "recurrence_loads", chain.loads, "load", "dependent loads between iterations"
        )
        chained = f"{length}, {loads}{self._opcodes(chain.positions)}"
        return f"each iteration needs the one before through {chained}"

    def _opcodes(self, positions: Sequence[int]) -> str:
        if not self._code.shows_text:
            return ""
        names = [self._machine.program.code[each].opcode for each in positions[:_CHAIN]]
        more = " > ..." if len(positions) > _CHAIN else ""
        return f" ({quote(' > '.join(names) + more, 80)})"

    def _loads(self, chains: LoopChains, header: int) -> str:
        if not chains.loads:
            return "no global or local loads"
        loads = self._number(
            header, "loads", chains.loads, "load", "global and local loads per iteration"
        )
        if chains.load_depth <= 1:
            is_chained = chains.loads < 2 or (chains.recurrence and chains.recurrence.loads)
            return f"{loads} per iteration{'' if is_chained else ', independent of each other'}"
        depth = self._number(
            header, "load_depth", chains.load_depth, "load", "loads that wait for each other"
        )
        together = self._number(
            header,
            "independent_loads",
            chains.independent_loads,
            "load",
            "loads that can be in flight together, per iteration",
        )
        lines = list(dict.fromkeys(self._name(each) for each in chains.load_chain))
        named = ", ".join(place_name(each) for each in lines[:3])
        return (
            f"{loads} per iteration, {depth} deep ({named}), {together} can be in flight together"
        )

    def _invariant(self, invariant: Invariant | None, header: int) -> Iterator[str]:
        if invariant is None or invariant.share < _LEAST_INVARIANT:
            return
        label = "share of executed instructions that repeat work of the same inputs"
        share = self._number(header, "invariant_share", 100 * invariant.share, "%", label)
        lines = list(dict.fromkeys(self._name(each) for each in invariant.positions))
        named = ", ".join(place_name(each) for each in lines[:3])
        yield (
            f"{share} of executed instructions repeat work whose inputs do not change in the loop "
            f"({named}): candidates to move out"
        )


def _is_stall(reason: str) -> bool:
    stall = stalls().get(reason)
    return stall is not None and stall.counts_as_stall


def _without_producer(key: _Waiting, waits_for: str) -> str:
    if key.link == "unknown":
        return "waits for an instruction that was not found"
    return f"waits for {waits_for}"
