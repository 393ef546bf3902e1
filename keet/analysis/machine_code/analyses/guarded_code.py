"""Code that only part of the threads reach: behind which branch or predicate it stands, and how
many threads and warps enter it.

A block of code is guarded by the branches that lead into it. Of the threads at the end of its
dominator, the counters show how many begin the block: also where several branches of one line
lead there, as for `a || b`. The counts of a block that is entered are those of its first
instruction, so that they are right for every form of branch.

Not here: exits of loops, which are trip counts, and code of divisions and roots for rare operands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from keet.analysis.machine_code.flow.control_flow import BasicBlock, intervals
from keet.analysis.machine_code.flow.program import Locate, SassProgram
from keet.analysis.machine_code.instructions.opcodes import LOCAL, SHARED, Role
from keet.profile import Location

Counts = Mapping[int, int]
"""By address."""

_ENDS = ("EXIT", "RET", "KILL")
_BRANCHES = ("BRA", "UBRA", "JMP")
_CALLS = ("CALL", "UCALL")
_EFFECTS = (Role.STORE, Role.ATOMIC)
_OF_BLOCK = SHARED | LOCAL | {"LDGSTS"}
_MOST_BLOCKS = 200_000
"""Guarded blocks in all, those of nested conditions several times: a bound for hostile code."""


class Guarded(NamedTuple):
    decided: tuple[int, ...]
    """Positions of the branches that lead to it; of the first instruction under a predicate."""
    place: Location
    threads: int
    """Threads that get there, in all iterations."""
    entering: int
    warps: int
    warps_entering: int | None
    """`None` for instructions under a predicate: warps run them with all threads off, too."""
    block: int
    """Of the branch; of `a || b`, the first one."""
    blocks: tuple[int, ...]
    """Guarded blocks; empty for instructions under a predicate. Where no thread went the other way,
    that way is not known, and with it the end of the guarded code: only the first block."""
    effects: tuple[int, ...]
    """Positions of guarded stores and atomics, but not to local memory."""
    instructions: int
    """Executions of the guarded instructions, by warps."""
    loop: int | None
    """The innermost loop around the branch."""

    @property
    def is_one_way(self) -> bool:
        """Whether no thread went another way, which is not in the graph then."""
        return bool(self.blocks) and not self.instructions


def is_effect(program: SassProgram, position: int) -> bool:
    instruction = program.code[position]
    return (
        instruction.role in _EFFECTS
        and instruction.opcode not in LOCAL
        and program.counts[position] > 0
    )


def global_effects(program: SassProgram) -> Iterator[int]:
    """Positions of all instructions that change memory beyond that of the block."""
    for position in program.ran:
        instruction = program.code[position]
        if instruction.role in (*_EFFECTS, Role.COPY) and instruction.opcode not in _OF_BLOCK:
            yield position


def guarded_code(
    program: SassProgram, reached: Counts, passed: Counts, places: Locate
) -> list[Guarded]:
    """Branches in the order of the code, then predicates. Also where all threads enter: other
    copies of the condition may differ. `reached`: threads that execute an instruction; `passed`:
    those of them whose predicate is on; `places`: the source line of the condition that the
    instruction at a position depends on."""
    search = _Search(program, reached, passed, places)
    return [*search.behind_branches(), *search.under_predicates()]


class _Search:
    def __init__(
        self, program: SassProgram, reached: Counts, passed: Counts, places: Locate
    ) -> None:
        self.program, self.flow = program, program.flow
        self.reached, self.passed, self.places = reached, passed, places
        self.spans = intervals(self.flow.dominators)
        self.order = sorted(self.spans, key=lambda block: self.spans[block][0])
        """A block, and then all that it dominates."""
        blocks = [self.flow.blocks[index] for index in self.order]
        counts = [sum(program.counts[block.start : block.end]) for block in blocks]
        self.counted = [0, *accumulate(counts)]
        """Executions up to a place in this order."""
        self.left = _MOST_BLOCKS
        self.effects = [
            (place, position)
            for place, block in enumerate(blocks)
            for position in range(block.start, block.end)
            if is_effect(program, position)
        ]

    def threads(self, position: int) -> int:
        return self.reached.get(self.program.code[position].address, 0)

    # --- branches

    def behind_branches(self) -> Iterator[Guarded]:
        for block in self.flow.blocks:
            dominator = self.flow.dominators.get(block.index, -1)
            above = self.flow.blocks[dominator]
            if dominator >= 0 and (decided := self._decided(block, above)):
                place = self.places(decided[0])
                if place is not None and all(
                    self.places(position) == place for position in decided
                ):
                    yield from self._behind(block, above, place, decided)

    def _decided(self, block: BasicBlock, above: BasicBlock) -> tuple[int, ...]:
        """Positions of the branches that lead to a block, the first one that of its dominator;
        empty if anything else does, or if it is not guarded by a condition."""
        first, last = self.spans.get(block.index, (0, -1))
        before = [
            predecessor
            for predecessor in block.predecessors
            if not first <= self.spans.get(predecessor, (-1, -1))[0] <= last
        ]
        if above.index not in before or not all(map(self._is_condition, before)):
            return ()
        if block.calls is not None and last - first <= 1:
            return ()  # a routine of the compiler for rare operands
        inside, loop = self.flow.loop_of.get(block.index), self.flow.loop_of.get(above.index)
        if inside != loop and (not self._is_header(block) or len(before) > 1):
            return ()
        before.sort(key=lambda predecessor: predecessor != above.index)
        return tuple(self.flow.blocks[predecessor].end - 1 for predecessor in before)

    def _is_header(self, block: BasicBlock) -> bool:
        loop = self.flow.loop_of.get(block.index)
        return loop is not None and self.flow.loops[loop].header == block.index

    def _behind(
        self, block: BasicBlock, above: BasicBlock, place: Location, decided: tuple[int, ...]
    ) -> Iterator[Guarded]:
        first, last = self.spans[block.index]
        threads, is_header = self.threads(above.end - 1), self._is_header(block)
        entering = self._through(above, block) if is_header else self.threads(block.start)
        self.left -= last - first + 1
        is_one_way = entering == threads and len(above.successors) == 1
        if not 0 < entering <= threads or self.left < 0:
            return
        if entering == threads and len(decided) > 1:
            return  # where the ways come together again
        if is_one_way and self._is_no_choice(above, block):
            return
        begin, end = (bisect_left(self.effects, (at, -1)) for at in (first, last + 1))
        yield Guarded(
            decided,
            place,
            threads,
            entering,
            self.program.counts[above.end - 1],
            None if is_header else self.program.counts[block.start],
            above.index,
            (block.index,) if is_one_way else tuple(self.order[first : last + 1]),
            () if is_one_way else tuple(position for _, position in self.effects[begin:end]),
            0 if is_one_way else self.counted[last + 1] - self.counted[first],
            self.flow.loop_of.get(above.index),
        )

    def _is_condition(self, block: int) -> bool:
        """Whether a block ends in a branch that goes two ways, both in its loop."""
        basic_block = self.flow.blocks[block]
        instruction = self.program.code[basic_block.end - 1]
        loop = self.flow.loop_of.get(block)
        inside = (
            self.flow.loops[loop].blocks if loop is not None else frozenset(basic_block.successors)
        )
        if instruction.role is not Role.BRANCH or not inside.issuperset(basic_block.successors):
            return False
        is_end = instruction.opcode in _ENDS
        return (
            instruction.guard is not None and loop is None
            if is_end
            else instruction.opcode in _BRANCHES
        )

    def _is_no_choice(self, above: BasicBlock, block: BasicBlock) -> bool:
        """Whether the way that no thread went ends the kernel, as in a part of `a || b`, or calls a
        routine for rare operands."""
        code, last = self.program.code, above.end - 1
        if code[last].opcode in _ENDS:
            return True
        is_taken = code[block.start].address == code[last].target
        other = above.end if is_taken else self.program.positions.get(code[last].target or -1)
        while other is not None and other < len(code) and code[other].role is not Role.BRANCH:
            other += 1
        return other is not None and other < len(code) and code[other].opcode in _CALLS

    def _through(self, above: BasicBlock, block: BasicBlock) -> int:
        """Threads that go from a block to another."""
        last = self.program.code[above.end - 1]
        if last.guard is None or last.reads:  # what decides is not the predicate alone
            return 0
        taken = self.passed.get(last.address, 0)
        is_taken = self.program.code[block.start].address == last.target
        return taken if is_taken else self.threads(above.end - 1) - taken

    # --- predicates

    def under_predicates(self) -> Iterator[Guarded]:
        """Stores and atomics that run under one predicate."""
        groups: dict[object, list[int]] = {}
        for _, position in self.effects:
            guard = self.program.code[position].guard
            if guard is not None:
                value = self.program.values.read[position].get(guard[0])
                key = self.flow.block_of[position], value, guard
                groups.setdefault(key, []).append(position)
        for positions in groups.values():
            first, block = positions[0], self.flow.block_of[positions[0]]
            place, threads = self.places(first), self.threads(first)
            entering = self.passed.get(self.program.code[first].address, 0)
            if place is None or not threads:
                continue
            yield Guarded(
                (first,),
                place,
                threads,
                entering,
                self.program.counts[first],
                None,
                block,
                (),
                tuple(positions),
                sum(self.program.counts[position] for position in positions),
                self.flow.loop_of.get(block),
            )
