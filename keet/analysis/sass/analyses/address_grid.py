"""Addresses as boxes in a grid: runs of bytes, at regular distances, along several axes.

Rows at a distance that is a parameter lie along an axis of their own. The union of boxes is counted
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from keet.analysis.sass.polynomials.polynomial import Monomial


@dataclass(frozen=True)
class Level:
    """`count` copies, `step` apart."""

    step: int
    count: int


@dataclass(frozen=True)
class Row:
    """The values of an address along one axis: runs of `length`, in levels."""

    start: int
    length: int
    levels: tuple[Level, ...]
    overlap: int
    """How often a value can be reached, at most."""

    @property
    def size(self) -> int:
        return self.length * math.prod(level.count for level in self.levels)

    @property
    def span(self) -> int:
        return self.length + sum(level.step * (level.count - 1) for level in self.levels)


def row_of(steps: Iterable[tuple[int, int]], start: int, width: int) -> Row | None:
    """The values of a sum of strides; None if they overlap in a way that is not counted here."""
    length, overlap = width, 1
    levels: list[Level] = []
    for step, count in sorted(steps):
        span = length + sum(level.step * (level.count - 1) for level in levels)
        top = levels[-1] if levels else None
        if top is None and step <= length:
            overlap *= min(count, -(-length // step))
            length += step * (count - 1)
        elif top is not None and step % top.step == 0 and step <= top.step * top.count:
            overlap *= min(count, -(-top.count * top.step // step))
            more = step // top.step * (count - 1)
            levels[-1] = Level(top.step, top.count + more)
        elif step >= span:
            levels.append(Level(step, count))
        else:
            return None
    return Row(start, length, tuple(levels), overlap)


Box = tuple[tuple[int, int], ...]
MOST_BOXES = 160


def boxes_of(forms: Sequence[Mapping[Monomial, Row]]) -> list[Box] | None:
    """Each access as a box: its interval on each axis. None if they do not lie in one grid."""
    if len(forms) > MOST_BOXES:
        return None
    factors = sorted(
        {factor for form in forms for factor in form}, key=lambda f: [s.order for s in f]
    )
    columns: list[list[tuple[tuple[int, int], ...]]] = []
    for factor in factors:
        found = _on_axis([form.get(factor) for form in forms], is_bytes=not factor)
        if found is None:
            return None
        columns.append(found)
    return [tuple(side for column in columns for side in column[at]) for at in range(len(forms))]


def _on_axis(
    rows: Sequence[Row | None], *, is_bytes: bool
) -> list[tuple[tuple[int, int], ...]] | None:
    steps = sorted({level.step for row in rows if row for level in row.levels}, reverse=True)
    starts = [row.start for row in rows if row]
    origin = min(starts) if is_bytes else 0
    found: list[tuple[tuple[int, int], ...]] = []
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
        found.append(tuple(sides))
    if steps and max(ends) - min(ends) > steps[-1]:
        return None  # rows run into each other
    return found


def volume_of(boxes: Sequence[Box]) -> int:
    """Points that lie in at least one box."""
    distinct = list(dict.fromkeys(boxes))
    if not distinct[0]:
        return 1
    cuts = sorted({end for box in distinct for end in box[0]})
    total = 0
    known: dict[tuple[Box, ...], int] = {}
    for low, high in pairwise(cuts):
        inside = tuple(box[1:] for box in distinct if box[0][0] <= low and high <= box[0][1])
        if inside:
            if inside not in known:
                known[inside] = volume_of(inside)
            total += (high - low) * known[inside]
    return total
