"""Which indices ran, where a kernel cuts off what lies outside of its data.

`if (x < width && y < height)`: the launch does not tell the two numbers, but it counts the threads
and the warps that were inside. If only one width and one height give these counts, they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from keet.analysis.sass.analyses.conditions import Comparison, Conditions
from keet.analysis.sass.polynomials.polynomial import Monomial, Polynomial, add, number, scale

_MOST_STEPS = 20_000
"""Sizes that are tried for one box, for a launch with very many blocks."""
_LANES = 32
_BELOW = {"LT": 0, "LE": 1}
_ABOVE = {"GE": 0, "GT": 1}
_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}

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
    found = []
    for counts in _sizes([*ranges.values()], threads // free):
        sides = tuple(
            Side(
                places,
                each.first,
                size,
                each.limit if each.first + size < each.end or not each.is_cut else None,
            )
            for (places, each), size in zip(ranges.items(), counts, strict=True)
        )
        if warps is None or _warps(sides, extents) in (None, warps):
            found.append(sides)
        if len(found) > 1:
            return ()
    return found[0] if found else ()


class _Range(NamedTuple):
    first: int
    end: int
    limits: int = 0
    """Unknown numbers that are an end, too."""
    limit: Polynomial | None = None
    is_cut: bool = False
    """Whether the end is a number of the code, not that of the launch: what is behind it says
    nothing about the limit."""


def _ranges(conditions: Conditions, extents: Mapping[str, int]) -> dict[Places, _Range] | None:
    if not conditions.is_whole:
        return None
    found: dict[Places, _Range] = {}
    for comparison in conditions.known:
        if not comparison.left.depends:
            continue
        one = _range(comparison, extents)
        if one is None:
            return None
        places, first, end = one
        known = found.get(places, _Range(0, math.prod(extents[name] for name, _ in places)))
        if first is not None:
            known = known._replace(first=max(first, known.first))
        elif end is not None and end.value is not None:
            if end.value < known.end:
                known = known._replace(end=end.value, is_cut=True)
        elif end is not None:
            limits = known.limits + 1
            known = known._replace(limits=limits, limit=end if limits == 1 else None)
        found[places] = known
    return None if any(each.first >= each.end for each in found.values()) else found


def _range(
    comparison: Comparison, extents: Mapping[str, int]
) -> tuple[Places, int | None, Polynomial | None] | None:
    """The sum of indices that is compared, its first value or its end."""
    left, relation = comparison
    varying = {p: c for p, c in left.terms.items() if any(s.depends for s in p)}
    others = Polynomial({p: c for p, c in left.terms.items() if p not in varying})
    sign = 1 if all(c > 0 for c in varying.values()) else -1
    places = _places({p: sign * c for p, c in varying.items()}, extents)
    if places is None:
        return None
    if sign < 0:
        relation = _FLIPPED.get(relation, relation)
    limit = scale(others, -sign)
    if relation in _BELOW:
        return places, None, add(limit, number(_BELOW[relation]))
    if relation in _ABOVE and limit.value is not None:
        return places, limit.value + _ABOVE[relation], None
    return None


def _places(terms: Mapping[Monomial, int], extents: Mapping[str, int]) -> Places | None:
    """The indices of a sum that counts all their combinations."""
    found: list[tuple[str, int]] = []
    below = 1
    for symbols, weight in sorted(terms.items(), key=lambda item: item[1]):
        name = symbols[0].name
        if len(symbols) != 1 or name not in extents or weight != below:
            return None
        found.append((name, weight))
        below *= extents[name]
    return tuple(found)


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
        rest = math.prod(each.end - each.first for each in ranges[at + 1 :])
        least = -(-left // rest) if ranges[at].limits else most
        for size in range(max(1, least), min(most, left) + 1):
            steps += 1
            if steps > _MOST_STEPS:
                return
            if left % size == 0:
                for others in further(at + 1, left // size):
                    yield (size, *others)

    found = [*further(0, points)] if points > 0 else []
    yield from found if steps <= _MOST_STEPS else ()


# --- warps of a box


def _warps(sides: Sequence[Side], extents: Mapping[str, int]) -> int | None:
    """Warps with at least one thread in the box; None if that is not counted here."""
    parts: list[list[tuple[str | None, int, int, int]]] = []
    for side in sides:
        found = _in_blocks(side, extents)
        if found is None:
            return None
        parts.append(found)
    used = {name for side in sides for name, _ in side.places}
    blocks = math.prod(
        n for name, n in extents.items() if name.startswith("ctaid") and name not in used
    )
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
    found: set[int] = set()
    for z in range(*spans["z"]):
        for y in range(*spans["y"]):
            row = (z * tall + y) * wide
            first, end = spans["x"]
            found.update(range((row + first) // _LANES, (row + end - 1) // _LANES + 1))
    return len(found)
