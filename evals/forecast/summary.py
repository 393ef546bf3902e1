"""Summarises the forecasts of all pairs, with intervals that draw whole samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.bootstrap import Paired, paired
from evals.diagnosis.answers import Unscored
from evals.diagnosis.summary import Share
from evals.forecast.scoring import Row, doublings


@dataclass(frozen=True, slots=True)
class OfFinding:
    """The forecasts for one finding."""

    pairs: int
    error: float
    bias: float
    covered: Share
    naive_error: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over pairs."""

    pairs: int
    samples: int
    largest: Paired
    """Error, compared with NVIDIA's highest global estimate."""
    largest_both: Paired | None
    """Only pairs for which both have a forecast."""
    nearest: Paired
    """Compared with NVIDIA's nearest estimate, chosen afterwards."""
    naive: Paired
    """Compared with the mean of the other samples."""
    silent: Paired
    """Compared with 1x for everything."""
    bias: Paired
    """log2(forecast / measured), compared with NVIDIA's highest."""
    covered: Paired
    """Compared with the range of the other samples."""
    width: Paired
    range_score: Paired
    first_steps: Paired
    """Error from `slow` to the next variant only, compared with NVIDIA's highest."""
    without_forecast: Share
    nvidia_without_forecast: Share
    invalid: Share
    by_finding: dict[str, OfFinding]
    unscored: tuple[Unscored, ...] = ()


def summarise(rows: Sequence[Row], unscored: Iterable[Unscored] = ()) -> Summary:
    _check_once(rows)
    both = [row for row in rows if row.pair.said and row.nvidia is not None]
    return Summary(
        len(rows),
        len({row.pair.sample for row in rows}),
        _held(rows, _error, lambda row: row.nvidia_error),
        _held(both, _error, lambda row: row.nvidia_error) if both else None,
        _held(rows, _error, lambda row: row.nvidia_nearest_error),
        _held(rows, _error, lambda row: row.naive.error),
        _held(rows, _error, lambda row: row.silent_error),
        _held(rows, lambda r: r.keet.bias, lambda r: doublings(r.nvidia, r.pair.measured)),
        _held(rows, lambda row: float(row.keet.covered), lambda row: float(row.naive.covered)),
        _held(rows, lambda row: row.keet.width, lambda row: row.naive.width),
        _held(rows, lambda row: row.keet.range_score, lambda row: row.naive.range_score),
        _held([r for r in rows if r.pair.before == "slow"], _error, lambda row: row.nvidia_error),
        Share(sum(row.pair.said is None for row in rows), len(rows)),
        Share(sum(row.nvidia is None for row in rows), len(rows)),
        Share(sum(row.invalid is not None for row in rows), len(rows)),
        _by_finding(rows),
        tuple(unscored),
    )


def threshold_values(summary: Summary) -> dict[str, float]:
    first = summary.first_steps
    return {
        "first steps' error over NVIDIA's": first.keet.mean / first.baseline.mean,
        "error over NVIDIA's": summary.largest.keet.mean / summary.largest.baseline.mean,
        "error over naive": summary.naive.keet.mean / summary.naive.baseline.mean,
        "error": summary.largest.keet.mean,
        "covered": summary.covered.keet.mean,
        "range score over naive": summary.range_score.keet.mean / summary.range_score.baseline.mean,
        "invalid": float(summary.invalid.count),
        "unscored": float(len(summary.unscored)),
    }


def _error(row: Row) -> float:
    return row.keet.error


def _check_once(rows: Sequence[Row]) -> None:
    names = [row.pair.name for row in rows]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is scored twice; score each pair once")


def _held(
    rows: Sequence[Row], ours: Callable[[Row], float], theirs: Callable[[Row], float]
) -> Paired:
    ordered = sorted(rows, key=lambda row: row.pair.sample)
    samples = [list(group) for _, group in groupby(ordered, lambda row: row.pair.sample)]
    return paired([[(ours(row), theirs(row)) for row in group] for group in samples])


def _by_finding(rows: Sequence[Row]) -> dict[str, OfFinding]:
    causes = sorted({row.pair.cause for row in rows})
    return {cause: _of_finding([r for r in rows if r.pair.cause == cause]) for cause in causes}


def _of_finding(rows: Sequence[Row]) -> OfFinding:
    def mean(value: Callable[[Row], float]) -> float:
        return sum(map(value, rows)) / len(rows)

    return OfFinding(
        len(rows),
        mean(_error),
        mean(lambda row: row.keet.bias),
        Share(sum(row.keet.covered for row in rows), len(rows)),
        mean(lambda row: row.naive.error),
    )
