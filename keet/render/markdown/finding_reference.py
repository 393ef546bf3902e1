"""`keet finding --format markdown`: the list of findings, or one finding in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.cases import CaseReferenceDocument, FindingReferenceDocument
from keet.formatting import capitalized, speedup_text
from keet.render.common.finding_reference import (
    FAMILIES,
    GAIN_EXAMPLES,
    LOOKALIKE_EXAMPLES,
    SOURCES,
    VARIANTS,
    cases_text,
    code_text,
    findings_of,
    reported_text,
    rules_text,
)
from keet.render.markdown.markup import code, prose


def findings_markdown(link: str = "") -> str:
    """`link`: the page of a finding, with `{}` for the id."""
    parts = []
    for family, title in FAMILIES.items():
        rows = [
            f"- {_named(spec.id, link)} ({prose(spec.label)}): {prose(spec.meaning)}"
            for spec in findings_of(family)
        ]
        parts.append(f"## {title}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def finding_markdown(reference: FindingReferenceDocument, link: str = "") -> str:
    parts = [
        f"# {prose(capitalized(reference.label))} ({code(reference.id)})",
        prose(reference.meaning),
        "## How to fix it",
        *_remedies(reference),
        "## Measured cases",
        *_measured(reference),
        "## How it is judged",
        prose(reference.judged),
        *map(prose, filter(None, (reported_text(reference), rules_text(reference)))),
        "## Similar findings",
        "\n".join(
            f"- {_named(other.id, link)} ({prose(other.label)}): {prose(other.difference)}"
            for other in reference.similar
        ),
        *_computed(reference),
    ]
    return "\n\n".join(parts) + "\n"


def _named(finding: str, link: str) -> str:
    return f"[{code(finding)}]({link.format(finding)})" if link else code(finding)


def _computed(reference: FindingReferenceDocument) -> Iterator[str]:
    """For readers who want to check or change keet, so it comes last."""
    code_of = code_text(reference)
    if code_of or reference.parameters:
        yield "## How the gain is computed"
    if reference.parameters:
        yield "It depends on:"
        yield "\n".join(
            f"- {code(each.name)} = {each.value:g}: {prose(each.meaning)} ({SOURCES[each.source]})"
            for each in reference.parameters
        )
    if code_of:
        yield prose(code_of)


def _remedies(reference: FindingReferenceDocument) -> Iterator[str]:
    *special, general = reference.remedies
    yield prose(general.text)
    if special:
        yield VARIANTS
        yield "\n".join(
            f"- {prose(capitalized(each.condition))}. **Fix:** {prose(each.text)}"
            for each in special
        )


def _measured(reference: FindingReferenceDocument) -> Iterator[str]:
    yield prose(cases_text(reference))
    yield from _cases(reference.best_cases, GAIN_EXAMPLES)
    yield from _cases(reference.lookalike_cases, LOOKALIKE_EXAMPLES)
    if reference.precedents is not None:
        yield f"All: {code(f'keet cases --finding {reference.id}')}"


def _cases(cases: Sequence[CaseReferenceDocument], title: str) -> Iterator[str]:
    if cases:
        yield title
        yield "\n".join(
            f"- {speedup_text(case.speedup)}, {code(f'keet cases {case.id}')}: {prose(case.fix)}"
            for case in cases
        )
