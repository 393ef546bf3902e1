"""`keet ask --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.explain import GroundingDocument
from keet.documents.model_explanation import UncheckedDocument, UsageDocument
from keet.documents.shared_types import (
    KEET,
    JsonProse,
    NumberDocument,
    Producer,
    ReportDocument,
)


class CitedNumberDocument(NumberDocument):
    report: int | None
    """Index into `reports`; null if the number belongs to several launches."""
    launch: int | None
    """Id of the launch in that report."""
    kernel: str | None


class AskDocument(Document):
    """`keet ask --format json`"""

    schema_version: Literal[2] = 2
    producer: Producer = KEET
    author: str
    """`model:PROVIDER:NAME`."""
    question: str
    reports: list[ReportDocument]
    answer: JsonProse
    """Paragraphs, with numbers as keet prints them. `[unchecked]` marks sentences whose numbers
    keet could not resolve. Empty if there is no answer: see `problem`."""
    evidence: dict[str, CitedNumberDocument]
    """The numbers that the answer refers to, in the order of the text."""
    grounding: GroundingDocument
    unchecked: tuple[UncheckedDocument, ...]
    """The sentences marked `[unchecked]`."""
    followups: list[str]
    """Commands to run next."""
    usage: UsageDocument
    problem: str | None
    """Why the answer is missing or incomplete."""
    transcript: str | None
    """File with the transcript of the model's run."""
