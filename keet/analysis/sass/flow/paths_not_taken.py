"""Ways from block to block that were never taken, though both blocks ran.

`if (n % 4 != 0)` is decided alike for all threads of a launch. If the code behind it ran, no thread
went past it. Values that would come that way are none: after an unrolled loop and its remainder,
an index has one value, not two.
"""

from __future__ import annotations

from collections.abc import Collection

from keet.analysis.sass.flow.program import SassProgram, is_pure, uneven_exits
from keet.analysis.sass.flow.values import Kind, SsaValue

_MOST_FOLLOWED = 20_000
"""Values that are followed in one kernel. A bound for hostile code: beyond, all ways count as
taken."""

Way = tuple[int, int]
"""From a block, to a block."""


def paths_not_taken(program: SassProgram) -> frozenset[Way]:
    """Empty without execution counts."""
    return _Search(program).found() if program.executed else frozenset()


class _Search:
    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.flow = program.flow
        self.none: set[Way] = set()
        self.left = _MOST_FOLLOWED
        self.header_loop = {loop.header: loop for loop in self.flow.loops}
        self.is_even: dict[int, bool] = {}

    def found(self) -> frozenset[Way]:
        """In the order of the control flow: what is known of a branch helps with later ones."""
        for block in self.flow.order:
            successors = self.flow.blocks[block].successors
            last = self.flow.blocks[block].end - 1
            each = self.program.code[last]
            if len({*successors}) != 2 or each.opcode != "BRA" or each.has("DIV", "CONV"):
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
        if value.kind is Kind.GUARDED and value.guard is not None:
            return [*value.inputs, value.guard[0]]
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
        each
        for source, each in zip(sources, value.inputs, strict=True)
        if (source, value.block) not in none
    ]
