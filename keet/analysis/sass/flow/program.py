"""`SassProgram`: the parsed machine code of one kernel, with execution counts. Also the trip
counts of its loops, and who reads a result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from keet.analysis.sass.flow.control_flow import Flow, Loop, dominators, flow_of, intervals
from keet.analysis.sass.flow.values import Kind, SsaValues, values_of
from keet.analysis.sass.instructions.instruction import Instruction, parse
from keet.analysis.sass.instructions.opcodes import IMPURE, Role, words

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
        return [self.executed.get(each.address, 0) for each in self.code]

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
        return {each.address: index for index, each in enumerate(self.code)}

    @cached_property
    def ran(self) -> list[int]:
        """Positions of the instructions that ran, in order."""
        return [
            position
            for block in self.flow.blocks
            for position in range(block.start, block.end)
            if self.counts[position]
        ]

    @cached_property
    def call_sites(self) -> Mapping[int, tuple[int, ...]]:
        """Positions of the calls, by the position of each instruction in a called routine.

        For code that several routines share, the calls of two of them.
        """
        by_block: dict[int, tuple[int, ...]] = {}
        seen: Counter[int] = Counter()
        for entry, blocks in self.flow.routines.items():
            calls = tuple(self.flow.blocks[each].end - 1 for each in self.flow.callers[entry])
            seen[id(blocks)] += 1
            for block in blocks if seen[id(blocks)] <= 2 else ():
                known = by_block.get(block)
                by_block[block] = calls if known is None else known[:1] + calls[:1]
        return {
            position: calls
            for block, calls in by_block.items()
            for position in range(self.flow.blocks[block].start, self.flow.blocks[block].end)
        }

    @cached_property
    def _ways_to_ends(self) -> tuple[Sequence[int], Mapping[int, tuple[int, int]]]:
        flow = flow_of(self.code, {})
        ends = {
            each.index
            for each in flow.blocks
            if not each.successors or self.code[each.end - 1].opcode in _MAY_END
        }
        above = dominators(
            [each.predecessors for each in flow.blocks],
            [each.successors for each in flow.blocks],
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
_MOST_FOLLOWED = 4000
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
    flow, values = program.flow, program.values
    found = []
    for block in sorted(loop.blocks):
        last = flow.blocks[block].end - 1
        leaves = any(each not in loop.blocks for each in flow.blocks[block].successors)
        ends = program.code[last].opcode in ("EXIT", "RET")
        if (leaves or ends) and any(
            _varies(program, predicate, loop) for predicate in values.read[last].values()
        ):
            found.append(last)
    return found


def _varies(program: SassProgram, value: int, loop: Loop) -> bool:
    """Whether a value depends on anything but constants, parameters and this loop's counter."""
    headers = program.loop_headers
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        found = program.values.all[current]
        if found.kind in (Kind.ENTRY, Kind.CALL) or len(seen) > _MOST_FOLLOWED:
            return True
        if found.kind is Kind.JOIN and found.block in headers and found.block != loop.header:
            return True
        if found.kind is Kind.DEFINITION:
            each = program.code[found.position]
            if each.role not in PURE or each.opcode in IMPURE:
                return True
            waiting += program.values.read[found.position].values()
        else:
            waiting += found.inputs
    return False


def is_ragged(program: SassProgram, loop: Loop) -> bool:
    """Whether trip counts may differ by more than one between warps: the limit in the exit
    condition differs between warps, too."""
    for position in uneven_exits(program, loop):
        for predicate in program.values.read[position].values():
            for source in program.values.definitions(predicate, 8):
                reads = program.values.read[source].values()
                varies = bool(reads) and all(_varies(program, each, loop) for each in reads)
                is_plain = len(reads) == 1 and program.code[source].role is Role.PREDICATE
                if varies and not is_plain:
                    return True
    return False


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
                for one in value.inputs:
                    self.merged[one].append(value.index)

    def same(self, *values: int, joins: bool = True) -> set[int]:
        """The values, and all that may be equal to them. `joins`: also where paths join."""
        found, waiting = set(values), list(values)
        while waiting:
            for each in self.merged[waiting.pop()]:
                if each not in found and (joins or self.values.all[each].kind is Kind.GUARDED):
                    found.add(each)
                    waiting.append(each)
        return found

    def of(self, value: int) -> set[int]:
        """Positions that may read the value and ran."""
        counts = self.program.counts
        return {user for each in self.same(value) for user in self.users[each] if counts[user]}
