"""Static single assignment: which definition each read of a register sees.

A predicated write does not replace the value before it, except for readers under the same
predicate. A called routine (division, square root) is summarised: its writes are results of the
call, its reads are inputs, and no path leads from its end to other callers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from keet.analysis.machine_code.flow.control_flow import Flow
from keet.analysis.machine_code.instructions.instruction import Instruction


class Kind(IntEnum):
    DEFINITION = 0
    """Written by an instruction."""
    GUARDED = 1
    """Written under a predicate. Inputs: the new value, and the old one if the predicate is off."""
    JOIN = 2
    """One of several values, depending on the path (a phi). Inputs: one per predecessor."""
    CALL = 3
    """Result of a called routine. Inputs: the values at the routine's ends, and the one before if
    the call is predicated; none if there are too many ends."""
    ENTRY = 4
    """Not written before the kernel (or routine) reads it."""


@dataclass(slots=True)
class SsaValue:
    index: int
    kind: Kind
    register: str
    position: int = -1
    """Position of the instruction that writes it, or of the call."""
    block: int = -1
    inputs: list[int] = field(default_factory=list)
    guard: tuple[int, bool] | None = None


@dataclass(slots=True)
class SsaValues:
    """All values of a kernel, and which instruction reads and writes which."""

    all: list[SsaValue]
    read: list[dict[str, int]]
    """By position: the value of each register that the instruction reads, including the guard."""
    written: list[dict[str, int]]
    """By position: the value (a DEFINITION) of each register that the instruction writes."""

    def behind(self, value: SsaValue, *, with_guard: bool = False) -> Collection[int]:
        """What a value is made of: the values that its instruction reads, or that it merges.
        `with_guard`: also the predicate that chooses one of these."""
        is_written = value.kind is Kind.DEFINITION
        sources = self.read[value.position].values() if is_written else value.inputs
        return [*sources, value.guard[0]] if with_guard and value.guard else sources

    def definitions(self, value: int, limit: int = 64) -> list[int]:
        """Positions of the instructions that may have produced a value, through joins and calls."""
        made = (origin for origin in self.origins(value, limit) if origin.kind is Kind.DEFINITION)
        return list(dict.fromkeys(origin.position for origin in made))

    def origins(self, value: int, limit: int = 64) -> Iterator[SsaValue]:
        """Definitions and entries behind a value. Stops after `limit` steps."""
        seen, waiting = {value}, [value]
        while waiting and len(seen) <= limit:
            current = self.all[waiting.pop(0)]
            if current.kind in (Kind.DEFINITION, Kind.ENTRY):
                yield current
                continue
            for source in current.inputs[:limit]:
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)

    def users(self) -> list[list[int]]:
        """By value: the positions that read it directly."""
        users: list[list[int]] = [[] for _ in self.all]
        for position, reads in enumerate(self.read):
            for value in reads.values():
                users[value].append(position)
        return users


_MOST_ROUNDS = 70
"""Rounds of replacing joins of equal values: loops nested n times need about n. A join that remains
is less precise, but not wrong."""
_MOST_ENDS = 64
"""Most ends of a routine that are followed; real ones have a few."""


class _Summary(NamedTuple):
    """A called routine: the registers that it writes, and the blocks that return."""

    writes: frozenset[str]
    ends: tuple[int, ...]


def _summaries(code: Sequence[Instruction], flow: Flow) -> dict[int, _Summary]:
    written = [
        frozenset(
            register
            for instruction in code[block.start : block.end]
            for register in instruction.writes
        )
        for block in flow.blocks
    ]
    summaries: dict[int, _Summary] = {}
    for blocks in flow.routines.values():  # routines of hostile code may share one object
        if id(blocks) not in summaries:
            ends = tuple(block for block in blocks if flow.blocks[block].returns)
            writes = frozenset().union(*(written[block] for block in blocks))
            summaries[id(blocks)] = _Summary(writes, ends)
    return {entry: summaries[id(blocks)] for entry, blocks in flow.routines.items()}


def values_of(code: Sequence[Instruction], flow: Flow) -> SsaValues:
    return _Builder(code, flow).build()


class _Builder:
    """Fills each block on its own, then connects blocks, then removes joins of equal inputs."""

    def __init__(self, code: Sequence[Instruction], flow: Flow) -> None:
        self.code = code
        self.flow = flow
        self.all: list[SsaValue] = []
        self.read: list[dict[str, int]] = [{} for _ in code]
        self.written: list[dict[str, int]] = [{} for _ in code]
        self.at_entry: dict[tuple[int, str], int] = {}
        self.at_exit: list[dict[str, int]] = [{} for _ in flow.blocks]
        self.after_call: dict[tuple[int, str], int] = {}
        self.waiting: list[tuple[int, str]] = []
        self.summaries = _summaries(code, flow)
        self.entries = frozenset(flow.entries)

    def build(self) -> SsaValues:
        for block in self.flow.blocks:
            self._fill(block.index)
        while self.waiting:
            self._connect(*self.waiting.pop())
        self._simplify()
        return SsaValues(self.all, self.read, self.written)

    def _new(self, kind: Kind, register: str, position: int = -1, block: int = -1) -> SsaValue:
        value = SsaValue(len(self.all), kind, register, position, block)
        self.all.append(value)
        return value

    def _fill(self, index: int) -> None:
        block = self.flow.blocks[index]
        for position in range(block.start, block.end):
            instruction = self.code[position]
            reads = self.read[position]
            guard = None
            if instruction.guard:
                predicate = self._current(index, instruction.guard[0], None)
                guard = (predicate, instruction.guard[1])
                reads[instruction.guard[0]] = predicate
            for register in instruction.reads:
                reads[register] = self._current(index, register, guard)
            for register in instruction.writes:
                self._write(index, position, register, guard)

    def _write(
        self, block: int, position: int, register: str, guard: tuple[int, bool] | None
    ) -> None:
        new = self._new(Kind.DEFINITION, register, position, block)
        self.written[position][register] = new.index
        if guard is None:
            self.at_exit[block][register] = new.index
            return
        before = self._current(block, register, (guard[0], not guard[1]))
        merged = self._new(Kind.GUARDED, register, position, block)
        merged.inputs = [new.index, before]
        merged.guard = guard
        self.at_exit[block][register] = merged.index

    def _current(self, block: int, register: str, guard: tuple[int, bool] | None) -> int:
        value = self.at_exit[block].get(register)
        if value is None:
            return self._entry(block, register)
        while guard and self.all[value].kind is Kind.GUARDED:
            other_guard = self.all[value].guard
            if other_guard == guard:
                value = self.all[value].inputs[0]
            elif other_guard == (guard[0], not guard[1]):
                value = self.all[value].inputs[1]
            else:
                break
        return value

    def _entry(self, block: int, register: str) -> int:
        """The value of a register at the start of a block."""
        key = (block, register)
        if key not in self.at_entry:
            self.at_entry[key] = self._new(Kind.JOIN, register, block=block).index
            self.waiting.append(key)
        return self.at_entry[key]

    def _connect(self, block: int, register: str) -> None:
        value = self.all[self.at_entry[block, register]]
        before = list(self.flow.blocks[block].predecessors)
        before += self.flow.callers.get(block, ())
        if not before:
            value.kind = Kind.ENTRY
            return
        if block in self.entries:
            value.inputs.append(self._new(Kind.ENTRY, register, block=-1).index)
        for predecessor in before:
            value.inputs.append(self._leaving(predecessor, register, block))

    def _leaving(self, block: int, register: str, into: int) -> int:
        """The value at the end of a block: after the call that ends it, except for the callee."""
        calls = self.flow.blocks[block].calls
        if calls is not None and calls != into and register in self.summaries[calls].writes:
            return self._result(block, register, self.summaries[calls])
        return self._at_end(block, register)

    def _at_end(self, block: int, register: str) -> int:
        """The value after a block's instructions, before the routine that it calls."""
        value = self.at_exit[block].get(register)
        return self._entry(block, register) if value is None else value

    def _result(self, block: int, register: str, summary: _Summary) -> int:
        """The value of a register after the call that ends a block."""
        key = (block, register)
        if key not in self.after_call:
            call = self.flow.blocks[block].end - 1
            value = self._new(Kind.CALL, register, call, block)
            self.after_call[key] = value.index
            if len(summary.ends) <= _MOST_ENDS:
                value.inputs = [self._at_end(end, register) for end in summary.ends]
                if self.code[call].guard:
                    value.inputs.append(self._at_end(block, register))
        return self.after_call[key]

    def _simplify(self) -> None:
        """Replace joins whose inputs are all the same value."""
        instead = list(range(len(self.all)))

        def resolved(value: int) -> int:
            while instead[value] != value:
                instead[value] = instead[instead[value]]
                value = instead[value]
            return value

        rank = {block: place for place, block in enumerate(self.flow.order)}
        joins = [value.index for value in self.all if value.kind is Kind.JOIN]
        joins.sort(key=lambda join: rank[self.all[join].block])
        for _ in range(_MOST_ROUNDS):
            left = []
            for join in joins:
                inputs = {resolved(source) for source in self.all[join].inputs} - {join}
                if len(inputs) == 1:
                    instead[join] = inputs.pop()
                else:
                    left.append(join)
            if len(left) == len(joins):
                break
            joins = left
        for value in self.all:
            value.inputs = [resolved(source) for source in value.inputs]
            if value.guard:
                value.guard = (resolved(value.guard[0]), value.guard[1])
        for reads in self.read:
            for register, index in reads.items():
                reads[register] = resolved(index)
