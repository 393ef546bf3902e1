"""How many different bytes the accesses of each array touch: at least and at most.

The address of an access is a sum of indices with factors: of threads, blocks and loops, or of
digits of them such as `tid / 32` and `tid % 32`. Three things are known: the number of values of
each index, the number of threads that executed the access, and which indices the address lacks.

- If all combinations of the indices were executed, the touched bytes follow from the factors.
- If different indices give different addresses, each execution touches its own bytes.
- If the address lacks an index, as many executions touch the same bytes.

Rows at a distance that is a parameter (`y * width`) lie side by side in a grid of their own axis.
The accesses of one array are then boxes in that grid, and the union of boxes is counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise, permutations
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.address_grid import (
    MOST_BOXES,
    Base,
    Digit,
    Part,
    Row,
    RowRanges,
    boxes_of,
    digit_of,
    row_of,
    split_index,
    unclamped,
    volume_of,
)
from keet.analysis.machine_code.analyses.address_grid import Rows as LoadedRows
from keet.analysis.machine_code.analyses.conditions import (
    FLIPPED,
    Comparison,
    RunConditions,
    Side,
    executed_box,
)
from keet.analysis.machine_code.analyses.index_tables import (
    Rows,
    Spans,
    Tables,
    TooLargeError,
    bytes_of,
)
from keet.analysis.machine_code.analyses.replayed_addresses import (
    Guess,
    Replayed,
    Touched,
    fitting,
    replayed,
)
from keet.analysis.machine_code.analyses.reuse import (
    LOADED,
    SEVERAL,
    Access,
    form_of,
    is_after,
    parted,
)
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import Locate, SassProgram
from keet.analysis.machine_code.instructions.opcodes import WARP
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import (
    Monomial,
    Polynomial,
    Symbol,
    add,
    number,
)

PRECISION = 0.02
"""Bounds that are closer together than this are called exact."""
_KINDS = ("load", "copy", "store", "atomic")
FEW_ENTRIES, MANY_ENTRIES = 150_000, 1_000_000
"""Entries of the tables of one launch, see `index_tables`: about 0.03 s, and 0.15 s where amounts
are all that is asked for."""


RepeatKind = Literal["loop", "blocks", "threads"]


class Repeat(NamedTuple):
    """An index that an address lacks: each value of it accesses the same bytes."""

    kind: RepeatKind
    name: str
    """`blockIdx.z`, `threadIdx.x`, or the index of a loop."""
    times: float


@dataclass(frozen=True)
class _Form:
    """The address of one access, taken apart."""

    access: Access
    rows: Mapping[Monomial, Row]
    """By unknown factor; () for bytes."""
    missing: tuple[Repeat, ...]
    is_sure: bool
    """Whether the numbers of values are certain, not averages of uneven loops."""
    clamps: tuple[Monomial, ...]
    """The axis of each clamp to an unknown limit: each may add one value along its axis."""
    misses: float
    """Executions that may have been left out."""
    lacks: frozenset[str]
    """Names of the indices that the address lacks."""
    first: float
    """Bytes that the first iteration of an uneven loop touches, at least."""
    is_shifted: bool = False
    """Whether it begins where a loop before it ended: an unrolled loop after its remainder."""

    @property
    def volume(self) -> int:
        return math.prod(row.size for row in self.rows.values())

    @property
    def clamped(self) -> float:
        """Bytes that clamps may add."""
        more = 1.0
        for factor in self.clamps:
            size = self.rows[factor].size if factor in self.rows else 1
            more *= 1 + (1 if factor else self.access.width) / size
        return self.volume * (more - 1)


class Footprint(NamedTuple):
    """The bytes that some accesses of one array touch."""

    pointer: str
    accesses: tuple[Access, ...]
    requested: int | None
    at_least: float
    at_most: float | None
    """`None`: there is no bound."""
    may_overlap: bool
    """Whether rows at an unknown distance may overlap."""
    has_rows: bool
    """Whether there are rows at an unknown distance."""
    repeats: tuple[Repeat, ...]
    """Of the access with the most bytes."""
    in_rows: float | None = None
    """Without a bound: distinct bytes if rows do not overlap, see `RowRanges`."""

    @property
    def is_sure(self) -> bool:
        """Whether there is a bound: it is certain then."""
        return self.at_most is not None

    @property
    def is_exact(self) -> bool:
        is_close = self.at_most is not None and self.at_most <= (1 + PRECISION) * self.at_least
        return is_close and not self.may_overlap


class Footprints:
    """The footprints of one kernel's arrays."""

    def __init__(
        self,
        accesses: Sequence[Access],
        evaluation: Evaluation,
        threads: Mapping[int, int] | None,
        limits: Mapping[Symbol, Collection[str]],
        locate: Locate,
    ) -> None:
        """`locate`: the source line of a position."""
        self.accesses = [access for access in accesses if access.threads]
        self.evaluation = evaluation
        self.program = evaluation.program
        self.limits = limits
        self.locate = locate
        self.conditions = RunConditions(evaluation, threads)
        self.entries = FEW_ENTRIES
        self._closed_forms: dict[tuple[str, frozenset[str]], Footprint | None] = {}
        self._settled: dict[tuple[int, ...], Footprint] = {}
        self._forms: dict[tuple[int, int], _Form | None] = {}
        self._units: dict[tuple[str, Monomial], int] = {}
        self._boxes: dict[object, tuple[Side, ...]] = {}

    def of(self, pointer: str, kinds: Collection[str]) -> Footprint | None:
        """What the accesses of these kinds touch through a pointer; None if none ran."""
        footprint = self._closed(pointer, kinds)
        if footprint is None or not self._may_replay(footprint):
            return footprint
        key = tuple(access.position for access in footprint.accesses)
        if key not in self._settled:
            self._settled[key] = self._replayed(footprint) or footprint
        return self._settled[key]

    def _closed(self, pointer: str, kinds: Collection[str]) -> Footprint | None:
        """By the forms of addresses."""
        asked = pointer, frozenset(kinds)
        if asked not in self._closed_forms:
            through = (access for access in self.accesses if access.pointer == pointer)
            accesses = [access for access in through if access.kind in kinds]
            self._closed_forms[asked] = self._by_forms(pointer, accesses) if accesses else None
        return self._closed_forms[asked]

    def _by_forms(self, pointer: str, accesses: Sequence[Access]) -> Footprint:
        requested = sum(access.requested_bytes or 0 for access in accesses)
        largest = max(accesses, key=lambda access: access.requested_bytes or 0)
        form = self._form(largest)
        repeats = form.missing if form is not None else ()
        forms = [form for form in map(self._form, accesses) if form is not None]
        least, most = self._union(accesses)
        return Footprint(
            pointer,
            tuple(accesses),
            requested,
            least,
            None if most is None else min(most, requested),
            self._may_overlap(forms),
            any(len(form.rows) > 1 for form in forms),
            tuple(sorted(repeats, key=lambda repeat: -repeat.times)),
            self._row_ranges.bytes_of(accesses) if most is None else None,
        )

    # --- by running the integer instructions again

    def _may_replay(self, footprint: Footprint) -> bool:
        """Whether it is not known, and might be. Rows that may overlap do so by a distance that
        must be known."""
        if footprint.is_exact or not all(_can_replay(access) for access in footprint.accesses):
            return False
        parameters = {name for values in self._parameters for name in values}
        used = {symbol.name for access in footprint.accesses for symbol in access.offset.symbols}
        return bool(parameters & used) or not footprint._replace(may_overlap=False).is_exact

    def _replayed(self, footprint: Footprint) -> Footprint | None:
        """The footprint by the addresses of all threads; None if these are not known."""
        accesses = footprint.accesses
        sizes: list[int] = []
        touched: list[tuple[Access, Touched]] = []
        for run in self._replays:
            if any(access.position not in run.touched for access in accesses):
                return None
            touched = [(access, run.touched[access.position]) for access in accesses]
            rows = defaultdict[Rows, Spans](list)
            for start, spans in (row for _, touch in touched for row in touch.rows.items()):
                rows[start] += spans
            try:
                sizes.append(bytes_of(rows))
            except TooLargeError:
                return None
        if not sizes or max(sizes) > (1 + PRECISION) * min(sizes):
            return None  # other values of parameters may give any size
        return footprint._replace(
            at_least=float(min(sizes)),
            at_most=float(max(sizes)),
            may_overlap=any(self._may_touch_again(*pair) for pair in touched),
            has_rows=any(touch.distances for _, touch in touched),
        )

    def _may_touch_again(self, access: Access, touched: Touched) -> bool:
        """Whether rows at an unknown distance may overlap."""
        by_name = {symbol.name: symbol for symbol in access.offset.symbols}
        distances = [by_name.get(name) for name in touched.distances]
        return any(
            symbol is None
            or (
                touched.length / self.unit(access.pointer, (symbol,))
                > self._stored_lengths.get(symbol, 0.0)
                and self._may_reach(access.offset, symbol)
            )
            for symbol in distances
        )

    @cached_property
    def _replays(self) -> list[Replayed]:
        """What accesses touch, for each choice of parameters that fits the counters."""
        if not self.evaluation.shape.grid or not self.evaluation.shape.block:
            return []
        wanted = [access for access in self.accesses if _can_replay(access)]
        every = {access.pointer: self._closed(access.pointer, _KINDS) for access in wanted}
        unknown = {
            name for name, footprint in every.items() if footprint and self._may_replay(footprint)
        }
        tables = Tables(self.index_extents, self.entries)
        exact, least = self._parameters
        values = dict(least)

        def run(name: str, value: int, is_check: bool) -> Replayed:  # noqa: FBT001 - one of two runs
            tried = {**values, name: value} if name else values
            guess = Guess(exact, tried, is_check)
            return replayed(wanted, unknown, self.conditions, tables, guess)

        replays: list[Replayed] = []
        for name, low in least.items():
            tried = fitting(partial(run, name), low)
            if not tried:
                return []
            values[name] = min(tried)
            replays += tried.values()
        first = run("", 0, False) if not replays or len(least) > 1 else replays[0]
        return [] if first.is_refuted else [first, *replays]

    @cached_property
    def _parameters(self) -> tuple[dict[str, int], dict[str, int]]:
        """Values of parameters that are limits of indices, and least values where all indices of
        the launch are below the limit."""
        exact: dict[str, int] = {}
        least: dict[str, int] = {}
        extents = self.index_extents
        for places, first, size, limit in self._sides:
            products = [product for product in limit.terms if product] if limit is not None else []
            if limit is None or len(products) != 1 or len(products[0]) != 1:
                continue
            symbol, value = products[0][0], first + size - limit.constant
            if symbol.kind != "param" or limit.terms[symbol,] != 1:
                continue
            if first + size < math.prod(extents[name] for name, _ in places):
                exact[symbol.name] = value
            else:
                least[symbol.name] = max(value, least.get(symbol.name, value))
        return exact, {name: value for name, value in least.items() if name not in exact}

    @cached_property
    def _row_ranges(self) -> RowRanges:
        return RowRanges(
            self.program, self.conditions, self.accesses, self.locate, self._rows_loaded
        )

    def _rows_loaded(self, access: Access) -> LoadedRows | None:
        form = self._form(access)
        if form is None or form.clamps or form.is_shifted:
            return None
        least, most = self._bounds(form)
        times = math.prod(repeat.times for repeat in form.missing)
        once = (access.threads or 0) * access.width / times
        is_exact = most <= (1 + PRECISION) * least
        return LoadedRows(times, is_exact and abs(once - most) <= PRECISION * most)

    def _may_overlap(self, forms: Sequence[_Form]) -> bool:
        """Whether rows may overlap: no index within a row is compared with their distance."""
        factors = {f for form in forms for f, row in form.rows.items() if f and row.size > 1}
        distances = {symbol for factor in factors for symbol in factor}
        return any(
            self._may_reach(form.access.offset, distance)
            for form in forms
            for distance in distances
            if self._length(form, distance) > self._stored_lengths.get(distance, 0.0)
        )

    def _length(self, form: _Form, distance: Symbol) -> float:
        """Bytes of a row per unit of the distance between rows; infinite if there are planes."""
        if any(distance in factor and len(factor) > 1 for factor in form.rows):
            return math.inf
        return form.rows[()].span / self.unit(form.access.pointer, (distance,))

    @cached_property
    def _stored_lengths(self) -> Mapping[Symbol, float]:
        """Lengths of rows that are stored, by their distance: if such rows overlapped, several
        threads would write the same bytes. Several stores may make up a row together."""
        lengths: dict[Symbol, float] = {}
        stores: dict[object, list[Row]] = {}
        for access in self.accesses:
            form = self._form(access) if access.kind == "store" else None
            for factor, row in form.rows.items() if form is not None else ():
                if form is None or len(factor) != 1 or row.size < 2:
                    continue
                byte_row = form.rows[()]
                shape = row, byte_row.levels, byte_row.length
                together = stores.setdefault((access.pointer, factor, shape, access.threads), [])
                together.append(byte_row)
                first, end = min(e.start for e in together), max(e.end for e in together)
                if self._length(form, factor[0]) < math.inf:
                    length = (end - first) / self.unit(access.pointer, factor)
                    lengths[factor[0]] = max(lengths.get(factor[0], 0.0), length)
        return lengths

    def _may_reach(self, offset: Polynomial, distance: Symbol) -> bool:
        """Whether the largest index within a row may reach the next row."""
        largest, names = (0, 0), frozenset[str]()
        for product, coefficient in offset.terms.items():
            uniform, varying = parted(product)
            if distance in product or not varying:
                continue
            size = abs(coefficient) * math.prod(symbol.counted.size or 1 for symbol in varying)
            rank = (len(uniform), size)  # rows are farther apart than elements
            if rank > largest:
                largest, names = rank, frozenset[str]().union(*(e.depends for e in varying))
        return largest > (0, 0) and not names & {*self.limits.get(distance, ())}

    def one_factor(self, steps: Mapping[Monomial, int]) -> tuple[Monomial, int]:
        """The step of an index as a multiple of one unknown number: `4 n m - 8 n` is 4 times
        `n (m - 2)`."""
        if len(steps) == 1:
            return next(iter(steps.items()))
        common = math.gcd(*steps.values())
        parts = tuple(sorted((product, step // common) for product, step in steps.items()))
        if parts[-1][1] < 0:
            common, parts = -common, tuple((product, -step) for product, step in parts)
        name = f"row {parts}"
        return (self.evaluation.symbols.make("uniform", name, key=("row", parts)),), common

    def box(
        self, position: int, threads: int, extents: Mapping[str, int], iterations: int
    ) -> tuple[Side, ...]:
        """The box of indices that ran an instruction; see `executed_box`."""
        warps = self.program.counts[position]
        if not threads or threads % iterations or warps % iterations:
            return ()
        has_guard = self.program.code[position].guard is not None
        place = position if has_guard else -self.program.flow.block_of[position]
        key = (has_guard, place, threads, warps, iterations)
        if key not in self._boxes:
            conditions = self.conditions.of(position)
            ran = None if has_guard else warps // iterations
            self._boxes[key] = executed_box(conditions, extents, threads // iterations, ran)
        return self._boxes[key]

    @cached_property
    def _sides(self) -> list[Side]:
        """Sums of indices that are below a number, with how many of them are."""
        flow = self.program.flow
        places = {access.position: access.threads or 0 for access in self.accesses}
        for access in self.accesses:  # conditions that come before it, too
            for block in flow.above(flow.block_of[access.position]):
                start = flow.blocks[block].start
                if start in places:
                    break
                if self.program.code[start].guard is None:
                    places[start] = self.conditions.active(block) or 0
        by_block: dict[int, list[Side]] = {}
        for position, threads in places.items():
            block = flow.block_of[position]
            loops = [self.evaluation.trips(loop) for loop in flow.loops_around(block)]
            if not by_block.get(block) and all(is_even for _, is_even in loops):
                iterations = math.prod(trips or 1 for trips, _ in loops)
                sides = self.box(position, threads, self.index_extents, iterations)
                by_block[block] = [side for side in sides if side.limit is not None]
        return [side for sides in by_block.values() for side in sides]

    @property
    def index_extents(self) -> dict[str, int]:
        """The number of values of each index of threads and blocks."""
        shape = self.evaluation.shape
        return {
            f"{kind}.{axis}": size
            for kind, sizes in (("tid", shape.block), ("ctaid", shape.grid))
            for axis, size in zip("xyz", sizes or (), strict=False)
        }

    @cached_property
    def _below_zero(self) -> list[Polynomial]:
        """What is below 0 in all threads: they all passed a condition that says so."""
        below: dict[object, Polynomial] = {}
        every = math.prod(self.index_extents.values())
        for access in self.accesses:
            is_by_all = access.threads == every and not self.loops_around(access)
            for left, relation in self.conditions.of(access.position).known if is_by_all else ():
                if relation in ("LT", "LE"):
                    less = left if relation == "LT" else add(left, number(-1))
                    below[less.key] = less
        return [*below.values()]

    def is_within(self, symbol: Symbol, inner: Polynomial) -> bool:
        """Whether `min(inner, limit)` is `inner` in all threads."""
        limits = [e for e in symbol.arguments if isinstance(e, Polynomial) and e is not inner]
        if symbol.kind != "min" or len(limits) != 1:
            return False
        over = add(inner, limits[0], -1)
        distances = (add(over, left, -1).value for left in self._below_zero)
        return any(distance is not None and distance <= 1 for distance in distances)

    def unit(self, pointer: str, factor: Monomial) -> int:
        """What all multiples of an unknown number have in common, in the addresses of an array."""
        if (pointer, factor) not in self._units:
            self._units[pointer, factor] = math.gcd(
                *(
                    coefficient
                    for access in self.accesses
                    if access.pointer == pointer
                    for product, coefficient in access.offset.terms.items()
                    if parted(product)[0] == factor
                )
            )
        return max(1, self._units[pointer, factor])

    # --- one access

    def _form(self, access: Access) -> _Form | None:
        key = (access.position, id(access.offset))
        if key not in self._forms:
            is_known = access.pointer not in (LOADED, SEVERAL)
            self._forms[key] = _Reader(self, access).form() if is_known else None
        return self._forms[key]

    def _bounds(self, form: _Form) -> tuple[float, float]:
        """Bytes that one access touches, at least and at most."""
        access = form.access
        ran, width = access.threads or 0, access.width
        times = math.prod(repeat.times for repeat in form.missing)
        overlap = math.prod(row.overlap for row in form.rows.values())
        least = float(width) if ran else 0.0  # it ran: it touched one element
        if not form.clamps:
            least = max(least, ran * width / (times * overlap), form.first)
            least = max(least, form.volume - form.misses * width)
        depends = self.conditions.of(access.position).depends
        if form.is_shifted or "path" in depends:  # paths are chosen by branches
            choices = (s.depends for s in access.offset.symbols if s.kind == "choice")
            depends = depends.union(self.conditions.branches_depend, *choices) - {"path"}
        apart = not depends & (form.lacks | {"unknown", "data"})
        most = ran * width / times if apart else ran * width
        if form.is_sure:
            most = min(most, form.volume + form.clamped)
        return min(least, most), most

    # --- several accesses

    def _union(self, accesses: Sequence[Access]) -> tuple[float, float | None]:
        forms = [self._form(access) for access in self._before_branches(accesses)]
        known_forms = _without_copies([form for form in forms if form is not None], self)
        if not known_forms:
            return 0.0, None
        joined = _joined(known_forms, self.program)
        least, most = self._of_systems(_systems(joined))
        if len(joined) < len(known_forms) <= MOST_BOXES and (1 + PRECISION) * least < most:
            # Joined in part, accesses may not lie in one grid, and one by one they do.
            single = self._of_systems(_systems(known_forms))
            least, most = max(least, single[0]), min(most, single[1])
        return min(least, most), None if None in forms else most

    def _before_branches(self, accesses: Sequence[Access]) -> Iterator[Access]:
        """Accesses to the same address in branches of which each thread takes one are one access,
        which all of them make before the branches: `if (solid[i]) out[i] = 0; else out[i] = x;`."""
        groups: dict[object, list[Access]] = {}
        for access in accesses:
            groups.setdefault((access.offset.key, access.width), []).append(access)
        for group in groups.values():
            start = self._common_start(group) if len(group) > 1 else None
            if start is None:
                yield from group
            else:
                threads = sum(access.threads or 0 for access in group)
                yield replace(group[0], position=start, threads=threads)

    def _common_start(self, group: Sequence[Access]) -> int | None:
        """Where a block begins of which each thread makes one of several accesses."""
        flow, conditions = self.program.flow, self.conditions
        around = self.loops_around(group[0])
        code, threads = self.program.code, sum(access.threads or 0 for access in group)
        if any(
            code[access.position].guard is not None or self.loops_around(access) != around
            for access in group
        ) or any(is_after(self.program, *pair) for pair in permutations(group, 2)):
            return None
        for above in flow.above(flow.block_of[group[0].position]):
            start = flow.blocks[above].start
            if all(conditions.dominates(above, flow.block_of[e.position]) for e in group):
                is_whole = conditions.active(above) == threads and code[start].guard is None
                return start if is_whole and flow.loops_around(above) == around else None
        return None

    def _of_systems(self, systems: Sequence[Sequence[_Form]]) -> tuple[float, float]:
        lows, highs = zip(*map(self._together, systems), strict=True)
        every = [form for system in systems for form in system]
        are_apart = len(systems) > 1 and self._are_copies(every)
        return sum(lows) if are_apart else max(lows), sum(highs, 0.0)

    def _are_copies(self, forms: Sequence[_Form]) -> bool:
        """Whether accesses are copies of one access in a loop of the source, each for its own part
        of the iterations: the compiler unrolled the loop."""
        places = {self.locate(form.access.position) for form in forms}
        is_shifted = any(form.is_shifted for form in forms)
        return is_shifted and len(places) == 1 and None not in places

    def loops_around(self, access: Access) -> list[Loop]:
        return self.program.loops_at(access.position)

    def _together(self, forms: Sequence[_Form]) -> tuple[float, float]:
        """Bounds for accesses whose boxes lie in one grid."""
        lows, highs = zip(*map(self._bounds, forms), strict=True)
        least, most, are_sure = max(lows), sum(highs), all(form.is_sure for form in forms)
        if len(forms) == 1:
            return least, most
        if self._are_copies(forms):
            return sum(lows), most
        boxes = boxes_of([form.rows for form in forms])
        if boxes is None:
            return least, most
        whole = volume_of(boxes)
        if are_sure and whole >= sum(form.volume for form in forms):  # no two boxes share a byte
            return sum(lows), most
        whole_forms = [form for form in forms if not form.clamps and form.misses < math.inf]
        sure = [box for box, form in zip(boxes, forms, strict=True) if form in whole_forms]
        if sure:
            misses = sum(form.misses * form.access.width for form in whole_forms)
            least = max(least, volume_of(sure) - misses)
        if are_sure:
            most = min(most, whole + max(form.clamped for form in forms))
        return min(least, most), most


class _Reader:
    """Takes one address apart."""

    def __init__(self, owner: Footprints, access: Access) -> None:
        self.owner = owner
        self.access = access
        self.shape = owner.evaluation.shape
        self.loops = owner.loops_around(access)
        self.extents: dict[Base, int] = {}
        self.order: list[str] = []
        self.uneven: list[Loop] = []
        self.ragged: set[str] = set()
        self.clamps: list[Monomial] = []
        self.shifts: list[tuple[Monomial, int]] = []
        self.dependent: dict[str, frozenset[str]] = {}
        """What indices of their own depend on."""

    def form(self) -> _Form | None:
        self._add_extents()
        digits = self._digits(self.access.offset)
        if digits is None:
            return None
        indices, constants = digits
        parts = self._parts(indices, constants)
        if parts is None:
            return None
        rows = self._rows(parts, constants)
        if rows is None or not all(self._keeps_apart(parts, *shift) for shift in self.shifts):
            return None
        missing = [part for part in parts if not part.steps and part.values > 1]
        points = math.prod(part.values for part in parts)
        ran = self.access.threads or 0
        times = math.prod(part.values for part in missing)
        names = {f"loop{loop.index}" for loop in self.uneven}
        misses = max(0.0, (points - ran) / times)
        if self.shifts:
            misses = math.inf
        elif any(part.base in names for part in missing):
            misses = self._first_misses(points)
        lacks = {name for part in missing for name in self._names(part.base)}
        if any(lacks & names for names in self.dependent.values()):
            return None
        return _Form(
            self.access,
            rows,
            self._repeats(missing),
            not self.ragged and not self.shifts,
            tuple(self.clamps),
            misses,
            frozenset(lacks),
            0.0 if self.shifts else self._first(parts, constants, points),
            bool(self.shifts),
        )

    def _keeps_apart(self, parts: Sequence[Part], factor: Monomial, shift: int) -> bool:
        """Whether a shift that may differ between threads only moves each along its own loop: the
        addresses of the threads differ by less than the steps of the loop and of the shift."""
        loops, within = [shift], self.access.width if not factor else 1
        for part in parts:
            step = abs(part.steps.get(factor, 0))
            if str(part.base).startswith("loop"):
                loops.append(step)
            else:
                within += step * (part.values - 1)
        return within <= math.gcd(*loops)

    def _first(
        self, parts: Sequence[Part], constants: Mapping[Monomial, int], points: int
    ) -> float:
        """Bytes that the first iteration of the uneven loop touches, at least."""
        names = {f"loop{loop.index}" for loop in self.uneven}
        if len(names) != 1:
            return 0.0
        rows = self._rows([part for part in parts if part.base not in names], constants)
        if rows is None:
            return 0.0
        volume = math.prod(row.size for row in rows.values())
        return max(0.0, volume - self._first_misses(points) * self.access.width)

    def _names(self, base: Base) -> list[str]:
        if isinstance(base, str):
            return [base]
        return [symbol.name for product, _ in base for symbol in product]

    # --- how many values each index has

    def _add_extents(self) -> None:
        self.extents.update(self.owner.index_extents)
        for loop in self.loops:
            trips, is_even = self.owner.evaluation.trips(loop)
            self.extents[f"loop{loop.index}"] = trips or 1
            if not is_even:
                self.uneven.append(loop)
                is_ragged = bool(self.owner.evaluation.counter(loop).arguments[1])
                if trips is None or is_ragged or not loop.is_counted:
                    self.ragged.add(f"loop{loop.index}")
        self.order = [str(name) for name in self.extents]

    def _limited(self, comparison: Comparison) -> tuple[Digit, int] | None:
        """A digit that a condition restricts, and the number of values that are left."""
        left, relation = comparison
        products = [product for product in left.terms if product]
        if len(products) != 1 or len(products[0]) != 1:
            return None
        digit = digit_of(products[0][0])
        factor = left.terms[products[0]]
        if digit is None or not isinstance(digit.base, str) or digit.base not in self.extents:
            return None
        if relation == "EQ":
            return digit, 1
        if digit.low != 1 or digit.high is not None or digit.factor != 1:
            return None
        limit = -left.constant
        if factor < 0:
            factor, limit, relation = -factor, -limit, FLIPPED.get(relation, relation)
        # factor * index < limit
        count = {"LT": -(-limit // factor), "LE": limit // factor + 1}.get(relation)
        is_limited = count is not None and count < self.extents[digit.base]
        return (digit, max(1, count or 0)) if is_limited else None

    # --- the address as digits

    def _digits(
        self, offset: Polynomial
    ) -> tuple[list[tuple[Digit, Monomial, int]], dict[Monomial, int]] | None:
        digits: list[tuple[Digit, Monomial, int]] = []
        constants: dict[Monomial, int] = {}
        waiting = list(offset.terms.items())
        while waiting:
            product, coefficient = waiting.pop()
            factor, varying = parted(product)
            if not varying:
                constants[factor] = constants.get(factor, 0) + coefficient
                continue
            if any(symbol.kind == "choice" for symbol in factor):
                return None  # `flag ? index : 0` is no distance: it may be 0
            if all(symbol.kind in ("choice", "exit") for symbol in varying):
                self.shifts.append((factor, abs(coefficient)))
                continue
            if len(varying) > 1:
                return None
            symbol = varying[0]
            inner = unclamped(symbol)
            if inner is not None:
                if not self.owner.is_within(symbol, inner):
                    self.clamps.append(factor)
                waiting += [
                    (tuple(sorted((*factor, *inner_product))), coefficient * times)
                    for inner_product, times in inner.terms.items()
                ]
                continue
            digit = digit_of(symbol)
            if digit is None or not (isinstance(digit.base, str) or self._places(digit.base)):
                digit = self._dependent(symbol)
            if digit is None:
                return None
            low = symbol.range.low if symbol.name in self.dependent else 0
            constants[factor] = constants.get(factor, 0) + coefficient * (low or 0)
            digits.append((digit, factor, coefficient * digit.factor))
        return digits, constants

    def _dependent(self, symbol: Symbol) -> Digit | None:
        """A number that follows from indices, as an index of its own: `(y + colour) % 2` shifts
        every other row. Threads with different indices still have different combinations."""
        size = symbol.range.size
        if size is None or size > _MOST_DEPENDENT or not symbol.depends <= {*self.order}:
            return None
        if symbol.name not in self.dependent:
            self.dependent[symbol.name] = symbol.depends
            self.extents[symbol.name] = size
            self.order.append(symbol.name)
        return Digit(symbol.name, 1, None)

    def _parts(
        self,
        digits: Sequence[tuple[Digit, Monomial, int]],
        constants: dict[Monomial, int],
    ) -> list[Part] | None:
        boxed = self._boxed(digits, constants)
        names = {name for part in boxed for name in self._names(part.base)}
        digits = [term for term in digits if term[0].base not in names]
        known = map(self._limited, self.owner.conditions.of(self.access.position).known)
        limited = [limit for limit in known if limit and limit[0].base not in names]
        others = self._other_parts(digits, limited, names)
        return None if others is None else [*boxed, *others]

    def _boxed(
        self, digits: Sequence[tuple[Digit, Monomial, int]], constants: dict[Monomial, int]
    ) -> list[Part]:
        """The sums of indices whose values that ran are known, and that the address contains as a
        whole or not at all."""
        if self.uneven or self.shifts:
            return []
        extents = self.owner.index_extents
        iterations = math.prod(self.extents[f"loop{loop.index}"] for loop in self.loops)
        boxed: list[Part] = []
        threads = self.access.threads or 0
        sides = self.owner.box(self.access.position, threads, extents, iterations)
        for places, first, count, _ in sides:
            steps = self._steps(dict(places), digits)
            if steps is not None:
                for factor, step in steps.items():
                    constants[factor] = constants.get(factor, 0) + first * step
                make = self.owner.evaluation.symbols.make
                base = tuple(((make(name.partition(".")[0], name),), at) for name, at in places)
                boxed.append(Part(base, 1, count, steps))
        return boxed

    def _steps(
        self, places: Mapping[str, int], digits: Sequence[tuple[Digit, Monomial, int]]
    ) -> Mapping[Monomial, int] | None:
        """What one step of a sum of indices adds to the address; None if it is not one step."""
        coefficients: dict[Monomial, dict[str, int]] = {}
        for digit, factor, coefficient in digits:
            if isinstance(digit.base, str):
                if digit.base not in places:
                    continue
                if digit.low != 1 or digit.high is not None:
                    return None
                by_place = coefficients.setdefault(factor, {})
                by_place[digit.base] = by_place.get(digit.base, 0) + coefficient
            elif {*self._names(digit.base)} & places.keys():
                return None
        steps: dict[Monomial, int] = {}
        for factor, by_place in coefficients.items():
            ratios = {by_place.get(name, 0) / place for name, place in places.items()}
            if len(ratios) != 1 or (ratio := ratios.pop()) != int(ratio):
                return None
            if ratio:
                steps[factor] = int(ratio)
        return steps

    def _other_parts(
        self,
        digits: Sequence[tuple[Digit, Monomial, int]],
        limited: Sequence[tuple[Digit, int]],
        done: Collection[str],
    ) -> list[Part] | None:
        sums = {digit.base for digit, _, _ in digits if not isinstance(digit.base, str)}
        covered: dict[str, tuple[Base, int]] = {}
        for whole in sums:
            places = self._places(whole)
            if places is None or covered.keys() & places.keys():
                return None
            covered |= {name: (whole, place) for name, place in places.items()}
            self.extents[whole] = math.prod(self.extents[name] for name in places)
        moved = [(self._moved(digit, covered), f, c) for digit, f, c in digits]
        kept = [(self._moved(digit, covered), count) for digit, count in limited]
        bases: list[Base] = [*sums, *(name for name in self.order if name not in covered)]
        bases = [base for base in bases if base not in done]
        if any(digit.base not in self.extents for digit, _, _ in moved):
            return None
        parts: list[Part] = []
        for base in bases:
            of_base = [(digit, f, c) for digit, f, c in moved if digit.base == base]
            only = [(digit, count) for digit, count in kept if digit.base == base]
            split = split_index(base, self.extents[base], of_base, only)
            if split is None:
                return None
            parts += split
        return parts

    def _places(self, base: Base) -> dict[str, int] | None:
        """The weight of each index in a sum, if the sum counts all its combinations."""
        weights: dict[str, int] = {}
        below = 1
        assert not isinstance(base, str)
        for product, coefficient in sorted(base, key=lambda item: item[1]):
            if len(product) != 1 or product[0].name not in self.extents or coefficient != below:
                return None
            weights[product[0].name] = coefficient
            below *= self.extents[product[0].name]
        return weights

    def _moved(self, digit: Digit, covered: Mapping[str, tuple[Base, int]]) -> Digit:
        """A digit of an index as a digit of the sum that the index is part of."""
        if not isinstance(digit.base, str) or digit.base not in covered:
            return digit
        base, place = covered[digit.base]
        high = self.extents[digit.base] if digit.high is None else digit.high
        return Digit(base, digit.low * place, high * place, digit.factor)

    def _rows(
        self, parts: Sequence[Part], constants: Mapping[Monomial, int]
    ) -> dict[Monomial, Row] | None:
        steps: dict[Monomial, list[tuple[int, int]]] = {(): []}
        starts = dict(constants)
        ends: dict[Monomial, tuple[int, int]] = {}
        for part in parts:
            if part.values < 2 or not part.steps:
                continue
            factor, step = self.owner.one_factor(part.steps)
            if step < 0:
                starts[factor] = starts.get(factor, 0) + step * (part.values - 1)
            steps.setdefault(factor, []).append((abs(step), part.values))
            if part.base in self.ragged:
                ends[factor] = (abs(step), part.values)
        for factor, (step, count) in ends.items():
            # How far the loop goes is not known, unless it fills the distance to the next block.
            if any(step < other != step * count for other, _ in steps[factor]):
                return None
        rows: dict[Monomial, Row] = {}
        for factor in {*steps, *starts}:
            unit = self.owner.unit(self.access.pointer, factor) if factor else 1
            strides = [(step // unit, count) for step, count in steps.get(factor, ())]
            width = 1 if factor else self.access.width
            row = row_of(strides, starts.get(factor, 0) // unit, width)
            if row is None:
                return None
            rows[factor] = row
        return rows

    # --- what is missing

    def _repeats(self, missing: Sequence[Part]) -> tuple[Repeat, ...]:
        repeats: dict[tuple[RepeatKind, str], float] = {}
        for part in missing:
            left: float = part.values
            names = self._names(part.base)
            lower = math.prod(self.extents[name] for name in names[:-1])
            if part.low != 1 or part.values < lower:  # digits of the first one only
                names = names[:1]
            for name in names:
                times = left if name == names[-1] else self.extents[name]
                left /= times
                kind, _, axis = name.partition(".")
                key: tuple[RepeatKind, str] = ("threads", f"threadIdx.{axis}")
                if kind == "ctaid":
                    key = ("blocks", f"blockIdx.{axis}")
                elif kind.startswith("loop"):
                    loop = self.owner.program.flow.loops[int(name[4:])]
                    key, times = ("loop", name[4:]), loop.trips or part.values
                repeats[key] = repeats.get(key, 1.0) * times
        return tuple(Repeat(*key, times) for key, times in repeats.items())

    def _first_misses(self, points: int) -> float:
        """Executions that the first iteration of an uneven loop may lack, which the address does
        not depend on."""
        program = self.owner.program
        if len(self.uneven) != 1:
            return math.inf
        loop = self.uneven[0]
        header = program.flow.blocks[loop.header].start
        count = program.counts[self.access.position]
        if program.counts[header] != count or not loop.is_counted or loop.entries is None:
            return math.inf
        once = points / max(1, self.extents[f"loop{loop.index}"])
        masked = WARP * count - (self.access.threads or 0)
        return max(0.0, once - WARP * loop.entries) + masked


_MOST_DEPENDENT = 32
"""Values of a number that is taken as an index of its own."""


def _can_replay(access: Access) -> bool:
    return access.pointer not in (LOADED, SEVERAL) and not access.is_gather


# --- several accesses


def _without_copies(forms: Sequence[_Form], owner: Footprints) -> list[_Form]:
    """Leaves out accesses that the same threads have made before, to the same addresses."""
    kept: list[_Form] = []
    seen: dict[object, list[Access]] = {}
    for form in forms:
        access = form.access
        conditions = owner.conditions.of(access.position)
        tested = sorted(f"{form_of(left)} {relation}" for left, relation in conditions.known)
        trips = sorted(loop.trips or 0.0 for loop in owner.loops_around(access))
        same = (form_of(access.offset), access.width, access.threads, *tested, *trips)
        before = seen.setdefault(same, [])
        if not any(is_after(owner.program, earlier, access) for earlier in before):
            before.append(access)
            kept.append(form)
    return kept


def _joined(forms: Sequence[_Form], program: SassProgram) -> list[_Form]:
    """Accesses that differ in an offset only, at even distances: one access with one more index.
    An unrolled loop has such."""
    groups: dict[object, list[_Form]] = {}
    for form in forms:
        shape = frozenset((f, row.length, row.levels) for f, row in form.rows.items())
        key = (shape, form.access.threads, form.access.width, form.clamps, form.missing)
        groups.setdefault(key, []).append(form)
    return [form for group in groups.values() for form in _joined_along(group, program)]


def _joined_along(group: Sequence[_Form], program: SassProgram) -> list[_Form]:
    current = list(group)
    for factor in sorted(group[0].rows, key=len):
        lines: dict[object, list[_Form]] = {}
        for form in current:
            rest = tuple(row.start for f, row in form.rows.items() if f != factor)
            shape = tuple((row.length, row.levels) for row in form.rows.values())
            lines.setdefault((rest, shape), []).append(form)
        current = [form for line in lines.values() for form in _in_line(line, factor, program)]
    return current


def _in_line(line: Sequence[_Form], factor: Monomial, program: SassProgram) -> list[_Form]:
    by_start = {form.rows[factor].start: form for form in line}
    starts = sorted(by_start)
    distances = {b - a for a, b in pairwise(starts)}
    first = by_start[starts[0]]
    kept = [by_start[form.rows[factor].start] for form in line]
    if not all(is_after(program, a.access, b.access) for a, b in zip(line, kept, strict=True)):
        return list(line)  # branches: each has threads of its own
    if len(distances) != 1:
        return list(by_start.values())
    row = first.rows[factor]
    step, count = distances.pop(), len(starts)
    strides = [(level.step, level.count) for level in row.levels]
    joined = row_of([*strides, (step, count)], row.start, row.length)
    if joined is None:
        return list(by_start.values())
    access = replace(first.access, threads=(first.access.threads or 0) * count)
    misses = sum(form.misses for form in by_start.values())
    return [replace(first, access=access, rows={**first.rows, factor: joined}, misses=misses)]


def _systems(forms: Sequence[_Form]) -> list[list[_Form]]:
    """Accesses whose rows have the same levels, so that they lie in one grid."""
    rows = {f for form in forms for f, row in form.rows.items() if row.size > 1}
    systems: list[list[_Form]] = []
    for form in sorted(forms, key=lambda form: -sum(len(r.levels) for r in form.rows.values())):
        fitting_system = next((s for s in systems if _fits(form, s[0], rows)), None)
        if fitting_system is None:
            systems.append([form])
        else:
            fitting_system.append(form)
    return systems


def _fits(form: _Form, grid: _Form, rows: Collection[Monomial]) -> bool:
    """Whether accesses lie in one grid. Offsets of unknown size may lead to anywhere."""
    first, second = (
        {f: row.start for f, row in member.rows.items() if f and f not in rows and row.start}
        for member in (form, grid)
    )
    if first != second:
        return False
    steps = {(f, level.step) for f, row in grid.rows.items() for level in row.levels}
    return all((f, level.step) in steps for f, row in form.rows.items() for level in row.levels)
