"""Prints the diagnosis scores as a page: means, a row per sample, and the reason of each miss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.bootstrap import RESAMPLES
from evals.diagnosis.adversaries import AdversaryScore
from evals.diagnosis.scoring import FINDINGS, HealthyRow, Row
from evals.diagnosis.summary import Hits, Summary
from evals.difficulty import DIFFICULTIES
from evals.pages import (
    Heading,
    Part,
    Points,
    Prose,
    Table,
    interval_cell,
    number_cell,
    paired_cells,
)

_NOTE = f"""\
95 % intervals: paired bootstrap, {RESAMPLES:,} draws of whole samples. NVIDIA: rules in the same
reports by their estimates; a rule counts for every finding that it can mean, and wins ties.
keet's rules were written with these samples at hand: the scores show how well they fit, not what
to expect of other kernels. The interval of a score without a miss is a point; after N samples
without a miss, a miss rate of 3/N is still plausible."""
_DIFFICULTY = "What the source alone shows. " + "; ".join(
    f"{name}: {meaning}" for name, meaning in DIFFICULTIES.items() if name != "healthy"
)
_ADVERSARIES = f"""\
Answers that do not use the kernel, and their scores. Only the first {FINDINGS} findings of an
answer and 3 places of each count; an answer about another kernel does not count. A sample that is
scored twice is refused."""


def parts_of(
    summary: Summary,
    rows: Sequence[Row],
    healthy: Sequence[HealthyRow],
    adversaries: Sequence[AdversaryScore],
) -> list[Part]:
    misses = [f"{row.sample}: {miss}" for row in rows for miss in row.misses]
    return [
        Prose(_answer(summary.hits)),
        Prose(f"{summary.hits.samples} samples with a planted cause, {_unscored(summary)}."),
        Table([("", "keet", "NVIDIA", "keet - NVIDIA"), *_paired_means(summary)]),
        Table([("", "keet"), *_single_means(summary)]),
        Prose(_NOTE),
        *_difficulties(summary),
        Heading("Samples"),
        Table([_HEAD, *map(_cells, rows)]),
        Heading("Healthy samples"),
        Table([_HEALTHY_HEAD, *map(_healthy_cells, healthy)]),
        Heading("Misses"),
        Points(misses),
        Heading("Unscored"),
        Points([str(each) for each in summary.unscored]),
        Heading("Adversaries"),
        Prose(_ADVERSARIES),
        Table([_ADVERSARY_HEAD, *map(_adversary_cells, adversaries)]),
    ]


def _unscored(summary: Summary) -> str:
    return f"{len(summary.unscored)} reports unscored"


def _answer(hits: Hits) -> str:
    named = [round(each * hits.samples) for each in (hits.top1.keet.mean, *_nvidia_means(hits))]
    return (
        f"keet names the planted cause first for {named[0]} of {hits.samples} samples, NVIDIA's "
        f"rules for {named[1]} by their global estimates and for {named[2]} by all."
    )


def _nvidia_means(hits: Hits) -> tuple[float, float]:
    return hits.top1_global.baseline.mean, hits.top1.baseline.mean


def _paired_means(summary: Summary) -> Iterator[tuple[str, ...]]:
    hits = summary.hits
    named = {
        "top-1, all rules": hits.top1,
        "top-1, global estimates": hits.top1_global,
        "top-3, all rules": hits.top3,
        "top-3, global estimates": hits.top3_global,
        "false alarms, healthy variants": summary.false_alarms,
    }
    return ((label, *paired_cells(pair)) for label, pair in named.items() if pair)


def _single_means(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "a cause line in the first 3 places", interval_cell(summary.hits.located)
    yield "samples without places", ", ".join(summary.without_places) or "none"
    yield "findings per sample that were not planted", interval_cell(summary.beside)
    yield "fixed cause still raised on fast", str(summary.still_raised)
    yield "remaining cause named first", str(summary.left_named)
    yield "healthy ceiling named", str(summary.healthy_named)
    yield "findings in NVIDIA's first rank", f"{summary.nvidia_first_means:.1f} on average"


def _difficulties(summary: Summary) -> list[Part]:
    if not summary.by_difficulty:
        return []
    head = ("cause", "samples", "top-1", "NVIDIA, all", "NVIDIA, global", "top-3", "located")
    rows = [head, *(_hit_cells(*entry) for entry in summary.by_difficulty.items())]
    return [Heading("By difficulty"), Prose(_DIFFICULTY), Table(rows)]


def _hit_cells(kind: str, hits: Hits) -> tuple[str, ...]:
    intervals = (
        hits.top1.keet,
        hits.top1.baseline,
        hits.top1_global.baseline,
        hits.top3.keet,
        hits.located,
    )
    return kind, str(hits.samples), *map(interval_cell, intervals)


_HEAD = ("sample", "planted", "cause", "rank", "NV all", "NV global", "line", "beside")
_HEALTHY_HEAD = ("healthy", "variant", "raised", "ceiling named", "NVIDIA's largest")
_ADVERSARY_HEAD = ("adversary", "top-1", "top-3", "located", "not planted", "false alarms")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.sample,
        row.dominant,
        row.difficulty or "-",
        number_cell(row.rank, ""),
        number_cell(row.nvidia_rank, ""),
        number_cell(row.nvidia_global_rank, ""),
        "yes" if row.located else "no" if row.places else "none",
        str(row.beside),
    )


def _healthy_cells(row: HealthyRow) -> tuple[str, ...]:
    alarm = " !" if row.nvidia_alarm else ""
    raised = ", ".join(row.raised) or "nothing"
    named = "yes" if row.named else "no"
    return row.sample, row.variant, raised, named, number_cell(row.nvidia) + alarm


def _adversary_cells(tried: AdversaryScore) -> tuple[str, ...]:
    return tried.name, *(f"{value:.2f}" for value in tried[1:])
