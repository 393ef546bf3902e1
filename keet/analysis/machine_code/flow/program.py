"""`SassProgram`: the parsed machine code of one kernel, with execution counts. Also the trip
counts of its loops, ways that were never taken, and who reads a result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from keet.analysis.machine_code.flow.control_flow import (
    Flow,
    Loop,
    dominators,
    flow_of,
    intervals,
    reached,
)
from keet.analysis.machine_code.flow.values import Kind, SsaValue, SsaValues, values_of
from keet.analysis.machine_code.instructions.instruction import Instruction, parse
from keet.analysis.machine_code.instructions.opcodes import IMPURE, Role, words
from keet.profile import Location

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
        ends = {
            block.index
            for block in flow.blocks
            if not block.successors or self.code[block.end - 1].opcode in _MAY_END
        }
        above = dominators(
            [block.predecessors for block in flow.blocks],
            [block.successors for block in flow.blocks],
            ends,
        )
        return flow.block_of, intervals(above)

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
            if (
                len({*successors}) != 2
                or instruction.opcode != "BRA"
                or instruction.has("DIV", "CONV")
            ):
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
    sources = [
        *program.flow.blocks[value.block].predecessors,
        *program.flow.callers.get(value.block, ()),
    ]
    if len(sources) != len(value.inputs):
        return value.inputs
    return [
        input_value
        for source, input_value in zip(sources, value.inputs, strict=True)
        if (source, value.block) not in none
    ]


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
        return {
            *reached(
                values,
                lambda index: (
                    merge
                    for merge in self.merged[index]
                    if joins or every[merge].kind is Kind.GUARDED
                ),
            )
        }

    def of(self, value: int) -> set[int]:
        """Positions that may read the value and ran."""
        counts = self.program.counts
        return {user for equal in self.same(value) for user in self.users[equal] if counts[user]}

    def of_result(self, position: int) -> set[int]:
        """The same for all that an instruction writes."""
        return {
            user for result in self.values.written[position].values() for user in self.of(result)
        }
