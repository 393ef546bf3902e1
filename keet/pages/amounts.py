"""How much work is done, and how much is needed: the page of `keet amounts`, and the short list on
the page of `keet explain`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keet.analysis.amounts.accesses import place_of
from keet.analysis.amounts.loops import loop_label
from keet.analysis.parameters import SAVED_PART
from keet.documents.amounts import (
    AmountsDocument,
    AmountsLaunch,
    ArrayDocument,
    LaunchAmounts,
    LineAccessDocument,
    ProgramAmounts,
)
from keet.evidence import Sentence
from keet.explanation.launch_amounts import PARTS, MainAmounts, amount_rows, told_bounds
from keet.formatting import capitalized, listed, shape_parts
from keet.pages.blocks import (
    Block,
    Column,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
    limited,
)
from keet.pages.capture import describe_device
from keet.profile.launch import file_name
from keet.units import Quantity, format_number

HEADING = "How much work"
_SHORT_LOOPS = 2
_ANSWERS = 5
"""Excesses at the beginning of the page of several launches."""
_NO_EXCESS = Text(
    "No change to the amount of work was found that saves a twentieth of the time.", indent=2
)
_ACCESSES = 12
"""Loads and stores in a terminal."""
_OF_PROGRAM = 2
"""Texts about the launches together on the page of `explain`."""


def short_amounts(amounts: MainAmounts, reader: Reader, most: int) -> Iterator[Block]:
    """The largest excesses, the loops and the bounds; nothing if nothing is known. `most`: lines in
    a terminal, its heading included."""
    rows = [Item(text, label) for label, text in short_rows(amounts)]
    if len(rows) < 2:  # bounds alone say little
        return
    while len(rows) > 1 and reader.format == "terminal":
        if reader.lines([Items(rows, indent=2)]) + 1 <= most:
            break
        del rows[-2]
    is_html = reader.format == "html"
    heading = Heading(HEADING, 3) if is_html else Text(HEADING, "strong", indent=2)
    yield from (Gap(), heading, Items(rows, indent=2))


def short_rows(amounts: MainAmounts) -> Iterator[tuple[str, Sentence]]:
    """Labels and texts, the most important first; the bounds are the last."""
    listed = {excess.id for excess in amounts.excesses}
    yield from ((excess.label, excess.text) for excess in amounts.excesses)
    for row in amounts.per_item:
        if row.id == "instructions" and "per_item" not in listed:
            yield "per item", row.text
    known = [loop for loop in amounts.loops[1:] if loop.copies is not None]
    rows = [*amounts.loops[:1], *known]  # that with most of the instructions in any case
    loops = [loop for loop in rows if f"loop.{loop.line}" not in listed]
    yield from ((loop_label(loop.line), loop.text) for loop in loops[:_SHORT_LOOPS])
    if bounds := told_bounds(amounts.bounds):
        yield "at least", Sentence("; ").join(bound.text for bound in bounds)


def amounts_page(document: AmountsDocument, reader: Reader) -> Page:
    """What is done more than needed comes first; then the launches together, and each of them, the
    longest first."""
    path, device = document.report.path, describe_device(document.device)
    blocks: list[Block] = [Heading((Span(path, "place plain"), f" on {device}"), look="")]
    if document.program:
        blocks += [*_answer(document.launches), Gap(), *program_blocks(document.program)]
    for launch in sorted(document.launches, key=lambda launch: -(launch.duration_us or 0)):
        blocks += [Gap(), *_launch(launch, reader)]
    blocks += [Gap(), Text((Span("Next: ", "strong"), *_next(document)))]
    return Page(blocks, HEADING)


def _answer(launches: Sequence[AmountsLaunch]) -> Iterator[Block]:
    """The largest excesses of all launches, by the time that they cost."""
    rows = [(launch, excess) for launch in launches for excess in launch.amounts.excesses]
    rows.sort(key=lambda row: -(row[1].us or 0))
    items = [
        Item((f"#{launch.id} ", Span(launch.kernel, "name"), ": ", each.text), each.label)
        for launch, each in rows[:_ANSWERS]
    ]
    yield from (Gap(), Heading(capitalized(PARTS["excesses"]), 2))
    if items:
        yield Items(items, indent=2)
    elif not any(launch.amounts.unknown for launch in launches):
        yield _NO_EXCESS
    else:
        yield Text("Not known of every launch: see below.", indent=2)
    if len(rows) > len(items):
        yield Text(f"{len(rows) - len(items)} more: see the launches", "muted", indent=2)


def _next(document: AmountsDocument) -> Iterator[Words]:
    """What to change, and a unit of work that means more than a thread."""
    command = shlex.join(["keet", "explain", document.report.path])
    yield from (Span(command, "code"), " says what to change and what that gains")
    items = [launch.amounts.item for launch in document.launches]
    if any(item and item.basis == "threads" for item in items):
        yield from ("; ", Span("--per NAME=COUNT", "command"), " counts per result, not per thread")


# --- the program


def program_blocks(program: ProgramAmounts, most: int | None = None) -> Iterator[Block]:
    """`most`: rows of each kind."""
    yield Heading("The launches together", 2)
    yield from (Text(text) for text in program.texts)
    states = [Sentence(". ").join((row.text, row.detail)) for row in program.states]
    parts = {
        "Arrays that are read again, by the size that another launch writes": program.rereads,
        "Candidates for a hand-over on the chip": program.hand_overs,
        "At least": program.bounds,
    }
    yield from _list("State that launches move again", [Item(text) for text in states[:most]])
    for name, rows in parts.items():
        yield from _list(name, [Item(row.text) for row in rows[:most]])
    yield from _list("Launches", [Item(row.text, row.kernel) for row in program.groups[:most]])


def _list(name: str, items: Sequence[Item]) -> Iterator[Block]:
    if items:
        yield from (Gap(), Text(name, "strong"), Items(items, indent=2))


# --- a launch


def _launch(launch: AmountsLaunch, reader: Reader) -> Iterator[Block]:
    amounts = launch.amounts
    facts = [*shape_parts(grid=launch.grid, block=launch.block)]
    if launch.duration_us is not None:
        facts.append(str(Quantity(launch.duration_us * 1e3, "ns")))
    yield Heading((f"#{launch.id} ", Span(launch.kernel, "name"), f": {', '.join(facts)}"), 2, "")
    for skipped in amounts.unknown:
        yield from (Gap(), Notice(f"{capitalized(skipped.reason)}: {skipped.remedy}."))
    rows = [*amount_rows(amounts)]
    if not (amounts.excesses or amounts.unknown):
        yield from (Gap(), Text(capitalized(PARTS["excesses"]), "strong"), _NO_EXCESS)
    for part, name in PARTS.items():
        items = [Item(row.text, row.label) for row in rows if row.part == part]
        if items and part != "resources":
            yield from (Gap(), Text(capitalized(name), "strong"))
            if part in _TABLES:
                yield from _TABLES[part](amounts, reader)
            if part not in ("per_item", "accesses"):
                yield Items(items, indent=2)
        if part == "bounds":
            figures = Sentence(", ").join(figure.text for figure in launch.figures)
            resources = amounts.resources.text if amounts.resources else Sentence()
            if texts := [*filter(None, (figures, resources))]:
                yield from (Gap(), *(Text(text, "muted", indent=2) for text in texts))


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "?"
    return str(Quantity(value, unit)) if unit else format_number(value)


def _times(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _places(lines: Sequence[Any], most: int = 3) -> str:
    return listed([f"{file_name(line.file)}:{line.line}" for line in lines], most)


def _per_item(amounts: LaunchAmounts, reader: Reader) -> Iterator[Block]:
    if amounts.item:
        yield Text(amounts.item.text, indent=2)
        words = "Instructions count once per active thread here, once per warp in the lists below."
        yield Text(words, "muted", indent=2)
    rows = [(row.label, _number(row.value, row.unit)) for row in amounts.per_item]
    columns = [Column("What"), Column("Per item", is_number=True)]
    yield Table(columns, rows[: reader.rows], indent=2)


def _arrays(amounts: LaunchAmounts, reader: Reader) -> Iterator[Block]:
    arrays = amounts.arrays
    columns: dict[Column, Callable[[ArrayDocument], Words]] = {
        Column("Array"): lambda a: Span(a.name, "name"),
        Column("Access"): lambda a: a.access,
        Column("Distinct", is_number=True): lambda a: _number(a.distinct_bytes, "byte"),
        Column("Requested", is_number=True): lambda a: _number(a.requested_bytes, "byte"),
        Column("Times", is_number=True): lambda a: _times(a.times),
        Column("L1", is_number=True, wide=120): lambda a: _number(a.l1_bytes, "byte"),
        Column("L2", is_number=True, wide=100): lambda a: _number(a.l2_bytes, "byte"),
        Column("DRAM", is_number=True): lambda a: _number(a.dram_bytes, "byte"),
        Column("Where", wide=100): lambda a: _places(a.lines),
    }
    rows = [[make(array) for make in columns.values()] for array in arrays[: reader.rows]]
    yield Table([*columns], rows, limited(arrays, reader, "--format json"), indent=2)
    yield Gap()


def _accesses(amounts: LaunchAmounts, reader: Reader) -> Iterator[Block]:
    def cells(row: LineAccessDocument) -> Iterator[Words]:
        yield place_of(row)
        width = f"{row.width} B" if row.width else ""
        spread = "uniform" if row.is_uniform else ""
        yield " ".join(filter(None, (row.memory, row.operation, width, spread)))
        yield _number(row.executed)
        for number in (row.sectors, row.sectors_needed, row.wavefronts, row.wavefronts_needed):
            yield "" if number is None else _times(number)

    names = ("Where", "What", "Executed", "Sectors", "needed", "Wavefr.", "needed")
    if reader.format == "terminal":
        reader = reader._replace(rows=_ACCESSES)
    rows = [[*cells(row)] for row in amounts.accesses[: reader.rows]]
    used = [place for place in range(len(names)) if any(row[place] for row in rows)]
    columns = [Column(names[place], is_number=place > 1) for place in used]
    rows = [[row[place] for place in used] for row in rows]
    yield Table(columns, rows, limited(amounts.accesses, reader, "--format json"), indent=2)


_TABLES: Mapping[str, Callable[[LaunchAmounts, Reader], Iterator[Block]]] = {
    "per_item": _per_item,
    "arrays": _arrays,
    "accesses": _accesses,
}


def program_summary(program: ProgramAmounts) -> Iterator[Block]:
    """On the page of `explain`: the array that is read most often again, the data that takes most
    time to move again, and what is known of launches that are short or not profiled. Its findings
    name the round trips."""
    notable = [row for row in program.states if (row.share_pct or 0) >= 100 * SAVED_PART]
    again = [row.text for row in (*program.rereads[:1], *notable[:1])]
    rows = [*again, *program.texts[:_OF_PROGRAM]]
    if rows:
        yield from (Gap(), Text(HEADING, "strong"), Items([Item(text) for text in rows], indent=2))
