"""Which metrics changed along with the time of a launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from keet.analysis.hardware.ceilings import HOST_LINK, NEAR
from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.corpus.insights.records import MetricChange
from keet.records import NamedTuple

_TELLING = (
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "l2_sectors"),
    *("global_load_sectors", "global_store_sectors", "shared_load_wavefronts"),
    *("local_load_requests", "local_store_requests", "bank_conflicts_load"),
    *("bank_conflicts_store", "l1_hit_rate_pct", "l2_hit_rate_pct", "registers_per_thread"),
    *("achieved_occupancy_pct", "active_threads_per_warp", "no_eligible_pct", "sm_frequency"),
    *("dram_frequency", "waves_per_sm", "branch_efficiency_pct"),
)
"""Causes; cycles, throughputs and shares of peak move with any time, whatever the reason."""
_LEAST = math.log(1.1)
_MOST = 4


def moved_between(usual: Point, here: Point) -> tuple[MetricChange, ...]:
    """The largest changes first; what either lacks is not compared."""
    found = [entry for name in _TELLING if (entry := _moved(name, usual, here))]
    return tuple(sorted(found, key=lambda entry: -_size(entry))[:_MOST])


def _moved(name: str, usual: Point, here: Point) -> MetricChange | None:
    before, after = usual.number(name), here.number(name)
    if before is None or after is None:
        return None
    spec = metrics()[name]
    entry = MetricChange(name, spec.label, spec.unit, before, after)
    return entry if _size(entry) >= _LEAST else None


def _size(entry: MetricChange) -> float:
    """Of the change; from or to nothing at all is the largest."""
    low, high = sorted((entry.usual, entry.here))
    if high <= 0:
        return 0.0
    return math.log(high / low) if low > 0 else math.inf


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


VOLUMES = (
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "l2_sectors"),
    *("global_load_sectors", "global_load_requests", "global_store_sectors"),
    *("global_store_requests", "shared_load_wavefronts", "shared_store_wavefronts"),
    *("local_load_requests", "local_store_requests", "bank_conflicts_load"),
    *("bank_conflicts_store", "global_atomic_inst", "global_reduction_inst"),
)
"""Work that the units do: more of it takes longer, if the unit that does it is the limit."""
SM_ACTIVE = "sm_active_share"
"""Made of two columns: share of the elapsed cycles in which the SMs are active."""
_RATES = ("l2_hit_rate_pct", "l1_hit_rate_pct", SM_ACTIVE, "branch_efficiency_pct")
_PACES = ("active_threads_per_warp", "sm_frequency", "dram_frequency")
IN_FLIGHT = "achieved_warps_per_sm"
"""More of it hides latency."""
_SAME = math.log(1.1)
"""Work within that of the best's is the same."""
_BEYOND = math.log(1.05)
"""By so much a counter has to lie outside those of the plateau."""
_POINTS = 5.0
"""The same for a share of something, in percentage points."""
_FEWER = math.log(1.15)
_TRIFLE = 0.01
"""Of the instructions (or, of bytes, of all bytes): less is nobody's reason."""
_MEMORY, _LINKS = frozenset({"DRAM", "L2"}), frozenset({HOST_LINK, "NVLink"})
"""Units that all SMs share; the others are parts of the SMs."""
_ALIKE = 0.02
"""Two counters whose changes differ by less say one thing: requests and their sectors."""


class CounterDifference(NamedTuple):
    """A counter that is another here than on the plateau."""

    column: str
    size: float
    """How far apart; comparable among counters of one kind."""
    kind: int
    """0: work, 1: a rate, 2: what is in flight."""


class SlowPointJudgement(NamedTuple):
    """Of one slow point."""

    differences: tuple[CounterDifference, ...]
    """Work first, the largest first."""
    compared: bool
    """Whether the store holds counters of both at all."""
    starved: bool
    """What is in flight limits it: same work, no measured unit near its peak, fewer warps."""

    @property
    def lead(self) -> str | None:
        return self.differences[0].column if self.differences else None


def judged(
    point: Point, plateau: Sequence[Point], best: Point, shares: Mapping[str, float]
) -> SlowPointJudgement:
    """`plateau`: the points beside it that are as good as the best, the nearest first."""
    beside = [*plateau, best]
    worked = sorted(_volumes(point, beside), key=_by_size)
    rated = sorted([*_rates(point, beside), *_paces(point, beside)], key=_by_size)
    waiting = list(_in_flight(point, beside))
    starved = bool(waiting) and _no_unit_near(shares) and not rated and has_same_work(point, best)
    found = (*_distinct(worked), *rated, *waiting)
    return SlowPointJudgement(found, _are_compared(point, best), starved)


def _no_unit_near(shares: Mapping[str, float]) -> bool:
    """Of units of the memory and of the SMs: those that were not measured may be near."""
    in_memory = shares.keys() & _MEMORY
    in_sms = shares.keys() - _MEMORY - _LINKS
    return bool(in_memory and in_sms) and max(shares.values()) < NEAR


def has_same_work(point: Point, best: Point) -> bool:
    """Every counter of work that the store has of both, and instructions among them."""
    known = value_of(point, "inst_executed_total") and value_of(best, "inst_executed_total")
    return bool(known) and not differing_work([point, best])


def differing_work(points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Counters of work that are not the same for all, with least and most; the widest first."""
    found = []
    for name in VOLUMES:
        values = [v for point in points if (v := value_of(point, name)) is not None]
        weighty = any(not _is_trifle(point, name) for point in points)
        if len(values) == len(points) and weighty and _apart(min(values), max(values)) > _SAME:
            found.append((name, min(values), max(values)))
    return sorted(found, key=lambda each: -_apart(each[1], each[2]))


def value_of(point: Point, column: str) -> float | None:
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
    """Nothing where one of them lacks it: a counter that some lack compares nothing."""
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
    """Of logarithms; something against nothing is the farthest."""
    low, high = sorted((one, other))
    if high <= 0:
        return 0.0
    return math.log(high / low) if low > 0 else math.inf


def _by_size(each: CounterDifference) -> float:
    return -each.size
