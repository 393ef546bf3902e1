"""Reports a run of optimize: the document, and the page made from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.optimize.compare_conditions import differences, saturations
from evals.optimize.problems import DIFFICULTIES
from evals.optimize.scoring import OptimizeScore
from evals.optimize.summary import (
    ALL,
    Attempts,
    best_known,
    check_scores,
    conditions_of,
    group_of,
    models_of,
    powers,
    summaries_of,
    summarise,
)
from evals.pages import Heading, Part, Points, Prose, Table
from evals.report.common import (
    against_parts,
    machine_lines,
    one_line,
    reasons,
    run_line,
    unscored_parts,
)
from evals.report.compare_runs import OPTIMIZE, against, run_document, word_of
from evals.report.documents import (
    AgainstDocument,
    FailureDocument,
    OptimizeReport,
    RunDocument,
    SampleDocument,
)
from evals.report.load_runs import Scored, scores_of
from evals.report.optimize_tables import (
    WORDS,
    difference_rows,
    effort_rows,
    place_rows,
    rate_rows,
    sample_rows,
    speed_rows,
)
from evals.runs import Condition
from keet.errors import UsageError


def report_of(runs: Sequence[Scored], earlier: Scored | None) -> OptimizeReport:
    scores = scores_of(runs, OptimizeScore)
    beside = None
    if earlier is not None:
        before = scores_of([earlier], OptimizeScore)
        check_scores(before)
        beside = against(scores, before, (runs[0], earlier), OPTIMIZE)
    return document_of(scores, [run_document(run) for run in runs], beside)


def document_of(
    scores: Attempts, runs: Sequence[RunDocument], beside: AgainstDocument | None
) -> OptimizeReport:
    check_scores(scores)
    if all(score.status is None for score in scores):
        raise UsageError(none_scored(scores))
    summaries = summarise(scores)
    found = differences(scores)
    return OptimizeReport(
        runs=tuple(runs),
        summaries=tuple(summaries),
        differences=tuple(found),
        saturation=tuple(saturations(summaries, found)),
        samples=tuple(_samples(scores)),
        failures=tuple(_listed(s) for s in scores if s.status not in (None, "PASSED")),
        unscored=tuple(_listed(s) for s in scores if s.status is None),
        scores=tuple(scores),
        against=beside,
    )


def none_scored(scores: Attempts) -> str:
    return (
        f"none of {len(scores)} attempts is scored: {reasons([s.why for s in scores])}; "
        "programs are measured first: keet eval bundle --help"
    )


def _listed(score: OptimizeScore) -> FailureDocument:
    status = score.status or "unscored"
    return FailureDocument(id=score.id, model=score.model, status=status, why=score.why)


def _samples(scores: Attempts) -> Iterator[SampleDocument]:
    best = best_known(scores)
    order = [ALL, *DIFFICULTIES]
    names = sorted({s.sample for s in scores}, key=lambda name: (order.index(group_of(name)), name))
    for model in models_of(scores):
        for name in names:
            own = [s for s in scores if (s.model, s.sample) == (model, name)]
            if own:
                yield SampleDocument(
                    model=model,
                    sample=name,
                    group=group_of(name),
                    best_known=best[name],
                    attempts={c: _attempts(own, c) for c in conditions_of(own)},
                )


def _attempts(scores: Attempts, condition: Condition) -> tuple[float | str, ...]:
    own = sorted((s for s in scores if s.condition == condition), key=lambda s: s.attempt)
    return tuple(s.speedup if s.speedup is not None else word_of(s) for s in own)


# --- the page


def parts_of(report: OptimizeReport) -> Iterator[Part]:
    yield Points(_said(report, ALL))
    yield from _unscored(report.scores)
    yield Points(list(_head(report)))
    for group in dict.fromkeys(summary.group for summary in report.summaries):
        yield from _group(report, group)
    yield Heading("Samples")
    yield Table(list(sample_rows(report)), keys=3)
    yield Heading("Failures")
    yield Points(list(_failure_lines(report.failures)), "None: every scored program passed.")
    if report.unscored:
        yield Heading("Unscored")
        yield Points(list(_failure_lines(report.unscored)))
    if report.against is not None:
        what = "Speed-up over that of the earlier run (below 1 it became slower)"
        yield from against_parts(report.against, what, powers)


def _head(report: OptimizeReport) -> Iterator[str]:
    for run in report.runs:
        yield run_line(run)
        yield from machine_lines(run)


def _unscored(scores: Attempts) -> list[Part]:
    return unscored_parts([s.why for s in scores if s.status is None], len(scores), "attempts")


def _group(report: OptimizeReport, group: str) -> Iterator[Part]:
    own = [summary for summary in report.summaries if summary.group == group]
    found = [difference for difference in report.differences if difference.group == group]
    yield Heading("All samples" if group == ALL else f"Difficulty: {group} ({_meaning(group)})")
    if group != ALL:  # of all, the page begins with it
        yield Points(_said(report, group))
    for words, rows, keys in (
        ("geomean", speed_rows(own), 2),
        ("paired", difference_rows(found), 3),
        ("rates", rate_rows(own), 2),
        ("best", effort_rows(own), 2),
        ("places", place_rows(own), 2),
    ):
        if len(rows) > 1:
            yield Table(rows, keys)
            if group == ALL:
                yield Prose(WORDS[words])


def _said(report: OptimizeReport, group: str) -> list[str]:
    return [f"{each.model}: {each.words}" for each in report.saturation if each.group == group]


def _meaning(group: str) -> str:
    return next((words for name, words in DIFFICULTIES.items() if name == group), group)


def _failure_lines(failures: Sequence[FailureDocument]) -> Iterator[str]:
    for each in failures:
        yield one_line(f"{each.id} ({each.model}): {each.status}: {each.why}")


def short_parts(scores: Attempts) -> list[Part]:
    """After scoring: a short table by condition."""
    check_scores(scores)
    if all(score.status is None for score in scores):
        return [Prose(none_scored(scores))]
    own = summaries_of(scores, ALL)
    return [*_unscored(scores), Table(speed_rows(own), 2), Table(rate_rows(own), 2)]
