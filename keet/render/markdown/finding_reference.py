"""`keet finding --format markdown`: the list of findings, or one finding in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.catalog.cases import CaseEntry
from keet.catalog.precedents import gain_of_cause
from keet.formatting import capitalized, speedup_text
from keet.render.common.finding_reference import (
    FAMILIES,
    GAIN_EXAMPLES,
    LOOKALIKE_EXAMPLES,
    SOURCES,
    VARIANTS,
    FindingReference,
    cases_text,
    code_text,
    condition_text,
    findings_of,
    remedy_text,
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


def finding_markdown(reference: FindingReference, link: str = "") -> str:
    spec = reference.spec
    parts = [
        f"# {prose(capitalized(spec.label))} ({code(spec.id)})",
        prose(spec.meaning),
        "## How to fix it",
        *_remedies(reference),
        "## Measured cases",
        *_measured(reference),
        "## How it is judged",
        prose(spec.how),
        *map(prose, filter(None, (reported_text(reference), rules_text(spec)))),
        "## Similar findings",
        "\n".join(
            f"- {_named(other.id, link)} ({prose(other.label)}): {prose(text)}"
            for other, text in reference.similar
        ),
        *_computed(reference),
    ]
    return "\n\n".join(parts) + "\n"


def _named(finding: str, link: str) -> str:
    return f"[{code(finding)}]({link.format(finding)})" if link else code(finding)


def _computed(reference: FindingReference) -> Iterator[str]:
    """For readers who want to check or change keet, so it comes last."""
    code_of = code_text(reference)
    if code_of or reference.parameters:
        yield "## How the gain is computed"
    if reference.parameters:
        yield "It depends on:"
        yield "\n".join(
            f"- {code(each.name)} = {each:g}: {prose(each.meaning)} ({SOURCES[each.source]})"
            for each in reference.parameters
        )
    if code_of:
        yield prose(code_of)


def _remedies(reference: FindingReference) -> Iterator[str]:
    *special, (_, general) = reference.spec.remedies.items()
    yield prose(remedy_text(general))
    if special:
        yield VARIANTS
        yield "\n".join(
            f"- {prose(capitalized(condition_text(each)))}. **Fix:** {prose(remedy_text(text))}"
            for each, text in special
        )


def _measured(reference: FindingReference) -> Iterator[str]:
    yield prose(cases_text(reference))
    yield from _cases(reference.best, GAIN_EXAMPLES)
    yield from _cases(reference.lookalikes, LOOKALIKE_EXAMPLES)
    if reference.measured is not None:
        yield f"All: {code(f'keet cases --finding {reference.spec.id}')}"


def _cases(cases: Sequence[CaseEntry], title: str) -> Iterator[str]:
    if cases:
        yield title
        yield "\n".join(
            f"- {speedup_text(gain)}, {code(f'keet cases {case.id}')}: {prose(case.fix)}"
            for case, gain in ((case, gain_of_cause(case)) for case in cases)
        )
