"""`keet finding --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from keet.analysis.parameters import Source
from keet.catalog.cases import CaseEntry
from keet.catalog.precedents import gain_of_cause
from keet.render.common.finding_reference import FindingReference, condition_text, remedy_text
from keet.render.json.encoding.fields import Document, field
from keet.render.json.finding import PrecedentsDocument
from keet.render.json.shared_types import FindingId, Producer


class ParameterDocument(Document):
    """A constant that the forecast of the finding depends on."""

    name: str
    value: float
    meaning: str
    source: Source = field(
        description="`fit`: fitted to measured cases. `documentation`: a published number. "
        "`judgement`: chosen by keet's authors."
    )


class SimilarDocument(Document):
    id: FindingId
    label: str
    difference: str = field(description="How to distinguish the two findings.")


class RemedyDocument(Document):
    name: str
    condition: str = field(
        description="When the remedy is suggested, in words; `otherwise` for all other cases."
    )
    needs: list[str] = field(description="Ids of facts that must be true.")
    excludes: list[str] = field(description="Ids of facts that must be false.")
    text: str


class CaseReferenceDocument(Document):
    """A measured case: `keet cases ID` shows it in full."""

    id: str
    fix: str = field(description="What was changed.")
    speedup: float = field(description="Speed-up from fixing this cause alone.")


class FindingReferenceDocument(Document):
    id: FindingId
    label: str
    family: Literal["memory", "parallelism", "instructions", "healthy"]
    meaning: str
    judged: str = field(description="What is measured, and what is assumed to remain after a fix.")
    checks: list[str] = field(description="Modules that raise the finding.")
    rules: list[str] = field(description="Rules of Nsight Compute for the same problem.")
    parameters: list[ParameterDocument]
    similar: list[SimilarDocument]
    remedies: list[RemedyDocument] = field(
        description="In order: the first one whose condition is true is suggested."
    )
    precedents: PrecedentsDocument | None = field(description="Null if no case was measured.")
    best_cases: list[CaseReferenceDocument] = field(
        description="The cases with the largest gains, at most 3."
    )
    lookalike_cases: list[CaseReferenceDocument] = field(
        description="Cases with the symptom where the fix gained less than 10 %, at most 3."
    )


class FindingsDocument(Document):
    """`keet finding --format json`: all findings, or the one that was named."""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    findings: list[FindingReferenceDocument]


def findings_document(references: Iterable[FindingReference]) -> FindingsDocument:
    return FindingsDocument(findings=[_document(each) for each in references])


def _document(reference: FindingReference) -> FindingReferenceDocument:
    spec, measured = reference.spec, reference.measured
    return FindingReferenceDocument.made_of(
        {
            "id": spec.id,
            "label": spec.label,
            "family": spec.family,
            "meaning": spec.meaning,
            "judged": spec.how,
            "checks": [f"keet/findings/{spec.id}.py"] if spec.family != "healthy" else [],
            "rules": list(spec.rules),
            "parameters": [
                {
                    "name": each.name,
                    "value": float(each),
                    "meaning": each.meaning,
                    "source": each.source,
                }
                for each in reference.parameters
            ],
            "similar": [
                {"id": other.id, "label": other.label, "difference": text}
                for other, text in reference.similar
            ],
            "remedies": [
                {
                    "name": each.name,
                    "condition": condition_text(each),
                    "needs": [fact.id for fact in each.needs],
                    "excludes": [fact.id for fact in each.excludes],
                    "text": remedy_text(text),
                }
                for each, text in spec.remedies.items()
            ],
            "precedents": measured._asdict() if measured else None,
            "best_cases": [_case(each) for each in reference.best],
            "lookalike_cases": [_case(each) for each in reference.lookalikes],
        }
    )


def _case(entry: CaseEntry) -> dict[str, object]:
    return {"id": entry.id, "fix": entry.fix, "speedup": gain_of_cause(entry)}
