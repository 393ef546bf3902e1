"""Makes a sweep of a series: its curve, the best point, changes of the limiter, and noise."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.metric_changes import correlation
from keet.corpus.insights.points import Point
from keet.corpus.insights.series import Series
from keet.documents.insights import (
    CurvePointDocument,
    LeftOutDocument,
    LimiterChangeDocument,
    SweepDocument,
    Work,
    shown_value,
)

_SAME = 1.15
"""Largest ratio at which a counter counts as unchanged."""
_GROWN = 1.3
"""Smallest ratio at which it counts as another problem."""
_SLOPE = (0.75, 1.35)
"""Range of slopes at which instructions are proportional to the knob, which is then a size."""
_LEAST_FIT = 0.95
"""Share of the variance that the slope explains."""
_SEEN = 0.01
"""Bytes stored over bytes moved; below that, the result says nothing about the problem size."""


class WorkCounter(NamedTuple):
    """A counter of the work of a launch."""

    label: str
    unit: str
    """For a million of them."""
    of: Callable[[Point], float | None]


class WorkJudgement(NamedTuple):
    work: Work
    counter: WorkCounter | None = None
    """The counter that measures the work, if it varies."""


def judge_work(points: Sequence[Point], knob: Sequence[float]) -> WorkJudgement:
    """`knob`: its values, which are numbers."""
    known = dict(_measured_work(points))
    if _INSTRUCTIONS in known:
        slope = _slope(knob, known[_INSTRUCTIONS])
        if slope is not None and _SLOPE[0] <= slope <= _SLOPE[1]:
            return WorkJudgement("varies", _INSTRUCTIONS)
    if not known:
        return WorkJudgement("unknown")
    spans = [max(values) / min(values) for values in known.values()]
    if any(span <= _SAME for span in spans):
        return WorkJudgement("same")
    orders = [sorted(range(len(points)), key=values.__getitem__) for values in known.values()]
    rise_together = all(order == orders[0] for order in orders)
    if all(span >= _GROWN for span in spans) and rise_together:
        return WorkJudgement("varies", next(iter(known)))
    return WorkJudgement("unknown")


def unchanged_work(points: Sequence[Point]) -> list[str]:
    """Names of the counters of work that are about the same at all points."""
    known = _measured_work(points)
    return [counter.label for counter, values in known if max(values) / min(values) <= _SAME]


def _measured_work(points: Sequence[Point]) -> Iterator[tuple[WorkCounter, list[float]]]:
    """The counters that all points have."""
    for counter in _COUNTERS:
        values = [value for value in map(counter.of, points) if value is not None and value > 0]
        if len(values) == len(points):
            yield counter, values


def _dram_bytes(point: Point) -> float | None:
    read, written = point.number("dram_bytes_read"), point.number("dram_bytes_written")
    return None if read is None or written is None else read + written


def _stored_bytes(point: Point) -> float | None:
    """Bytes that the kernel stores; None if they are few compared with the bytes it moves."""
    sectors, moved = point.number("global_store_sectors"), _dram_bytes(point)
    bytes_per_sector = point.number("global_store_bytes_per_sector")
    if sectors is None or bytes_per_sector is None or moved is None:
        return None
    stored = sectors * bytes_per_sector
    return stored if stored >= _SEEN * moved else None


_INSTRUCTIONS = WorkCounter(
    "executed instructions",
    "million instructions",
    lambda point: point.number("inst_executed_total"),
)
_COUNTERS = (
    _INSTRUCTIONS,
    WorkCounter("DRAM bytes", "MB of DRAM traffic", _dram_bytes),
    WorkCounter("stored bytes", "MB stored", _stored_bytes),
)


def _slope(knob: Sequence[float], values: Sequence[float]) -> float | None:
    """Least-squares slope of ln(value) over ln(knob); None if the correlation is low."""
    if min(knob) <= 0:
        return None
    x, y = list(map(math.log, knob)), list(map(math.log, values))
    if correlation(x, y) ** 2 <= _LEAST_FIT:
        return None
    return statistics.linear_regression(x, y).slope


Shares = Mapping[tuple[str, int], Mapping[str, float]]

_MOST_UNITS = 4


class MeasuredSweep(NamedTuple):
    """A sweep with the points of the store that it consists of, in the same order."""

    sweep: SweepDocument
    points: tuple[Point, ...]
    shares: tuple[Mapping[str, float], ...]
    """Share of peak by hardware unit, per point."""
    times_us: tuple[tuple[float, ...], ...] = ()
    """Times of all files, per point; only the file with the median time is a point."""
    distinguishing: tuple[str, ...] = ()
    """Fixed values that other sweeps of the same kernel and knob do not have."""


def representatives(series: Series) -> list[Point]:
    """The file with the median time for each value; of the middle two, the faster one."""
    ranked = (sorted(points, key=lambda p: p.duration_us) for _, points in series.values)
    return [points[(len(points) - 1) // 2] for points in ranked]


def measured(series: Series, shares: Shares) -> MeasuredSweep:
    """`shares`: of peak by hardware unit, of its representatives by report and launch."""
    points = representatives(series)
    of_points = [shares.get((point.sha256, point.launch), {}) for point in points]
    judged, kind = _judged(series, points)
    costs = [_cost(point, judged.counter) for point in points]
    deviation = noise.between_sessions(min(point.duration_us for point in points))
    is_comparable = judged.work != "unknown"
    only_noise = is_comparable and math.log(max(costs) / min(costs)) <= noise.BEYOND * deviation
    best = costs.index(min(costs)) if is_comparable and not only_noise else None
    units = _units(points, of_points)
    values = [value for value, _ in series.values]
    curve = [
        CurvePointDocument(
            value=value,
            shown=shown_value(value),
            path=point.path,
            launch=point.launch,
            files=len({file.sha256 for file in files}),
            time_us=point.duration_us,
            cost=cost if judged.counter else None,
            limiter=point.texts["limiter"],
            reached_pct=point.number("reached_pct"),
            units={unit: known[unit] for unit in units if unit in known},
            tied=best is not None
            and math.log(cost / costs[best])
            <= noise.TIED
            * noise.between_sessions(min(point.duration_us, points[best].duration_us)),
        )
        for (value, files), point, cost, known in zip(series.values, points, costs, of_points)
    ]
    sweep = SweepDocument(
        kernel=_kernel_name(points),
        device=points[0].device,
        knob=series.knob.name,
        source=series.knob.source,
        kind=kind,
        fixed=[f"{c.name} {shown_value(value)}" for c, value in series.fixed if c.rank <= 1],
        moves_with=list(series.moves_with),
        work=judged.work,
        work_unit=judged.counter.unit if judged.counter else None,
        points=curve,
        best=best,
        only_noise=only_noise,
        changes=_changes(points, [shown_value(value) for value in values]),
        left_out=[
            LeftOutDocument(value=value, shown=shown_value(value), path=point.path, why=why)
            for value, point, why in series.left
        ],
    )
    times = (tuple(point.duration_us for point in files) for _, files in series.values)
    return MeasuredSweep(sweep, tuple(points), tuple(of_points), tuple(times))


def _judged(
    series: Series, points: Sequence[Point]
) -> tuple[WorkJudgement, Literal["parameter", "size", "gpu", "version"]]:
    """The work, and the kind of the sweep. Launches on several GPUs are the same; their counters
    differ and are not compared."""
    if series.kind != "number":
        return WorkJudgement("same"), series.kind
    judged = judge_work(points, [value for value, _ in series.values if not isinstance(value, str)])
    return judged, "size" if judged.work == "varies" else "parameter"


def _cost(point: Point, counter: WorkCounter | None) -> float:
    """What is compared: the time, or the time per million units of work if the work varies."""
    work = counter.of(point) if counter else None
    return point.duration_us / (work / 1e6) if work else point.duration_us


def _kernel_name(points: Sequence[Point]) -> str:
    """For several template instances, the name of the function."""
    names = {point.kernel for point in points}
    return names.pop() if len(names) == 1 else points[0].kernel.partition("<")[0] + "<…>"


def with_distinguishing(sweeps: Sequence[MeasuredSweep]) -> list[MeasuredSweep]:
    """Sets `distinguishing`: a value that all sweeps of a kernel share distinguishes none."""
    groups: dict[tuple[str, str], list[set[str]]] = defaultdict(list)
    for each in sweeps:
        groups[each.sweep.kernel, each.sweep.knob].append(set(each.sweep.fixed))
    shared = {key: set.intersection(*fixed) for key, fixed in groups.items()}
    return [
        sweep._replace(
            distinguishing=tuple(
                value
                for value in sweep.sweep.fixed
                if value not in shared[sweep.sweep.kernel, sweep.sweep.knob]
            )
        )
        for sweep in sweeps
    ]


# --- limiters


def limiters(text: str | None) -> tuple[str, ...]:
    """`DRAM+L2` counts as DRAM: L2 passes on what DRAM delivers, and is as busy."""
    names = text.split("+") if text else []
    return tuple(name for name in names if not (name == "L2" and "DRAM" in names))


def _units(points: Sequence[Point], shares: Sequence[Mapping[str, float]]) -> list[str]:
    """Units that are the limiter at some point, the busiest first."""
    named = {name for point in points for name in limiters(point.texts["limiter"])}
    if named and named <= {"latency"}:
        named = {max(known, key=known.__getitem__, default="") for known in shares}
    # A unit without a measured share comes last.
    peaks = {unit: max(known.get(unit, -1.0) for known in shares) for unit in named}
    real = [unit for unit in named if unit not in ("", "latency", "unknown")]
    return sorted(real, key=lambda unit: (-peaks[unit], unit))[:_MOST_UNITS]


def _changes(points: Sequence[Point], shown: Sequence[str]) -> list[LimiterChangeDocument]:
    """A limiter stays the same as long as it is among the busiest units. `shown`: the values."""
    changes: list[LimiterChangeDocument] = []
    lead: str | None = None
    named = [limiters(point.texts["limiter"]) for point in points]
    for (after, was), (until, now) in pairwise(zip(shown, named)):
        if not was or not now:
            lead = None
            continue
        lead = lead if lead in was else was[0]
        if lead not in now:
            change = LimiterChangeDocument(after=after, until=until, was=lead, becomes=now[0])
            changes.append(change)
            lead = now[0]
    return changes
