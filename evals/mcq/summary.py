"""Summarises the scores of all questions: shares of right answers, and differences between
conditions.

Clusters are samples, because questions about one kernel are not independent. Unscored answers are
left out of shares and counted separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from evals.bootstrap import Interval, Paired, alone, clusters, paired
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


def summarise(
    scores: Sequence[McqScore], key: Mapping[str, Question]
) -> tuple[tuple[Cell, ...], tuple[Difference, ...]]:
    """By model and group: `all`, then `kind: …`, `difficulty: …` and `number in: …`. Every later
    condition is compared with every earlier one."""
    groups = {group: ids for group, ids in groups_of(key.values()).items() if ids}
    cells: list[Cell] = []
    differences: list[Difference] = []
    for model, (group, ids) in product(sorted({score.model for score in scores}), groups.items()):
        own = [score for score in scores if score.model == model and score.question in ids]
        asked = [name for name in CONDITIONS if any(score.condition == name for score in own)]
        by_condition = {name: [s for s in own if s.condition == name] for name in asked}
        cells += [_cell(model, name, group, those) for name, those in by_condition.items()]
        for baseline, condition in combinations(asked, 2):
            sides = (_shares(by_condition[name]) for name in (condition, baseline))
            if pairs := _pairs(*sides):
                count = sum(map(len, pairs))
                shares = paired(pairs)
                differences.append(Difference(model, condition, baseline, group, shares, count))
    return tuple(cells), tuple(differences)


HOLDERS = {
    "neither": frozenset[str](),
    "raw alone": frozenset({"raw"}),
    "keet alone": frozenset({"keet"}),
    "both": frozenset({"raw", "keet"}),
}
"""Which of the two texts about a profile contain the number that the question asks for."""


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
        difficulty = difficulty_of(question.sample) or _NOT_RATED
        holder = holders[frozenset(question.answerable_from) - {"source"}]
        own = (f"kind: {question.kind}", f"difficulty: {difficulty}", f"number in: {holder}")
        for group in (ALL, *own):
            groups[group].add(question.id)
    return groups


def _cell(model: str, condition: Condition, group: str, scores: Sequence[McqScore]) -> Cell:
    scored = [score for score in scores if score.outcome != "unscored"]
    by_sample = clusters(scored, lambda s: s.sample, lambda s: float(s.outcome == "right"))
    right = alone(by_sample) if by_sample else None
    return Cell(model, condition, group, right, len(scored), len(scores) - len(scored))


def _shares(scores: Sequence[McqScore]) -> dict[tuple[str, str], float]:
    """Share of right answers per sample and question, over its attempts."""
    outcomes: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        if score.outcome != "unscored":
            outcomes[score.sample, score.question].append(float(score.outcome == "right"))
    return {question: sum(each) / len(each) for question, each in outcomes.items()}


def _pairs(
    ours: dict[tuple[str, str], float], theirs: dict[tuple[str, str], float]
) -> list[list[tuple[float, float]]]:
    """Of the questions that are scored on both sides, by sample."""
    both = sorted(ours.keys() & theirs.keys())
    return clusters(both, lambda asked: asked[0], lambda asked: (ours[asked], theirs[asked]))
