"""Which metrics changed between two points, and which ones explain a slow point of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.hardware.ceilings import HOST_LINK, NEAR_PEAK
from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.documents.insights import MovedDocument

_TELLING = (
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "l2_sectors"),
    *("global_load_sectors", "global_store_sectors", "shared_load_wavefronts"),
    *("local_load_requests", "local_store_requests", "bank_conflicts_load"),
    *("bank_conflicts_store", "l1_hit_rate_pct", "l2_hit_rate_pct", "registers_per_thread"),
    *("achieved_occupancy_pct", "active_threads_per_warp", "no_eligible_pct", "sm_frequency"),
    *("dram_frequency", "waves_per_sm", "branch_efficiency_pct"),
)
"""Possible causes. Cycles, throughputs and shares of peak change with every time."""
_LEAST = math.log(1.1)
_MOST = 4


def moved_between(usual: Point, here: Point) -> list[MovedDocument]:
    """The largest changes first; metrics that one of them lacks are skipped."""
    found = [entry for name in _TELLING if (entry := _moved(name, usual, here))]
    return sorted(found, key=lambda entry: -_size(entry))[:_MOST]


def _moved(name: str, usual: Point, here: Point) -> MovedDocument | None:
    before, after = value_of(usual, name), value_of(here, name)
    if before is None or after is None:
        return None
    spec = metrics()[name]
    entry = MovedDocument(metric=name, label=spec.label, unit=spec.unit, usual=before, here=after)
    return entry if _size(entry) >= _LEAST else None


def _size(entry: MovedDocument) -> float:
    """Size of the change; from or to zero is the largest."""
    low, high = sorted((entry.usual, entry.here))
    if high <= 0:
        return 0.0
    return math.log(high / low) if low > 0 else math.inf


_FILLING = ("waves_per_sm", "achieved_warps_per_sm", "achieved_occupancy_pct")
"""Metrics that grow as the GPU fills."""
_MOVED = 1.15
_CLOSE = 0.9
"""Smallest correlation of logarithms that counts."""


class Tracked(NamedTuple):
    column: str
    label: str


def what_fills(points: Sequence[Point], costs: Sequence[float]) -> Tracked | None:
    """The metric that grows while the time per unit of work falls; None if there is none."""
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


VOLUMES = (
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "l2_sectors"),
    *("global_load_sectors", "global_load_requests", "global_store_sectors"),
    *("global_store_requests", "shared_load_wavefronts", "shared_store_wavefronts"),
    *("local_load_requests", "local_store_requests", "bank_conflicts_load"),
    *("bank_conflicts_store", "global_atomic_inst", "global_reduction_inst"),
)
"""Counters of work: more takes longer if the unit that does it is the limiter."""
SM_ACTIVE = "sm_active_share"
"""Computed from two columns: share of the elapsed cycles in which SMs are active."""
_BRANCHES = "branch_efficiency_pct"
_RATES = ("l2_hit_rate_pct", "l1_hit_rate_pct", SM_ACTIVE, _BRANCHES)
_PACES = ("active_threads_per_warp", "sm_frequency", "dram_frequency")
IN_FLIGHT = "achieved_warps_per_sm"
"""More resident warps hide more latency."""
_SAME = math.log(1.1)
"""Work within this ratio is the same."""
_BEYOND = math.log(1.05)
"""Smallest distance of a counter from those of the fast points."""
_POINTS = 5.0
"""The same for rates, in percentage points."""
_FEWER = math.log(1.15)
_TRIFLE = 0.01
"""Share of the instructions (for bytes: of all bytes); smaller counters are ignored."""
_MEMORY, _LINKS = frozenset({"DRAM", "L2"}), frozenset({HOST_LINK, "NVLink"})
"""Units that all SMs share; the others are part of the SMs."""
_ALIKE = 0.02
"""Two counters whose changes differ by less are one effect, as requests and their sectors."""


class CounterDifference(NamedTuple):
    """A counter that differs between a slow point and the fast points beside it."""

    column: str
    size: float
    """Size of the difference; comparable among counters of one kind."""
    kind: int
    """0: work, 1: a rate, 2: resident warps."""


class SlowPointJudgement(NamedTuple):
    """What explains one slow point."""

    differences: tuple[CounterDifference, ...]
    """Work first, the largest first."""
    compared: bool
    """Whether the store has counters of both points."""
    starved: bool
    """Too few warps: same work, no measured unit near its peak, fewer resident warps."""

    @property
    def lead(self) -> str | None:
        return self.differences[0].column if self.differences else None


def judge_slow_point(
    point: Point, plateau: Sequence[Point], best: Point, shares: Mapping[str, float]
) -> SlowPointJudgement:
    """`plateau`: the points beside it that are as fast as the best, the nearest first."""
    beside = [*plateau, best]
    worked = sorted(_volumes(point, beside), key=_by_size)
    rated = sorted([*_rates(point, beside), *_paces(point, beside)], key=_by_size)
    waiting = list(_in_flight(point, beside))
    starved = bool(waiting) and _no_unit_near(shares) and not rated and has_same_work(point, best)
    found = (*_distinct(worked), *rated, *waiting)
    return SlowPointJudgement(found, _are_compared(point, best), starved)


def _no_unit_near(shares: Mapping[str, float]) -> bool:
    """Requires measured units of the memory and of the SMs: others may be near their peak."""
    in_memory = shares.keys() & _MEMORY
    in_sms = shares.keys() - _MEMORY - _LINKS
    return bool(in_memory and in_sms) and max(shares.values()) < NEAR_PEAK


def has_same_work(point: Point, best: Point) -> bool:
    """Whether all counters of work that both have are equal, instructions among them."""
    known = value_of(point, "inst_executed_total") and value_of(best, "inst_executed_total")
    return bool(known) and not differing_work([point, best])


def differing_work(points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Counters of work that differ, with minimum and maximum; the largest ratio first."""
    found = []
    for name in VOLUMES:
        values = [v for point in points if (v := value_of(point, name)) is not None]
        weighty = any(not _is_trifle(point, name) for point in points)
        if len(values) == len(points) and weighty and _apart(min(values), max(values)) > _SAME:
            found.append((name, min(values), max(values)))
    return sorted(found, key=lambda each: -_apart(each[1], each[2]))


def value_of(point: Point, column: str) -> float | None:
    """None if not measured, and for a branch efficiency of 0: no counted branch ran."""
    if column == _BRANCHES:
        return point.number(column) or None
    if column != SM_ACTIVE:
        return point.number(column)
    active, elapsed = point.number("sm_active_cycles"), point.number("elapsed_cycles")
    return 100 * active / elapsed if active is not None and elapsed else None


def label_of(column: str) -> str:
    return "share of cycles with active SMs" if column == SM_ACTIVE else metrics()[column].label


def _volumes(point: Point, beside: Sequence[Point]) -> Iterable[CounterDifference]:
    for name in VOLUMES:
        here, there = _both(point, beside, name)
        weighty = not all(_is_trifle(each, name) for each in (point, *beside))
        if here is None or not there or not weighty:
            continue
        away = min(_apart(here, value) for value in there)
        if _is_outside(here, there) and away > _BEYOND and _apart(here, there[-1]) > _SAME:
            yield CounterDifference(name, _apart(here, there[0]), 0)


def _rates(point: Point, beside: Sequence[Point]) -> Iterable[CounterDifference]:
    for name in _RATES:
        here, there = _both(point, beside, name)
        if here is None or not there or not _is_outside(here, there):
            continue
        if min(abs(here - value) for value in there) >= _POINTS:
            yield CounterDifference(name, abs(here - there[0]) / 100, 1)


def _paces(point: Point, beside: Sequence[Point]) -> Iterable[CounterDifference]:
    for name in _PACES:
        here, there = _both(point, beside, name)
        if here is None or not there or not _is_outside(here, there):
            continue
        if min(_apart(here, value) for value in there) > _SAME:
            yield CounterDifference(name, _apart(here, there[0]), 1)


def _in_flight(point: Point, beside: Sequence[Point]) -> Iterable[CounterDifference]:
    here, there = _both(point, beside, IN_FLIGHT)
    if here and there and min(there) > 0 and math.log(min(there) / here) > _FEWER:
        yield CounterDifference(IN_FLIGHT, _apart(here, there[0]), 2)


def _distinct(found: Sequence[CounterDifference]) -> list[CounterDifference]:
    kept: list[CounterDifference] = []
    for each in found:
        if all(abs(each.size - other.size) > _ALIKE for other in kept):
            kept.append(each)
    return kept


def _both(point: Point, beside: Sequence[Point], name: str) -> tuple[float | None, list[float]]:
    """The second is empty if a point lacks the counter."""
    there = [v for each in beside if (v := value_of(each, name)) is not None]
    return value_of(point, name), there if len(there) == len(beside) else []


def _are_compared(point: Point, best: Point) -> bool:
    names = (*VOLUMES, *_RATES)
    return any(value_of(point, n) is not None and value_of(best, n) is not None for n in names)


def _is_outside(here: float, there: Sequence[float]) -> bool:
    return here < min(there) or here > max(there)


def _is_trifle(point: Point, name: str) -> bool:
    value = value_of(point, name) or 0.0
    names = ["inst_executed_total"]
    if name.startswith("dram_bytes"):
        names = ["dram_bytes_read", "dram_bytes_written"]
    return value < _TRIFLE * sum(value_of(point, each) or 0.0 for each in names)


def _apart(one: float, other: float) -> float:
    """Difference of logarithms; infinite if only one is zero."""
    low, high = sorted((one, other))
    if high <= 0:
        return 0.0
    return math.log(high / low) if low > 0 else math.inf


def _by_size(each: CounterDifference) -> float:
    return -each.size
