"""A model's explanation as JSON: its types, and the code that fills them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keet.documents.document import Document
from keet.documents.finding import ForecastDocument
from keet.documents.shared_types import JsonQuantity


@dataclass(frozen=True, kw_only=True)
class HypothesisDocument(Document):
    """Stated from the source before the model saw any numbers, then judged by the numbers."""

    text: str
    finding: str | None
    """Id of the finding; null if it is not one of keet's findings."""
    verdict: Literal["confirmed", "refuted", "inconclusive"]
    reason: str
    evidence: list[str]
    """Ids of the numbers in the launch's `evidence` that the text refers to."""


@dataclass(frozen=True, kw_only=True)
class ClaimDocument(Document):
    """What keet computed from the amount of work that, according to a model, is needed."""

    supported: bool
    """False if the report contradicts the claim, or has no data on it."""
    reason: str
    """Why the claim is not supported, or the claimed amounts."""
    gain: float | None
    """How many times faster the launch would be if the claim is true; null if not computed."""
    forecast: ForecastDocument | None
    """Null if the claim is not supported."""
    next_limiter: str | None
    """What limits the kernel after the fix."""
    floor: JsonQuantity | None
    """The shortest time in which the work can be done."""


@dataclass(frozen=True, kw_only=True)
class CauseDocument(Document):
    finding: str
    """Id of the finding in keet's catalog."""
    text: str
    where: str | None
    """For example `slow.cu:31`."""
    because: list[str]
    """Measured facts and comparisons that are true."""
    evidence: list[str]
    """Ids of the numbers in the launch's `evidence` that the text refers to."""
    problem: str | None
    """What in the report contradicts it."""
    claim: ClaimDocument | None
    """Null if the cause claims no amount of work."""
    raised_by_analyst: bool
    """False if it is not in the launch's `findings`, and therefore has no forecast there."""


@dataclass(frozen=True, kw_only=True)
class EditDocument(Document):
    """A change to the code that a model proposes."""

    finding: str | None
    what: str
    diff: str
    """Unified diff that applies to the source; empty if there is none: see `problem`."""
    places: list[str]
    """Source lines that it changes, for example `slow.cu:31-34`."""
    applies: bool
    build: Literal["compiles", "fails", "not checked"]
    build_text: str
    """Resources before and after, the first error, or why it was not compiled."""
    problem: str | None
    """Why there is no diff."""
    sketch: str
    """The model's code, if it could not be turned into a diff."""
    risk: str
    check: str
    """How to check that the change worked."""
    instead_of: int | None = None
    """Number of the edit, counted from 1, that this one is an alternative to."""
    evidence: list[str]
    """Ids of the numbers in the launch's `evidence` that the text refers to."""


@dataclass(frozen=True, kw_only=True)
class UncheckedDocument(Document):
    """A sentence whose numbers keet could not resolve. It is printed with a mark."""

    where: str
    """Where the sentence is, in `model` or in the launch's `hypotheses`: `causes[0].text`."""
    text: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ModelDocument(Document):
    """A model's statements about a launch. Texts are empty if it made none."""

    summary: str
    purpose: str
    """What the code does."""
    mapping: str
    """How the work is distributed over threads, warps and blocks."""
    evidence: list[str]
    """Ids of the numbers that `summary`, `purpose` and `mapping` refer to."""
    leads: bool
    """True if its cause is the headline, as computed by keet: see `verdict`."""
    causes: list[CauseDocument]
    objections: list[CauseDocument] = field(default_factory=list)
    """Objections to keet's own findings, source lines or remedies."""
    edits: list[EditDocument]
    unchecked: list[UncheckedDocument] = field(default_factory=list)
    """The sentences marked `[unchecked]`."""
    numbers: int = 0
    """Numbers in its checked sentences; keet printed all of them."""
    sent_back: int = 0
    """Sentences, facts and edits that were returned for correction."""


@dataclass(frozen=True, kw_only=True)
class UsageDocument(Document):
    """Requests to a model. keet's own analysis makes none."""

    calls: int
    cached: int = 0
    """Replies from the cache; they are neither calls nor cost."""
    input_tokens: int
    output_tokens: int
    cost: float | Literal["unknown"]
    """US dollars."""
    seconds: float = 0.0
    estimated: bool = False
    """True if keet counted the tokens because the server did not report them."""
