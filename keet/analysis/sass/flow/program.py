"""`SassProgram`: the parsed machine code of one kernel, with execution counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from keet.analysis.sass.flow.control_flow import Flow, flow_of
from keet.analysis.sass.flow.values import SsaValues, values_of
from keet.analysis.sass.instructions.instruction import Instruction, parse

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
