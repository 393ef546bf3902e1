"""Which counter moves with the time along a part of a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from keet.catalog import metrics
from keet.corpus.insights.points import Point

_WORK = (
    *("dram_bytes_read", "dram_bytes_written", "l2_sectors", "global_load_sectors"),
    *("global_store_sectors", "shared_load_wavefronts", "shared_store_wavefronts"),
    *("global_load_requests", "local_load_requests", "bank_conflicts_load", "inst_executed_total"),
)
"""More of it takes longer."""
_IN_FLIGHT = ("achieved_warps_per_sm", "achieved_occupancy_pct")
"""More of it hides latency."""
_MOVED = 1.15
_SAME = 1.1
_CLOSE = 0.9
"""Correlation of logarithms from which two things move together."""


class Tracked(NamedTuple):
    column: str
    label: str
    in_flight: bool
    """It is no work: more of it goes with less time, while the work stays the same."""


def what_tracks(points: Sequence[Point], times: Sequence[float]) -> Tracked | None:
    """The counter of work that explains most of the change in time; else what is in flight."""
    worked = [name for name in _WORK if _goes_with(points, name, times) > _CLOSE]
    if worked:
        best = max(worked, key=lambda name: _likeness(points, name, times))
        return Tracked(best, metrics()[best].label, in_flight=False)
    if all(_is_same(points, name) for name in ("dram_bytes_read", "inst_executed_total")):
        for name in _IN_FLIGHT:
            if _goes_with(points, name, times) < -_CLOSE:
                return Tracked(name, metrics()[name].label, in_flight=True)
    return None


def what_fills(points: Sequence[Point], costs: Sequence[float]) -> Tracked | None:
    """Where the work varies: what grows with it and makes a unit of work cheaper."""
    for name in ("waves_per_sm", *_IN_FLIGHT):
        if _goes_with(points, name, costs) < -_CLOSE:
            return Tracked(name, metrics()[name].label, in_flight=True)
    return None


def _goes_with(points: Sequence[Point], name: str, times: Sequence[float]) -> float:
    values = _values(points, name)
    if not values or max(values) / min(values) < _MOVED:
        return 0.0
    return _correlation([math.log(v) for v in values], [math.log(t) for t in times])


def _likeness(points: Sequence[Point], name: str, times: Sequence[float]) -> float:
    """How near the counter's span is to the span of the times."""
    values = _values(points, name)
    return -abs(math.log(max(values) / min(values)) - math.log(max(times) / min(times)))


def _is_same(points: Sequence[Point], name: str) -> bool:
    """Not measured is no objection, as long as it is not measured to differ."""
    values = _values(points, name)
    return not values or max(values) / min(values) <= _SAME


def _values(points: Sequence[Point], name: str) -> list[float]:
    found = [point.number(name) for point in points]
    return [v for v in found if v] if all(v is not None and v > 0 for v in found) else []


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    mean_one, mean_other = sum(one) / len(one), sum(other) / len(other)
    pairs = [(a - mean_one, b - mean_other) for a, b in zip(one, other)]
    spread = math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))
    return sum(a * b for a, b in pairs) / spread if spread else 0.0
