"""The pages of `keet finding`: the list of findings, and one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.parameters import Source
from keet.analysis.time_model import WORTH
from keet.catalog.loading import precedents
from keet.documents.finding import CaseReferenceDocument, FindingReferenceDocument
from keet.evidence import Sentence, constant
from keet.explanation.finding_notes import measured_text
from keet.findings import Family, findings
from keet.formatting import capitalized, speedup_text
from keet.pages.blocks import (
    Block,
    Column,
    Gap,
    Heading,
    Item,
    Items,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
)

FAMILIES: dict[Family, str] = {
    "memory": "Memory access",
    "parallelism": "Latency and parallelism",
    "instructions": "Instructions",
    "healthy": "Healthy ends",
}
_ID_WIDTH = 28
_SOURCES: dict[Source, str] = {
    "documentation": "from documentation",
    "fit": "fitted on the casebook",
    "judgement": "a judgement",
}
"""Where the value of a parameter comes from, in words."""
_LEAST_GAIN = constant(100 * (WORTH - 1), "%", "least gain of a finding")
_LOOKALIKES = Sentence(
    "Look-alikes (from the same families), whose fix gained less than {gain:.0f}:",
    gain=constant(10, "%", "least gain of a case"),
)


def findings_page(reader: Reader, link: str = "") -> Page:
    """A table in a terminal, elsewhere with what each finding means. `link`: the page of a
    finding, with `{}` for the id."""
    if reader.format == "terminal":
        return Page([*_table()])
    blocks: list[Block] = []
    for family, title in FAMILIES.items():
        items = [
            Item(f"({spec.label}): {spec.meaning}", Span(spec.id, "place", link.format(spec.id)))
            for spec in findings().values()
            if spec.family == family
        ]
        blocks += [Heading(title), Items(items, label_width=_ID_WIDTH - 1, indent=2), Gap()]
    return Page(blocks)


def _table() -> Iterator[Block]:
    """Findings by family, with their measured cases."""
    columns = [
        Column("finding", is_unbroken=True),
        Column("name"),
        Column("cases", is_number=True),
        Column("gain", is_number=True),
    ]
    rows: list[Sequence[Words]] = []
    for family, title in FAMILIES.items():
        rows.append([Span(title, "strong"), "", "", ""])
        for spec in findings().values():
            if spec.family == family:
                measured = precedents().get(spec.id)
                known = ("", "")
                if measured:
                    known = (str(measured.cases), speedup_text(measured.median))
                rows.append([Span(f"  {spec.id}", "place"), spec.label, *known])
    yield Table(columns, rows)
    yield Gap()
    yield Text("cases: measured before and after the fix; gain: the median of them", "muted")
    yield Text("One in full: keet finding ID. Its cases: keet finding ID --cases", "muted")


def finding_page(reference: FindingReferenceDocument, link: str = "") -> Page:
    return Page([*_finding(reference, link)])


def _finding(reference: FindingReferenceDocument, link: str) -> Iterator[Block]:
    yield Heading((capitalized(reference.label), " (", Span(reference.id, "place plain"), ")"))
    yield Text(reference.meaning)
    if names := dict.fromkeys(findings()[reference.id].labels.values()):
        yield Text(f"Also printed as: {'; '.join(names)}.", "muted")
    yield from (Gap(), Heading("How to fix it", 2))
    *special, general = reference.remedies
    yield Text(f"→ {general.text}", "good", indent=2)
    if special:
        yield Text("keet prints the first of these that applies:", "muted", indent=2)
        items: list[Item] = []
        for each in special:
            condition = Item(Span(capitalized(each.condition), "italic"))
            items += [condition, Item(f"→ {each.text}", depth=1)]
        yield Items(items, mark="", indent=4)
    yield from (Gap(), Heading("Measured cases", 2))
    measured = precedents().get(reference.id)
    none = "The casebook has no measured case of it."
    yield Text(measured_text(measured) if measured else none, indent=2)
    examples = "Examples (from the families that keet was developed on):"
    yield from _cases(reference.best_cases, examples)
    yield from _cases(reference.lookalike_cases, _LOOKALIKES)
    if reference.precedents is not None:
        yield Text(
            ("All: ", Span(f"keet finding {reference.id} --cases", "code")), "muted", indent=2
        )
    yield from (Gap(), Heading("How it is judged", 2))
    form = "It is reported where fixing it could gain {gain:.0f} or more."
    if reference.family == "healthy":
        form = "It is reported only where no cause is expected to gain {gain:.0f} or more."
    yield Text(reference.judged, indent=2)
    yield Text(Sentence(form, gain=_LEAST_GAIN), indent=2)
    if reference.rules:
        yield Text(f"Rules of Nsight Compute on it: {', '.join(reference.rules)}.", indent=2)
    yield from (Gap(), Heading("Similar findings, and how they are told apart", 2))
    similar: list[Item] = []
    for other in reference.similar:
        name = Span(other.id, "place", link.format(other.id))
        similar += [Item((name, f"  {other.label}")), Item(other.difference, depth=1)]
    yield Items(similar, mark="", indent=2)
    if reference.checks or reference.parameters:  # for readers who check keet, so it comes last
        yield from (Gap(), Heading("How the gain is computed", 2))
    if reference.parameters:
        yield Text("It depends on:", "muted", indent=2)
        parameters = []
        for parameter in reference.parameters:
            label = (Span(parameter.name, "code"), f" = {parameter.value:g}:")
            parameters.append(Item(f"{parameter.meaning} ({_SOURCES[parameter.source]})", label))
        yield Items(parameters, indent=4)
    if reference.checks:
        yield Text(f"Code: {', '.join(reference.checks)}.", indent=2)


def _cases(cases: Sequence[CaseReferenceDocument], title: str) -> Iterator[Block]:
    if cases:
        yield Text(title, "muted", indent=2)
        items = []
        for case in cases:
            command = Span(f"keet finding {case.id}", "code")
            items += [Item(command, speedup_text(case.speedup)), Item(f"Fix: {case.fix}", depth=1)]
        yield Items(items, label_width=6, is_right=True, indent=4)
