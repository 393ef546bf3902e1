"""The gate: regressions of the time or of metrics that exceed a limit and the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from keet.catalog import metric_named, metrics, unit_of
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.pairing.sides import KernelGroup, SideCapture
from keet.comparison.result import Difference, PairDifference
from keet.errors import NotComparable, UsageError
from keet.formatting import share_cell
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


class GatedMetric(NamedTuple):
    """A metric, and which way it gets worse."""

    name: str
    better: Better


class Regression(NamedTuple):
    """Something that got worse by more than is allowed."""

    pair: PairDifference | None
    """`None`: all kernels together."""
    metric: str
    before: Quantity
    after: Quantity
    worse: float
    """0.12: 12 % worse."""
    noise: float

    @property
    def kernel(self) -> str:
        return self.pair.kernel if self.pair else "all kernels"

    @property
    def change(self) -> str:
        worse = f"{share_cell(self.worse)} worse" if math.isfinite(self.worse) else "from nothing"
        return f"{self.before} → {self.after}, {worse} (noise {share_cell(self.noise)})"

    @property
    def text(self) -> str:
        return f"{self.kernel}: {self.metric} {self.change}"


class Gate(NamedTuple):
    """The limit and the result."""

    percent: float
    regressions: tuple[Regression, ...]
    checked: int
    blurred: tuple[str, ...]
    """Kernels whose noise exceeds the limit."""
    missing: tuple[str, ...] = ()
    """Requested metrics that are not in the reports."""
    alone: tuple[str, ...] = ()
    """Kernels on one side only: they count only in the total."""
    not_gated: tuple[str, ...] = ()
    """What was not gated, in sentences: a missing total, kernels that are not comparable."""
    total: bool = False
    """The total was gated too, not only single kernels."""

    @property
    def failed(self) -> bool:
        return bool(self.regressions)


def gate_difference(difference: Difference, percent: float, metrics: Sequence[str]) -> Gate:
    """Gate the metrics, or the time where none is named. Raises if nothing can be gated."""
    gate = join([_gate(difference, parse_metric(name), percent) for name in metrics or _TIME[:1]])
    if not gate.checked:
        raise NotComparable(_nothing_gated(difference))
    return gate


def _gate(difference: Difference, metric: GatedMetric, percent: float) -> Gate:
    if metric.name in _TIME and metric.better == "lower":
        return gate_time(difference, percent)
    if not known_metric(difference, metric.name):
        report = difference.after.first.profile.provenance.file
        raise UsageError(
            f"--metric {metric.name}: neither report has this metric; see: keet metrics {report}"
        )
    gate = gate_metric(difference, metric, percent)
    if len(gate.missing) == gate.checked:
        raise NotComparable(
            f"--metric {metric.name}: no kernel has it on both sides, so nothing was gated; "
            "collect it on both sides"
        )
    return gate


def _nothing_gated(difference: Difference) -> str:
    if difference.no_total:
        from keet.comparison.sentences import headline

        return f"nothing was gated. {headline(difference).rstrip('.')}"
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
    guess = _direction(known.id if known else text, known.unit if known else unit_of(text))
    if guess is None:
        raise UsageError(
            f"--metric {text}: keet does not know whether lower or higher is better; "
            f"use --metric {text}:lower or --metric {text}:higher"
        )
    return GatedMetric(text, guess)


def _direction(name: str, unit: str) -> Better | None:
    if any(word in name for word in _HIGHER):
        return "higher"
    return "lower" if unit in _LOWER else None


def gate_time(difference: Difference, percent: float) -> Gate:
    """Gate the total and every kernel that takes 1 % of the time or more; every kernel per launch
    if there is no total."""
    pairs = [(pair, pair.timing) for pair in _gated(difference)]
    judged = [(pair, timing) for pair, timing in pairs if not _incomparable(pair)]
    apart = difference.rows > 1 or any(pair.timing.undecided for pair in difference.pairs)
    total = apart and not difference.no_total and not difference.timing.undecided
    rows = [(None, difference.timing), *judged] if total else judged
    found, blurred, checked = [], [], 0
    for pair, timing in rows:
        if timing.before is None or timing.after is None or timing.unmeasured:
            continue
        checked += 1
        worse, noise = timing.after / timing.before - 1, timing.noise + timing.doubt
        before, after = Quantity(timing.before, "ns"), Quantity(timing.after, "ns")
        if worse > percent / 100 and math.log1p(worse) > noise:
            found.append(Regression(pair, _metric(difference), before, after, worse, noise))
        elif worse + noise > percent / 100 and noise > percent / 100:
            blurred.append(pair.kernel if pair else "all kernels")
    return Gate(
        percent,
        tuple(found),
        checked,
        tuple(blurred),
        alone=_alone(difference),
        not_gated=tuple(_not_gated(difference)),
        total=total,
    )


def _metric(difference: Difference) -> str:
    if difference.by_durations:
        return "durations in the run"
    return {"run": "time in the run", "per_launch": "time per launch", "reports": "time"}[
        difference.basis
    ]


def _incomparable(pair: PairDifference) -> bool:
    """Per launch: a launch may do the work of several launches of the other side. In the run:
    kernels overlap."""
    sized = ("work_per_launch", "launch_size", "launch_work")
    return pair.timing.undecided or (
        pair.basis == "per_launch" and any(caveat.id in sized for caveat in pair.caveats)
    )


def _not_gated(difference: Difference) -> Iterator[str]:
    if difference.no_total:
        why = difference.no_total
        yield f"the total was not gated: {why.cause}; {why.gated}"
    if in_doubt := undecided_total(difference):
        yield f"the total was not gated: {in_doubt}"
    if difference.run_unknown:
        yield (
            "the whole run was not gated because its time is not known; only the captured launches "
            "were"
        )
    unlike = [pair for pair in difference.pairs if _incomparable(pair)]
    resized = [pair.kernel for pair in unlike if not pair.timing.undecided]
    if resized:
        yield f"not gated because a launch may do other work than before: {', '.join(resized[:5])}"
    mixed = [pair.kernel for pair in unlike if _is_mixed(pair.caveats)]
    if mixed:
        names = ", ".join(mixed[:5])
        yield f"not gated because the run table does not distinguish launches: {names}"
    undecided = [pair for pair in unlike if pair.timing.undecided]
    overlapping = [pair.kernel for pair in undecided if not _is_mixed(pair.caveats)]
    if overlapping:
        names = ", ".join(overlapping[:5])
        yield f"not gated because kernels ran, or may have run, at the same time: {names}"
    unknown = [p.kernel for p in difference.pairs if p.basis == "run" and p.timing.unmeasured]
    if unknown:
        yield f"not gated because the time in the run is not known: {', '.join(unknown[:5])}"


def undecided_total(difference: Difference) -> str | None:
    """Why it is not known which way the total changed; None if it is known."""
    if not difference.timing.undecided:
        return None
    if _is_mixed(difference.caveats):
        return "the run table does not distinguish the launches of a kernel"
    return "kernels may have run at the same time"


def _is_mixed(caveats: Sequence[Caveat]) -> bool:
    return any(caveat.id == "mixed_launches" for caveat in caveats)


def _alone(difference: Difference) -> tuple[str, ...]:
    lone = (p for p in difference.pairs if not p.on_both)
    return tuple(
        f"{pair.kernel} ({'only before' if pair.pairing.before else 'only after'})" for pair in lone
    )


def _gated(difference: Difference) -> Iterator[PairDifference]:
    """Kernels with at least 1 % of the time; all kernels if there is no total."""
    whole = max(difference.timing.before or 0.0, difference.timing.after or 0.0)
    for pair in difference.pairs:
        longest = max(pair.timing.before or 0.0, pair.timing.after or 0.0)
        if pair.on_both and longest >= _MATTERS * whole:
            yield pair


def known_metric(difference: Difference, name: str) -> bool:
    """Some launch of either side has it, or the catalog knows it."""
    sides = (difference.before, difference.after)
    launches = (launch for side in sides for launch in side.first.launches)
    return name in metrics() or any(name in launch.metric_names() for launch in launches)


def gate_metric(difference: Difference, metric: GatedMetric, percent: float) -> Gate:
    found: list[Regression] = []
    missing: list[str] = []
    pairs = [
        p for p in _gated(difference) if len(p.pairing.before) == len(p.pairing.after) == 1
    ]  # metrics of fused kernels are not comparable
    for pair in pairs:
        sides = [
            _values(side.captures, group, metric.name)
            for side, group in (
                (difference.before, pair.pairing.before[0]),
                (difference.after, pair.pairing.after[0]),
            )
        ]
        if not all(sides):
            missing.append(f"{metric.name} of {pair.kernel}")
        elif regression := _regression(pair, metric, sides, percent):
            found.append(regression)
    return Gate(percent, tuple(found), len(pairs), (), tuple(missing))


def _values(runs: Sequence[SideCapture], group: KernelGroup, name: str) -> list[Quantity]:
    """Value of the typical launch in each capture that has the kernel."""
    found = []
    for run in runs:
        same = run.groups.get(group.key)
        value = _value(same.typical, name) if same else None
        if value is not None:
            found.append(value)
    return found


def _value(launch: Launch, name: str) -> Quantity | None:
    if name in metrics():
        return launch.get(name)
    found = launch.metric(name)
    return found.measured if found else None


def _regression(
    pair: PairDifference, metric: GatedMetric, sides: Sequence[list[Quantity]], percent: float
) -> Regression | None:
    before, after = (statistics.fmean(float(q.value) for q in side) for side in sides)
    worse = after - before if metric.better == "lower" else before - after
    relative = worse / abs(before) if before else math.inf if worse > 0 else 0.0
    noise = _noise(pair, metric.name, sides)
    if relative <= percent / 100 or relative <= noise:
        return None
    unit = sides[0][0].unit
    return Regression(
        pair, metric.name, Quantity(before, unit), Quantity(after, unit), relative, noise
    )


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
        return pair.timing.noise
    squares = sum((x - statistics.fmean(side)) ** 2 for side in values for x in side)
    variance = squares / degrees * sum(1 / len(side) for side in values)
    return max(pair.timing.noise, _student(degrees) * math.sqrt(variance) / middle)


def _student(degrees: int) -> float:
    """Student's t for 95 %, by degrees of freedom."""
    exact = {1: 12.7, 2: 4.3, 3: 3.2, 4: 2.8, 5: 2.6}
    return exact.get(degrees, 2.5 if degrees < 10 else 2.2)


def join(gates: Sequence[Gate]) -> Gate:
    return Gate(
        gates[0].percent,
        tuple(each for gate in gates for each in gate.regressions),
        sum(gate.checked for gate in gates),
        tuple(each for gate in gates for each in gate.blurred),
        tuple(each for gate in gates for each in gate.missing),
        tuple(dict.fromkeys(each for gate in gates for each in gate.alone)),
        tuple(dict.fromkeys(each for gate in gates for each in gate.not_gated)),
        any(gate.total for gate in gates),
    )
