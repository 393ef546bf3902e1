"""Summarises the scores of all questions: shares of right answers, and differences between
conditions.

Clusters are samples, because questions about one kernel are not independent. Unscored answers are
left out of shares and counted separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from evals.bootstrap import Interval, Paired, alone, paired
from evals.difficulty import DIFFICULTIES, difficulty_of
from evals.mcq.questions import KINDS, Question
from evals.mcq.scoring import McqScore
from evals.runs import CONDITIONS, Condition

ALL = "all"
_NOT_RATED = "not rated"
"""Group of a sample that no longer exists."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One model in one condition, over a group of questions."""

    model: str
    condition: Condition
    group: str
    right: Interval | None
    """Share of the scored answers; None if there are none."""
    scored: int
    unscored: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two conditions over the questions that are scored in both."""

    model: str
    condition: Condition
    baseline: Condition
    group: str
    shares: Paired
    questions: int


@dataclass(frozen=True, slots=True)
class McqSummary:
    cells: tuple[Cell, ...]
    differences: tuple[Difference, ...]
    groups: tuple[str, ...]
    """`all`, then `kind: …`, `difficulty: …` and `number in: …`."""
    models: tuple[str, ...]
    conditions: tuple[Condition, ...]


def summarise(scores: Sequence[McqScore], key: Mapping[str, Question]) -> McqSummary:
    groups = {group: ids for group, ids in groups_of(key.values()).items() if ids}
    models = tuple(sorted({score.model for score in scores}))
    seen = {score.condition for score in scores}
    conditions = tuple(condition for condition in CONDITIONS if condition in seen)
    cells = [
        _cell(model, condition, group, _those(scores, model, condition, ids))
        for model in models
        for group, ids in groups.items()
        for condition in conditions
    ]
    return McqSummary(
        tuple(cell for cell in cells if cell.scored + cell.unscored),
        tuple(_differences(scores, models, conditions, groups)),
        tuple(groups),
        models,
        conditions,
    )


def groups_of(questions: Iterable[Question]) -> dict[str, set[str]]:
    """Ids of questions by group: kind, difficulty, and which text has the number."""
    holders = {holds: name for name, holds in HOLDERS.items()}
    names = [
        ALL,
        *(f"kind: {kind}" for kind in KINDS),
        *(f"difficulty: {name}" for name in (*DIFFICULTIES, _NOT_RATED)),
        *(f"number in: {name}" for name in HOLDERS),
    ]
    groups: dict[str, set[str]] = {name: set() for name in names}
    for question in questions:
        groups[ALL].add(question.id)
        groups[f"kind: {question.kind}"].add(question.id)
        difficulty = difficulty_of(question.sample) or _NOT_RATED
        groups[f"difficulty: {difficulty}"].add(question.id)
        groups[f"number in: {holders[_holders(question)]}"].add(question.id)
    return groups


HOLDERS = {
    "neither": frozenset[str](),
    "raw alone": frozenset({"raw"}),
    "keet alone": frozenset({"keet"}),
    "both": frozenset({"raw", "keet"}),
}
"""Which of the two texts about a profile contain the number that the question asks for."""


def _holders(question: Question) -> frozenset[str]:
    return frozenset(question.answerable_from) - {"source"}


def _those(
    scores: Sequence[McqScore], model: str, condition: Condition, ids: set[str]
) -> list[McqScore]:
    return [
        s for s in scores if s.model == model and s.condition == condition and s.question in ids
    ]


def _cell(model: str, condition: Condition, group: str, scores: Sequence[McqScore]) -> Cell:
    by_sample: defaultdict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.outcome != "unscored":
            by_sample[score.sample].append(float(score.outcome == "right"))
    right = alone(list(by_sample.values())) if by_sample else None
    scored = sum(map(len, by_sample.values()))
    return Cell(model, condition, group, right, scored, len(scores) - scored)


def _differences(
    scores: Sequence[McqScore],
    models: Sequence[str],
    conditions: Sequence[Condition],
    groups: Mapping[str, set[str]],
) -> list[Difference]:
    """Every later condition compared with every earlier one."""
    return [
        difference
        for model in models
        for group, ids in groups.items()
        for baseline, condition in combinations(conditions, 2)
        if (difference := _difference(scores, model, (condition, baseline), group, ids))
    ]


def _difference(
    scores: Sequence[McqScore],
    model: str,
    pair: tuple[Condition, Condition],
    group: str,
    ids: set[str],
) -> Difference | None:
    ours, theirs = (_shares(_those(scores, model, condition, ids)) for condition in pair)
    clusters: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for question in sorted(ours.keys() & theirs.keys()):
        sample, question_id = question
        clusters[sample].append((ours[question], theirs[sample, question_id]))
    if not clusters:
        return None
    count = sum(map(len, clusters.values()))
    return Difference(model, *pair, group, paired(list(clusters.values())), count)


def _shares(scores: Sequence[McqScore]) -> dict[tuple[str, str], float]:
    """Share of right answers per question, over its attempts."""
    outcomes: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        if score.outcome != "unscored":
            outcomes[score.sample, score.question].append(float(score.outcome == "right"))
    return {question: sum(each) / len(each) for question, each in outcomes.items()}
