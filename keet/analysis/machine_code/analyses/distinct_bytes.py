"""Upper bounds on the distinct bytes that accesses can touch, from their address polynomials.

Each symbol is assumed to take every value of its range independently. Coefficients that are unknown
numbers (parameters) are factored out: for any K, `K * f + g` takes at most as many values as f
times as many as g.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.machine_code.polynomials.polynomial import Monomial, Polynomial, Symbol

SECTOR = 32


@dataclass(frozen=True, order=True, slots=True)
class Stride:
    """`step` times a quantity with `count` consecutive values."""

    step: int
    count: int

    @property
    def span(self) -> int:
        """From the first value to the last."""
        return self.step * (self.count - 1)


class FactorGroup(NamedTuple):
    """The part of a polynomial with one unknown number as factor; `()` for plain bytes."""

    factor: Monomial
    strides: tuple[Stride, ...]
    offset: int


class AccessShape(NamedTuple):
    """The bytes that one access touches; see `shape_of`."""

    fixed: tuple[tuple[Monomial, int], ...]
    """Unknown offsets that are the same for all threads."""
    groups: tuple[FactorGroup, ...]
    width: int

    @property
    def key(self) -> object:
        """Equal for accesses that differ only in their constant offsets."""
        return self.fixed, tuple((g.factor, g.strides) for g in self.groups), self.width

    @property
    def skeleton(self) -> object:
        """Equal for accesses that differ only in offsets and in the lengths of their strides."""
        steps = tuple((g.factor, tuple(s.step for s in g.strides)) for g in self.groups)
        return self.fixed, steps, self.width


def shape_of(polynomial: Polynomial, width: int) -> AccessShape | None:
    """`None` if a symbol has no bounds: data, or an unknown number of iterations."""
    fixed: list[tuple[Monomial, int]] = []
    strides: dict[Monomial, list[Stride]] = {(): []}
    offsets: dict[Monomial, int] = {}
    for product, coefficient in polynomial.terms.items():
        factor = tuple(symbol for symbol in product if symbol.is_uniform)
        varying = [symbol for symbol in product if not symbol.is_uniform]
        if not varying:
            offsets[factor] = offsets.get(factor, 0) + coefficient
            continue
        low = _lowest(varying, coefficient)
        if low is None:
            return None
        count = math.prod(symbol.counted.size or 1 for symbol in varying)
        if any(symbol.range.size is None and symbol.is_scattered for symbol in varying):
            # Treated like a product with an unknown number: only the number of values matters.
            strides.setdefault(product, []).append(Stride(1, count))
            continue
        offsets[factor] = offsets.get(factor, 0) + low
        strides.setdefault(factor, []).append(Stride(abs(coefficient), count))
    for factor, offset in offsets.items():
        if factor and factor not in strides:
            fixed.append((factor, offset))
    groups = tuple(
        FactorGroup(factor, merged(of_factor), offsets.get(factor, 0))
        for factor, of_factor in sorted(
            strides.items(), key=lambda item: [s.order for s in item[0]]
        )
    )
    return AccessShape(
        tuple(sorted(fixed, key=lambda item: [s.order for s in item[0]])), groups, width
    )


def _lowest(symbols: Sequence[Symbol], coefficient: int) -> int | None:
    """The least value of a product; `None` if a symbol has no bounds."""
    corners = [coefficient]
    for symbol in symbols:
        low, high = symbol.counted
        if low is None or high is None:
            return None
        corners = [corner * end for corner in corners for end in (low, high)]
    return min(corners)


def merged(strides: Iterable[Stride]) -> tuple[Stride, ...]:
    """Joins strides that continue each other: 16 rows of 32 words are 512 words."""
    done: list[Stride] = []
    for stride in sorted(stride for stride in strides if stride.count > 1):
        last = done[-1] if done else None
        if last and stride.step % last.step == 0 and stride.step <= last.step * last.count:
            done[-1] = Stride(last.step, (last.span + stride.span) // last.step + 1)
        else:
            done.append(stride)
    return tuple(done)


def distinct_values(strides: Iterable[Stride], offsets: Sequence[int] = (0,)) -> int:
    """Upper bound on the values of a sum of strides, starting at any of the offsets."""
    count, span, common = 1, 0, 0
    for stride in sorted(strides):
        span += stride.span
        common = math.gcd(common, stride.step)
        count = min(count * stride.count, span // max(1, common) + 1)
    if len(offsets) > 1:
        low, high = min(offsets), max(offsets)
        common = math.gcd(common, *(offset - low for offset in offsets))
        count = min(count * len(offsets), (span + high - low) // max(1, common) + 1)
    return count


def distinct_bytes(strides: Sequence[Stride], width: int, offsets: Sequence[int] = (0,)) -> int:
    """Upper bound on the bytes that `width`-byte accesses at these offsets touch."""
    span = sum(stride.span for stride in strides) + max(offsets) - min(offsets)
    return min(distinct_values(strides, offsets) * width, span + width)


def sector_bytes(strides: Sequence[Stride], width: int, *, is_aligned: bool) -> int:
    """The same in whole sectors, which is what memory transfers.

    A row that is not aligned to sectors can touch one sector more than its length requires.
    """
    runs, length = 1, width
    for stride in sorted(strides):
        if stride.step <= length:
            length += stride.span
        else:
            runs *= stride.count
    if is_aligned:
        return runs * -(-length // SECTOR) * SECTOR
    common = math.gcd(SECTOR, width, *(stride.step for stride in strides))
    return runs * ((length + SECTOR - common - 1) // SECTOR + 1) * SECTOR


class Bound(NamedTuple):
    bytes: int
    sector_bytes: int
    """In whole sectors, if rows are aligned to sectors."""
    worst_sector_bytes: int
    """In whole sectors, for any alignment of rows."""


def bound_of(shapes: Iterable[AccessShape]) -> Bound:
    """Bytes that several accesses through one pointer can touch together."""
    skeletons: dict[object, dict[object, list[AccessShape]]] = {}
    for shape in shapes:
        skeletons.setdefault(shape.skeleton, {}).setdefault(shape.key, []).append(shape)
    bounds: list[Bound] = []
    every: list[AccessShape] = []
    for alike in skeletons.values():
        apart = [_together(same) for same in alike.values()]
        shapes_alike = [shape for same in alike.values() for shape in same]
        sums = (sum(sizes) for sizes in zip(*apart, strict=True))
        bounds.append(Bound(*map(min, sums, _together(shapes_alike))))
        every += shapes_alike
    total = Bound(*(sum(bound[at] for bound in bounds) for at in range(3)))
    hull = _hull(every)
    if hull is None:
        return total
    whole = -(-hull // SECTOR) * SECTOR + SECTOR
    return Bound(*map(min, total, (hull, whole, whole)))


def _together(shapes: Sequence[AccessShape]) -> Bound:
    """Bound for accesses of one skeleton, each extended to the longest strides."""
    first = shapes[0]
    size, sectors, worst = 1, 1, 1
    for place, group in enumerate(first.groups):
        strides = [
            Stride(stride.step, max(shape.groups[place].strides[at].count for shape in shapes))
            for at, stride in enumerate(group.strides)
        ]
        offsets = sorted({shape.groups[place].offset for shape in shapes})
        if group.factor:
            values = distinct_values(strides, offsets)
            size, sectors, worst = size * values, sectors * values, worst * values
        else:
            size *= distinct_bytes(strides, first.width, offsets)
            sectors *= _sectors_together(strides, first.width, offsets, is_aligned=True)
            worst *= _sectors_together(strides, first.width, offsets, is_aligned=False)
    return Bound(size, sectors, worst)


def _sectors_together(
    strides: Sequence[Stride], width: int, offsets: Sequence[int], *, is_aligned: bool
) -> int:
    """Accesses whose offsets are less than a sector apart share sectors."""
    steps = [b - a for a, b in pairwise(offsets)]
    if steps and max(steps) <= max(width, SECTOR):
        return sector_bytes(strides, width + offsets[-1] - offsets[0], is_aligned=is_aligned)
    return sector_bytes(strides, width, is_aligned=is_aligned) * len(offsets)


def _hull(shapes: Sequence[AccessShape]) -> int | None:
    """Bytes from the first to the last, if all offsets are known; else `None`."""
    if any(shape.fixed or len(shape.groups) > 1 for shape in shapes):
        return None
    group_widths = [(shape.groups[0], shape.width) for shape in shapes]
    ends = (
        group.offset + sum(s.span for s in group.strides) + width for group, width in group_widths
    )
    return max(ends, default=0) - min((group.offset for group, _ in group_widths), default=0)
