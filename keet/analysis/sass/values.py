"""Which definition each read of a register sees: values in static single assignment form.

A predicated write does not end the life of the value before it, except for readers under the same
predicate. A routine that code calls (division, square root) is a summary: what it writes comes out
of the call, what it reads goes in, and no path leads from its end back to other callers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from keet.analysis.sass.flow import Flow
from keet.analysis.sass.instruction import Instruction


class Kind(IntEnum):
    DEFINITION = 0
    """Written by an instruction."""
    GUARDED = 1
    """Written under a predicate: the new value or the one before. Inputs: new, before."""
    JOIN = 2
    """One of several values, by the path taken. Inputs: one per predecessor."""
    CALL = 3
    """Comes out of a called routine. Inputs: the values at the routine's ends."""
    ENTRY = 4
    """Not written before the kernel (or routine) reads it."""


@dataclass(slots=True)
class Value:
    index: int
    kind: Kind
    register: str
    position: int = -1
    """Of the instruction that writes it (calls: of the call)."""
    block: int = -1
    inputs: list[int] = field(default_factory=list)
    guard: tuple[int, bool] | None = None


@dataclass(slots=True)
class Values:
    """The values of a kernel, and who reads which."""

    all: list[Value]
    read: list[dict[str, int]]
    """By position: the value behind each register that the instruction reads, guard included."""
    written: list[dict[str, int]]
    """By position: the value (a DEFINITION) of each register that the instruction writes."""

    def definitions(self, value: int, limit: int = 64) -> list[int]:
        """Positions of the instructions whose results a value may be, through joins and calls."""
        found: dict[int, None] = {}
        for each in self.origins(value, limit):
            if each.kind is Kind.DEFINITION:
                found[each.position] = None
        return list(found)

    def origins(self, value: int, limit: int = 64) -> Iterator[Value]:
        """Definitions and entries behind a value. Stops after `limit` steps."""
        seen, waiting = {value}, [value]
        while waiting and len(seen) <= limit:
            current = self.all[waiting.pop(0)]
            if current.kind in (Kind.DEFINITION, Kind.ENTRY):
                yield current
                continue
            for each in current.inputs:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)

    def users(self) -> list[list[int]]:
        """By value: the positions that read it directly."""
        found: list[list[int]] = [[] for _ in self.all]
        for position, reads in enumerate(self.read):
            for value in reads.values():
                found[value].append(position)
        return found


def values_of(code: Sequence[Instruction], flow: Flow) -> Values:
    return _Builder(code, flow).build()


class _Builder:
    """First each block on its own, then what flows into blocks, then joins of equal inputs go."""

    def __init__(self, code: Sequence[Instruction], flow: Flow) -> None:
        self.code = code
        self.flow = flow
        self.all: list[Value] = []
        self.read: list[dict[str, int]] = [{} for _ in code]
        self.written: list[dict[str, int]] = [{} for _ in code]
        self.at_entry: dict[tuple[int, str], int] = {}
        self.at_exit: list[dict[str, int]] = [{} for _ in flow.blocks]
        self.waiting: list[tuple[int, str]] = []
        self.clobbered = {
            entry: frozenset(
                register
                for block in blocks
                for each in code[flow.blocks[block].start : flow.blocks[block].end]
                for register in each.writes
            )
            for entry, blocks in flow.routines.items()
        }

    def build(self) -> Values:
        for block in self.flow.blocks:
            self._fill(block.index)
        while self.waiting:
            self._connect(*self.waiting.pop())
        self._link_calls()
        self._simplify()
        return Values(self.all, self.read, self.written)

    def _new(self, kind: Kind, register: str, position: int = -1, block: int = -1) -> Value:
        value = Value(len(self.all), kind, register, position, block)
        self.all.append(value)
        return value

    def _fill(self, index: int) -> None:
        block = self.flow.blocks[index]
        current = self.at_exit[index]
        for position in range(block.start, block.end):
            each = self.code[position]
            reads = self.read[position]
            guard = None
            if each.guard:
                predicate = self._current(index, each.guard[0], None)
                guard = (predicate, each.guard[1])
                reads[each.guard[0]] = predicate
            for register in each.reads:
                reads[register] = self._current(index, register, guard)
            for register in each.writes:
                self._write(index, position, register, guard)
        if block.calls is not None:
            for register in self.clobbered.get(block.calls, ()):
                current[register] = self._new(Kind.CALL, register, block.end - 1, index).index

    def _write(
        self, block: int, position: int, register: str, guard: tuple[int, bool] | None
    ) -> None:
        new = self._new(Kind.DEFINITION, register, position, block)
        self.written[position][register] = new.index
        if guard is None:
            self.at_exit[block][register] = new.index
            return
        before = self._current(block, register, None)
        merged = self._new(Kind.GUARDED, register, position, block)
        merged.inputs = [new.index, before]
        merged.guard = guard
        self.at_exit[block][register] = merged.index

    def _current(self, block: int, register: str, guard: tuple[int, bool] | None) -> int:
        found = self.at_exit[block].get(register)
        if found is None:
            return self._entry(block, register)
        while guard and self.all[found].kind is Kind.GUARDED:
            known = self.all[found].guard
            if known == guard:
                found = self.all[found].inputs[0]
            elif known == (guard[0], not guard[1]):
                found = self.all[found].inputs[1]
            else:
                break
        return found

    def _entry(self, block: int, register: str) -> int:
        """The value of a register where a block begins."""
        key = (block, register)
        if key not in self.at_entry:
            self.at_entry[key] = self._new(Kind.JOIN, register, block=block).index
            self.waiting.append(key)
        return self.at_entry[key]

    def _connect(self, block: int, register: str) -> None:
        value = self.all[self.at_entry[block, register]]
        before = list(self.flow.blocks[block].predecessors)
        before += self.flow.callers.get(block, ())
        for each in before:
            found = self._before_call(each, register, block)
            value.inputs.append(found)
        if not before:
            value.kind = Kind.ENTRY

    def _before_call(self, block: int, register: str, into: int) -> int:
        """At the end of a block; a routine sees what the caller has before the call's results."""
        found = self.at_exit[block].get(register)
        if found is None:
            return self._entry(block, register)
        value = self.all[found]
        if (
            value.kind is Kind.CALL
            and into in self.flow.callers
            and (block in self.flow.callers[into])
        ):
            return self._last_write(block, register)
        return found

    def _last_write(self, block: int, register: str) -> int:
        start, end = self.flow.blocks[block].start, self.flow.blocks[block].end
        for position in range(end - 1, start - 1, -1):
            if register in self.written[position]:
                return self.written[position][register]
        return self._entry(block, register)

    def _link_calls(self) -> None:
        for value in self.all[:]:
            if value.kind is not Kind.CALL:
                continue
            entry = self.flow.blocks[value.block].calls
            for block in self.flow.routines.get(entry if entry is not None else -1, ()):
                if not self.flow.blocks[block].returns:
                    continue
                found = self.at_exit[block].get(value.register)
                if found is None:
                    found = self._entry(block, value.register)
                value.inputs.append(found)
        while self.waiting:
            self._connect(*self.waiting.pop())

    def _simplify(self) -> None:
        """Replace joins whose inputs are one and the same value."""
        instead = list(range(len(self.all)))

        def resolved(value: int) -> int:
            while instead[value] != value:
                instead[value] = instead[instead[value]]
                value = instead[value]
            return value

        readers: dict[int, list[int]] = {}
        joins = [value.index for value in self.all if value.kind is Kind.JOIN]
        for join in joins:
            for each in self.all[join].inputs:
                readers.setdefault(each, []).append(join)
        waiting = joins[::-1]
        while waiting:
            join = waiting.pop()
            if instead[join] != join:
                continue
            inputs = {resolved(each) for each in self.all[join].inputs} - {join}
            if len(inputs) == 1:
                target = inputs.pop()
                instead[join] = target
                affected = readers.pop(join, [])
                readers.setdefault(target, []).extend(affected)
                waiting += affected
        for value in self.all:
            value.inputs = [resolved(each) for each in value.inputs]
            if value.guard:
                value.guard = (resolved(value.guard[0]), value.guard[1])
        for reads in self.read:
            for register, each in reads.items():
                reads[register] = resolved(each)
