"""The result of `keet eval diagnosis`: is the planted cause of every sample named?

keet has to name what limits `slow`. `fast` must not raise the fixed cause, and healthy samples must
raise nothing in any variant.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from evals.bootstrap import RESAMPLES, Interval, Paired, alone, clusters, paired
from evals.diagnosis.adversaries import AdversaryScore, Case, score_adversaries
from evals.diagnosis.answers import FINDINGS, answers_of, is_within, truth_of, unscored, whole
from evals.diagnosis.scoring import HealthyRow, Row, score, score_healthy
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
from evals.task_command import (
    Result,
    Share,
    Threshold,
    Unscored,
    check_once,
    check_thresholds,
    need,
)
from kernels_samples.samples import Sample

THRESHOLDS = (
    Threshold("top-1", "at least", 0.93, "30 of 31 are right; two more misses are a step back"),
    Threshold("top-3", "at least", 0.97, "all are right; a miss is a cause that is not reported"),
    Threshold(
        "top-1 less NVIDIA's", "at least", 0.2, "else the rules in the report would be enough"
    ),
    Threshold("located", "at least", 0.92, "29 of 31 with the machine code; 26 without it"),
    Threshold("false alarms", "at most", 0.0, "keet calls a healthy kernel healthy"),
    Threshold("still raised on fast", "at most", 4.0, "a fixed cause that stays is a false alarm"),
    Threshold("unscored", "at most", 0.0, "every sample has its reports in the repository"),
)


class Scored(NamedTuple):
    """All samples."""

    rows: list[Row]
    healthy: list[HealthyRow]
    unscored: list[Unscored]
    adversaries: list[AdversaryScore]


class Hits(NamedTuple):
    """How often the cause was found in a group of samples."""

    samples: int
    top1: Paired
    top1_global: Paired
    """Compared with NVIDIA's global estimates only."""
    top3: Paired
    top3_global: Paired
    located: Interval


class Summary(NamedTuple):
    """Means over samples."""

    hits: Hits
    by_difficulty: dict[str, Hits]
    nvidia_first_means: float
    """Number of findings that NVIDIA's first rank can mean; keet's means one."""
    without_places: tuple[str, ...]
    beside: Interval
    """Findings per sample that were not planted."""
    false_alarms: Paired | None
    healthy_named: Share
    still_raised: Share
    """Fast variants that still raise the fixed cause."""
    left_named: Share
    unscored: tuple[Unscored, ...] = ()


def score_samples(samples: Sequence[Sample]) -> Scored:
    """A sample without its reports is left out and reported, not counted as a miss."""
    cases: list[Case] = []
    lacking: list[Unscored] = []
    for sample in samples:
        answers = answers_of(sample)
        missing = unscored(sample.name, answers)
        lacking += missing
        if not missing:
            cases.append(Case(truth_of(sample), whole(answers), sample.healthy))
    rows = [score(case.truth, case.answers) for case in cases if not case.healthy]
    healthy = [
        row for case in cases if case.healthy for row in score_healthy(case.truth, case.answers)
    ]
    return Scored(rows, healthy, lacking, score_adversaries(cases) if rows and healthy else [])


def summarise(
    rows: Sequence[Row], healthy: Sequence[HealthyRow], unscored: Iterable[Unscored] = ()
) -> Summary:
    check_once([row.sample for row in rows], "sample")
    check_once([(row.sample, row.variant) for row in healthy], "sample")
    left = [named for row in rows for _, named in row.left_named]
    kinds = sorted({row.difficulty for row in rows if row.difficulty})
    alarms = clusters(
        sorted(healthy, key=lambda row: row.sample),
        lambda row: row.sample,
        lambda row: (float(bool(row.raised)), float(row.nvidia_alarm)),
    )
    return Summary(
        hits=hits_of(rows),
        by_difficulty={kind: hits_of([r for r in rows if r.difficulty == kind]) for kind in kinds},
        nvidia_first_means=statistics.mean(row.nvidia_first_means for row in rows),
        without_places=tuple(row.sample for row in rows if not row.places),
        beside=alone([[float(row.beside)] for row in rows]),
        false_alarms=paired(alarms) if alarms else None,
        healthy_named=Share(sum(row.named for row in healthy), len(healthy)),
        still_raised=Share(sum(bool(row.still_raised) for row in rows), len(rows)),
        left_named=Share(sum(left), len(left)),
        unscored=tuple(unscored),
    )


def hits_of(rows: Sequence[Row]) -> Hits:
    def hits(most: int, theirs: Callable[[Row], int | None]) -> Paired:
        pairs = [(is_within(row.rank, most), is_within(theirs(row), most)) for row in rows]
        return paired([[(float(ours), float(other))] for ours, other in pairs])

    return Hits(
        len(rows),
        hits(1, lambda row: row.nvidia_rank),
        hits(1, lambda row: row.nvidia_global_rank),
        hits(3, lambda row: row.nvidia_rank),
        hits(3, lambda row: row.nvidia_global_rank),
        alone([[float(row.located)] for row in rows]),
    )


def threshold_values(summary: Summary) -> dict[str, float]:
    hits, alarms = summary.hits, summary.false_alarms
    return {
        "top-1": hits.top1.keet.mean,
        "top-3": hits.top3.keet.mean,
        "top-1 less NVIDIA's": hits.top1_global.difference.mean,
        "located": hits.located.mean,
        "false alarms": alarms.keet.mean if alarms else math.inf,
        "still raised on fast": float(summary.still_raised.number),
        "unscored": float(len(summary.unscored)),
    }


def result_of(scored: Scored) -> Result:
    need(scored.rows)
    need(scored.healthy)
    summary = summarise(scored.rows, scored.healthy, scored.unscored)
    return Result(
        "diagnosis",
        "Diagnosis: is the planted cause named, at its line?",
        parts_of(summary, scored),
        {
            "summary": summary,
            "samples": scored.rows,
            "healthy": scored.healthy,
            "unscored": scored.unscored,
            "adversaries": scored.adversaries,
        },
        check_thresholds(THRESHOLDS, threshold_values(summary)),
        "--on samples",
    )


# --- the page


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
_HEAD = ("sample", "planted", "cause", "rank", "NV all", "NV global", "line", "beside")
_HEALTHY_HEAD = ("healthy", "variant", "raised", "ceiling named", "NVIDIA's largest")
_ADVERSARY_HEAD = ("adversary", "top-1", "top-3", "located", "not planted", "false alarms")


def parts_of(summary: Summary, scored: Scored) -> list[Part]:
    misses = [f"{row.sample}: {miss}" for row in scored.rows for miss in row.misses]
    lacking = f"{len(summary.unscored)} reports unscored"
    tried = [(each.name, *(f"{value:.2f}" for value in each[1:])) for each in scored.adversaries]
    return [
        Prose(_answer(summary.hits)),
        Prose(f"{summary.hits.samples} samples with a planted cause, {lacking}."),
        Table([("", "keet", "NVIDIA", "keet - NVIDIA"), *_paired_means(summary)]),
        Table([("", "keet"), *_single_means(summary)]),
        Prose(_NOTE),
        *_difficulties(summary),
        Heading("Samples"),
        Table([_HEAD, *map(_cells, scored.rows)]),
        Heading("Healthy samples"),
        Table([_HEALTHY_HEAD, *map(_healthy_cells, scored.healthy)]),
        Heading("Misses"),
        Points(misses),
        Heading("Unscored"),
        Points([str(each) for each in summary.unscored]),
        Heading("Adversaries"),
        Prose(_ADVERSARIES),
        Table([_ADVERSARY_HEAD, *tried]),
    ]


def _answer(hits: Hits) -> str:
    shares = (hits.top1.keet, hits.top1_global.baseline, hits.top1.baseline)
    ours, global_rules, all_rules = (round(each.mean * hits.samples) for each in shares)
    return (
        f"keet names the planted cause first for {ours} of {hits.samples} samples, NVIDIA's "
        f"rules for {global_rules} by their global estimates and for {all_rules} by all."
    )


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
    rows = [("cause", "samples", "top-1", "NVIDIA, all", "NVIDIA, global", "top-3", "located")]
    for kind, hits in summary.by_difficulty.items():
        theirs = (hits.top1.baseline, hits.top1_global.baseline)
        intervals = (hits.top1.keet, *theirs, hits.top3.keet, hits.located)
        rows.append((kind, str(hits.samples), *map(interval_cell, intervals)))  # type: ignore[arg-type]
    return [Heading("By difficulty"), Prose(_DIFFICULTY), Table(rows)]


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
