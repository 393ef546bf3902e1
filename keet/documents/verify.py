"""`keet verify --format json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import JsonQuantity, ReportDocument, ReportResult

ClaimVerdict = Literal["confirmed", "contradicted", "not_found"]


class RelationSummary(Document):
    confirmed: int
    contradicted: int
    not_found: int
    """keet does not know what is compared, or does not have the values."""


class VerifySummary(Document):
    numbers: int
    confirmed: int
    contradicted: int
    not_found: int
    relations: RelationSummary


class NumberCheck(Document):
    text: str
    """The number as written, with its unit."""
    start: int
    """Position in the text, in characters."""
    end: int
    value: float | None
    """Value in `unit`; null for a shape such as 64x256."""
    unit: str
    """Unit as keet writes it; empty if the text has none."""
    sentence: str
    verdict: ClaimVerdict
    reason: str
    label: str | None
    """Label of the value that it was compared with."""
    metric: str | None
    """ncu's name of that metric; null for values that keet computed."""
    measured: JsonQuantity | None
    launch: int | None
    line: str | None
    """For example file.cu:31, if it belongs to a source line."""


class RelationDocument(Document):
    """A comparison in the text (`exceeds`, `is the highest`), a claim about the limiter (`is DRAM
    bound`), or another statement that a known fact of the launch decides (`no bank conflicts`)."""

    text: str
    start: int
    """Position in the text, in characters."""
    end: int
    sentence: str
    verdict: ClaimVerdict
    reason: str
    topic: str | None = None
    """The topic in `launches[].facts` of `keet explain --format json`; null for comparisons."""


class VerifyDocument(ReportResult):
    """`keet verify --format json`"""

    before: ReportDocument | None = None
    """The report before, for a text that compares two reports."""
    text: str
    """The file that was checked, or the text itself if it was an argument; `-` is standard
    input."""
    summary: VerifySummary
    checks: Sequence[NumberCheck]
    relations: Sequence[RelationDocument]
    not_checked: Sequence[str] = ()
    """The sentences in which nothing was checked: no number, comparison or statement that keet
    understands."""
