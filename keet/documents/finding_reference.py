"""`keet finding --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.finding import PrecedentsDocument
from keet.documents.shared_types import KEET, FindingId, Producer


class ParameterDocument(Document):
    """A constant that the forecast of the finding depends on."""

    name: str
    value: float
    meaning: str
    source: Literal["documentation", "fit", "judgement"]
    """`fit`: fitted to measured cases. `documentation`: a published number. `judgement`: chosen by
    keet's authors."""


class SimilarDocument(Document):
    id: FindingId
    label: str
    difference: str
    """How to distinguish the two findings."""


class RemedyDocument(Document):
    name: str
    condition: str
    """When the remedy is suggested, in words; `otherwise` for all other cases."""
    needs: list[str]
    """Ids of facts that must be true."""
    excludes: list[str]
    """Ids of facts that must be false."""
    text: str


class CaseReferenceDocument(Document):
    """A measured case: `keet cases ID` shows it in full."""

    id: str
    fix: str
    """What was changed."""
    speedup: float
    """Speed-up from fixing this cause alone."""


class FindingReferenceDocument(Document):
    id: FindingId
    label: str
    family: Literal["memory", "parallelism", "instructions", "healthy"]
    meaning: str
    judged: str
    """What is measured, and what is assumed to remain after a fix."""
    checks: list[str]
    """Modules that raise the finding."""
    rules: list[str]
    """Rules of Nsight Compute for the same problem."""
    parameters: list[ParameterDocument]
    similar: list[SimilarDocument]
    remedies: list[RemedyDocument]
    """In order: the first one whose condition is true is suggested."""
    precedents: PrecedentsDocument | None
    """Null if no case was measured."""
    best_cases: list[CaseReferenceDocument]
    """The cases with the largest gains, at most 3."""
    lookalike_cases: list[CaseReferenceDocument]
    """Cases with the symptom where the fix gained less than 10 %, at most 3."""


class FindingsDocument(Document):
    """`keet finding --format json`: all findings, or the one that was named."""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    findings: list[FindingReferenceDocument]
