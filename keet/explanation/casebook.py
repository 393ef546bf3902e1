"""The casebook: measured pairs of kernels, before and after one or several fixes; and what `keet
finding` says of a finding with them.

Profiles and programs of the cases are in keet's repository; the index ships with keet. `make
casebook-import` writes it from measurements, never by hand.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from keet.catalog.measured_cases import CASE_SUMMARIES, precedents
from keet.documents.cases import (
    CaseDocument,
    CaseReferenceDocument,
    CaseStepDocument,
    FindingReferenceDocument,
    MovedDocument,
    ParameterDocument,
    RemedyDocument,
    SimilarDocument,
)
from keet.documents.document import LEFT_OUT
from keet.documents.finding import PrecedentsDocument
from keet.evidence import Sentence
from keet.findings import Condition, findings

_INDEX = CASE_SUMMARIES.with_name("cases.json.gz")
_PROFILE = "kernels_samples/casebook/families/{}/profiles/{}.{}.keet.json.zst"
"""In keet's repository: of a family, a problem and a side."""


@cache
def casebook() -> tuple[CaseDocument, ...]:
    index = json.loads(gzip.decompress(_INDEX.read_bytes()))
    return tuple(
        _case(index["usual"] | index["families"][row["family"]] | row, index["diffs"])
        for row in index["cases"]
    )


def _case(row: dict[str, Any], diffs: Mapping[str, str]) -> CaseDocument:
    family, sides = row["family"], (row.pop("before"), row.pop("after"))
    special = {
        "diff": diffs[":".join((family, *sides))],
        "moved": MovedDocument(**row["moved"]),
        "steps": [CaseStepDocument(**step) for step in row["steps"]] or LEFT_OUT,
        "profiles": tuple(_PROFILE.format(family, row["problem"], side) for side in sides),
        "counters": {name: (pair[0], pair[1]) for name, pair in row["counters"].items()},
    }
    return CaseDocument(**row | special)


def cases_named(name: str) -> list[CaseDocument]:
    """By the full id, or by the part after the family, which several may have."""
    return [case for case in casebook() if name in (case.id, case.id.partition("/")[2])]


def chosen_cases(
    finding: str | None, archetype: str | None, family: str | None = None, *, lookalikes: bool
) -> list[CaseDocument]:
    """Grouped by finding, the largest gain of that cause first. `lookalikes`: only those."""
    chosen = [
        case
        for case in casebook()
        if finding in (None, case.finding)
        and archetype in (None, case.archetype)
        and family in (None, case.family)
        and (case.lookalike or not lookalikes)
    ]
    return sorted(chosen, key=lambda case: (case.finding, case.lookalike, -case.gain))


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
                name=parameter.name,
                value=float(parameter),
                meaning=parameter.meaning,
                source=parameter.source,
            )
            for parameter in spec.parameters
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
                text=Sentence(text, here="", library="the library"),
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
    words = ", and ".join(filter(None, (holds, *fails))) or "otherwise"
    return Sentence(words, here="", library="a library")


def _examples(cases: Iterable[CaseDocument]) -> list[CaseReferenceDocument]:
    first = list(cases)[:_EXAMPLES]
    return [CaseReferenceDocument(id=case.id, fix=case.fix, speedup=case.gain) for case in first]
