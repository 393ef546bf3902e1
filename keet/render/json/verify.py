"""`keet verify --format json`: the types of the document, and the verdict on each number and
comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from keet.documents.verify import (
    NumberCheck,
    RelationDocument,
    RelationSummary,
    VerifyDocument,
    VerifySummary,
)
from keet.profile import Profile
from keet.render.json.report import report_document
from keet.verification.verdicts import CheckedNumber, CheckedSentence, ClaimVerdict

_Verdict = Literal["confirmed", "contradicted", "not_found"]


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
        measured=found.quantity if found else None,
        launch=found.launch if found else None,
        line=found.line if found else None,
    )
