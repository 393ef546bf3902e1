"""Times of a pair before and after, their noise, and the verdict: faster, slower, unchanged.

Captures of an unchanged program differ from one measurement session to the next (a session:
captures at most an hour apart), less within a session, and launches within one report even less. So
one report does not show its own noise. More captures of the same session reduce only the smaller
part of it; captures of other sessions reduce all of it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from keet.comparison.pairs import Pairing
from keet.comparison.same_kernel import KernelGroup, Side, SideCapture, time_in
from keet.documents.diff import VerdictWord

# How much captures of an unchanged kernel differ: standard deviation of the log of their ratio.
# Measured on an H200 on 2026-11-15 with 40 kernels of the samples (docs/diff_times.md,
# `evals.noise`). Other GPUs were not measured.


def deviation_across_days(ns: float) -> float:
    """Of captures on different days, or on different GPUs of the same kind. `ns`: of one launch."""
    return math.hypot(0.025, 400 / ns)


def deviation_within_hour(ns: float) -> float:
    """Of captures made one after the other. `ns`: of one launch."""
    return math.hypot(0.007, 250 / ns)


# Of plain runs without a profiler, which do not have the extra noise of a short launch under ncu.
# Measured on an H200 (docs/diff_times.md, `evals.recording_cost`): 0.0 to 0.5 % in a session, and
# 0.1 to 4.7 % between three of them.
PLAIN_ACROSS_DAYS = 0.035
PLAIN_WITHIN_HOUR = 0.007
_SESSION = timedelta(hours=1)
"""Captures that are further apart belong to different measurement sessions."""
_TURNS = 3
"""Captures per side, at least, to detect that both sides were profiled alternately."""
_ASSUMED_RUNS = 4
"""The assumed noise counts as much as this many captures."""
_COVER = 2.0
"""Standard deviations: 95 % of random differences are smaller."""
_COARSE = 0.1
"""With more noise, a small difference is `inconclusive`, not `unchanged`."""


class Timing(NamedTuple):
    """Time of a pair before and after, all its launches together, in nanoseconds."""

    before: float | None
    after: float | None
    noise: float
    """Random error of the ratio, two standard deviations: 0.05 is 5 %."""
    doubt: float = 0.0
    """Further uncertainty from caveats, such as other clocks or caches; added to `noise`."""
    unmeasured: bool = False
    """A launch has no time, so the sum of the others is incomplete."""
    undecided: bool = False
    """The two times do not show which way it changed, because kernels overlap or may overlap."""

    @property
    def speedup(self) -> float | None:
        """Time before over time after."""
        known = self.before and self.after and not (self.unmeasured or self.undecided)
        return self.before / self.after if known else None  # type: ignore[operator]

    @property
    def saved(self) -> float:
        """Nanoseconds; negative if it got slower."""
        return (self.before or 0.0) - (self.after or 0.0)

    @property
    def word(self) -> VerdictWord:
        speedup = self.speedup
        if speedup is None:
            return "inconclusive"
        change = abs(math.log(speedup))
        if change > self.noise + self.doubt:
            return "faster" if speedup > 1 else "slower"
        clear = not self.doubt and self.noise <= _COARSE
        return "unchanged" if clear else "inconclusive"


class MeasuredSide(NamedTuple):
    """Times of one side of a pair: the sum over its launches, one value per capture."""

    times: list[float]
    one_launch: float
    """Average nanoseconds of a launch."""
    sessions: int
    """Number of measurement sessions in which the captures were made."""
    plain: bool = False
    """The times are from runs without a profiler."""

    @property
    def within(self) -> float:
        """Variance of the logarithm of one capture's time, within a session."""
        deviation = PLAIN_WITHIN_HOUR if self.plain else deviation_within_hour(self.one_launch)
        return deviation**2 / 2

    @property
    def between(self) -> float:
        """Additional variance between sessions."""
        deviation = PLAIN_ACROSS_DAYS if self.plain else deviation_across_days(self.one_launch)
        return deviation**2 / 2 - self.within

    @property
    def spread(self) -> float:
        """Expected variance among these captures."""
        return self.within if self.sessions == 1 else self.within + self.between

    def variance(self, scale: float, *, by_turns: bool) -> float:
        """Of the mean of the captures. Captures of one session do not show the variance between
        sessions, so it is assumed; it cancels out if both sides were profiled by turns."""
        between = 0.0 if by_turns else self.between * (scale if self.sessions > 1 else 1.0)
        return between / self.sessions + scale * self.within / len(self.times)


Weights = tuple[Sequence[float], Sequence[float]]
"""Weight of each group of a pairing, before and after."""


def time_pair(
    pairing: Pairing, before: Side, after: Side, doubt: float = 0.0, weights: Weights | None = None
) -> Timing:
    """`weights`: default: each launch counts as often as the reports have it."""
    ones, others = weights or (
        [float(before.scale)] * len(pairing.before),
        [float(after.scale)] * len(pairing.after),
    )
    one = _measure(before, pairing.before, ones)
    other = _measure(after, pairing.after, others)
    missing = (pairing.before and not one) or (pairing.after and not other)
    known = [each for each in (one, other) if each]
    spread = _launch_variance(pairing, min((len(each.times) for each in known), default=1))
    noise = 0.0 if missing else _noise(known, spread, by_turns=_by_turns(before, after))
    return Timing(_mean(one), _mean(other), noise, doubt, bool(missing))


def time_runs(
    one: MeasuredSide | None,
    other: MeasuredSide | None,
    before: Side,
    after: Side,
    doubt: float = 0.0,
) -> Timing:
    """Of times of whole runs, which include every launch: launches add no noise."""
    known = [each for each in (one, other) if each]
    noise = _noise(known, 0.0, by_turns=_by_turns(before, after))
    return Timing(_mean(one), _mean(other), noise, doubt)


def measured_runs(side: Side, times: Sequence[float]) -> MeasuredSide | None:
    """Of plain runs. None if the kernels take no time."""
    positive = [time for time in times if time > 0]
    if not positive:
        return None
    return MeasuredSide(positive, math.inf, _sessions(_captured(side)), plain=True)


def _mean(side: MeasuredSide | None) -> float | None:
    return statistics.fmean(side.times) if side else None


def _measure(
    side: Side, groups: Sequence[KernelGroup], weights: Sequence[float]
) -> MeasuredSide | None:
    run_times = [_weighted_time(run, groups, weights) for run in side.captures] if groups else []
    times = [time for time in run_times if time is not None]
    if not times:
        return None
    launches = sum(w * len(group.launches) for w, group in zip(weights, groups, strict=True))
    return MeasuredSide(times, statistics.fmean(times) / launches, _sessions(_captured(side)))


def _weighted_time(
    run: SideCapture, groups: Sequence[KernelGroup], weights: Sequence[float]
) -> float | None:
    group_times = [time_in(run, [group]) for group in groups]
    known = [time for time in group_times if time is not None]
    if len(known) != len(group_times):
        return None
    return sum(weight * time for weight, time in zip(weights, known, strict=True))


def _sessions(captured: Sequence[datetime]) -> int:
    """Number of sessions, by the creation times of the reports; 1 if these are not known."""
    gaps = (later - earlier for earlier, later in itertools.pairwise(captured))
    return 1 + sum(gap > _SESSION for gap in gaps)


def _captured(side: Side) -> list[datetime]:
    created = (capture.profile.provenance.created for capture in side.captures)
    return sorted(datetime.fromisoformat(each) for each in created if each)


def _by_turns(before: Side, after: Side) -> bool:
    """Several captures of each side in one session, and the two sides overlap in time."""
    one, other = _captured(before), _captured(after)
    if min(len(one), len(other)) < _TURNS or _sessions(sorted(one + other)) > 1:
        return False
    return one[0] < other[-1] and other[0] < one[-1]


def _noise(sides: Sequence[MeasuredSide], launch_variance: float, *, by_turns: bool) -> float:
    """A kernel on one side only is as uncertain as if it were compared with an equal one."""
    if not sides:
        return 0.0
    scale = _scale(sides)
    runs = sum(side.variance(scale, by_turns=by_turns) for side in sides) * (2 / len(sides))
    return _COVER * math.sqrt(runs + launch_variance)


def _scale(sides: Sequence[MeasuredSide]) -> float:
    """Measured over assumed variance of the captures. The assumption counts as `_ASSUMED_RUNS`
    further captures."""
    squares, degrees = 0.0, 0
    for side in sides:
        logs = [math.log(time) for time in side.times]
        middle = statistics.fmean(logs)
        squares += sum((log - middle) ** 2 for log in logs) / side.spread
        degrees += len(logs) - 1
    return (_ASSUMED_RUNS + squares) / (_ASSUMED_RUNS + degrees)


def _launch_variance(pairing: Pairing, runs: int) -> float:
    """Variance from repeated launches of one report. With equally many on both sides, launch n is
    compared with launch n: step 5 of a solver may take longer than step 1 on both sides."""
    sides = [_log_times(groups) for groups in (pairing.before, pairing.after)]
    one, other = sides
    if len(one) == len(other) > 1:
        ratios = [a - b for a, b in zip(one, other, strict=True)]
        return statistics.variance(ratios) / len(ratios) / runs
    return sum(statistics.variance(side) / len(side) for side in sides if len(side) > 1) / runs


def _log_times(groups: Sequence[KernelGroup]) -> list[float]:
    """Of the launches of one kernel; empty for several kernels, which have no common spread."""
    times = groups[0].times if len(groups) == 1 else None
    return [math.log(time) for time in times or ()]


def total_timing(timings: Sequence[Timing]) -> Timing:
    """Sum of all. Doubt of a pair counts with its share of the time. The noise is common to all
    kernels of a capture, so it does not average out."""
    before = _sum([t.before for t in timings])
    after = _sum([t.after for t in timings])
    weights = [(t.before or 0.0) + (t.after or 0.0) for t in timings]
    whole = sum(weights) or 1.0
    noise = sum(t.noise * w for t, w in zip(timings, weights, strict=True)) / whole
    doubt = sum(t.doubt * w for t, w in zip(timings, weights, strict=True)) / whole
    return Timing(before, after, noise, doubt, any(t.unmeasured for t in timings))


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
