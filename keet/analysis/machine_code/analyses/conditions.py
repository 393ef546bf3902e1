"""Under which conditions an instruction runs, as far as branches and guards before it show.

Also the code that only part of the threads reach, see `guarded_code`.

`if (threadIdx.x == 0)` leaves one thread of a block, `if (threadIdx.x < 32)` one warp. A condition
on a parameter, `if (i < n)`, may leave any number: the counters tell how many threads ran.

So they tell which indices ran where a kernel cuts off what lies outside of its data.
`if (x < width && y < height)`: the launch does not tell the two numbers, but it counts the threads
and the warps that were inside. If only one width and one height give these counts, they are known.

Of guarded code: behind which branch or predicate it stands, how many threads and warps enter it. A
block of code is guarded by the branches that lead into it. Of the threads at the end of its
dominator, the counters show how many begin the block: also where several branches of one line
lead there, as for `a || b`. The counts of a block that is entered are those of its first
instruction, so that they are right for every form of branch. Left out are exits of loops, which
are trip counts, and code of divisions and roots for rare operands.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice, product
from typing import NamedTuple

from keet.analysis.machine_code.analyses.reuse import CLAMPS
from keet.analysis.machine_code.flow.control_flow import BasicBlock, Loop, intervals, reached
from keet.analysis.machine_code.flow.program import Kind, Locate, SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction, is_predicate
from keet.analysis.machine_code.instructions.opcodes import LOCAL, SHARED, WARP, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.opcode_rules import result_of
from keet.analysis.machine_code.polynomials.polynomial import (
    Monomial,
    Polynomial,
    Symbol,
    add,
    number,
    range_of,
    scale,
)
from keet.profile import Location

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

    def also(self, other: Conditions) -> Conditions:
        """Both."""
        comparisons, depends = (*self.known, *other.known), self.depends | other.depends
        return Conditions(comparisons, depends, self.is_whole and other.is_whole)


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
        guard = self.program.code[position].guard
        of_guard = _ALWAYS if guard is None else self._guard(position, guard, is_true=True)
        return self._of_block[block].also(of_guard)

    def _block(self, block: int) -> Conditions:
        flow, conditions, current = self.program.flow, _ALWAYS, block
        for _ in range(_MOST_STEPS):
            above = flow.dominators.get(current, -1)
            if above < 0:
                break
            last = flow.blocks[above].end - 1
            branch = self.program.code[last]
            if branch.guard is not None and flow.blocks[above].successors:
                conditions = conditions.also(self._between(above, current, branch, last))
            elif len(flow.blocks[above].successors) > 1:
                conditions = conditions.also(_UNKNOWN)
            current = above
        else:
            conditions = conditions.also(_UNKNOWN)
        uneven = (loop for loop in flow.loops_around(block) if not self.evaluation.trips(loop)[1])
        decided_by = (self.exits_depend(loop) - {f"loop{loop.index}"} for loop in uneven)
        depends = conditions.depends.union(*decided_by)
        is_whole = conditions.is_whole and "unknown" not in depends
        return Conditions(conditions.known, depends, is_whole)

    def _between(self, above: int, block: int, branch: Instruction, last: int) -> Conditions:
        """What must hold at the end of a block so that another runs, which it dominates."""
        flow = self.program.flow
        before = [
            other
            for other in flow.blocks[block].predecessors
            if other == above or not self.dominates(block, other)
        ]
        assert branch.guard is not None
        if before == [above]:
            start = self.program.code[flow.blocks[block].start].address
            taken = start == branch.target != branch.address + 16
            return self._guard(last, branch.guard, is_true=taken)
        if self.active(block) is not None and self.active(block) == self.active(above):
            return _ALWAYS  # all threads come together again
        predicate = self.program.values.read[last][branch.guard[0]]
        names = self.evaluation.predicate_dependences(predicate)
        return Conditions((), names | {"unknown"}, is_whole=False)

    def dominates(self, block: int, other: int) -> bool:
        return block in islice(self.program.flow.above(other), _MOST_STEPS)

    def active(self, block: int) -> int | None:
        """Threads that run a block: those of its first instruction without a guard."""
        code = (self.program.code[position] for position in self.program.flow.positions([block]))
        plain = (instruction.address for instruction in code if instruction.guard is None)
        return next((self.threads[address] for address in plain if address in self.threads), None)

    def _guard(self, position: int, guard: tuple[str, bool], *, is_true: bool) -> Conditions:
        """`is_true`: whether the guarded instruction runs, or does not."""
        value = self.program.values.read[position].get(guard[0])
        if value is None:
            return _UNKNOWN
        comparisons, is_whole = self._comparisons(value, holds=is_true != guard[1])
        depends = self.evaluation.predicate_dependences(value)
        # A condition on parameters only holds for all threads or for none.
        return Conditions(tuple(comparisons), depends, is_whole or not depends)

    def _comparisons(
        self, value: int, *, holds: bool, depth: int = 0
    ) -> tuple[list[Comparison], bool]:
        """Comparisons that certainly hold if a predicate has this value, and whether it has this
        value whenever they hold."""
        definition = self.program.values.all[value]
        if definition.kind is not Kind.DEFINITION or depth > _MOST_JOINED:
            return [], False
        instruction = self.program.code[definition.position]
        if instruction.base == "LOP3":  # the predicate says whether the result is not 0
            bits = result_of(self.evaluation, instruction, definition.position)
            return self._compared(bits, "NE", definition.position, holds=holds), bits is not None
        is_first = next(filter(is_predicate, instruction.writes), "") == definition.register
        if instruction.base != "ISETP" or instruction.has("EX") or not is_first:
            return [], False
        joined = self._joined(instruction, definition.position, holds=holds, depth=depth)
        if joined is None:
            return [], False
        more, is_whole = joined
        relation = next((name for name in instruction.modifiers if name in _OPPOSITE), "")
        left, right = (
            self.evaluation.operand(operand, definition.position)
            for operand in instruction.sources[:2]
        )
        # Without a sign, a number below 0 is a large one.
        lows = [range_of(side).low or 0 for side in (left, right) if side is not None]
        is_wide = instruction.has("U32") and min(lows, default=0) < 0
        if left is None or right is None or not relation or is_wide:
            return more, False
        difference = add(left, right, -1)
        compared = self._compared(difference, relation, definition.position, holds=holds)
        return [*compared, *more], is_whole

    def _compared(
        self, left: Polynomial | None, relation: str, position: int, *, holds: bool
    ) -> list[Comparison]:
        if left is None or not relation:
            return []
        resolved = self.evaluation.resolved(left, self.program.flow.block_of[position])
        return [Comparison(resolved, relation if holds else _OPPOSITE[relation])]

    def _joined(
        self, instruction: Instruction, position: int, *, holds: bool, depth: int
    ) -> tuple[list[Comparison], bool] | None:
        """Comparisons that hold because of the predicate that a comparison is joined with, and
        whether they say it all; None if the comparison itself need not hold."""
        other = instruction.predicate
        if other is None:
            return [], True
        if not other.name:  # `AND true` or `OR false`: the comparison alone decides
            is_neutral = instruction.has("OR" if other.negated else "AND")
            return ([], True) if is_neutral else None
        if not instruction.has("AND" if holds else "OR"):
            return None
        behind = self.program.values.read[position].get(other.name)
        if behind is None:
            return [], False
        return self._comparisons(behind, holds=holds != other.negated, depth=depth + 1)

    @cached_property
    def branches_depend(self) -> frozenset[str]:
        """What all branches together depend on, except for the counters of their own loops."""
        flow, names = self.program.flow, set[str]()
        for block in flow.blocks:
            last = block.end - 1
            if self.program.code[last].role is Role.BRANCH:
                counters = {f"loop{e.index}" for e in flow.loops if block.index in e.latches}
                names |= self._branch_depends(last) - counters
        return frozenset(names - {"path"})

    def exits_depend(self, loop: Loop) -> frozenset[str]:
        """What decides how often a loop runs."""
        exits = map(self._branch_depends, self.program.flow.leaving(loop))
        return frozenset[str]().union(*exits)

    def _branch_depends(self, branch: int) -> frozenset[str]:
        reads = self.program.values.read[branch].values()
        names = map(self.evaluation.predicate_dependences, reads)
        return frozenset[str]().union(*map(self.evaluation.resolved_names, names))


_ALWAYS = Conditions((), frozenset(), is_whole=True)
_UNKNOWN = Conditions((), frozenset({"unknown"}), is_whole=False)
_KEEP_SIZE = ("LOP3", "IADD3", "VIADD", "MOV", "IMAD", "SHF", "LEA", "VIMNMX", "IMNMX", "SEL")
"""Opcodes (without the U of uniform ones) by which a limit is rounded or halved, not divided."""
_MOST_VALUES = 24


def limits(evaluation: Evaluation) -> Mapping[Symbol, frozenset[str]]:
    """Unknown numbers that indices are compared with, also rounded: `n`, `n - 1`, `n & ~3`. By
    each: the names of the indices. In `in[y * n + x]`, rows do not overlap if `x` is below `n`."""
    program = evaluation.program
    indices: dict[Symbol, set[str]] = {}
    for position in program.ran:
        instruction = program.code[position]
        if instruction.opcode not in ("ISETP", "UISETP", *CLAMPS):
            continue
        sides, block = [], program.flow.block_of[position]
        for operand in instruction.sources:
            polynomial = evaluation.operand(operand, position)
            if polynomial is not None:
                if any(symbol.kind == "join" for symbol in polynomial.symbols):
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
                    indices.setdefault(symbol, set()).update(names)
            else:  # n - x compared with a number
                for product in polynomial.terms:
                    if len(product) == 1 and product[0].is_uniform:
                        indices.setdefault(product[0], set()).update(names)
    return {symbol: frozenset(names) for symbol, names in indices.items()}


def _parameters(evaluation: Evaluation, polynomial: Polynomial, value: int | None) -> set[Symbol]:
    """The parameters that a limit is made of."""
    code, values = evaluation.program.code, evaluation.program.values

    def keeps_size(position: int) -> bool:
        return code[position].base in _KEEP_SIZE and not code[position].has("HI", "WIDE")

    def following(position: int) -> Iterator[int]:
        for read in values.read[position].values() if keeps_size(position) else ():
            yield from values.definitions(read, 8)

    def symbols(sides: Iterable[object]) -> Iterator[Symbol]:
        return (part for side in sides if isinstance(side, Polynomial) for part in side.symbols)

    made = values.definitions(value, 8) if value is not None else []
    operands = [
        evaluation.operand(operand, position)
        for position in filter(keeps_size, reached(made, following, _MOST_VALUES))
        for operand in code[position].sources
        if operand.kind == "constant"
    ]
    starts = symbols((polynomial, *operands))
    return {*reached(starts, lambda symbol: symbols(symbol.arguments))}


# --- which indices ran

_MOST_SIZES = 20_000
"""Sizes that are tried for one box, for a launch with very many blocks."""
_BELOW = {"LT": 0, "LE": 1}
_ABOVE = {"GE": 0, "GT": 1}
FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
"""Of the two sides exchanged."""

Places = tuple[tuple[str, int], ...]
"""The indices in a sum, and the weight of each: `tid.x` 1, `ctaid.x` 32."""


class Side(NamedTuple):
    """One side of a box: the values of a sum of indices that ran."""

    places: Places
    first: int
    size: int
    """How many values, from `first` on."""
    limit: Polynomial | None = None
    """The unknown number that the sum is below; None if there is none, or several."""


def executed_box(
    conditions: Conditions, extents: Mapping[str, int], threads: int, warps: int | None
) -> tuple[Side, ...]:
    """The sides of the box of indices that ran; none if it is not known.

    `extents`: the number of values of each index of threads and blocks.
    `threads`, `warps`: how many ran, in one iteration of the loops around. Warps are not known for
    an instruction with a guard: they are counted also if no thread of them passes it.
    """
    ranges = _ranges(conditions, extents)
    if not ranges:
        return ()
    used = [name for places in ranges for name, _ in places]
    free = math.prod(size for name, size in extents.items() if name not in used)
    if len({*used}) != len(used) or not {*used} >= conditions.depends or threads % free:
        return ()
    boxes = []
    for counts in _sizes([*ranges.values()], threads // free):
        sides = tuple(
            Side(places, span.first, size, span.limit_of(size))
            for (places, span), size in zip(ranges.items(), counts, strict=True)
        )
        if warps is None or _warps(sides, extents) in (None, warps):
            boxes.append(sides)
        if len(boxes) > 1:
            return ()
    return boxes[0] if boxes else ()


class _Range(NamedTuple):
    first: int
    end: int
    limits: int = 0
    """Unknown numbers that are an end, too."""
    limit: Polynomial | None = None
    is_cut: bool = False
    """Whether the end is a number of the code, not that of the launch: what is behind it says
    nothing about the limit."""

    def limit_of(self, size: int) -> Polynomial | None:
        """The limit, if so many values say something about it."""
        return self.limit if self.first + size < self.end or not self.is_cut else None


def _ranges(conditions: Conditions, extents: Mapping[str, int]) -> dict[Places, _Range] | None:
    if not conditions.is_whole:
        return None
    ranges: dict[Places, _Range] = {}
    for comparison in conditions.known:
        if not comparison.left.depends:
            continue
        restricted = _range(comparison, extents)
        if restricted is None:
            return None
        places, first, end = restricted
        span = ranges.get(places, _Range(0, math.prod(extents[name] for name, _ in places)))
        if first is not None:
            span = span._replace(first=max(first, span.first))
        elif end is not None and end.value is not None:
            if end.value < span.end:
                span = span._replace(end=end.value, is_cut=True)
        elif end is not None:
            limits = span.limits + 1
            span = span._replace(limits=limits, limit=end if limits == 1 else None)
        ranges[places] = span
    return None if any(span.first >= span.end for span in ranges.values()) else ranges


def _range(
    comparison: Comparison, extents: Mapping[str, int]
) -> tuple[Places, int | None, Polynomial | None] | None:
    """The sum of indices that is compared, its first value or its end."""
    left, relation = comparison
    varying = left.only(lambda product: any(symbol.depends for symbol in product))
    others = add(left, varying, -1)
    sign = 1 if all(weight > 0 for weight in varying.terms.values()) else -1
    places = _places(scale(varying, sign).terms, extents)
    if places is None:
        return None
    if sign < 0:
        relation = FLIPPED.get(relation, relation)
    limit = scale(others, -sign)
    if relation in _BELOW:
        return places, None, add(limit, number(_BELOW[relation]))
    if relation in _ABOVE and limit.value is not None:
        return places, limit.value + _ABOVE[relation], None
    return None


def _places(terms: Mapping[Monomial, int], extents: Mapping[str, int]) -> Places | None:
    """The indices of a sum that counts all their combinations."""
    places: list[tuple[str, int]] = []
    below = 1
    for symbols, weight in sorted(terms.items(), key=lambda item: item[1]):
        name = symbols[0].name
        if len(symbols) != 1 or name not in extents or weight != below:
            return None
        places.append((name, weight))
        below *= extents[name]
    return tuple(places)


def _sizes(ranges: Sequence[_Range], points: int) -> Iterator[tuple[int, ...]]:
    """All sizes of a box with so many points."""
    steps = 0

    def further(at: int, left: int) -> Iterator[tuple[int, ...]]:
        nonlocal steps
        if at == len(ranges):
            if left == 1:
                yield ()
            return
        most = ranges[at].end - ranges[at].first
        rest = math.prod(span.end - span.first for span in ranges[at + 1 :])
        least = -(-left // rest) if ranges[at].limits else most
        for size in range(max(1, least), min(most, left) + 1):
            steps += 1
            if steps > _MOST_SIZES:
                return
            if left % size == 0:
                for others in further(at + 1, left // size):
                    yield (size, *others)

    sizes = [*further(0, points)] if points > 0 else []
    yield from sizes if steps <= _MOST_SIZES else ()


# --- warps of a box


def _warps(sides: Sequence[Side], extents: Mapping[str, int]) -> int | None:
    """Warps with at least one thread in the box; None if that is not counted here."""
    of_sides = [_in_blocks(side, extents) for side in sides]
    parts = [part for part in of_sides if part is not None]
    if len(parts) < len(sides):
        return None
    unused = extents.keys() - {name for side in sides for name, _ in side.places}
    blocks = math.prod(extents[name] for name in unused if name.startswith("ctaid"))
    total = 0
    for combination in product(*parts):
        spans = {axis: (0, extents[f"tid.{axis}"]) for axis in "xyz"}
        times = blocks
        for name, first, end, count in combination:
            times *= count
            if name is not None:
                spans[name[-1]] = (first, end)
        total += times * _warps_of_block(spans, extents)
    return total


def _in_blocks(
    side: Side, extents: Mapping[str, int]
) -> list[tuple[str | None, int, int, int]] | None:
    """The part of a side in each block: index of the thread, first, end, number of such blocks."""
    inside = [name for name, _ in side.places if name.startswith("tid")]
    if len(inside) > 1 or (inside and side.places[0][0] != inside[0]):
        return None
    end = side.first + side.size
    if not inside:
        return [(None, 0, 0, side.size)]
    size = extents[inside[0]]
    low, high = side.first // size, (end - 1) // size
    if low == high:
        return [(inside[0], side.first - low * size, end - low * size, 1)]
    return [
        (inside[0], side.first - low * size, size, 1),
        *([(inside[0], 0, size, high - low - 1)] if high > low + 1 else []),
        (inside[0], 0, end - high * size, 1),
    ]


def _warps_of_block(spans: Mapping[str, tuple[int, int]], extents: Mapping[str, int]) -> int:
    wide, tall = extents["tid.x"], extents["tid.y"]
    warps: set[int] = set()
    for z in range(*spans["z"]):
        for y in range(*spans["y"]):
            row = (z * tall + y) * wide
            first, end = spans["x"]
            warps.update(range((row + first) // WARP, (row + end - 1) // WARP + 1))
    return len(warps)


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
    is_stored = instruction.role in _EFFECTS and instruction.opcode not in LOCAL
    return is_stored and program.counts[position] > 0


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
            decided = self._decided(block, above) if dominator >= 0 else ()
            places = {self.places(position) for position in decided}
            if len(places) == 1 and (place := places.pop()) is not None:
                yield from self._behind(block, above, place, decided)

    def _decided(self, block: BasicBlock, above: BasicBlock) -> tuple[int, ...]:
        """Positions of the branches that lead to a block, the first one that of its dominator;
        empty if anything else does, or if it is not guarded by a condition."""
        first, last = self.spans.get(block.index, (0, -1))
        starts = {other: self.spans.get(other, (-1, -1))[0] for other in block.predecessors}
        before = [other for other, start in starts.items() if not first <= start <= last]
        if above.index not in before or not all(map(self._is_condition, before)):
            return ()
        if block.calls is not None and last - first <= 1:
            return ()  # a routine of the compiler for rare operands
        inside, loop = self.flow.loop_of.get(block.index), self.flow.loop_of.get(above.index)
        if inside != loop and (not self._is_header(block) or len(before) > 1):
            return ()
        before.sort(key=lambda other: other != above.index)
        return tuple(self.flow.blocks[other].end - 1 for other in before)

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
        come_together = entering == threads and len(decided) > 1
        if not 0 < entering <= threads or self.left < 0 or come_together:
            return
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
        loops = self.flow.loops_around(block)
        if loops and not loops[0].blocks.issuperset(basic_block.successors):
            return False
        if instruction.opcode in _ENDS:
            return instruction.guard is not None and not loops
        return instruction.opcode in _BRANCHES

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
                self.program.spent(positions),
                self.flow.loop_of.get(block),
            )
