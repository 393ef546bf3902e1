"""Prints the forecast scores as a page: means, a row per pair and finding, and the reason of each
miss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.bootstrap import RESAMPLES, Paired
from evals.forecast.adversaries import AdversaryScore
from evals.forecast.scoring import Row
from evals.forecast.summary import OfFinding, Summary
from evals.pages import Heading, Part, Points, Prose, Table, number_cell, paired_cells

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


def parts_of(
    summary: Summary, rows: Sequence[Row], adversaries: Sequence[AdversaryScore]
) -> list[Part]:
    misses = [f"{row.pair.name}: {row.why}" for row in rows if not row.keet.covered]
    return [
        Prose(_answer(summary)),
        Prose(
            f"{summary.pairs} measured pairs of {summary.samples} samples, "
            f"{len(summary.unscored)} unscored."
        ),
        Table([("", "keet", "the other", "keet - the other"), *_paired_means(summary)]),
        Table([("", "pairs"), *_single_means(summary)]),
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
    off = [2**each for each in (summary.largest.keet.mean, summary.largest.baseline.mean)]
    return (
        f"keet's forecasts are off by a factor of {off[0]:.1f} on average, NVIDIA's largest "
        f"estimates by {off[1]:.1f}, the mean of the other samples by "
        f"{2**summary.naive.baseline.mean:.1f}."
    )


def _paired_means(summary: Summary) -> Iterator[tuple[str, ...]]:
    named: dict[str, Paired | None] = {
        "error; NVIDIA's largest estimate": summary.largest,
        "error; the same, first steps alone": summary.first_steps,
        "error; the same, where both have one": summary.largest_both,
        "error; NVIDIA's nearest, in hindsight": summary.nearest,
        "error; mean of the others": summary.naive,
        "error; 1x, always": summary.silent,
        "bias; NVIDIA's largest estimate": summary.bias,
        "measured within the range; range of the others": summary.covered,
        "width of the range; range of the others": summary.width,
        "range score; range of the others": summary.range_score,
    }
    return ((label, *paired_cells(pair)) for label, pair in named.items() if pair)


def _single_means(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "no forecast for the cause", str(summary.without_forecast)
    yield "no global estimate by NVIDIA", str(summary.nvidia_without_forecast)
    yield "invalid forecasts", str(summary.invalid)


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


def _finding_cells(finding: str, of: OfFinding) -> tuple[str, ...]:
    numbers = (f"{of.error:.2f}", f"{of.bias:+.2f}", str(of.covered), f"{of.naive_error:.2f}")
    return finding, str(of.pairs), *numbers


def _cells(row: Row) -> tuple[str, ...]:
    said = row.pair.said
    spread = f"{said.low:.2f}-{said.likely:.2f}-{said.high:.2f}" if said else "-"
    return (
        row.pair.name,
        row.pair.cause,
        f"{row.pair.measured:.2f}",
        spread + ("" if row.keet.covered or not said else " !"),
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
