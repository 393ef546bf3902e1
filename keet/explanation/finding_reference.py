"""What `keet finding` says of one finding: its module, its parameters and the casebook combined."""

from __future__ import annotations

from collections.abc import Iterable

from keet.catalog.precedents import precedents
from keet.documents.cases import CaseDocument
from keet.documents.finding import PrecedentsDocument
from keet.documents.finding_reference import (
    CaseReferenceDocument,
    FindingReferenceDocument,
    ParameterDocument,
    RemedyDocument,
    SimilarDocument,
)
from keet.evidence import Sentence
from keet.explanation.casebook import casebook
from keet.findings import Condition, findings

_EXAMPLES = 3


def finding_reference(finding: str) -> FindingReferenceDocument:
    """`finding`: its id. Cases are only from work families: developers of keet must not see the
    locked ones."""
    spec = findings()[finding]
    own = [case for case in casebook() if case.finding == finding and case.split == "work"]
    own.sort(key=lambda case: case.gain, reverse=True)
    measured = precedents().get(finding)
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
            for each in spec.parameters
        ],
        similar=[
            SimilarDocument(id=other, label=findings()[other].label, difference=text)
            for other, text in spec.unlike.items()
        ],
        remedies=[
            RemedyDocument(
                name=condition.name,
                condition=_condition_text(condition),
                needs=[fact.id for fact in condition.needs],
                excludes=[fact.id for fact in condition.excludes],
                text=_without_values(text, library="the library"),
            )
            for condition, text in spec.remedies.items()
        ],
        precedents=PrecedentsDocument.taken_from(measured) if measured else None,
        best_cases=_examples(case for case in own if not case.lookalike),
        lookalike_cases=_examples(case for case in own if case.lookalike),
    )


def _condition_text(condition: Condition) -> Sentence:
    """The condition of a remedy, in the words of its facts."""
    holds = "; ".join(fact.words for fact in condition.needs)
    fails = [fact.negated or f"not: {fact.words}" for fact in condition.excludes]
    parts = [part for part in (holds, *fails) if part]
    return _without_values(", and ".join(parts) or "otherwise", library="a library")


def _without_values(text: str, library: str) -> Sentence:
    """The text without the values that a report fills in."""
    return Sentence(text, here="", library=library)


def _examples(cases: Iterable[CaseDocument]) -> list[CaseReferenceDocument]:
    first = list(cases)[:_EXAMPLES]
    return [CaseReferenceDocument(id=case.id, fix=case.fix, speedup=case.gain) for case in first]
