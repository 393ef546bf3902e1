"""Makes a sweep of a series: its curve, the best point, changes of the limiter, and noise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.points import Point
from keet.corpus.insights.series import Capture, Coordinate, Series
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
_SEEN = 0.01
"""Bytes stored over bytes moved; below that, the result says nothing about the problem size."""

Counter = Callable[[Point], float | None]


class WorkJudgement(NamedTuple):
    work: Work
    counter: str | None
    """The counter that measures the work, if it varies."""


def judge_work(points: Sequence[Point], knob: Sequence[float] | None) -> WorkJudgement:
    """`knob`: its values if they are numbers."""
    known = {name: values for name, f in _COUNTERS.items() if (values := _all(points, f))}
    if knob and "inst_executed_total" in known:
        slope = _slope(knob, known["inst_executed_total"])
        if slope is not None and _SLOPE[0] <= slope <= _SLOPE[1]:
            return WorkJudgement("varies", "inst_executed_total")
    if not known:
        return WorkJudgement("unknown", None)
    spans = {name: max(values) / min(values) for name, values in known.items()}
    if any(span <= _SAME for span in spans.values()):
        return WorkJudgement("same", None)
    if all(span >= _GROWN for span in spans.values()) and _agree(list(known.values())):
        return WorkJudgement("varies", next(iter(known)))
    return WorkJudgement("unknown", None)


def unchanged_work(points: Sequence[Point]) -> list[str]:
    """Names of the counters of work that are about the same at all points."""
    known = {name: values for name, f in _COUNTERS.items() if (values := _all(points, f))}
    return [_NAMES[name] for name, each in known.items() if max(each) / min(each) <= _SAME]


def work_of(point: Point, counter: str) -> float | None:
    return _COUNTERS[counter](point)


def _instructions(point: Point) -> float | None:
    return point.number("inst_executed_total")


def _dram_bytes(point: Point) -> float | None:
    read, written = point.number("dram_bytes_read"), point.number("dram_bytes_written")
    return None if read is None or written is None else read + written


def _stored_bytes(point: Point) -> float | None:
    """Bytes that the kernel stores; None if they are few compared with the bytes it moves."""
    sectors = point.number("global_store_sectors")
    each, moved = point.number("global_store_bytes_per_sector"), _dram_bytes(point)
    if sectors is None or each is None or moved is None:
        return None
    return sectors * each if sectors * each >= _SEEN * moved else None


_COUNTERS: dict[str, Counter] = {
    "inst_executed_total": _instructions,
    "dram_bytes": _dram_bytes,
    "stored_bytes": _stored_bytes,
}


_NAMES = {
    "inst_executed_total": "executed instructions",
    "dram_bytes": "DRAM bytes",
    "stored_bytes": "stored bytes",
}


def _all(points: Sequence[Point], counter: Counter) -> list[float]:
    """Empty if a point lacks the counter."""
    values = [counter(point) for point in points]
    return [v for v in values if v] if all(v is not None and v > 0 for v in values) else []


def _agree(series: list[list[float]]) -> bool:
    """All counters rise and fall together."""
    orders = [sorted(range(len(values)), key=values.__getitem__) for values in series]
    return all(order == orders[0] for order in orders)


def _slope(knob: Sequence[float], values: Sequence[float]) -> float | None:
    """Least-squares slope of ln(value) over ln(knob); None if the correlation is low."""
    if min(knob) <= 0:
        return None
    pairs = [(math.log(k), math.log(v)) for k, v in zip(knob, values)]
    mean_k = sum(k for k, _ in pairs) / len(pairs)
    mean_v = sum(v for _, v in pairs) / len(pairs)
    spread = sum((k - mean_k) ** 2 for k, _ in pairs)
    slope = sum((k - mean_k) * (v - mean_v) for k, v in pairs) / spread if spread else 0.0
    rest = sum((v - mean_v - slope * (k - mean_k)) ** 2 for k, v in pairs)
    total = sum((v - mean_v) ** 2 for _, v in pairs)
    return slope if total and 1 - rest / total > 0.95 else None


Shares = Mapping[tuple[str, int], Mapping[str, float]]
Kind = Literal["parameter", "size", "gpu", "version"]

_MOST_UNITS = 4
_UNITS = {
    "inst_executed_total": ("million instructions", 1e6),
    "dram_bytes": ("MB of DRAM traffic", 1e6),
    "stored_bytes": ("MB stored", 1e6),
}
"""Name and size of the unit of work, by counter."""


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


class _Curve(NamedTuple):
    values: tuple[float | str, ...]
    points: tuple[Point, ...]
    files: tuple[int, ...]
    costs: tuple[float, ...]


def representatives(series: Series | Alternatives) -> list[Point]:
    """The file with the median time for each value; of the middle two, the faster one."""
    return [_median(points) for _, points in series.values]


def _median(points: Sequence[Point]) -> Point:
    return sorted(points, key=lambda point: point.duration_us)[(len(points) - 1) // 2]


def measured_series(series: Series, shares: Shares) -> MeasuredSweep:
    points = representatives(series)
    values = [value for value, _ in series.values]
    judged = judge_work(points, values)
    kind: Kind = "size" if judged.work == "varies" else "parameter"
    curve = _curve(series, points, judged)
    sweep = _sweep(series.knob.name, kind, judged, curve, shares)
    return MeasuredSweep(
        replace(
            sweep,
            source=series.knob.source,
            fixed=_shown_fixed(series.fixed),
            moves_with=[c.name for c in (*series.tied, *series.follows)],
            left_out=[
                LeftOutDocument(value=v, shown=shown_value(v), path=p.path, why=why)
                for v, p, why in series.left
            ],
        ),
        curve.points,
        _shares_of(curve.points, shares),
        _times_of(series),
    )


def measured_alternatives(found: Alternatives, shares: Shares) -> MeasuredSweep:
    """The launches are the same; their counters differ between GPUs and are not compared."""
    points = representatives(found)
    curve = _curve(found, points, WorkJudgement("same", None))
    kind: Kind = "gpu" if found.kind == "gpu" else "version"
    sweep = _sweep(found.knob, kind, WorkJudgement("same", None), curve, shares)
    moved = replace(sweep, moves_with=list(found.moves_with))
    of_points = _shares_of(curve.points, shares)
    return MeasuredSweep(moved, curve.points, of_points, _times_of(found))


def _times_of(series: Series | Alternatives) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(point.duration_us for point in points) for _, points in series.values)


def with_distinguishing(measured: Sequence[MeasuredSweep]) -> list[MeasuredSweep]:
    """Sets `distinguishing`: a value that all sweeps of a kernel share distinguishes none."""
    groups: dict[tuple[str, str], list[frozenset[str]]] = defaultdict(list)
    for each in measured:
        groups[each.sweep.kernel, each.sweep.knob].append(frozenset(each.sweep.fixed))
    shared = {key: frozenset.intersection(*fixed) for key, fixed in groups.items()}
    return [
        each._replace(
            distinguishing=tuple(
                value
                for value in each.sweep.fixed
                if value not in shared[each.sweep.kernel, each.sweep.knob]
            )
        )
        for each in measured
    ]


def _shares_of(points: Sequence[Point], shares: Shares) -> tuple[Mapping[str, float], ...]:
    return tuple(shares.get((point.sha256, point.launch), {}) for point in points)


def _curve(series: Series | Alternatives, points: Sequence[Point], judged: WorkJudgement) -> _Curve:
    values = tuple(value for value, _ in series.values)
    files = tuple(len({point.sha256 for point in all_}) for _, all_ in series.values)
    costs = tuple(_cost(point, judged) for point in points)
    return _Curve(values, tuple(points), files, costs)


def _cost(point: Point, judged: WorkJudgement) -> float:
    """What is compared: the time, or the time per unit of work if the work varies."""
    work = work_of(point, judged.counter) if judged.counter else None
    return (
        point.duration_us / (work / _UNITS[judged.counter or ""][1]) if work else point.duration_us
    )


def _sweep(
    knob: str, kind: Kind, judged: WorkJudgement, curve: _Curve, shares: Shares
) -> SweepDocument:
    first = curve.points[0]
    comparable = judged.work != "unknown"
    only_noise = comparable and _is_noise(curve)
    best = curve.costs.index(min(curve.costs)) if comparable and not only_noise else None
    units = _units(curve.points, shares)
    return SweepDocument(
        kernel=_kernel_name(curve.points),
        device=first.device,
        knob=knob,
        source="report",
        kind=kind,
        fixed=[],
        moves_with=[],
        work=judged.work,
        work_unit=_UNITS[judged.counter][0] if judged.counter else None,
        points=[_point(curve, i, best, judged, units, shares) for i in range(len(curve.costs))],
        best=best,
        only_noise=only_noise,
        changes=_changes(curve),
        left_out=[],
    )


def _kernel_name(points: Sequence[Point]) -> str:
    """For several template instances, the name of the function."""
    names = {point.kernel for point in points}
    return names.pop() if len(names) == 1 else points[0].kernel.partition("<")[0] + "<…>"


def _is_noise(curve: _Curve) -> bool:
    shortest = min(point.duration_us for point in curve.points)
    spread = math.log(max(curve.costs) / min(curve.costs))
    return spread <= noise.BEYOND * noise.between_sessions(shortest)


def _point(  # noqa: PLR0913, PLR0917 - one row of the curve
    curve: _Curve,
    i: int,
    best: int | None,
    judged: WorkJudgement,
    units: Sequence[str],
    shares: Shares,
) -> CurvePointDocument:
    point = curve.points[i]
    known = shares.get((point.sha256, point.launch), {})
    return CurvePointDocument(
        value=curve.values[i],
        shown=shown_value(curve.values[i]),
        path=point.path,
        launch=point.launch,
        files=curve.files[i],
        time_us=point.duration_us,
        cost=curve.costs[i] if judged.counter else None,
        limiter=point.texts["limiter"],
        reached_pct=point.number("reached_pct"),
        units={unit: known[unit] for unit in units if unit in known},
        tied=best is not None and _tied(curve, i, best),
    )


def _tied(curve: _Curve, i: int, best: int) -> bool:
    shortest = min(curve.points[i].duration_us, curve.points[best].duration_us)
    slower = math.log(curve.costs[i] / curve.costs[best])
    return slower <= noise.TIED * noise.between_sessions(shortest)


def _shown_fixed(fixed: Sequence[tuple[Coordinate, float]]) -> list[str]:
    """Constant values that people chose: numbers in names and template arguments."""
    return [f"{c.name} {shown_value(value)}" for c, value in fixed if c.rank <= 1]


# --- limiters


def limiters(text: str | None) -> tuple[str, ...]:
    """`DRAM+L2` counts as DRAM: L2 passes on what DRAM delivers, and is as busy."""
    names = (text or "").split("+") if text else []
    return tuple(name for name in names if not (name == "L2" and "DRAM" in names))


def _units(points: Sequence[Point], shares: Shares) -> list[str]:
    """Units that are the limiter at some point, the busiest first."""
    named = {name for point in points for name in limiters(point.texts["limiter"])}
    if named and named <= {"latency"}:
        named = {_busiest(shares.get((point.sha256, point.launch), {})) for point in points}

    def peak(unit: str) -> float:
        """A unit without a measured share comes last."""
        known = (shares.get((p.sha256, p.launch), {}) for p in points)
        return max((found[unit] for found in known if unit in found), default=-1.0)

    real = [unit for unit in named if unit not in ("", "latency", "unknown")]
    return sorted(real, key=lambda unit: (-peak(unit), unit))[:_MOST_UNITS]


def _busiest(shares: Mapping[str, float]) -> str:
    return max(shares, key=lambda unit: shares[unit], default="")


def _changes(curve: _Curve) -> list[LimiterChangeDocument]:
    """A limiter stays the same as long as it is among the busiest units."""
    found: list[LimiterChangeDocument] = []
    lead: str | None = None
    for before, after in pairwise(range(len(curve.points))):
        was, now = (limiters(curve.points[i].texts["limiter"]) for i in (before, after))
        if not was or not now:
            lead = None
            continue
        lead = lead if lead in was else was[0]
        if lead not in now:
            start, end = (shown_value(curve.values[i]) for i in (before, after))
            change = LimiterChangeDocument(after=start, until=end, was=lead, becomes=now[0])
            found.append(change)
            lead = now[0]
    return found


_VERSIONS = (
    ("driver", "driver_version"),
    ("CUDA version", "cuda_version"),
    ("ncu version", "ncu_version"),
)

_LEAST_EACH = 2
"""Fewest files per version: a single file may differ for other reasons."""


class Alternatives(NamedTuple):
    """The same launch on several GPUs, or with several versions."""

    knob: str
    kind: str
    """`gpu` or `version`."""
    values: tuple[tuple[str, tuple[Point, ...]], ...]
    moves_with: tuple[str, ...] = ()


def alike(captures: Iterable[Capture], *, across_devices: bool) -> list[list[Point]]:
    """Captures with the same coordinates."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for capture in captures:
        chosen = tuple(sorted((c, v) for c, v in capture.at.items() if not _is_compiled(c.name)))
        device = "" if across_devices else capture.point.device
        groups[capture.group, chosen, device].append(capture.point)
    return list(groups.values())


def _is_compiled(name: str) -> bool:
    """The compiler chooses registers, which differ between GPUs and versions."""
    return name == "registers per thread"


def gpu_alternatives(captures: Sequence[Capture]) -> list[Alternatives]:
    groups = alike(captures, across_devices=True)
    made = (_by("GPU", "gpu", group, lambda point: point.device) for group in groups)
    return [found for found in made if found]


def version_alternatives(captures: Sequence[Capture]) -> list[Alternatives]:
    """By the first of driver, CUDA and ncu that varies; the others are said to change with it."""
    found = (_by_version(group) for group in alike(captures, across_devices=False))
    return [each for each in found if each]


def _by_version(points: Sequence[Point]) -> Alternatives | None:
    varying = [
        (name, column)
        for name, column in _VERSIONS
        if len({point.texts[column] for point in points} - {None}) > 1
    ]
    if not varying:
        return None
    (name, column), *rest = varying
    known = [point for point in points if point.texts[column] is not None]
    made = _by(name, "version", known, lambda point: point.texts[column] or "")
    if made is None or any(len(files) < _LEAST_EACH for _, files in made.values):
        return None
    return made._replace(moves_with=tuple(other for other, _ in rest))


def _by(
    knob: str, kind: str, points: Sequence[Point], value: Callable[[Point], str]
) -> Alternatives | None:
    values: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        values[value(point)].append(point)
    if len(values) < 2:
        return None
    ordered = sorted(values, key=_version_key)
    return Alternatives(knob, kind, tuple((v, tuple(values[v])) for v in ordered))


def _version_key(text: str) -> list[tuple[int, str]]:
    """`9.2` before `10.1`."""
    return [(int(part) if part.isdigit() else -1, part) for part in text.split(".")]
