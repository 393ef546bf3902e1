"""The gate: regressions of the time or of metrics that exceed a limit and the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.catalog import metric_named, metrics, unit_of
from keet.comparison.comparability import Caveat
from keet.comparison.numbers import Numbers
from keet.comparison.result import Difference, Gate, PairDifference, Regression
from keet.comparison.same_kernel import KernelGroup, SideCapture
from keet.errors import NotComparable, UsageError
from keet.evidence import Evidence, Sentence, constant, counted
from keet.profile import Launch
from keet.units import Quantity

Better = Literal["lower", "higher"]
_WAYS: tuple[Better, ...] = ("lower", "higher")
_MATTERS = 0.01
"""Smallest share of the time for which a kernel is gated."""
_LOWER = {
    "ns", "cycle", "byte", "sector", "request", "wavefront", "inst", "conflict", "register/thread",
    "byte/block", "byte/thread", "sample", "sector/request", "cycle/inst",
}  # fmt: skip
_HIGHER = ("occupancy", "hit_rate", "efficiency", "ipc", "bytes_per_sector", "throughput",
           "threads_per_warp", "eligible_warps", "per_second")  # fmt: skip
_FIXED = ("launch__", "sass__", "smsp__inst_executed", "smsp__sass_inst", "derived__local_spilling")
"""Prefixes of metrics that do not vary from run to run."""


_TIME = ("duration", "gpu__time_duration.sum")
"""Names of the time itself as a metric."""
ALL_KERNELS = "all kernels"


class GatedMetric(NamedTuple):
    """A metric, and which way it gets worse."""

    name: str
    better: Better


class _Gated(NamedTuple):
    """What the gate says about one metric."""

    regressions: list[Regression]
    checked: int
    blurred: Sequence[str] = ()
    missing: Sequence[str] = ()
    alone: Sequence[str] = ()
    not_gated: Sequence[str] = ()
    total: bool = False


def gate_difference(
    difference: Difference, percent: float, metrics: Sequence[str] = ()
) -> Difference:
    """The difference with its gate, of the metrics or of the time where none is named. Raises if
    nothing can be gated."""
    gated = [_gate(difference, parse_metric(name), percent) for name in metrics or _TIME[:1]]
    checked = sum(each.checked for each in gated)
    if not checked:
        raise NotComparable(_nothing_gated(difference))
    regressions = [regression for each in gated for regression in each.regressions]
    gate = Gate(
        percent=percent,
        failed=bool(regressions),
        regressions=regressions,
        blurred=[name for each in gated for name in each.blurred],
        missing=[name for each in gated for name in each.missing],
        total_gated=any(each.total for each in gated),
        not_gated=list(dict.fromkeys(text for each in gated for text in each.not_gated)),
        verdict=_verdict(percent, len(regressions)),
        checked=checked,
        alone=list(dict.fromkeys(name for each in gated for name in each.alone)),
    )
    cited = {each.id: each for each in difference.book}
    return replace(difference, gate=gate, evidence=difference.evidence | cited)


def _verdict(percent: float, regressions: int) -> Sentence:
    limit = constant(percent, "", "gate in per cent")
    if not regressions:
        return Sentence("gate of {limit:g}% passed", limit=limit)
    found = counted(regressions, "regression")
    return Sentence("gate of {limit:g}% failed: {found}", limit=limit, found=found)


def _gate(difference: Difference, metric: GatedMetric, percent: float) -> _Gated:
    if metric.name in _TIME and metric.better == "lower":
        return _gate_time(difference, percent)
    if not known_metric(difference, metric.name):
        report = difference.sides[1].first.profile.provenance.file
        raise UsageError(
            f"--metric {metric.name}: neither report has this metric; see: keet metrics {report}"
        )
    gated = _gate_metric(difference, metric, percent)
    if len(gated.missing) == gated.checked:
        raise NotComparable(
            f"--metric {metric.name}: no kernel has it on both sides, so nothing was gated; "
            "collect it on both sides"
        )
    return gated


def _nothing_gated(difference: Difference) -> str:
    if difference.no_total:
        return f"nothing was gated. {difference.verdict.headline.rstrip('.')}"
    if why := undecided_total(difference):
        return f"nothing was gated: {why}; record both runs with keet profile"
    return (
        "no kernel has a time on both sides, so nothing was gated; collect durations on both sides"
    )


def parse_metric(text: str) -> GatedMetric:
    """`dram_bytes_read`, `launch__registers_per_thread`, `l2_hit_rate_pct:higher`."""
    for better in _WAYS:
        if text.endswith(f":{better}"):
            return GatedMetric(text.removesuffix(f":{better}"), better)
    known = metrics().get(text) or metric_named(text)
    name, unit = (known.id, known.unit) if known else (text, unit_of(text))
    if any(word in name for word in _HIGHER):
        return GatedMetric(text, "higher")
    if unit in _LOWER:
        return GatedMetric(text, "lower")
    raise UsageError(
        f"--metric {text}: keet does not know whether lower or higher is better; "
        f"use --metric {text}:lower or --metric {text}:higher"
    )


def _gate_time(difference: Difference, percent: float) -> _Gated:
    """Gate the total and every kernel that takes 1 % of the time or more; every kernel per launch
    if there is no total."""
    judged = [each for each in _gated(difference) if not _incomparable(each[1])]
    apart = difference.rows > 1 or any(pair.timing.undecided for pair in difference.pairs)
    total = apart and not difference.no_total and not difference.timing.undecided
    rows: list[tuple[str, Difference | PairDifference]] = (
        [(ALL_KERNELS, difference)] if total else []
    )
    rows += [(f"pair {number}", pair) for number, pair in judged]
    regressions, blurred, checked = [], [], 0
    for name, row in rows:
        timing, time = row.timing, row.time
        if timing.before is None or timing.after is None or time is None:
            continue
        checked += 1
        worse, noise = timing.after / timing.before - 1, timing.noise + timing.doubt
        kernel = row.kernel if isinstance(row, PairDifference) else None
        if worse > percent / 100 and math.log1p(worse) > noise:
            entered = Numbers(difference.book, f"gate: {name}")
            metric = _metric(difference)
            regressions.append(_regression(kernel, metric, time.evidence, worse, noise, entered))
        elif worse + noise > percent / 100 and noise > percent / 100:
            blurred.append(kernel or ALL_KERNELS)
    lone = (pair for pair in difference.pairs if not pair.on_both)
    alone = [f"{p.kernel} ({'only before' if p.before else 'only after'})" for p in lone]
    not_gated = list(_not_gated(difference))
    return _Gated(regressions, checked, blurred, alone=alone, not_gated=not_gated, total=total)


def _regression(  # noqa: PLR0913, PLR0917 - what a regression is made of
    kernel: str | None,
    metric: str,
    sides: Sequence[Evidence],
    worse: float,
    noise: float,
    numbers: Numbers,
) -> Regression:
    """`worse`, `noise`: 0.12 is 12 %."""
    known = math.isfinite(worse)
    change = Sentence(
        "{before} → {after}, {worse} (noise {noise:cell})",
        before=sides[0],
        after=sides[1],
        worse=Sentence("{worse:cell} worse", worse=numbers("worse", 100 * worse, "%"))
        if known
        else "from nothing",
        noise=numbers("noise", 100 * noise, "%"),
    )
    before, after = (Quantity(side.value, side.unit) for side in sides)
    return Regression(
        kernel=kernel,
        metric=metric,
        before=before,
        after=after,
        worse=worse if known else None,
        noise=noise,
        text=Sentence(
            "{kernel}: {metric} {change}",
            kernel=kernel or ALL_KERNELS,
            metric=metric,
            change=change,
        ),
        change=change,
    )


def _metric(difference: Difference) -> str:
    if difference.verdict.measure == "durations":
        return "durations in the run"
    return {"run": "time in the run", "per_launch": "time per launch", "reports": "time"}[
        difference.verdict.basis
    ]


def _incomparable(pair: PairDifference) -> bool:
    """Per launch: a launch may do the work of several launches of the other side. In the run:
    kernels overlap."""
    sized = ("work_per_launch", "launch_size", "launch_work")
    return pair.timing.undecided or (
        pair.verdict.basis == "per_launch" and any(caveat.id in sized for caveat in pair.caveats)
    )


def _not_gated(difference: Difference) -> Iterator[str]:
    if difference.no_total:
        why = difference.no_total
        text = "the total was not gated: {cause}; {gated}"
        yield Sentence(text, cause=why.cause, gated=why.gated)
    if in_doubt := undecided_total(difference):
        yield f"the total was not gated: {in_doubt}"
    if difference.run_unknown:
        yield (
            "the whole run was not gated because its time is not known; only the captured launches "
            "were"
        )
    pairs = difference.pairs
    unlike = [pair for pair in pairs if _incomparable(pair)]
    mixed = [pair for pair in unlike if _is_mixed(pair.caveats)]
    overlapping = [p for p in unlike if p.timing.undecided and not _is_mixed(p.caveats)]
    unknown = [pair for pair in pairs if pair.verdict.basis == "run" and pair.timing.unmeasured]
    for reason, left_out in (
        ("a launch may do other work than before", [p for p in unlike if not p.timing.undecided]),
        ("the run table does not distinguish launches", mixed),
        ("kernels ran, or may have run, at the same time", overlapping),
        ("the time in the run is not known", unknown),
    ):
        if left_out:
            names = ", ".join(pair.kernel for pair in left_out[:5])
            yield f"not gated because {reason}: {names}"


def undecided_total(difference: Difference) -> str | None:
    """Why it is not known which way the total changed; None if it is known."""
    if not difference.timing.undecided:
        return None
    if _is_mixed(difference.caveats):
        return "the run table does not distinguish the launches of a kernel"
    return "kernels may have run at the same time"


def _is_mixed(caveats: Sequence[Caveat]) -> bool:
    return any(caveat.id == "mixed_launches" for caveat in caveats)


def _gated(difference: Difference) -> Iterator[tuple[int, PairDifference]]:
    """Kernels with at least 1 % of the time; all kernels if there is no total. With the number of
    the pair."""
    whole = max(difference.timing.before or 0.0, difference.timing.after or 0.0)
    for number, pair in enumerate(difference.pairs):
        longest = max(pair.timing.before or 0.0, pair.timing.after or 0.0)
        if pair.on_both and longest >= _MATTERS * whole:
            yield number, pair


def known_metric(difference: Difference, name: str) -> bool:
    """Some launch of either side has it, or the catalog knows it."""
    launches = (launch for side in difference.sides for launch in side.first.launches)
    return name in metrics() or any(name in launch.metric_names() for launch in launches)


def _gate_metric(difference: Difference, metric: GatedMetric, percent: float) -> _Gated:
    regressions: list[Regression] = []
    missing: list[str] = []
    pairs = [
        (number, pair)
        for number, pair in _gated(difference)
        if len(pair.pairing.before) == len(pair.pairing.after) == 1
    ]  # metrics of fused kernels are not comparable
    for number, pair in pairs:
        values = [
            _values(side.captures, groups[0], metric.name)
            for side, groups in zip(difference.sides, pair.pairing.sides, strict=True)
        ]
        if not all(values):
            missing.append(f"{metric.name} of {pair.kernel}")
            continue
        numbers = Numbers(difference.book, f"gate: {metric.name} of pair {number}")
        if regression := _metric_regression(pair, metric, values, percent, numbers):
            regressions.append(regression)
    return _Gated(regressions, len(pairs), missing=missing)


def _values(runs: Sequence[SideCapture], group: KernelGroup, name: str) -> list[Quantity]:
    """Value of the typical launch in each capture that has the kernel."""
    groups = (run.groups.get(group.key) for run in runs)
    values = (_value(same.typical, name) for same in groups if same)
    return [value for value in values if value is not None]


def _value(launch: Launch, name: str) -> Quantity | None:
    if name in metrics():
        return launch.get(name)
    value = launch.metric(name)
    return value.measured if value else None


def _metric_regression(
    pair: PairDifference,
    metric: GatedMetric,
    sides: Sequence[list[Quantity]],
    percent: float,
    numbers: Numbers,
) -> Regression | None:
    before, after = (statistics.fmean(float(q.value) for q in side) for side in sides)
    worse = after - before if metric.better == "lower" else before - after
    relative = worse / abs(before) if before else math.inf if worse > 0 else 0.0
    noise = _noise(pair, metric.name, sides)
    if relative <= percent / 100 or relative <= noise:
        return None
    unit = sides[0][0].unit
    entered = [numbers(word, value, unit) for word, value in (("before", before), ("after", after))]
    return _regression(pair.kernel, metric.name, entered, relative, noise, numbers)


def _noise(pair: PairDifference, name: str, sides: Sequence[list[Quantity]]) -> float:
    """0 for metrics that never vary; else the noise of the time, or more if the captures show
    more."""
    known = metrics().get(name)
    if (known.names[0] if known else name).startswith(_FIXED):
        return 0.0
    values = [[float(q.value) for q in side] for side in sides]
    degrees = sum(len(side) - 1 for side in values)
    middle = abs(statistics.fmean(values[0]))
    if not degrees or not middle:
        return pair.verdict.noise
    squares = sum((x - statistics.fmean(side)) ** 2 for side in values for x in side)
    variance = squares / degrees * sum(1 / len(side) for side in values)
    return max(pair.verdict.noise, _student(degrees) * math.sqrt(variance) / middle)


def _student(degrees: int) -> float:
    """Student's t for 95 %, by degrees of freedom."""
    exact = {1: 12.7, 2: 4.3, 3: 3.2, 4: 2.8, 5: 2.6}
    return exact.get(degrees, 2.5 if degrees < 10 else 2.2)
