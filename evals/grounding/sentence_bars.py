"""What `keet verify` answers to the sentences of `sentences.toml`, whose truth is known."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keet.comparison.known import knowledge_of
from keet.ingest import read_profile
from keet.profile import Profile
from keet.verification.checked import Verdict
from keet.verification.known import Knowledge
from keet.verification.verify import verify_text

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = Path(__file__).with_name("sentences.toml")


class Outcome(StrEnum):
    """What was found on a whole sentence."""

    CONFIRMED = "confirmed"
    """Everything that was checked in it is right."""
    CONTRADICTED = "contradicted"
    UNCLEAR = "unclear"
    """Nothing is wrong, and something could not be checked."""


class Sentence(NamedTuple):
    report: str
    """Relative to the root of the repository."""
    text: str
    is_true: bool
    held_out: bool


class Judged(NamedTuple):
    sentence: Sentence
    outcome: Outcome
    reasons: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """A false sentence that is confirmed, or a true one that is contradicted."""
        wrong = Outcome.CONTRADICTED if self.sentence.is_true else Outcome.CONFIRMED
        return self.outcome is wrong


class Figures(NamedTuple):
    """How many sentences had each outcome."""

    true: int
    true_confirmed: int
    true_contradicted: int
    false: int
    false_confirmed: int
    false_contradicted: int

    def meet(self) -> bool:
        """The bars. A check that never decides makes no errors: it has to decide most sentences."""
        few_errors = self.false_confirmed <= 2 and self.true_contradicted <= 2
        decided = self.true_confirmed >= 0.75 * self.true
        return few_errors and decided and self.false_contradicted >= 0.85 * self.false


def load_sentences() -> Iterator[Sentence]:
    """Of each list, every second sentence is held out."""
    for report in tomllib.loads(SENTENCES.read_text("utf-8"))["report"]:
        for truth in (True, False):
            for index, text in enumerate(report["true" if truth else "false"]):
                yield Sentence(report["path"], text, truth, index % 2 == 1)


def judge(sentence: Sentence) -> Judged:
    """Each sentence is a text of its own: it knows nothing of the others."""
    profile, known = _report(sentence.report)
    found = verify_text(sentence.text, profile.launches, known=known)
    verdicts = [verdict for each in found for verdict in each.verdicts]
    reasons = [f"{row.verdict}: {row.reason}" for each in found for row in each.checks]
    reasons += [f"{row.verdict}: {row.reason}" for each in found for row in each.relations]
    return Judged(sentence, _outcome(verdicts), tuple(reasons))


@cache
def _report(path: str) -> tuple[Profile, Knowledge]:
    profile = read_profile(ROOT / path)
    return profile, knowledge_of([profile])


def _outcome(verdicts: Sequence[Verdict]) -> Outcome:
    if Verdict.CONTRADICTED in verdicts:
        return Outcome.CONTRADICTED
    if verdicts and all(verdict is Verdict.CONFIRMED for verdict in verdicts):
        return Outcome.CONFIRMED
    return Outcome.UNCLEAR


def figures_of(judged: Iterable[Judged]) -> Figures:
    counted = [(each.sentence.is_true, each.outcome) for each in judged]
    truths = [truth for truth, _ in counted]
    return Figures(
        truths.count(True),
        counted.count((True, Outcome.CONFIRMED)),
        counted.count((True, Outcome.CONTRADICTED)),
        truths.count(False),
        counted.count((False, Outcome.CONFIRMED)),
        counted.count((False, Outcome.CONTRADICTED)),
    )
