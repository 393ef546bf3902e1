"""What makes a unit of work cheaper, where the work varies along a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.records import NamedTuple

_FILLING = ("waves_per_sm", "achieved_warps_per_sm", "achieved_occupancy_pct")
"""More of it fills the GPU."""
_MOVED = 1.15
_CLOSE = 0.9
"""Correlation of logarithms from which two things move together."""


class Tracked(NamedTuple):
    column: str
    label: str


def what_fills(points: Sequence[Point], costs: Sequence[float]) -> Tracked | None:
    """What grows with the problem and makes a unit of work cheaper."""
    for name in _FILLING:
        if _goes_with(points, name, costs) < -_CLOSE:
            return Tracked(name, metrics()[name].label)
    return None


def _goes_with(points: Sequence[Point], name: str, times: Sequence[float]) -> float:
    values = _values(points, name)
    if not values or max(values) / min(values) < _MOVED:
        return 0.0
    return _correlation([math.log(v) for v in values], [math.log(t) for t in times])


def _values(points: Sequence[Point], name: str) -> list[float]:
    found = [point.number(name) for point in points]
    return [v for v in found if v] if all(v is not None and v > 0 for v in found) else []


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    mean_one, mean_other = sum(one) / len(one), sum(other) / len(other)
    pairs = [(a - mean_one, b - mean_other) for a, b in zip(one, other)]
    spread = math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))
    return sum(a * b for a, b in pairs) / spread if spread else 0.0
