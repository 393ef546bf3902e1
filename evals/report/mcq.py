"""Reports a run of multiple-choice questions: the document, and the page made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from evals.mcq.option_design import CHANCE
from evals.mcq.questions import Question, read_key
from evals.mcq.scoring import KEY, McqScore
from evals.mcq.summary import ALL, Cell, Difference, summarise
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell
from evals.report.common import against_parts, one_line, reasons, run_line, unscored_parts
from evals.report.compare_runs import against, run_document
from evals.report.documents import AgainstDocument, FailureDocument, RunDocument
from evals.report.load_runs import Scored, scores_of
from evals.runs import Record
from keet.errors import UsageError
from keet.version import __version__

SATURATED = 0.95
"""Share of right answers without a profile above which no profile can show a difference."""
Cells = list[tuple[str, ...]]
LEAST = 10
"""Minimum number of scored answers for that statement about a group."""


class McqReport(Record):
    """What `keet eval report --format json` prints for a run of mcq."""

    schema_version: int = 1
    task: Literal["mcq"] = "mcq"
    keet: str = __version__
    runs: tuple[RunDocument, ...]
    summaries: tuple[Cell, ...]
    differences: tuple[Difference, ...]
    saturation: tuple[str, ...]
    wrong: tuple[FailureDocument, ...]
    unscored: tuple[FailureDocument, ...]
    scores: tuple[McqScore, ...]
    against: AgainstDocument | None = None


def report_of(runs: Sequence[Scored], earlier: Scored | None) -> McqReport:
    scores = scores_of(runs)
    check_scores(scores)
    if all(score.outcome == "unscored" for score in scores):
        raise UsageError(f"{none_scored(scores)}; ask again")
    beside = None
    if earlier is not None:
        before = scores_of([earlier])
        check_scores(before)
        beside = against(scores, before, (runs[0], earlier))
    return document_of(scores, _key(runs), [run_document(run) for run in runs], beside)


def check_scores(scores: Sequence[McqScore]) -> None:
    """Raises if an attempt is recorded twice, because it would count twice."""
    counts = Counter((score.model, score.id) for score in scores)
    for (model, prompt), count in counts.items():
        if count > 1:
            raise UsageError(
                f"{prompt} of {model} is scored twice; name each run once, or score again"
            )


def none_scored(scores: Sequence[McqScore]) -> str:
    return f"none of {len(scores)} answers is scored: {reasons([s.why for s in scores])}"


def _unscored(scores: Sequence[McqScore]) -> list[Part]:
    whys = [score.why for score in scores if score.outcome == "unscored"]
    return unscored_parts(whys, len(scores), "answers")


def _key(runs: Sequence[Scored]) -> dict[str, Question]:
    joined: dict[str, Question] = {}
    for run in runs:
        joined.update(read_key(run.path / KEY))
    return joined


def document_of(
    scores: Sequence[McqScore],
    key: dict[str, Question],
    runs: Sequence[RunDocument],
    beside: AgainstDocument | None,
) -> McqReport:
    summary = summarise(scores, key)
    return McqReport(
        runs=tuple(runs),
        summaries=summary.cells,
        differences=summary.differences,
        saturation=tuple(saturation(summary.cells)),
        wrong=tuple(_listed(score) for score in scores if score.outcome == "wrong"),
        unscored=tuple(_listed(score) for score in scores if score.outcome == "unscored"),
        scores=tuple(scores),
        against=beside,
    )


def _listed(score: McqScore) -> FailureDocument:
    return FailureDocument(id=score.id, model=score.model, status=score.outcome, why=score.why)


def saturation(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        if cell.condition != "none" or cell.right is None or cell.scored < LEAST:
            continue
        if cell.right.mean >= SATURATED:
            yield (
                f"{cell.model}, {cell.group}: saturated: {cell.right.mean:.0%} right with the "
                "source alone; no profile can show a difference here"
            )


# --- the page


def _answers(cells: Sequence[Cell]) -> Iterator[str]:
    """The result, one line per model."""
    for model in dict.fromkeys(cell.model for cell in cells):
        own = [cell for cell in cells if (cell.model, cell.group) == (model, ALL)]
        shares = [f"{c.condition} {c.right.mean:.0%}" for c in own if c.right]
        yield f"{model}: right with {', '.join(shares)}; guessing gives {CHANCE:.0%}"


def parts_of(report: McqReport) -> Iterator[Part]:
    yield Points(list(_answers(report.summaries)))
    yield from _unscored(report.scores)
    yield Points([run_line(run) for run in report.runs])
    yield Heading("All questions")
    yield Prose(
        f"Share of right answers among the scored ones; guessing gives {CHANCE}. Intervals (95 %) "
        "are drawn over samples."
    )
    yield Points(report.saturation, "No group is saturated.")
    yield Table(_cell_rows([cell for cell in report.summaries if cell.group == ALL]), keys=3)
    yield Table(
        _difference_rows([each for each in report.differences if each.group == ALL]), keys=3
    )
    yield Heading("By group")
    yield Table(_cell_rows([cell for cell in report.summaries if cell.group != ALL]), keys=3)
    yield Table(
        _difference_rows([each for each in report.differences if each.group != ALL]), keys=3
    )
    yield Heading("Wrong")
    yield Points(list(_lines(report.wrong)), "None: every scored answer is right.")
    yield Heading("Unscored")
    yield Points(list(_lines(report.unscored)))
    if report.against is not None:
        yield from against_parts(report.against)


def _cell_rows(cells: Sequence[Cell]) -> Cells:
    rows: Cells = [("model", "group", "condition", "right", "scored", "unscored")]
    for cell in cells:
        counts = (str(cell.scored), str(cell.unscored))
        rows.append((cell.model, cell.group, cell.condition, interval_cell(cell.right), *counts))
    return rows


def _difference_rows(found: Sequence[Difference]) -> Cells:
    rows: Cells = [("model", "group", "condition", "than", "questions", "difference")]
    for each in found:
        pair = (each.model, each.group, each.condition, each.baseline)
        rows.append((*pair, str(each.questions), interval_cell(each.shares.difference)))
    return rows


def _lines(listed: Sequence[FailureDocument]) -> Iterator[str]:
    for each in listed:
        yield one_line(f"{each.id} ({each.model}): {each.why}")


def short_parts(scores: Sequence[McqScore]) -> list[Part]:
    """After scoring: counts by condition."""
    rows: Cells = [("model", "condition", "right", "wrong", "unscored")]
    for model, condition in dict.fromkeys((s.model, s.condition) for s in scores):
        outcomes = [s.outcome for s in scores if (s.model, s.condition) == (model, condition)]
        counts = (str(outcomes.count(word)) for word in ("right", "wrong", "unscored"))
        rows.append((model, condition, *counts))
    return [*_unscored(scores), Table(rows)]
