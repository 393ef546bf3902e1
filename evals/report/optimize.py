"""A run of optimize as a document, and the document as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from evals.optimize.differences import Difference, differences, saturations
from evals.optimize.problems import DIFFICULTIES
from evals.optimize.scoring import OptimizeScore
from evals.optimize.summary import (
    ALL,
    Attempts,
    ConditionSummary,
    best_known,
    check_scores,
    conditions_of,
    group_of,
    models_of,
    powers,
    summarise,
    summary_of,
)
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell, number_cell
from evals.report.against import OPTIMIZE, against, run_document, word_of
from evals.report.documents import (
    AgainstDocument,
    FailureDocument,
    OptimizeReport,
    RunDocument,
    SampleDocument,
)
from evals.report.loading import Scored, scores_of
from evals.runs import Condition
from keet.errors import UsageError

Cells = list[tuple[str, ...]]
WORDS = {
    "geomean": "Geometric mean of the speed-up over `slow`. A failed attempt counts as 1x, as the "
    "old code is kept; `passed` leaves failures out, which flatters a condition that fails often. "
    "Attempts are averaged within a sample first; intervals (95 %) are drawn over samples. "
    "speedup@k: the expected best of k attempts, mean over the samples with k scored attempts.",
    "rates": "fast_p: the share of attempts that is correct and more than p times as fast.",
    "best": "`best` is the share of the best known speed-up that is reached (geometric mean, "
    "failures as 1x): the best of sample.toml and of these runs. Tries and tokens (in and out) are "
    "what it takes to reach 90 % of it, attempts drawn in any order, on samples where one did. "
    "SOL: compulsory time over measured time, of samples whose floor is near the best known.",
    "places": "Wrong place: it ran correctly, kept every line of the cause and gained less than "
    "10 %; of the passed attempts whose lines tell.",
    "paired": "Each condition against each, over the samples that both were scored on; attempts "
    "are averaged within a sample first. Above 1 the first is faster; better and worse count "
    "samples that differ by more than 5 %. `ratio there`: over the samples where both have a "
    "program that passed, failures left out. Intervals are not widened for the number of pairs.",
}


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
    summaries = summarise(scores)
    if not summaries:
        raise UsageError(f"none of {len(scores)} answers is scored: {_first_reason(scores)}")
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


def _first_reason(scores: Attempts) -> str:
    return (
        f"{scores[0].why}; measure them first: keet eval bundle --help" if scores else "no answer"
    )


def _listed(score: OptimizeScore) -> FailureDocument:
    status = score.status or "unscored"
    return FailureDocument(id=score.id, model=score.model, status=status, why=score.why)


def _samples(scores: Attempts) -> Iterator[SampleDocument]:
    best = best_known(scores)
    order = [ALL, *DIFFICULTIES, "unknown"]
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
    yield Prose(_head(report))
    for group in dict.fromkeys(summary.group for summary in report.summaries):
        yield from _group(report, group)
    yield Heading("Samples")
    yield Table(list(_sample_rows(report)))
    yield Heading("Failures")
    yield Points(list(_failure_lines(report.failures)), "None: every scored program passed.")
    if report.unscored:
        yield Heading("Unscored")
        yield Points(list(_failure_lines(report.unscored)))
    if report.against is not None:
        yield from against_parts(report.against, "log2 of the speed-up")


def _head(report: OptimizeReport) -> str:
    return "\n".join(run_line(run) for run in report.runs)


def run_line(run: RunDocument) -> str:
    if run.created is None:
        return f"{run.path}: scores only"
    return f"{run.path}: made {run.created} by keet {run.keet}, prompts {run.prompt_version}"


def _group(report: OptimizeReport, group: str) -> Iterator[Part]:
    own = [summary for summary in report.summaries if summary.group == group]
    found = [difference for difference in report.differences if difference.group == group]
    said = [f"{each.model}: {each.words}" for each in report.saturation if each.group == group]
    yield Heading("All samples" if group == ALL else f"Difficulty: {group} ({_meaning(group)})")
    yield Points(said)
    for words, rows in (
        ("geomean", _speed_rows(own)),
        ("paired", _difference_rows(found)),
        ("rates", _rate_rows(own)),
        ("best", _effort_rows(own)),
        ("places", _place_rows(own)),
    ):
        if len(rows) > 1:
            yield Table(rows)
            if group == ALL:
                yield Prose(fill(WORDS[words], 100))


def _meaning(group: str) -> str:
    return next((words for name, words in DIFFICULTIES.items() if name == group), group)


def _speed_rows(own: Sequence[ConditionSummary]) -> Cells:
    head = ("model", "condition", "samples", "attempts", "geomean", "passed", "first try")
    rows: Cells = [(*head, "speedup@1", "k", "speedup@k", "samples with k")]
    for s in own:
        rows.append(
            (
                *(s.model, s.condition, str(s.samples), str(s.scored)),
                *(interval_cell(s.geomean), number_cell(s.geomean_passed)),
                *(number_cell(s.first_try), f"{s.speedup_at_1:.2f}"),
                *(str(s.k), number_cell(s.speedup_at_k), str(s.k_samples)),
            )
        )
    return rows


def _rate_rows(own: Sequence[ConditionSummary]) -> Cells:
    fast = [f"fast_{p}" for p in own[0].fast]
    head = ("model", "condition", "pass@1", "build@1", "pass@k", *fast)
    rows: Cells = [(*head, *own[0].statuses, "unscored")]
    for s in own:
        shares = (s.pass_at_1, s.build_at_1, s.pass_at_k, *s.fast.values())
        counts = (*s.statuses.values(), s.unscored)
        cells = (*(number_cell(share) for share in shares), *map(str, counts))
        rows.append((s.model, s.condition, *cells))
    return rows


def _effort_rows(own: Sequence[ConditionSummary]) -> Cells:
    rows: Cells = [
        ("model", "condition", "best", "reached 90 %", "tries", "tokens", "SOL", "SOL samples")
    ]
    for s in own:
        rows.append(
            (
                *(s.model, s.condition, f"{s.share_of_best:.2f}", str(s.reached)),
                *(number_cell(s.tries), number_cell(s.tokens, ",.0f")),
                *(number_cell(s.sol), str(s.sol_samples)),
            )
        )
    return rows


def _place_rows(own: Sequence[ConditionSummary]) -> Cells:
    rows: Cells = [("model", "condition", "wrong place", "kept the cause")]
    rows += [(s.model, s.condition, str(s.wrong_place), str(s.kept_cause)) for s in own]
    return rows


def _difference_rows(found: Sequence[Difference]) -> Cells:
    head = ("model", "condition", "than", "samples", "ratio", "better", "worse", "pass@1")
    rows: Cells = [(*head, "both passed", "ratio there")]
    for d in found:
        there = interval_cell(powers(d.where_both_passed) if d.where_both_passed else None)
        counts = (str(d.better), str(d.worse), f"{d.passed:+.2f}", str(d.samples_passed), there)
        rows.append((d.model, d.condition, d.than, str(d.samples), interval_cell(d.ratio), *counts))
    return rows


def _sample_rows(report: OptimizeReport) -> Iterator[tuple[str, ...]]:
    conditions = list(dict.fromkeys(c for sample in report.samples for c in sample.attempts))
    yield ("model", "difficulty", "sample", "best known", *conditions)
    for s in report.samples:
        cells = [" ".join(map(_cell, s.attempts.get(c, ()))) or "-" for c in conditions]
        yield (s.model, s.group, s.sample, f"{s.best_known:.2f}", *cells)


def _cell(attempt: float | str) -> str:
    return attempt if isinstance(attempt, str) else f"{attempt:.2f}"


def _failure_lines(failures: Sequence[FailureDocument]) -> Iterator[str]:
    for each in failures:
        yield f"{each.id} ({each.model}): {each.status}: {' '.join(each.why.split())}"


def against_parts(beside: AgainstDocument, what: str) -> Iterator[Part]:
    yield Heading(f"Against {beside.earlier.path}")
    yield Prose(
        f"{beside.pairs} prompts scored in both; {beside.only_here} here only, "
        f"{beside.only_earlier} there only. Change of {what}:"
    )
    if beside.notes:
        yield Points(beside.notes)
    rows = [(name, interval_cell(change)) for name, change in beside.change.items()]
    yield Table([("condition", "change"), *rows])
    yield Prose("Regressions:")
    yield Points([f"{p.id} ({p.model}): {p.before} to {p.after}" for p in beside.regressions])
    yield Prose("Gains:")
    yield Points([f"{p.id} ({p.model}): {p.before} to {p.after}" for p in beside.gains])


def short_parts(scores: Attempts) -> list[Part]:
    """After scoring: by condition, without intervals of every kind."""
    check_scores(scores)
    best = best_known(scores)
    found = [
        summary_of(scores, model, condition, ALL, best)
        for model in models_of(scores)
        for condition in conditions_of(scores)
    ]
    own = [summary for summary in found if summary is not None]
    if not own:
        return [Prose(f"None of {len(scores)} answers is scored: {_first_reason(scores)}")]
    return [Table(_speed_rows(own)), Table(_rate_rows(own))]
