"""Under which conditions an instruction runs, as far as branches and guards before it show.

`if (threadIdx.x == 0)` leaves one thread of a block, `if (threadIdx.x < 32)` one warp. A condition
on a parameter, `if (i < n)`, may leave any number: the counters tell how many threads ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from keet.analysis.sass.flow.control_flow import Loop, reached
from keet.analysis.sass.flow.values import Kind
from keet.analysis.sass.instructions.instruction import Instruction
from keet.analysis.sass.instructions.opcodes import Role
from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.opcode_rules import result_of
from keet.analysis.sass.polynomials.polynomial import Polynomial, Symbol, add, range_of

_OPPOSITE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}
_MOST_JOINED = 4
_MOST_STEPS = 64
"""Dominating blocks that are looked at."""


class Comparison(NamedTuple):
    """`left` compared with 0: `LT`, `LE`, `GT`, `GE`, `EQ` or `NE`."""

    left: Polynomial
    relation: str


class Conditions(NamedTuple):
    known: tuple[Comparison, ...]
    depends: frozenset[str]
    """What all conditions depend on: names as in `Polynomial.depends`; `unknown` if there is one
    that can't be followed."""
    is_whole: bool
    """Whether the comparisons say it all: what meets them runs the instruction."""


class RunConditions:
    """The conditions of the instructions of one kernel."""

    def __init__(self, evaluation: Evaluation, threads: Mapping[int, int] | None) -> None:
        self.evaluation = evaluation
        self.program = evaluation.program
        self.threads = threads or {}
        self._of_block: dict[int, Conditions] = {}

    def of(self, position: int) -> Conditions:
        block = self.program.flow.block_of[position]
        if block not in self._of_block:
            self._of_block[block] = self._block(block)
        known, depends, is_whole = self._of_block[block]
        guard = self.program.code[position].guard
        if guard is not None:
            own = self._guard(position, guard, is_true=True)
            known, depends = (*known, *own.known), depends | own.depends
            is_whole = is_whole and own.is_whole
        return Conditions(known, depends, is_whole)

    def _block(self, block: int) -> Conditions:
        flow = self.program.flow
        known: list[Comparison] = []
        depends: set[str] = set()
        is_whole = True
        current = block
        for _ in range(_MOST_STEPS):
            above = flow.dominators.get(current, -1)
            if above < 0:
                break
            last = flow.blocks[above].end - 1
            each = self.program.code[last]
            if each.guard is not None and len(flow.blocks[above].successors) >= 1:
                found = self._between(above, current, each, last)
                known += found.known
                depends |= found.depends
                is_whole = is_whole and found.is_whole
            elif len(flow.blocks[above].successors) > 1:
                depends.add("unknown")
            current = above
        else:
            depends.add("unknown")
        for loop in flow.loops_around(block):
            if not self.evaluation.trips(loop)[1]:
                depends |= self.exits_depend(loop) - {f"loop{loop.index}"}
        return Conditions(tuple(known), frozenset(depends), is_whole and "unknown" not in depends)

    def _between(self, above: int, block: int, each: Instruction, last: int) -> Conditions:
        """What must hold at the end of a block so that another runs, which it dominates."""
        flow = self.program.flow
        before = [
            other
            for other in flow.blocks[block].predecessors
            if other == above or not self.dominates(block, other)
        ]
        assert each.guard is not None
        if before == [above]:
            is_exit = each.target is None
            taken = (
                not is_exit
                and self.program.code[flow.blocks[block].start].address == each.target
                and each.address + 16 != each.target
            )
            return self._guard(last, each.guard, is_true=taken)
        if self.active(block) is not None and self.active(block) == self.active(above):
            return _ALWAYS  # all threads come together again
        predicate = self.program.values.read[last][each.guard[0]]
        names = self.evaluation.predicate_dependences(predicate)
        return Conditions((), names | {"unknown"}, is_whole=False)

    def dominates(self, block: int, other: int) -> bool:
        above = self.program.flow.dominators
        for _ in range(_MOST_STEPS):
            if other == block:
                return True
            other = above.get(other, -1)
            if other < 0:
                return False
        return False

    def active(self, block: int) -> int | None:
        """Threads that run a block: those of its first instruction without a guard."""
        code = (self.program.code[each] for each in self.program.flow.positions([block]))
        plain = (each.address for each in code if each.guard is None)
        return next((self.threads[each] for each in plain if each in self.threads), None)

    def _guard(self, position: int, guard: tuple[str, bool], *, is_true: bool) -> Conditions:
        """`is_true`: whether the guarded instruction runs, or does not."""
        value = self.program.values.read[position].get(guard[0])
        if value is None:
            return Conditions((), frozenset({"unknown"}), is_whole=False)
        known, is_whole = self._comparisons(value, holds=is_true != guard[1])
        depends = self.evaluation.predicate_dependences(value)
        # A condition on parameters only holds for all threads or for none.
        return Conditions(tuple(known), depends, is_whole or not depends)

    def _comparisons(
        self, value: int, *, holds: bool, depth: int = 0
    ) -> tuple[list[Comparison], bool]:
        """Comparisons that certainly hold if a predicate has this value, and whether it has this
        value whenever they hold."""
        found = self.program.values.all[value]
        if found.kind is not Kind.DEFINITION or depth > _MOST_JOINED:
            return [], False
        each = self.program.code[found.position]
        if each.base == "LOP3":  # the predicate says whether the result is not 0
            bits = result_of(self.evaluation, each, found.position)
            return self._compared(bits, "NE", found.position, holds=holds), bits is not None
        is_first = next((name for name in each.writes if "P" in name), "") == found.register
        if each.opcode not in ("ISETP", "UISETP") or each.has("EX") or not is_first:
            return [], False
        joined = self._joined(each, found.position, holds=holds, depth=depth)
        if joined is None:
            return [], False
        more, is_whole = joined
        relation = next((name for name in each.modifiers if name in _OPPOSITE), "")
        left, right = (self.evaluation.operand(each, found.position) for each in each.sources[:2])
        # Without a sign, a number below 0 is a large one.
        is_wide = each.has("U32") and any(
            (range_of(side).low or 0) < 0 for side in (left, right) if side is not None
        )
        if left is None or right is None or not relation or is_wide:
            return more, False
        difference = add(left, right, -1)
        own = self._compared(difference, relation, found.position, holds=holds)
        return [*own, *more], is_whole

    def _compared(
        self, left: Polynomial | None, relation: str, position: int, *, holds: bool
    ) -> list[Comparison]:
        if left is None or not relation:
            return []
        resolved = self.evaluation.resolved(left, self.program.flow.block_of[position])
        return [Comparison(resolved, relation if holds else _OPPOSITE[relation])]

    def _joined(
        self, each: Instruction, position: int, *, holds: bool, depth: int
    ) -> tuple[list[Comparison], bool] | None:
        """Comparisons that hold because of the predicate that a comparison is joined with, and
        whether they say it all; None if the comparison itself need not hold."""
        other = next((one for one in each.sources[2:] if one.kind == "predicate"), None)
        if other is None:
            return [], True
        if not other.name:  # `AND true` or `OR false`: the comparison alone decides
            is_neutral = each.has("OR" if other.negated else "AND")
            return ([], True) if is_neutral else None
        if not each.has("AND" if holds else "OR"):
            return None
        behind = self.program.values.read[position].get(other.name)
        if behind is None:
            return [], False
        return self._comparisons(behind, holds=holds != other.negated, depth=depth + 1)

    @cached_property
    def branches_depend(self) -> frozenset[str]:
        """What all branches together depend on, except for the counters of their own loops."""
        flow, found = self.program.flow, set[str]()
        for block in flow.blocks:
            last = block.end - 1
            if self.program.code[last].role is Role.BRANCH:
                own = {f"loop{e.index}" for e in flow.loops if block.index in e.latches}
                found |= self._branch_depends(last) - own
        return frozenset(found - {"path"})

    def exits_depend(self, loop: Loop) -> frozenset[str]:
        """What decides how often a loop runs."""
        exits = map(self._branch_depends, self.program.flow.leaving(loop))
        return frozenset[str]().union(*exits)

    def _branch_depends(self, branch: int) -> frozenset[str]:
        reads = self.program.values.read[branch].values()
        names = map(self.evaluation.predicate_dependences, reads)
        return frozenset[str]().union(*map(self.evaluation.resolved_names, names))


_ALWAYS = Conditions((), frozenset(), is_whole=True)
_KEEP_SIZE = ("LOP3", "IADD3", "VIADD", "MOV", "IMAD", "SHF", "LEA", "VIMNMX", "IMNMX", "SEL")
"""Opcodes (without the U of uniform ones) by which a limit is rounded or halved, not divided."""
_MOST_FOLLOWED = 24


def limits(evaluation: Evaluation) -> Mapping[Symbol, frozenset[str]]:
    """Unknown numbers that indices are compared with, also rounded: `n`, `n - 1`, `n & ~3`. By
    each: the names of the indices. In `in[y * n + x]`, rows do not overlap if `x` is below `n`."""
    program = evaluation.program
    found: dict[Symbol, set[str]] = {}
    for position in program.ran:
        each = program.code[position]
        if each.opcode not in ("ISETP", "UISETP", *_CLAMPS):
            continue
        sides = []
        for operand in each.sources:
            polynomial = evaluation.operand(operand, position)
            if polynomial is not None:
                if any(symbol.kind == "join" for symbol in polynomial.symbols):
                    block = program.flow.block_of[position]
                    polynomial = evaluation.resolved(polynomial, block)
                value = program.values.read[position].get(operand.name) if operand.name else None
                sides.append((polynomial, value))
        names = {name for polynomial, _ in sides for name in polynomial.depends}
        names = set(evaluation.resolved_names(frozenset(names)))
        if not names:
            continue  # a comparison of parameters only is not about indices
        for polynomial, value in sides:
            if not polynomial.depends:
                for symbol in _parameters(evaluation, polynomial, value):
                    found.setdefault(symbol, set()).update(names)
            else:  # n - x compared with a number
                for product in polynomial.terms:
                    if len(product) == 1 and product[0].is_uniform:
                        found.setdefault(product[0], set()).update(names)
    return {symbol: frozenset(names) for symbol, names in found.items()}


_CLAMPS = ("VIMNMX", "IMNMX", "VIADDMNMX", "UIMNMX", "UVIMNMX")


def _parameters(evaluation: Evaluation, polynomial: Polynomial, value: int | None) -> set[Symbol]:
    """The parameters that a limit is made of."""
    code, values = evaluation.program.code, evaluation.program.values

    def keeps_size(position: int) -> bool:
        return code[position].base in _KEEP_SIZE and not code[position].has("HI", "WIDE")

    def following(position: int) -> Iterator[int]:
        for read in values.read[position].values() if keeps_size(position) else ():
            yield from values.definitions(read, 8)

    made = values.definitions(value, 8) if value is not None else []
    operands = [
        evaluation.operand(operand, position)
        for position in filter(keeps_size, reached(made, following, _MOST_FOLLOWED))
        for operand in code[position].sources
        if operand.kind == "constant"
    ]
    parts = (part for one in (polynomial, *operands) if one is not None for part in one.symbols)
    return {
        *reached(
            parts,
            lambda symbol: (
                part
                for inner in symbol.arguments
                if isinstance(inner, Polynomial)
                for part in inner.symbols
            ),
        )
    }
