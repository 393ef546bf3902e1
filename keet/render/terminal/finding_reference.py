"""The view of `keet finding` for a terminal: the list of findings, and one of them in full."""

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
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text


def findings_view() -> Group:
    """One line per finding."""
    parts: list[Renderable] = []
    for family, title in FAMILIES.items():
        parts.append(Text(title, style="bold"))
        for spec in findings_of(family):
            parts.append(_indented(Text.assemble((f"{spec.id:28}", "cyan"), spec.label)))
        parts.append("")
    return Group(*parts, Text("One in full: keet finding ID", style="dim"))


def finding_view(reference: FindingReferenceDocument) -> Group:
    return Group(
        Text.assemble((capitalized(reference.label), "bold"), (f"  {reference.id}", "cyan")),
        Text(reference.meaning),
        *_remedies(reference),
        *_measured(reference),
        *_judged(reference),
        *_similar(reference),
        *_computed(reference),
    )


def _heading(text: str) -> list[Renderable]:
    return ["", Text(text, style="bold")]


def _judged(reference: FindingReferenceDocument) -> Iterator[Renderable]:
    yield from _heading("How it is judged")
    texts = (reference.judged, reported_text(reference), rules_text(reference))
    yield from (_indented(Text(text)) for text in texts if text)


def _computed(reference: FindingReferenceDocument) -> Iterator[Renderable]:
    """For readers who want to check or change keet, so it comes last."""
    code = code_text(reference)
    if code or reference.parameters:
        yield from _heading("How the gain is computed")
    if reference.parameters:
        yield _indented(Text("It depends on:", style="dim"))
        yield _indented(_parameters(reference), 4)
    if code:
        yield _indented(Text(code))


def _parameters(reference: FindingReferenceDocument) -> Table:
    grid = Table(has_heading=False, padding=(0, 2))
    grid.add_column("name", no_wrap=True)
    grid.add_column("value", justify="right", no_wrap=True)
    grid.add_column("meaning")
    for each in reference.parameters:
        meaning = f"{each.meaning} ({SOURCES[each.source]})"
        grid.add_row(each.name, f"{each.value:g}", Text(meaning, style="dim"))
    return grid


def _similar(reference: FindingReferenceDocument) -> Iterator[Renderable]:
    yield from _heading("Similar findings, and how they are told apart")
    for other in reference.similar:
        yield _indented(Text.assemble((other.id, "cyan"), f"  {other.label}"))
        yield _indented(Text(other.difference), 4)


def _remedies(reference: FindingReferenceDocument) -> Iterator[Renderable]:
    *special, general = reference.remedies
    yield from _heading("How to fix it")
    yield _indented(Text(f"→ {general.text}", style="green"))
    if special:
        yield _indented(Text(VARIANTS, style="dim"))
    for each in special:
        yield _indented(Text(capitalized(each.condition), style="italic"), 4)
        yield _indented(Text(f"→ {each.text}"), 6)


def _measured(reference: FindingReferenceDocument) -> Iterator[Renderable]:
    yield from _heading("Measured cases")
    yield _indented(Text(cases_text(reference)))
    yield from _cases(reference.best_cases, GAIN_EXAMPLES)
    yield from _cases(reference.lookalike_cases, LOOKALIKE_EXAMPLES)
    if reference.precedents is not None:
        every = f"All: keet cases --finding {reference.id}"
        yield _indented(Text(every, style="dim"))


def _cases(cases: Sequence[CaseReferenceDocument], title: str) -> Iterator[Renderable]:
    if cases:
        yield _indented(Text(title, style="dim"))
    for case in cases:
        yield _indented(Text(f"{speedup_text(case.speedup):>6}  keet cases {case.id}"), 4)
        yield _indented(Text(f"Fix: {case.fix}", style="dim"), 12)


def _indented(content: Renderable, indent: int = 2) -> Indented:
    return Indented(content, indent)
