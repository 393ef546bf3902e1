"""The scores of all samples together, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.bootstrap import Interval, Paired, alone, paired
from evals.scoring import HealthyRow, Row, doublings, off_by


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}"


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over samples. The error of a forecast is |log2(forecast / measured)|."""

    samples: int
    top1: Paired
    top1_global: Paired
    """Against NVIDIA's global estimates alone."""
    top3: Paired
    top3_global: Paired
    nvidia_first_means: float
    """How many findings NVIDIA's first rank can stand for; keet's stands for one."""
    located: Interval
    without_places: tuple[str, ...]
    false_alarms: Paired | None
    healthy_named: Share
    still_raised: Share
    """Fast variants that raise what they fixed."""
    left_named: Share
    forecast_error: Paired
    forecast_error_nearest: Paired
    """Against the nearest of NVIDIA's global estimates, chosen in hindsight."""
    forecast_error_both: Paired | None
    """Where both forecast something."""
    without_forecast: Share
    nvidia_without_forecast: Share
    forecast_bias: Paired
    """Mean log2(forecast / measured): below zero, forecasts are too low."""
    covered: Interval
    """Measured speed-ups between low and high."""


def summarise(rows: Sequence[Row], healthy: Sequence[HealthyRow]) -> Summary:
    left = [named for row in rows for _, named in row.left_named]
    silent = sum(row.forecast.likely is None for row in rows)
    nvidia_silent = sum(row.forecast.nvidia is None for row in rows)
    return Summary(
        samples=len(rows),
        top1=_hits(rows, 1, lambda row: row.nvidia_rank),
        top1_global=_hits(rows, 1, lambda row: row.nvidia_global_rank),
        top3=_hits(rows, 3, lambda row: row.nvidia_rank),
        top3_global=_hits(rows, 3, lambda row: row.nvidia_global_rank),
        nvidia_first_means=statistics.mean(row.nvidia_first_means for row in rows),
        located=alone([[float(row.located)] for row in rows]),
        without_places=tuple(row.sample for row in rows if not row.places),
        false_alarms=_alarms(healthy),
        healthy_named=Share(sum(row.named for row in healthy), len(healthy)),
        still_raised=Share(sum(bool(row.still_raised) for row in rows), len(rows)),
        left_named=Share(sum(left), len(left)),
        forecast_error=_errors(rows, lambda row: row.forecast.nvidia),
        forecast_error_nearest=_errors(rows, lambda row: row.forecast.nvidia_nearest),
        forecast_error_both=_errors_of_both(rows),
        without_forecast=Share(silent, len(rows)),
        nvidia_without_forecast=Share(nvidia_silent, len(rows)),
        forecast_bias=_errors(rows, lambda row: row.forecast.nvidia, doublings),
        covered=alone([[float(row.forecast.covered)] for row in rows]),
    )


def _hits(rows: Sequence[Row], most: int, theirs: Callable[[Row], int | None]) -> Paired:
    return paired([[(_within(row.rank, most), _within(theirs(row), most))] for row in rows])


def _within(rank: int | None, most: int) -> float:
    return float(rank is not None and rank <= most)


def _alarms(healthy: Sequence[HealthyRow]) -> Paired | None:
    ordered = sorted(healthy, key=lambda row: row.sample)
    samples = [list(group) for _, group in groupby(ordered, lambda row: row.sample)]
    alarms = [[(float(bool(r.raised)), float(r.nvidia_alarm)) for r in rows] for rows in samples]
    return paired(alarms) if alarms else None


def _errors(
    rows: Sequence[Row],
    theirs: Callable[[Row], float | None],
    error: Callable[[float | None, float], float] = off_by,
) -> Paired:
    return paired(
        [
            [(error(said.likely, said.measured), error(theirs(row), said.measured))]
            for row in rows
            for said in [row.forecast]
        ]
    )


def _errors_of_both(rows: Sequence[Row]) -> Paired | None:
    both = [row for row in rows if None not in (row.forecast.likely, row.forecast.nvidia)]
    return _errors(both, lambda row: row.forecast.nvidia) if both else None
