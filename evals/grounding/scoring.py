"""Runs `keet verify` on mutants: which were caught, which were missed, and which could not be
scored.

A mutant counts only if the check accepts its true sentence: refusing everything is not a catch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from evals.bootstrap import Interval, clusters, share
from evals.grounding.explanations import SampleExplanations
from evals.grounding.mutations import mutants_of
from keet.documents.verify import RelationDocument
from keet.verification.verdicts import CheckedNumber
from keet.verification.verify import verify_text


class Outcome(StrEnum):
    REFUTED = "refuted"
    """Called wrong."""
    DOUBTED = "doubted"
    """Not confirmed, and reported as such."""
    PASSED = "passed"


class CheckResult(NamedTuple):
    """The verdict on a sentence, with the reason."""

    outcome: Outcome
    why: str


_PASSED = CheckResult(Outcome.PASSED, "")


def verified(explained: SampleExplanations, texts: Sequence[str]) -> list[CheckResult]:
    """All sentences in one call, one paragraph each, because paragraphs are checked
    independently."""
    ends = list(accumulate(len(text) + 2 for text in texts))
    found: list[list[CheckedNumber | RelationDocument]] = [[] for _ in texts]
    at, launches = 0, explained.slow.profile.launches
    text, told = "\n\n".join(texts), [explained.told.launch]
    for sentence in verify_text(text, told, launches, explained.known):
        while sentence.sentence.start >= ends[at]:
            at += 1
        found[at] += [*sentence.checks, *sentence.relations]
    return [_worst(checks) for checks in found]


def _worst(checks: Iterable[CheckedNumber | RelationDocument]) -> CheckResult:
    reasons = {check.verdict: check.reason for check in checks}
    if "contradicted" in reasons:
        return CheckResult(Outcome.REFUTED, reasons["contradicted"])
    if "not_found" in reasons:
        return CheckResult(Outcome.DOUBTED, reasons["not_found"])
    return _PASSED if reasons else CheckResult(Outcome.PASSED, "no number was seen")


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
        _share(scored, lambda trial: not trial.slipped) if scored else None,
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
        _share(once, lambda trial: trial.scored),
        outcomes.count(Outcome.REFUTED),
        outcomes.count(Outcome.DOUBTED),
    )


def _share(trials: Sequence[Trial], hit: Callable[[Trial], bool]) -> Interval:
    """Mutants of one sample form one cluster."""
    return share(clusters(trials, lambda trial: trial.sample, lambda trial: float(hit(trial))))
