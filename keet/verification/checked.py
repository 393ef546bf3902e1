"""The verdict on one number of a text."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

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


class CheckedSentence(NamedTuple):
    sentence: Sentence
    checks: tuple[Check, ...]
