"""Addresses as digits of indices, and as boxes in a grid.

`tid / 32` and `tid % 32` are two digits of one index. Together they have all its values; an address
with only one of them is the same for all values of the other. What the digits add to an address are
runs of bytes at regular distances, along several axes: rows at a distance that is a parameter lie
along an axis of their own. The union of boxes is counted exactly.

Arrays that are read range by range, where another array holds the ends of the ranges.

`for (k = start[i]; k < start[i + 1]; k++) sum += value[k]`: row i ends where row i + 1 begins. If
each row is read by one thread, or by the lanes of a group together, each byte of `value` is read
once. That rows do not overlap is a property of data: what follows from it is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.machine_code.analyses.conditions import RunConditions
from keet.analysis.machine_code.analyses.reuse import Access, Stride
from keet.analysis.machine_code.flow.program import Locate, SassProgram
from keet.analysis.machine_code.polynomials.opcode_rules import is_divisor
from keet.analysis.machine_code.polynomials.polynomial import Monomial, Polynomial, Symbol, add

Base = str | tuple[tuple[Monomial, int], ...]
"""The name of an index, or the key of a sum of indices whose digits are used."""


class Digit(NamedTuple):
    """`index / low % (high / low)`; `high` None: all the rest."""

    base: Base
    low: int
    high: int | None
    factor: int = 1
    """What the symbol is, in units of the digit."""

    def has(self, low: int) -> bool:
        """Whether the part of the index that begins there belongs to it."""
        return self.low <= low and (self.high is None or self.high > low)


class Part(NamedTuple):
    """One digit of the execution: its number of values, and what it adds to the address."""

    base: Base
    low: int
    values: int
    """How many it has."""
    steps: Mapping[Monomial, int]


def digit_of(symbol: Symbol) -> Digit | None:
    """A symbol as a digit of an index, or of a sum of indices."""
    if symbol.kind in ("tid", "ctaid", "loop"):
        return Digit(symbol.name, 1, None)
    divisor = _divisor(symbol)
    whole = symbol.arguments[0] if symbol.arguments else None
    if divisor is None or not isinstance(whole, Polynomial):
        return None
    common = math.gcd(*whole.terms.values()) if whole.terms else 0
    if () in whole.terms or not common or divisor % common:
        return None
    is_rest = symbol.kind == "mod"
    if len(whole.terms) == 1:
        return _digit_of_digit(whole, divisor, is_rest=is_rest)
    base = tuple((product, times // common) for product, times in whole.key)
    if is_rest:
        return Digit(base, 1, divisor // common, common)
    return Digit(base, divisor // common, None)


def _digit_of_digit(whole: Polynomial, divisor: int, *, is_rest: bool) -> Digit | None:
    product, coefficient = next(iter(whole.terms.items()))
    inner = digit_of(product[0]) if len(product) == 1 else None
    if inner is None or coefficient < 0 or divisor % (coefficient * inner.factor):
        return None
    part = divisor // (coefficient * inner.factor)
    if not is_rest:
        return Digit(inner.base, inner.low * part, inner.high)
    high = inner.low * part
    if inner.high is not None:
        high = min(high, inner.high)
    return Digit(inner.base, inner.low, high, coefficient * inner.factor)


def _divisor(symbol: Symbol) -> int | None:
    if symbol.kind == "shr":
        return 1 << int(str(symbol.arguments[1]))
    if symbol.kind == "mod":
        return int(str(symbol.arguments[1]))
    if symbol.kind == "scaled" and isinstance(symbol.arguments[1], tuple):
        magic, shift = symbol.arguments[1]
        divisor = round((1 << shift) / magic) if magic else 0
        return divisor if divisor and is_divisor(divisor, magic, shift) else None
    return None


def unclamped(symbol: Symbol) -> Polynomial | None:
    """What a clamp to an unknown limit lets through."""
    is_clamp = symbol.kind in ("min", "max")
    sides = [side for side in symbol.arguments if isinstance(side, Polynomial) and is_clamp]
    inner = [side for side in sides if side.depends]
    return inner[0] if len(sides) == 2 and len(inner) == 1 else None


def split_index(
    base: Base,
    extent: int,
    digits: Sequence[tuple[Digit, Monomial, int]],
    limited: Sequence[tuple[Digit, int]],
) -> list[Part] | None:
    """An index, cut where its digits begin and end."""
    for digit, count in limited:
        if digit.low == 1 and digit.high is None and count > 1:
            extent = min(extent, count)
    if extent == 1:
        return []
    cuts = {1}
    for digit in (*(digit for digit, _, _ in digits), *(digit for digit, _ in limited)):
        cuts |= {digit.low, digit.high or 1}
    ends = sorted(cut for cut in cuts if cut < extent)
    if any(high % low for low, high in pairwise(ends)):
        return None
    ends.append(-(-extent // ends[-1]) * ends[-1])
    parts = []
    for low, high in pairwise(ends):
        steps: dict[Monomial, int] = {}
        for digit, factor, coefficient in digits:
            if digit.has(low):
                steps[factor] = steps.get(factor, 0) + coefficient * (low // digit.low)
        is_one = any(count == 1 and digit.has(low) for digit, count in limited)
        used = {factor: step for factor, step in steps.items() if step}
        parts.append(Part(base, low, 1 if is_one else high // low, used))
    return parts


# --- rows and boxes


@dataclass(frozen=True)
class Row:
    """The values of an address along one axis: runs of `length`, in levels."""

    start: int
    length: int
    levels: tuple[Stride, ...]
    """Copies of them."""
    overlap: int
    """How often a value can be reached, at most."""

    @property
    def size(self) -> int:
        return self.length * math.prod(level.count for level in self.levels)

    @property
    def span(self) -> int:
        return self.length + sum(level.span for level in self.levels)

    @property
    def end(self) -> int:
        return self.start + self.span


def row_of(steps: Iterable[tuple[int, int]], start: int, width: int) -> Row | None:
    """The values of a sum of strides; None if they overlap in a way that is not counted here."""
    length, overlap = width, 1
    levels: list[Stride] = []
    for step, count in sorted(steps):
        span = length + sum(level.span for level in levels)
        top = levels[-1] if levels else None
        if top is None and step <= length:
            overlap *= min(count, -(-length // step))
            length += step * (count - 1)
        elif top is not None and step % top.step == 0 and step <= top.step * top.count:
            overlap *= min(count, -(-top.count * top.step // step))
            more = step // top.step * (count - 1)
            levels[-1] = Stride(top.step, top.count + more)
        elif step >= span:
            levels.append(Stride(step, count))
        else:
            return None
    return Row(start, length, tuple(levels), overlap)


Box = tuple[tuple[int, int], ...]
MOST_BOXES = 160


def boxes_of(forms: Sequence[Mapping[Monomial, Row]]) -> list[Box] | None:
    """Each access as a box: its interval on each axis. None if they do not lie in one grid."""
    if len(forms) > MOST_BOXES:
        return None
    boxes: list[Box] = [()] * len(forms)
    for factor in sorted({factor for form in forms for factor in form}):
        column = _on_axis([form.get(factor) for form in forms], is_bytes=not factor)
        if column is None:
            return None
        boxes = [box + sides for box, sides in zip(boxes, column, strict=True)]
    return boxes


def _on_axis(rows: Sequence[Row | None], *, is_bytes: bool) -> list[Box] | None:
    steps = sorted({level.step for row in rows if row for level in row.levels}, reverse=True)
    starts = [row.start for row in rows if row]
    origin = min(starts) if is_bytes else 0
    intervals: list[Box] = []
    ends: list[int] = []
    for row in rows:
        start = (row.start if row else 0) - origin
        sides: list[tuple[int, int]] = []
        for step in steps:
            place = round(start / step)
            start -= place * step
            count = next((e.count for e in row.levels if e.step == step), 1) if row else 1
            sides.append((place, place + count))
        length = row.length if row else 1
        sides.append((start, start + length))
        ends += [start, start + length]
        intervals.append(tuple(sides))
    if steps and max(ends) - min(ends) > steps[-1]:
        return None  # rows run into each other
    return intervals


def volume_of(boxes: Sequence[Box]) -> int:
    """Points that lie in at least one box."""
    distinct = list(dict.fromkeys(boxes))
    if not distinct[0]:
        return 1
    cuts = sorted({end for box in distinct for end in box[0]})
    total = 0
    volumes: dict[tuple[Box, ...], int] = {}
    for low, high in pairwise(cuts):
        inside = tuple(box[1:] for box in distinct if box[0][0] <= low and high <= box[0][1])
        if inside and inside not in volumes:
            volumes[inside] = volume_of(inside)
        total += (high - low) * volumes.get(inside, 0)
    return total


_OF_LOOPS = ("loop", "exit", "choice")


class Rows(NamedTuple):
    """What is known of the load of the first or last index of each row."""

    times: float
    """Threads that load the same one."""
    is_once: bool
    """Whether each is loaded by no more threads than these."""


class RowRanges:
    """The arrays of one kernel that are read in ranges."""

    def __init__(
        self,
        program: SassProgram,
        conditions: RunConditions,
        loads: Sequence[Access],
        locate: Locate,
        rows_of: Callable[[Access], Rows | None],
    ) -> None:
        """`loads`: all that ran. `rows_of`: how often each element is loaded by one of them."""
        self.program = program
        self.conditions = conditions
        self.loads = {load.position: load for load in loads if load.kind == "load"}
        self.locate = locate
        self.rows_of = rows_of

    def bytes_of(self, accesses: Sequence[Access]) -> float | None:
        """Distinct bytes of an array's accesses, if no two rows overlap; None if it is not read in
        rows, or perhaps in several passes."""
        starts = {self._start(access) for access in accesses}
        places = {self.locate(access.position) for access in accesses}
        if len(starts) != 1 or len(places) != 1 or None in starts | places:
            return None
        start = starts.pop()
        assert start is not None
        load = self.loads.get(_position(start))
        rows = self.rows_of(load) if load is not None else None
        if load is None or rows is None or not rows.is_once:
            return None
        if not all(self._is_in_row(access, start, load) for access in accesses):
            return None
        share, *others = {self._share(access, start, rows.times) for access in accesses}
        if others or share is None:
            return None
        return sum(access.requested_bytes or 0 for access in accesses) / share

    def _start(self, access: Access) -> Symbol | None:
        """The loaded number that an address begins with."""
        loaded = [p for p in access.offset.terms if any("data" in symbol.depends for symbol in p)]
        if len(loaded) != 1 or len(loaded[0]) != 1 or "@" not in loaded[0][0].name:
            return None
        return loaded[0][0] if access.offset.terms[loaded[0]] >= access.width else None

    def _is_in_row(self, access: Access, start: Symbol, load: Access) -> bool:
        """Whether it runs only between a row's first and last index, once for each."""
        inner, outer = (
            [loop.index for loop in self.program.loops_at(accessed.position)]
            for accessed in (access, load)
        )
        if inner != outer and inner[1:] != outer:
            return False  # a loop around the row: it is read again and again
        comparisons = self.conditions.of(access.position).known
        return any(
            self._is_next(other, load)
            for comparison in comparisons
            if (start,) in comparison.left.terms
            for other in comparison.left.symbols
            if other is not start
            and comparison.left.terms.get((other,), 0) == -comparison.left.terms[start,]
        )

    def _is_next(self, end: Symbol, load: Access) -> bool:
        """Whether it is loaded from the element after that of another load."""
        other = self.loads.get(_position(end))
        return (
            other is not None
            and other.pointer == load.pointer
            and add(other.offset, load.offset, -1).value == load.width
        )

    def _share(self, access: Access, start: Symbol, times: float) -> float | None:
        """How many threads load each element of a row: all that share the row, or one of them."""
        lanes: list[tuple[Symbol, int]] = []
        steps: list[int] = []
        for product, factor in access.offset.terms.items():
            varying = [symbol for symbol in product if not symbol.is_uniform]
            if not varying or varying == [start]:
                continue
            if all(symbol.kind in _OF_LOOPS for symbol in varying):
                steps.append(abs(factor))
            elif len(product) == 1:
                lanes.append((product[0], factor))
            else:
                return None
        element = access.offset.terms[start,]
        step = math.gcd(*steps) if steps else element * times
        if not lanes:
            return times if step % element == 0 else None
        symbol, factor = lanes[0]
        fills = len(lanes) == 1 and symbol.range == (0, times - 1) and factor == element
        return 1.0 if fills and step % (element * times) == 0 else None


def _position(symbol: Symbol) -> int:
    """Of the load that gave it."""
    number = symbol.name.rpartition("@")[2]
    return int(number) if number.isdigit() else -1
