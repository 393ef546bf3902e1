"""The verdict on one number of a text."""

from __future__ import annotations

from enum import StrEnum

from keet.records import NamedTuple
from keet.verification.numbers import SaidNumber
from keet.verification.readings import Reading
from keet.verification.sentences import Sentence


class Verdict(StrEnum):
    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"


class Check(NamedTuple):
    """One number of the text, and what the report says to it."""

    number: SaidNumber
    """Its place is that in the whole text."""
    verdict: Verdict
    reading: Reading | None
    """What it was held against."""
    reason: str


class RelationCheck(NamedTuple):
    """What the text says of two quantities (`exceeds`), and whether it is so."""

    text: str
    start: int
    """In the whole text."""
    end: int
    verdict: Verdict
    reason: str


class CheckedSentence(NamedTuple):
    sentence: Sentence
    checks: tuple[Check, ...]
    relations: tuple[RelationCheck, ...] = ()

    @property
    def verdicts(self) -> list[Verdict]:
        """Of its numbers and of its relations."""
        numbers = [check.verdict for check in self.checks]
        return numbers + [relation.verdict for relation in self.relations]
