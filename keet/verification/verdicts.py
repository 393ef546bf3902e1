"""Verdicts on the numbers and comparisons of a text: confirmed, contradicted, not found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from keet.verification.text.numbers import TextNumber
from keet.verification.text.sentences import SentenceSpan
from keet.verification.values.report_values import ReportValue


class ClaimVerdict(StrEnum):
    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"


class CheckedNumber(NamedTuple):
    """One number of the text, and the verdict on it."""

    number: TextNumber
    """With positions in the whole text."""
    verdict: ClaimVerdict
    report_value: ReportValue | None
    """What it was compared with."""
    reason: str


class RelationCheck(NamedTuple):
    """A comparison in the text (`exceeds`), and the verdict on it."""

    text: str
    start: int
    """Position in the whole text."""
    end: int
    verdict: ClaimVerdict
    reason: str


class CheckedSentence(NamedTuple):
    sentence: SentenceSpan
    checks: tuple[CheckedNumber, ...]
    relations: tuple[RelationCheck, ...] = ()
    is_quantified: bool = False
    """It is about several launches, which were checked together or not at all."""

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """Verdicts on its numbers, then on its comparisons."""
        numbers = [check.verdict for check in self.checks]
        return numbers + [relation.verdict for relation in self.relations]
