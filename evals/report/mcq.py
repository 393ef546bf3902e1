"""Reports a run of multiple-choice questions: the document, and the page made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import Literal

from evals.mcq.questions import CHANCE, Question, read_key
from evals.mcq.scoring import KEY, McqScore, Outcome
from evals.mcq.summary import ALL, Cell, Difference, summarise
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell
from evals.report.against import AgainstDocument, RunDocument, Scored, against, against_parts
from evals.runs import Record
from keet.errors import UsageError
from keet.version import __version__

SATURATED = 0.95
"""Share of right answers without a profile above which no profile can show a difference."""
Cells = list[tuple[str, ...]]
LEAST = 10
"""Minimum number of scored answers for that statement about a group."""
_LINE, _REASON_LENGTH, _REASONS = 200, 70, 4


class FailureDocument(Record):
    id: str
    model: str
    status: str
    why: str


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
    scores = [score for run in runs for score in run.scores]
    check_scores(scores)
    if all(score.outcome == "unscored" for score in scores):
        raise UsageError(f"{none_scored(scores)}; ask again")
    beside = None
    if earlier is not None:
        before = earlier.scores
        check_scores(before)
        beside = against(scores, before, (runs[0], earlier))
    key: dict[str, Question] = {}
    for run in runs:
        key.update(read_key(run.path / KEY))
    cells, differences = summarise(scores, key)
    return McqReport(
        runs=tuple(run.document for run in runs),
        summaries=cells,
        differences=differences,
        saturation=tuple(saturation(cells)),
        wrong=_listed(scores, "wrong"),
        unscored=_listed(scores, "unscored"),
        scores=tuple(scores),
        against=beside,
    )


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


def reasons(whys: Sequence[str]) -> str:
    """By count, without details of single answers."""
    counted = Counter(shorten(why.split(";")[0], _REASON_LENGTH, placeholder=" …") for why in whys)
    named = [f"{count} {why}" for why, count in counted.most_common(_REASONS)]
    if rest := len(whys) - sum(count for _, count in counted.most_common(_REASONS)):
        named.append(f"{rest} for other reasons")
    return ", ".join(named)


def _listed(scores: Sequence[McqScore], outcome: Outcome) -> tuple[FailureDocument, ...]:
    return tuple(
        FailureDocument(id=score.id, model=score.model, status=outcome, why=score.why)
        for score in scores
        if score.outcome == outcome
    )


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
    yield Points([_run_line(run) for run in report.runs])
    yield Heading("All questions")
    yield Prose(
        f"Share of right answers among the scored ones; guessing gives {CHANCE}. Intervals (95 %) "
        "are drawn over samples."
    )
    yield Points(report.saturation, "No group is saturated.")
    yield from _group_tables(report, is_all=True)
    yield Heading("By group")
    yield from _group_tables(report, is_all=False)
    yield Heading("Wrong")
    yield Points(list(_lines(report.wrong)), "None: every scored answer is right.")
    yield Heading("Unscored")
    yield Points(list(_lines(report.unscored)))
    if report.against is not None:
        yield from against_parts(report.against)


def _unscored(scores: Sequence[McqScore]) -> list[Part]:
    """Comes first on a page, because an incomplete run could be mistaken for a result."""
    whys = [score.why for score in scores if score.outcome == "unscored"]
    if not whys:
        return []
    verb = "is" if len(whys) == 1 else "are"
    return [Prose(f"{len(whys)} of {len(scores)} answers {verb} not scored: {reasons(whys)}")]


def _run_line(run: RunDocument) -> str:
    if run.created is None:
        return f"{run.path}: scores only"
    return f"{run.path}: made {run.created} by keet {run.keet}, prompts {run.prompt_version}"


def _group_tables(report: McqReport, *, is_all: bool) -> Iterator[Part]:
    cells: Cells = [("model", "group", "condition", "right", "scored", "unscored")]
    for cell in report.summaries:
        if (cell.group == ALL) == is_all:
            counts = (str(cell.scored), str(cell.unscored))
            right = interval_cell(cell.right)
            cells.append((cell.model, cell.group, cell.condition, right, *counts))
    yield Table(cells, keys=3)
    rows: Cells = [("model", "group", "condition", "than", "questions", "difference")]
    for each in report.differences:
        if (each.group == ALL) == is_all:
            pair = (each.model, each.group, each.condition, each.baseline)
            rows.append((*pair, str(each.questions), interval_cell(each.shares.difference)))
    yield Table(rows, keys=3)


def _lines(listed: Sequence[FailureDocument]) -> Iterator[str]:
    """The full text is in scores.jsonl and in the JSON."""
    for each in listed:
        yield shorten(f"{each.id} ({each.model}): {each.why}", _LINE, placeholder=" …")


def short_parts(scores: Sequence[McqScore]) -> list[Part]:
    """After scoring: counts by condition."""
    rows: Cells = [("model", "condition", "right", "wrong", "unscored")]
    for model, condition in dict.fromkeys((s.model, s.condition) for s in scores):
        outcomes = [s.outcome for s in scores if (s.model, s.condition) == (model, condition)]
        counts = (str(outcomes.count(word)) for word in ("right", "wrong", "unscored"))
        rows.append((model, condition, *counts))
    return [*_unscored(scores), Table(rows)]
