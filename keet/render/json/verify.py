"""`keet verify --format json`: the types of the document, and the verdict on each number and
comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from keet.profile import Profile
from keet.render.json.encoding.fields import Document, field
from keet.render.json.report import quantity_document, report_document
from keet.render.json.shared_types import Producer, QuantityDocument, ReportDocument
from keet.verification.verdicts import CheckedNumber, CheckedSentence, ClaimVerdict

_Verdict = Literal["confirmed", "contradicted", "not_found"]


class RelationSummary(Document):
    confirmed: int
    contradicted: int
    not_found: int = field(
        description="keet does not know what is compared, or does not have the values."
    )


class VerifySummary(Document):
    numbers: int
    confirmed: int
    contradicted: int
    not_found: int
    relations: RelationSummary


class NumberCheck(Document):
    text: str = field(description="The number as written, with its unit.")
    start: int = field(description="Position in the text, in characters.")
    end: int
    value: float | None = field(description="Value in `unit`; null for a shape such as 64x256.")
    unit: str = field(description="Unit as keet writes it; empty if the text has none.")
    sentence: str
    verdict: _Verdict
    reason: str
    label: str | None = field(description="Label of the value that it was compared with.")
    metric: str | None = field(
        description="ncu's name of that metric; null for values that keet computed."
    )
    measured: QuantityDocument | None
    launch: int | None
    line: str | None = field(description="For example file.cu:31, if it belongs to a source line.")


class RelationDocument(Document):
    """A comparison in the text (`exceeds`, `is the highest`), or a claim about the limiter (`is
    DRAM bound`)."""

    text: str
    start: int = field(description="Position in the text, in characters.")
    end: int
    sentence: str
    verdict: _Verdict
    reason: str


class VerifyDocument(Document):
    """`keet verify --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    report: ReportDocument
    before: ReportDocument | None = field(
        default=None, description="The report before, for a text that compares two reports."
    )
    text: str = field(description="The file that was checked; `-` is standard input.")
    summary: VerifySummary
    checks: list[NumberCheck]
    relations: list[RelationDocument]


def verify_document(
    profiles: Sequence[Profile], name: str, sentences: Iterable[CheckedSentence]
) -> VerifyDocument:
    """`profiles`: one report, or the two that the text compares."""
    sentences = list(sentences)
    checks, relations = list(_checks(sentences)), list(_relations(sentences))
    counts = Counter(check.verdict for check in checks)
    related = Counter(each.verdict for each in relations)
    return VerifyDocument(
        report=report_document(profiles[-1]),
        before=report_document(profiles[0]) if len(profiles) > 1 else None,
        text=name,
        summary=VerifySummary(
            numbers=len(checks),
            **{verdict.value: counts[verdict.value] for verdict in ClaimVerdict},
            relations=RelationSummary(
                **{verdict.value: related[verdict.value] for verdict in ClaimVerdict}
            ),
        ),
        checks=checks,
        relations=relations,
    )


def _checks(sentences: Iterable[CheckedSentence]) -> Iterator[NumberCheck]:
    for each in sentences:
        yield from (_check(check, each.sentence.text) for check in each.checks)


def _relations(sentences: Iterable[CheckedSentence]) -> Iterator[RelationDocument]:
    for each in sentences:
        for found in each.relations:
            yield RelationDocument(
                text=found.text,
                start=found.start,
                end=found.end,
                sentence=each.sentence.text,
                verdict=found.verdict.value,
                reason=found.reason,
            )


def _check(check: CheckedNumber, sentence: str) -> NumberCheck:
    number, found = check.number, check.report_value
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
        label=found.label if found else None,
        metric=found.metric if found else None,
        measured=quantity_document(found.quantity) if found else None,
        launch=found.launch if found else None,
        line=found.line if found else None,
    )
