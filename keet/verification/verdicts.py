"""The verdict on one number of a text."""

from __future__ import annotations

from enum import StrEnum

from keet.records import NamedTuple
from keet.verification.text.numbers import TextNumber
from keet.verification.text.sentences import SentenceSpan
from keet.verification.values.report_values import ReportValue


class ClaimVerdict(StrEnum):
    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"


class CheckedNumber(NamedTuple):
    """One number of the text, and what the report says to it."""

    number: TextNumber
    """Its place is that in the whole text."""
    verdict: ClaimVerdict
    report_value: ReportValue | None
    """What it was held against."""
    reason: str


class RelationCheck(NamedTuple):
    """What the text says of two quantities (`exceeds`), and whether it is so."""

    text: str
    start: int
    """In the whole text."""
    end: int
    verdict: ClaimVerdict
    reason: str


class CheckedSentence(NamedTuple):
    sentence: SentenceSpan
    checks: tuple[CheckedNumber, ...]
    relations: tuple[RelationCheck, ...] = ()

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """Of its numbers and of its relations."""
        numbers = [check.verdict for check in self.checks]
        return numbers + [relation.verdict for relation in self.relations]
