"""The result of `keet eval forecast`: forecasts scored on every measured pair of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from evals.bootstrap import RESAMPLES, Paired, clusters, paired
from evals.forecast.adversaries import AdversaryScore, score_adversaries
from evals.forecast.scoring import Pair, Row, doublings, score_pairs
from evals.pages import Heading, Part, Points, Prose, Table, number_cell, paired_cells
from evals.task_command import (
    Result,
    Share,
    Threshold,
    Unscored,
    check_once,
    check_thresholds,
    need,
)

THRESHOLDS = (
    Threshold(
        "first steps' error over NVIDIA's", "at most", 0.5, "half of the report's own estimates"
    ),
    Threshold(
        "error over NVIDIA's", "at most", 0.6, "second steps lack two forecasts: 0.49 so far"
    ),
    Threshold("error over naive", "at most", 0.7, "a forecast must beat the average gain"),
    Threshold("error", "at most", 0.8, "0.75 so far; more than a factor of 1.7 is not useful"),
    Threshold("covered", "at least", 0.6, "two of three ranges are right; fewer would mislead"),
    Threshold(
        "range score over naive", "at most", 0.95, "0.91 so far: ranges are fitted elsewhere"
    ),
    Threshold("invalid", "at most", 0.0, "a forecast is a finite number above zero"),
    Threshold("unscored", "at most", 0.0, "every pair of the samples was measured"),
)


class Mean(NamedTuple):
    """A mean over pairs, of keet and of what it is compared with."""

    label: str
    ours: Callable[[Row], float]
    theirs: Callable[[Row], float]
    counts: Callable[[Row], bool] = lambda _: True


def error(row: Row) -> float:
    return row.keet.error


def _nvidia_error(row: Row) -> float:
    return row.nvidia_error


MEANS: dict[str, Mean] = {
    "largest": Mean("error; NVIDIA's largest estimate", error, _nvidia_error),
    "largest_both": Mean(
        "error; the same, where both have one",
        error,
        _nvidia_error,
        lambda row: bool(row.pair.said) and row.nvidia is not None,
    ),
    "nearest": Mean(
        "error; NVIDIA's nearest, in hindsight", error, lambda row: row.nvidia_nearest_error
    ),
    "naive": Mean("error; mean of the others", error, lambda row: row.naive.error),
    "silent": Mean("error; 1x, always", error, lambda row: row.silent_error),
    "bias": Mean(
        "bias; NVIDIA's largest estimate",
        lambda row: row.keet.bias,
        lambda row: doublings(row.nvidia, row.pair.measured),
    ),
    "covered": Mean(
        "measured within the range; range of the others",
        lambda row: float(row.keet.covered),
        lambda row: float(row.naive.covered),
    ),
    "width": Mean(
        "width of the range; range of the others",
        lambda row: row.keet.width,
        lambda row: row.naive.width,
    ),
    "range_score": Mean(
        "range score; range of the others",
        lambda row: row.keet.range_score,
        lambda row: row.naive.range_score,
    ),
    "first_steps": Mean(
        "error; the same, first steps alone",
        error,
        _nvidia_error,
        lambda row: row.pair.before == "slow",
    ),
}
"""By their names in the JSON."""
_ON_PAGE = ("largest", "first_steps", "largest_both")
"""Those that come first on the page; the others follow in their order."""


class OfFinding(NamedTuple):
    """The forecasts for one finding."""

    pairs: int
    error: float
    bias: float
    covered: Share
    naive_error: float


class Summary(NamedTuple):
    """Means over pairs."""

    pairs: int
    samples: int
    means: dict[str, Paired | None]
    """Of `MEANS`; None: no pair counts."""
    shares: dict[str, Share]
    by_finding: dict[str, OfFinding]
    unscored: tuple[Unscored, ...] = ()

    def document(self) -> dict[str, object]:
        return {
            "pairs": self.pairs,
            "samples": self.samples,
            **self.means,
            **self.shares,
            "by_finding": self.by_finding,
            "unscored": self.unscored,
        }


def summarise(rows: Sequence[Row], unscored: Iterable[Unscored] = ()) -> Summary:
    check_once([row.pair.name for row in rows], "pair")
    causes = sorted({row.pair.cause for row in rows})
    absent = {
        "without_forecast": sum(row.pair.said is None for row in rows),
        "nvidia_without_forecast": sum(row.nvidia is None for row in rows),
        "invalid": sum(row.invalid is not None for row in rows),
    }
    return Summary(
        len(rows),
        len({row.pair.sample for row in rows}),
        {name: mean_of(rows, mean) for name, mean in MEANS.items()},
        {name: Share(count, len(rows)) for name, count in absent.items()},
        {cause: _of_finding([r for r in rows if r.pair.cause == cause]) for cause in causes},
        tuple(unscored),
    )


def mean_of(rows: Sequence[Row], mean: Mean) -> Paired | None:
    """Whole samples are drawn."""
    counted = sorted(filter(mean.counts, rows), key=lambda row: row.pair.sample)
    groups = clusters(
        counted, lambda row: row.pair.sample, lambda row: (mean.ours(row), mean.theirs(row))
    )
    return paired(groups) if groups else None


def _of_finding(rows: Sequence[Row]) -> OfFinding:
    def mean(value: Callable[[Row], float]) -> float:
        return sum(map(value, rows)) / len(rows)

    return OfFinding(
        len(rows),
        mean(error),
        mean(lambda row: row.keet.bias),
        Share(sum(row.keet.covered for row in rows), len(rows)),
        mean(lambda row: row.naive.error),
    )


def threshold_values(summary: Summary) -> dict[str, float]:
    def over(name: str) -> float:
        pair = summary.means[name]
        return pair.keet.mean / pair.baseline.mean if pair else 0.0

    means = {name: pair.keet.mean for name, pair in summary.means.items() if pair}
    return {
        "first steps' error over NVIDIA's": over("first_steps"),
        "error over NVIDIA's": over("largest"),
        "error over naive": over("naive"),
        "error": means["largest"],
        "covered": means["covered"],
        "range score over naive": over("range_score"),
        "invalid": float(summary.shares["invalid"].number),
        "unscored": float(len(summary.unscored)),
    }


def result_of(pairs: Sequence[Pair], unscored: Sequence[Unscored] = ()) -> Result:
    need(pairs)
    rows, adversaries = score_pairs(pairs), score_adversaries(pairs)
    summary = summarise(rows, unscored)
    return Result(
        "forecast",
        "Forecast: how far is it from the measured speed-up?",
        parts_of(summary, rows, adversaries),
        {
            "summary": summary.document(),
            "pairs": rows,
            "unscored": unscored,
            "adversaries": adversaries,
        },
        check_thresholds(THRESHOLDS, threshold_values(summary)),
        "--on samples",
    )


# --- the page


_NOTE = f"""\
Error: mean |log2(forecast / measured)|, 1 is a factor of two; no forecast counts as 1x. Bias has
the sign: below 0 is too low. Width: log2(high / low). Range score: the width, plus ten times
the distance of a measurement outside (Winkler's, at 80 %); lower is better. Mean of the others: the
geometric mean of the other samples' gains and the middle 80 % of them, known without a profile.
95 % intervals: paired bootstrap, {RESAMPLES:,} draws of whole samples, with all their steps.
keet's formulas were written with these samples at hand: the scores show how well they fit. A
variant may fix more than one cause; the forecast is for one cause only. If the cause was not
raised, there is no range, and 1x is used, which makes the range score worse."""

_ADVERSARIES = """\
Forecasts that do not use the kernel, and their scores. A forecast that is not finite, not above
zero or not in order is invalid. A pair that is scored twice is refused."""


_FINDING_HEAD = ("finding", "pairs", "error", "bias", "within", "error, mean of the others")
_HEAD = (
    "pair",
    "cause",
    "measured",
    "low-likely-high",
    "error",
    "range score",
    "NVIDIA",
    "its error",
    "nearest",
    "mean of the others",
    "its error",
)
_ADVERSARY_HEAD = ("adversary", "error", "within", "width", "range score", "invalid")


def parts_of(
    summary: Summary, rows: Sequence[Row], adversaries: Sequence[AdversaryScore]
) -> list[Part]:
    misses = [f"{row.pair.name}: {row.why}" for row in rows if not row.keet.covered]
    shares = zip(
        ("no forecast for the cause", "no global estimate by NVIDIA", "invalid forecasts"),
        map(str, summary.shares.values()),
    )
    return [
        Prose(_answer(summary)),
        Prose(
            f"{summary.pairs} measured pairs of {summary.samples} samples, "
            f"{len(summary.unscored)} unscored."
        ),
        Table([("", "keet", "the other", "keet - the other"), *_paired_means(summary)]),
        Table([("", "pairs"), *shares]),
        Prose(_NOTE),
        Heading("By finding"),
        Table([_FINDING_HEAD, *(_finding_cells(*each) for each in summary.by_finding.items())]),
        Heading("Pairs"),
        Table([_HEAD, *map(_cells, rows)]),
        Heading("Outside the range"),
        Points(misses),
        Heading("Unscored"),
        Points([str(each) for each in summary.unscored]),
        Heading("Adversaries"),
        Prose(_ADVERSARIES),
        Table([_ADVERSARY_HEAD, *map(_adversary_cells, adversaries)]),
    ]


def _answer(summary: Summary) -> str:
    largest, naive = summary.means["largest"], summary.means["naive"]
    assert largest
    assert naive
    means = (largest.keet.mean, largest.baseline.mean, naive.baseline.mean)
    ours, nvidias, others = (2**mean for mean in means)
    return (
        f"keet's forecasts are off by a factor of {ours:.1f} on average, NVIDIA's largest "
        f"estimates by {nvidias:.1f}, the mean of the other samples by {others:.1f}."
    )


def _paired_means(summary: Summary) -> Iterator[tuple[str, ...]]:
    for name in dict.fromkeys((*_ON_PAGE, *MEANS)):
        if pair := summary.means[name]:
            yield MEANS[name].label, *paired_cells(pair)


def spread_cell(row: Row) -> str:
    """keet's range, marked if the measured gain is outside."""
    said = row.pair.said
    if said is None:
        return "-"
    mark = "" if row.keet.covered else " !"
    return f"{said.low:.2f}-{said.likely:.2f}-{said.high:.2f}{mark}"


def _finding_cells(finding: str, of: OfFinding) -> tuple[str, ...]:
    numbers = (f"{of.error:.2f}", f"{of.bias:+.2f}", str(of.covered), f"{of.naive_error:.2f}")
    return finding, str(of.pairs), *numbers


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.pair.name,
        row.pair.cause,
        f"{row.pair.measured:.2f}",
        spread_cell(row),
        f"{row.keet.error:.2f}",
        f"{row.keet.range_score:.2f}",
        number_cell(row.nvidia),
        f"{row.nvidia_error:.2f}",
        number_cell(row.nvidia_nearest),
        f"{row.naive_range.likely:.2f}",
        f"{row.naive.error:.2f}",
    )


def _adversary_cells(tried: AdversaryScore) -> tuple[str, ...]:
    means = (tried.error, tried.covered, tried.width, tried.range_score)
    return tried.name, *(f"{value:.2f}" for value in means), str(tried.invalid)
