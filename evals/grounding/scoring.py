"""Scores mutants: which were caught, which were missed, and which could not be scored.

A mutant counts only if the check accepts its true sentence: refusing everything is not a catch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.bootstrap import Interval, share
from evals.grounding.checkers import CheckResult, Outcome, verified
from evals.grounding.explanations import SampleExplanations
from evals.grounding.mutations import mutants_of


class Trial(NamedTuple):
    """A mutant, and the verdicts of `keet verify` on it and on the true sentence."""

    sample: str
    kind: str
    true: str
    false: str
    on_true: CheckResult
    on_false: CheckResult

    @property
    def scored(self) -> bool:
        """Whether the true sentence was accepted; one in which no number was seen does not
        count."""
        return self.on_true.outcome is Outcome.PASSED and not self.on_true.why

    @property
    def slipped(self) -> bool:
        return self.on_false.outcome is Outcome.PASSED

    @property
    def why(self) -> str:
        if not self.scored:
            return f"unscored: the true sentence was {self.on_true.outcome}: {self.on_true.why}"
        return f"{self.on_false.outcome}: {self.on_false.why or 'every number was taken for true'}"


class Caught(NamedTuple):
    """The result for one kind of mutant."""

    kind: str
    mutants: int
    """Number of scored mutants."""
    unscored: int
    caught: Interval | None
    """Share that was refuted or not confirmed; None: nothing to score."""
    refuted: int
    doubted: int
    example: Trial | None
    """A mutant that was missed."""


class Accepted(NamedTuple):
    """True sentences, and how many of them were accepted."""

    sentences: int
    passed: Interval
    refuted: int
    doubted: int


def try_sample(explained: SampleExplanations, turn: int) -> list[Trial]:
    mutants = list(mutants_of(explained, turn))
    truths = list(dict.fromkeys(mutant.true for mutant in mutants))
    judged = verified(explained, [*truths, *(mutant.false for mutant in mutants)])
    on_true, on_false = dict(zip(truths, judged)), judged[len(truths) :]
    return [
        Trial(explained.name, m.kind, m.true, m.false, on_true[m.true], found)
        for m, found in zip(mutants, on_false)
    ]


def caught_by_kind(trials: Sequence[Trial]) -> list[Caught]:
    kinds = dict.fromkeys(trial.kind for trial in trials)
    return [_caught(kind, [trial for trial in trials if trial.kind == kind]) for kind in kinds]


def _caught(kind: str, trials: Sequence[Trial]) -> Caught:
    scored = [trial for trial in trials if trial.scored]
    outcomes = [trial.on_false.outcome for trial in scored]
    return Caught(
        kind,
        len(scored),
        len(trials) - len(scored),
        share(by_sample(scored, lambda trial: not trial.slipped)) if scored else None,
        outcomes.count(Outcome.REFUTED),
        outcomes.count(Outcome.DOUBTED),
        next((trial for trial in scored if trial.slipped), None),
    )


def accepted(trials: Sequence[Trial]) -> Accepted:
    """Each true sentence is counted once."""
    once = list({(t.sample, t.true): t for t in trials}.values())
    outcomes = [trial.on_true.outcome for trial in once]
    return Accepted(
        len(once),
        share(by_sample(once, lambda trial: trial.scored)),
        outcomes.count(Outcome.REFUTED),
        outcomes.count(Outcome.DOUBTED),
    )


def by_sample(trials: Sequence[Trial], hit: Callable[[Trial], bool]) -> list[list[float]]:
    """Mutants of one sample form one cluster."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        found.setdefault(trial.sample, []).append(float(hit(trial)))
    return list(found.values())
