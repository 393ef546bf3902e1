"""`keet verify --format json`: every number of the text with its verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from keet.profile import Profile
from keet.render.documents import (
    Document,
    Producer,
    QuantityDocument,
    ReportDocument,
)
from keet.render.to_documents import quantity_document, report_document
from keet.verification.checked import Check, CheckedSentence, Verdict


class VerifySummary(Document):
    numbers: int
    confirmed: int
    contradicted: int
    not_found: int


class NumberCheck(Document):
    text: str = Field(description="the number as it stands in the text, with its unit")
    start: int = Field(description="where in the text, in characters")
    end: int
    value: float | None = Field(description="in `unit`; null for a shape such as 64x256")
    unit: str = Field(description="in keet's spelling; empty where the text has none")
    sentence: str
    verdict: Literal["confirmed", "contradicted", "not_found"]
    reason: str
    label: str | None = Field(description="what it was held against")
    metric: str | None = Field(description="ncu's name of that; null for what keet computed")
    measured: QuantityDocument | None
    launch: int | None
    line: str | None = Field(description="file.cu:31, where it is of a source line")


class VerifyDocument(Document):
    """`keet verify --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    report: ReportDocument
    before: ReportDocument | None = Field(
        default=None, description="the report before, for a text that compares two"
    )
    text: str = Field(description="the file that was checked; -: standard input")
    summary: VerifySummary
    checks: list[NumberCheck]


def verify_document(
    profiles: Sequence[Profile], name: str, sentences: Iterable[CheckedSentence]
) -> VerifyDocument:
    """`profiles`: one, or two that the text compares."""
    checks = list(_checks(sentences))
    counts = Counter(check.verdict for check in checks)
    return VerifyDocument(
        report=report_document(profiles[-1]),
        before=report_document(profiles[0]) if len(profiles) > 1 else None,
        text=name,
        summary=VerifySummary(
            numbers=len(checks), **{verdict.value: counts[verdict.value] for verdict in Verdict}
        ),
        checks=checks,
    )


def _checks(sentences: Iterable[CheckedSentence]) -> Iterator[NumberCheck]:
    for sentence, checks in sentences:
        yield from (_check(check, sentence.text) for check in checks)


def _check(check: Check, sentence: str) -> NumberCheck:
    number, reading = check.number, check.reading
    is_amount = number.shape is None and math.isfinite(number.value)
    return NumberCheck(
        text=number.text,
        start=number.start,
        end=number.end,
        value=number.value if is_amount else None,
        unit=number.unit,
        sentence=sentence,
        verdict=check.verdict.value,
        reason=check.reason,
        label=reading.label if reading else None,
        metric=reading.metric if reading else None,
        measured=quantity_document(reading.quantity) if reading else None,
        launch=reading.launch if reading else None,
        line=reading.line if reading else None,
    )
