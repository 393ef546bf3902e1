"""Scores forecasts against the measured speed-ups of the casebook.

A case with several fixes gives one pair per fix: the forecast of each finding is compared with the
gain of its fix alone. The mean of the others leaves out the case's own family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evals.bootstrap import RESAMPLES
from evals.casebook.answers import Facts, Read
from evals.diagnosis import nvidia
from evals.diagnosis.answers import Answer
from evals.forecast.scoring import Pair, Row, range_of, score_pair
from evals.forecast.task import MEANS, error, mean_of, spread_cell
from evals.pages import Heading, Part, Points, Prose, Table, number_cell, paired_cells


@dataclass(frozen=True, slots=True)
class Forecast:
    """One fix, scored."""

    facts: Facts
    row: Row


@dataclass(frozen=True, slots=True)
class Scores:
    forecasts: list[Forecast]
    lookalikes: list[Forecast]
    unscored: list[str]


def score_forecasts(reads: Sequence[Read], others: Sequence[Read]) -> Scores:
    """`others`: the cases of work families, whose mean gain is a forecast without a profile."""
    known = [pair for read in others for _, pair in _pairs(read) if not read.facts.lookalike]
    scores = Scores([], [], [])
    for read in reads:
        found = list(_pairs(read))
        if not found:
            scores.unscored.append(read.facts.id)
        into = scores.lookalikes if read.facts.lookalike else scores.forecasts
        into += [Forecast(facts, score_pair(pair, known)) for facts, pair in found]
    return scores


def _pairs(read: Read) -> Iterator[tuple[Facts, Pair]]:
    answer, facts = read.before, read.facts
    if isinstance(answer, Answer):
        estimates = nvidia.speedups(answer.global_advice)
        for finding, measured, names in read.fixes:
            said, after = range_of(answer, names), f"{facts.id}: {finding}"
            yield facts, Pair(facts.family, facts.id, after, finding, measured, said, estimates)


# --- the page


_NOTE = f"""\
Error: mean |log2(forecast / measured)|, 1 is a factor of two; no forecast counts as 1x. Of a case
with several causes, each finding's forecast is compared with the gain of its fix alone. Mean of the
others: the mean gain of the fixes of the other work families, without a profile. Width: log2(high /
low). 95 % intervals: bootstrap, {RESAMPLES:,} draws of whole families."""


def sums_of(scores: Scores, title: str) -> list[Part]:
    rows = scores.forecasts
    return [
        Heading(f"Casebook: {title}"),
        Prose(_answer(scores)),
        Table([("", "keet", "baseline", "keet - baseline"), *_overall(rows)]),
        Table([("", "fixes"), *_shares(scores)]),
        Prose(_NOTE),
        *_grouped("By severity", rows, lambda each: each.facts.severity),
    ]


def parts_of(scores: Scores, title: str) -> list[Part]:
    rows = scores.forecasts
    return [
        *sums_of(scores, title),
        *_grouped("By kind", rows, _kind),
        *_grouped("By finding", rows, _cause),
        *_grouped("By family", rows, lambda each: each.facts.family),
        *_grouped("Look-alikes, by what they resemble", scores.lookalikes, _cause),
        Heading("Fixes"),
        Table([_HEAD, *(_cells(each) for each in rows)]),
        Heading("Unscored"),
        Points(scores.unscored),
    ]


def _kind(each: Forecast) -> str:
    if not each.facts.whole:
        return "the judged launch is less than half of the side's time"
    return "several causes" if each.facts.several else "one cause"


def _cause(each: Forecast) -> str:
    return each.row.pair.cause


def _answer(scores: Scores) -> str:
    rows = [each.row for each in scores.forecasts]
    errors = (error, MEANS["largest"].theirs, MEANS["naive"].theirs)
    ours, nvidias, others = (fmean(map(error_of, rows)) for error_of in errors)
    said = [row for row in rows if row.pair.said]
    held = sum(row.keet.covered for row in said)
    return (
        f"Mean |log2| error of {len(rows)} fixes: keet {ours:.2f}, NVIDIA's largest estimate "
        f"{nvidias:.2f}, the mean of the other families {others:.2f}. keet forecasts "
        f"{len(said)} of the fixes, and {held} of these gains are within its range."
    )


_OVERALL = {
    "error; baseline: NVIDIA's largest estimate": "largest",
    "error; baseline: NVIDIA's nearest, in hindsight": "nearest",
    "error; baseline: mean of the other families": "naive",
    "error; baseline: always 1x": "silent",
    "bias; baseline: NVIDIA's largest estimate": "bias",
    "range score; baseline: range of the others": "range_score",
}
_MADE = {
    "forecast made: error; baseline: mean of the others": "naive",
    "forecast made: gain within the range": "covered",
    "forecast made: width of the range": "width",
}


def _overall(forecasts: Sequence[Forecast]) -> Iterator[tuple[str, ...]]:
    """Whole families are drawn: in pairs of the casebook they are the sample."""
    rows = [each.row for each in forecasts]
    said = [row for row in rows if row.pair.said]
    for labels, some in ((_OVERALL, rows), (_MADE, said)):
        for label, name in labels.items():
            if pair := mean_of(some, MEANS[name]):
                yield label, *paired_cells(pair)


def _shares(scores: Scores) -> Iterator[tuple[str, str]]:
    rows = [each.row for each in scores.forecasts]
    alike = [each.row for each in scores.lookalikes]
    yield "no forecast for the cause", f"{sum(r.pair.said is None for r in rows)} of {len(rows)}"
    yield "no global estimate by NVIDIA", f"{sum(r.nvidia is None for r in rows)} of {len(rows)}"
    yield "invalid forecasts", f"{sum(r.invalid is not None for r in rows)} of {len(rows)}"
    promised = sum(r.pair.said is not None and r.pair.said.likely >= 1.1 for r in alike)
    yield "look-alikes with a forecast of 1.1x or more", f"{promised} of {len(alike)}"


_GROUP_HEAD = (
    "",
    "fixes",
    "error",
    "bias",
    "forecast made",
    "within",
    "NVIDIA",
    "mean of the others",
)
_HEAD = ("fix", "measured", "low-likely-high", "error", "NVIDIA", "mean of the others")


def _grouped(title: str, rows: Sequence[Forecast], key: Callable[[Forecast], str]) -> list[Part]:
    names = sorted({key(each) for each in rows})
    groups = {name: [each.row for each in rows if key(each) == name] for name in names}
    if not groups:
        return []
    cells = [_group_cells(name, group) for name, group in groups.items()]
    return [Heading(title), Table([_GROUP_HEAD, *cells])]


def _group_cells(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    made = [row for row in rows if row.pair.said]
    return (
        name,
        str(len(rows)),
        f"{fmean(row.keet.error for row in rows):.2f}",
        f"{fmean(row.keet.bias for row in rows):+.2f}",
        str(len(made)),
        str(sum(row.keet.covered for row in made)),
        f"{fmean(row.nvidia_error for row in rows):.2f}",
        f"{fmean(row.naive.error for row in rows):.2f}",
    )


def _cells(each: Forecast) -> tuple[str, ...]:
    row = each.row
    return (
        row.pair.after,
        f"{row.pair.measured:.2f}",
        spread_cell(row),
        f"{row.keet.error:.2f}",
        number_cell(row.nvidia),
        f"{row.naive_range.likely:.2f}",
    )


def document_of(scores: Scores) -> dict[str, Any]:
    return {
        "fixes": scores.forecasts,
        "lookalikes": scores.lookalikes,
        "unscored": scores.unscored,
    }
