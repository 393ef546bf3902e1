"""Fills the document of `keet finding`."""

from __future__ import annotations

from collections.abc import Iterable

from keet.catalog.cases import CaseEntry
from keet.catalog.precedents import gain_of_cause
from keet.documents.finding import PrecedentsDocument
from keet.documents.finding_reference import (
    CaseReferenceDocument,
    FindingReferenceDocument,
    FindingsDocument,
    ParameterDocument,
    RemedyDocument,
    SimilarDocument,
)
from keet.render.common.finding_reference import FindingReference, condition_text, remedy_text


def findings_document(references: Iterable[FindingReference]) -> FindingsDocument:
    return FindingsDocument(findings=[_document(each) for each in references])


def _document(reference: FindingReference) -> FindingReferenceDocument:
    spec, measured = reference.spec, reference.measured
    return FindingReferenceDocument(
        id=spec.id,
        label=spec.label,
        family=spec.family,
        meaning=spec.meaning,
        judged=spec.how,
        checks=[f"keet/findings/{spec.id}.py"] if spec.family != "healthy" else [],
        rules=list(spec.rules),
        parameters=[
            ParameterDocument(
                name=each.name, value=float(each), meaning=each.meaning, source=each.source
            )
            for each in reference.parameters
        ],
        similar=[
            SimilarDocument(id=other.id, label=other.label, difference=text)
            for other, text in reference.similar
        ],
        remedies=[
            RemedyDocument(
                name=each.name,
                condition=condition_text(each),
                needs=[fact.id for fact in each.needs],
                excludes=[fact.id for fact in each.excludes],
                text=remedy_text(text),
            )
            for each, text in spec.remedies.items()
        ],
        precedents=PrecedentsDocument.taken_from(measured) if measured else None,
        best_cases=[_case(each) for each in reference.best],
        lookalike_cases=[_case(each) for each in reference.lookalikes],
    )


def _case(entry: CaseEntry) -> CaseReferenceDocument:
    return CaseReferenceDocument(id=entry.id, fix=entry.fix, speedup=gain_of_cause(entry))
