"""Which metrics changed between two points, and which ones explain a slow point of a sweep."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_LEAST_CHANGE = math.log(1.1)
_MOST_MOVED = 4


def moved_between(usual: Point, here: Point) -> list[MovedDocument]:
    """The largest changes first; metrics that one of them lacks are skipped."""
    moved = []
    for name in _TELLING:
        spec, before, after = metrics()[name], value_of(usual, name), value_of(here, name)
        if before is not None and after is not None and _apart(before, after) >= _LEAST_CHANGE:
            moved.append(MovedDocument.taken_from(spec, metric=name, usual=before, here=after))
    return sorted(moved, key=lambda entry: -_apart(entry.usual, entry.here))[:_MOST_MOVED]


_FILLING = ("waves_per_sm", "achieved_warps_per_sm", "achieved_occupancy_pct")
"""Metrics that grow as the GPU fills."""
_MOVED = 1.15
_CLOSE = 0.9
"""Smallest correlation of logarithms that counts."""


def what_fills(points: Sequence[Point], costs: Sequence[float]) -> str | None:
    """The metric that grows while the time per unit of work falls; None if there is none."""
    for name in _FILLING:
        values = [value for point in points if (value := point.number(name)) and value > 0]
        if len(values) == len(points) and max(values) / min(values) >= _MOVED:
            together = correlation(list(map(math.log, values)), list(map(math.log, costs)))
            if together < -_CLOSE:
                return name
    return None


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """0 if one of them does not vary."""
    try:
        return statistics.correlation(one, other)
    except statistics.StatisticsError:
        return 0.0


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
    worked = [
        CounterDifference(name, _apart(here, there[0]), 0)
        for name, here, there in _outside(point, beside, VOLUMES)
        if not all(_is_trifle(one, name) for one in (point, *beside))
        and min(_apart(here, value) for value in there) > _BEYOND
        and _apart(here, there[-1]) > _SAME
    ]
    distinct: list[CounterDifference] = []
    for difference in sorted(worked, key=_by_size):
        if all(abs(difference.size - other.size) > _ALIKE for other in distinct):
            distinct.append(difference)
    rated = [
        CounterDifference(name, abs(here - there[0]) / 100, 1)
        for name, here, there in _outside(point, beside, _RATES)
        if min(abs(here - value) for value in there) >= _POINTS
    ]
    rated += [
        CounterDifference(name, _apart(here, there[0]), 1)
        for name, here, there in _outside(point, beside, _PACES)
        if min(_apart(here, value) for value in there) > _SAME
    ]
    waiting = [
        CounterDifference(name, _apart(here, there[0]), 2)
        for name, here, there in _outside(point, beside, [IN_FLIGHT])
        if 0 < here < min(there) and _apart(here, min(there)) > _FEWER
    ]
    # Measured units of the memory and of the SMs are required: others may be near their peak.
    has_both = shares.keys() & _MEMORY and shares.keys() - _MEMORY - _LINKS
    no_unit_near = bool(has_both) and max(shares.values()) < NEAR_PEAK
    counted = value_of(point, "inst_executed_total") and value_of(best, "inst_executed_total")
    is_same_work = bool(counted) and not differing_work([point, best])
    return SlowPointJudgement(
        differences=(*distinct, *sorted(rated, key=_by_size), *waiting),
        compared=any(
            value_of(point, name) is not None and value_of(best, name) is not None
            for name in (*VOLUMES, *_RATES)
        ),
        starved=bool(waiting) and no_unit_near and not rated and is_same_work,
    )


def _outside(
    point: Point, beside: Sequence[Point], names: Iterable[str]
) -> Iterator[tuple[str, float, list[float]]]:
    """The counters whose value is outside of the range of those beside it, with all these values;
    those that a point lacks are skipped."""
    for name in names:
        here = value_of(point, name)
        there = [value for other in beside if (value := value_of(other, name)) is not None]
        if here is None or len(there) < len(beside) or min(there) <= here <= max(there):
            continue
        yield name, here, there


def _by_size(difference: CounterDifference) -> float:
    return -difference.size


def differing_work(points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Counters of work that differ, with minimum and maximum; the largest ratio first."""
    differing = []
    for name in VOLUMES:
        values = [v for point in points if (v := value_of(point, name)) is not None]
        weighty = any(not _is_trifle(point, name) for point in points)
        if len(values) == len(points) and weighty and _apart(min(values), max(values)) > _SAME:
            differing.append((name, min(values), max(values)))
    return sorted(differing, key=lambda entry: -_apart(*entry[1:]))


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
