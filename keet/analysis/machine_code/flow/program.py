"""`SassProgram`: the parsed machine code of one kernel, with execution counts. Also the trip
counts of its loops, ways that were never taken, and who reads a result.

Static single assignment: which definition each read of a register sees.

A predicated write does not replace the value before it, except for readers under the same
predicate. A called routine (division, square root) is summarised: its writes are results of the
call, its reads are inputs, and no path leads from its end to other callers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial
from typing import NamedTuple

from keet.analysis.machine_code.flow.control_flow import (
    Flow,
    Loop,
    dominators,
    flow_of,
    intervals,
    reached,
    root_of,
)
from keet.analysis.machine_code.instructions.instruction import Instruction, parse
from keet.analysis.machine_code.instructions.opcodes import IMPURE, Role, words
from keet.profile import Location


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
        frozenset[str]().union(*(each.writes for each in code[block.start : block.end]))
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
        resolved = partial(root_of, instead)
        rank = {block: place for place, block in enumerate(self.flow.order)}
        merging = (value for value in self.all if value.kind is Kind.JOIN)
        joins = [value.index for value in sorted(merging, key=lambda value: rank[value.block])]
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


Locate = Callable[[int], Location | None]
"""The source line of a position."""
MOST_INSTRUCTIONS = 60_000
"""Most instructions that are analysed, in about two seconds. The largest kernel seen has 25,000."""


@dataclass(frozen=True)
class SassProgram:
    """The code of one kernel. A position is the index of an instruction in address order."""

    code: Sequence[Instruction]
    executed: Mapping[int, int]
    """Warps that executed each address; empty if the report does not have the counts."""

    @classmethod
    def of(cls, texts: Mapping[int, str], executed: Mapping[int, int]) -> SassProgram:
        return cls([parse(address, texts[address]) for address in sorted(texts)], executed)

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.code, self.executed)

    @cached_property
    def values(self) -> SsaValues:
        return values_of(self.code, self.flow)

    @cached_property
    def counts(self) -> list[int]:
        """Executions by position, in warps; 1 for all if the report does not have the counts."""
        if not self.executed:
            return [1] * len(self.code)
        return [self.executed.get(instruction.address, 0) for instruction in self.code]

    @cached_property
    def executions(self) -> int:
        """Of all instructions, by warps; at least 1, as a divisor."""
        return sum(self.counts) or 1

    def spent(self, positions: Iterable[int]) -> int:
        """Executions of these instructions, by warps."""
        return sum(self.counts[position] for position in positions)

    def share(self, positions: Iterable[int]) -> float:
        """Share of these instructions in all executions, 0 to 1."""
        return self.spent(positions) / self.executions

    def loops_at(self, position: int) -> list[Loop]:
        """The loops around an instruction, from the innermost outwards."""
        return self.flow.loops_around(self.flow.block_of[position])

    def writer(self, value: int) -> Instruction | None:
        """The instruction that defines a value; None for one of several, of a call, or of none."""
        made = self.values.all[value]
        return self.code[made.position] if made.kind is Kind.DEFINITION else None

    @cached_property
    def flow_rank(self) -> Mapping[int, int]:
        """Index of each block in the order of the control flow."""
        return {block: place for place, block in enumerate(self.flow.order)}

    @cached_property
    def loop_headers(self) -> frozenset[int]:
        return frozenset(loop.header for loop in self.flow.loops)

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """Position by address."""
        return {instruction.address: index for index, instruction in enumerate(self.code)}

    @cached_property
    def ran(self) -> list[int]:
        """Positions of the instructions that ran, in order."""
        return self.ran_in(range(len(self.flow.blocks)))

    def ran_in(self, blocks: Iterable[int]) -> list[int]:
        """The same for some blocks, in their order."""
        return [position for position in self.flow.positions(blocks) if self.counts[position]]

    def where(self, matches: Callable[[Instruction], bool]) -> list[int]:
        """Positions of the instructions that ran and match, in order."""
        return [position for position in self.ran if matches(self.code[position])]

    def address_values(self, position: int) -> list[int]:
        """The values that the address of a memory access is the sum of."""
        memory, read = self.code[position].memory, self.values.read[position]
        names = (memory.name, memory.uniform) if memory is not None else ()
        return [read[name] for name in names if name in read]

    @cached_property
    def call_sites(self) -> Mapping[int, tuple[int, ...]]:
        """Positions of the calls, by the position of each instruction in a called routine.

        For code that several routines share, the calls of two of them.
        """
        by_block: dict[int, tuple[int, ...]] = {}
        seen: Counter[int] = Counter()
        for entry, blocks in self.flow.routines.items():
            calls = tuple(self.flow.blocks[caller].end - 1 for caller in self.flow.callers[entry])
            seen[id(blocks)] += 1
            for block in blocks if seen[id(blocks)] <= 2 else ():
                callers = by_block.get(block)
                by_block[block] = calls if callers is None else callers[:1] + calls[:1]
        return {
            position: calls
            for block, calls in by_block.items()
            for position in self.flow.positions([block])
        }

    @cached_property
    def _ways_to_ends(self) -> tuple[Sequence[int], Mapping[int, tuple[int, int]]]:
        flow = flow_of(self.code, {})
        before = [block.predecessors for block in flow.blocks]
        after = [block.successors for block in flow.blocks]
        last = (self.code[block.end - 1] for block in flow.blocks)
        ends = {at for at, end in enumerate(last) if not after[at] or end.opcode in _MAY_END}
        return flow.block_of, intervals(dominators(before, after, ends))

    def decides(self, branch: int, position: int) -> bool:
        """Whether some path from a branch leads past a position, by all code, also what never ran:
        a branch to a slow path that comes back decides nothing, one that ends the thread does."""
        block_of, spans = self._ways_to_ends
        behind, before = spans.get(block_of[position]), spans.get(block_of[branch])
        if behind is None or before is None:
            return False  # an endless loop
        return not behind[0] <= before[0] <= behind[1]


_MAY_END = words("EXIT RET KILL BRX BRXU JMX JMXU")
_MOST_VALUES = 4000
"""Most values that are followed back from a loop's exit; beyond, trips count as uneven."""
PURE = (Role.INTEGER, Role.PREDICATE, Role.MOVE, Role.CONSTANT, Role.CONVERSION, Role.FLOAT)
"""Roles whose results depend only on their operands, except for the opcodes of `IMPURE`."""


def trips_of(program: SassProgram, loop: Loop) -> tuple[int | None, bool]:
    """Iterations per entry, and whether all warps certainly do that many.

    Execution counts give an average. It is exact if it is an integer and the exit condition depends
    only on constants and parameters.
    """
    if loop.trips is None:
        return None, False
    whole = -int(-loop.trips // 1)
    is_whole = abs(loop.trips - round(loop.trips)) < 1e-9
    return whole, is_whole and loop.is_counted and not uneven_exits(program, loop)


def uneven_exits(program: SassProgram, loop: Loop) -> list[int]:
    """Branches out of a loop whose condition may differ between warps."""
    flow, read = program.flow, program.values.read
    ends = (flow.blocks[block].end - 1 for block in loop.blocks)
    exits = {position for position in ends if program.code[position].opcode in ("EXIT", "RET")}
    return [
        position
        for position in sorted(exits.union(flow.leaving(loop)))
        if any(_varies(program, predicate, loop) for predicate in read[position].values())
    ]


def _varies(program: SassProgram, value: int, loop: Loop) -> bool:
    """Whether a value depends on anything but constants, parameters and this loop's counter."""
    values, heads = program.values, program.loop_headers - {loop.header}

    def may_vary(origin: SsaValue) -> bool:
        if origin.kind is Kind.DEFINITION:
            return not is_pure(program.code[origin.position])
        return origin.kind is not Kind.GUARDED and (
            origin.kind is not Kind.JOIN or origin.block in heads
        )

    def following(index: int) -> Collection[int]:
        return () if may_vary(values.all[index]) else values.behind(values.all[index])

    behind = reached([value], following, _MOST_VALUES)
    return len(behind) > _MOST_VALUES or any(may_vary(values.all[index]) for index in behind)


def is_pure(instruction: Instruction) -> bool:
    """Whether its result depends only on its operands."""
    return instruction.role in PURE and instruction.opcode not in IMPURE


def is_ragged(program: SassProgram, loop: Loop) -> bool:
    """Whether trip counts may differ by more than one between warps: the limit in the exit
    condition differs between warps, too."""
    for position in uneven_exits(program, loop):
        for predicate in program.values.read[position].values():
            for source in program.values.definitions(predicate, 8):
                reads = program.values.read[source].values()
                varies = bool(reads) and all(_varies(program, value, loop) for value in reads)
                is_plain = len(reads) == 1 and program.code[source].role is Role.PREDICATE
                if varies and not is_plain:
                    return True
    return False


_MOST_DECIDING = 20_000
"""Values that are followed in one kernel. A bound for hostile code: beyond, all ways count as
taken."""

Way = tuple[int, int]
"""From a block, to a block."""


def paths_not_taken(program: SassProgram) -> frozenset[Way]:
    """Ways from block to block that were never taken, though both blocks ran; empty without
    execution counts.

    `if (n % 4 != 0)` is decided alike for all threads of a launch. If the code behind it ran, no
    thread went past it. Values that would come that way are none: after an unrolled loop and its
    remainder, an index has one value, not two.
    """
    return _NotTaken(program).result() if program.executed else frozenset()


class _NotTaken:
    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.flow = program.flow
        self.none: set[Way] = set()
        self.left = _MOST_DECIDING
        self.header_loop = {loop.header: loop for loop in self.flow.loops}
        self.is_even: dict[int, bool] = {}

    def result(self) -> frozenset[Way]:
        """In the order of the control flow: what is known of a branch helps with later ones."""
        for block in self.flow.order:
            successors = self.flow.blocks[block].successors
            last = self.flow.blocks[block].end - 1
            instruction = self.program.code[last]
            is_plain = instruction.opcode == "BRA" and not instruction.has("DIV", "CONV")
            if not is_plain or len({*successors}) != 2:
                continue
            only = [s for s in successors if self.flow.blocks[s].predecessors == [block]]
            if len(only) == 1 and only[0] not in self.flow.callers:
                other = next(s for s in successors if s != only[0])
                if self._is_same_for_all(block, last):
                    self.none.add((block, other))
        return frozenset(self.none)

    def _is_same_for_all(self, block: int, last: int) -> bool:
        """Whether a branch goes the same way whenever it runs: its condition is made of constants,
        parameters, and what loops before it made of them."""
        values = self.program.values
        waiting = [*values.read[last].values()]
        seen: set[int] = set()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            self.left -= 1
            behind = self._behind(values.all[current], block) if self.left > 0 else None
            if behind is None:
                return False
            waiting += behind
        return True

    def _behind(self, value: SsaValue, block: int) -> list[int] | None:
        """The values that decide about this one; None if anything else does."""
        if value.kind is Kind.DEFINITION:
            is_followed = is_pure(self.program.code[value.position])
            return [*self.program.values.behind(value)] if is_followed else None
        if value.kind is Kind.GUARDED:
            return [*self.program.values.behind(value, with_guard=True)]
        return self._before(value, block) if value.kind is Kind.JOIN else None

    def _before(self, value: SsaValue, block: int) -> list[int] | None:
        """The same for a join of ways."""
        loop = self.header_loop.get(value.block)
        if loop is not None:  # after a loop that all do equally often
            if block in loop.blocks or not self._is_even(value.block):
                return None
            return value.inputs
        came = live_inputs(self.program, value, self.none)
        return came if len({*came}) == 1 else None

    def _is_even(self, header: int) -> bool:
        if header not in self.is_even:
            loop = self.header_loop[header]
            self.is_even[header] = not uneven_exits(self.program, loop)
        return self.is_even[header]


def live_inputs(program: SassProgram, value: SsaValue, none: Collection[Way]) -> list[int]:
    """The inputs of a join, without those that come by ways that were never taken."""
    if not none:
        return value.inputs
    flow, block = program.flow, value.block
    sources = (*flow.blocks[block].predecessors, *flow.callers.get(block, ()))
    if len(sources) != len(value.inputs):
        return value.inputs
    ways = zip(sources, value.inputs, strict=True)
    return [index for source, index in ways if (source, block) not in none]


class Readers:
    """The uses of values, through predicated writes and joins."""

    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.values = program.values
        self.users = program.values.users()
        self.merged: dict[int, list[int]] = defaultdict(list)
        """By value: the values that may be equal to it, depending on a predicate or the path."""
        for value in program.values.all:
            if value.kind is not Kind.DEFINITION:
                for source in value.inputs:
                    self.merged[source].append(value.index)

    def same(self, *values: int, joins: bool = True) -> set[int]:
        """The values, and all that may be equal to them. `joins`: also where paths join."""
        every = self.values.all

        def following(index: int) -> Iterable[int]:
            merges = self.merged[index]
            return (at for at in merges if joins or every[at].kind is Kind.GUARDED)

        return {*reached(values, following)}

    def of(self, value: int) -> set[int]:
        """Positions that may read the value and ran."""
        counts = self.program.counts
        return {user for equal in self.same(value) for user in self.users[equal] if counts[user]}

    def of_result(self, position: int) -> set[int]:
        """The same for all that an instruction writes."""
        return {user for made in self.values.written[position].values() for user in self.of(made)}
