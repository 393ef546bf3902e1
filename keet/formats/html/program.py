"""The section about the whole program: kernels by time, what each could gain, findings that span
several launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from keet.evidence import Evidence, Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.formats.html.data_table import Cell, Column, data_table
from keet.formats.html.markup import Content, Html, element, meter, prose
from keet.pages.anchors import Anchors
from keet.pages.device import full_name
from keet.pages.program import (
    answer_text,
    detail_text,
    figures,
    gain_text,
    kernel_text,
    listed_across,
)
from keet.profile import Launch
from keet.profile.launch_sequences import longest_first

MOST_ROWS = 300
"""Kernels that a page lists one by one: 150 launches have at most 150, and more than twice as many
are not read but searched."""
_MOST_MEMBERS = 200
"""Launches of one shape that are listed."""
_OTHER = " (not what most of them have)"
_NOT_EXPLAINED = "not explained"
_COLUMNS = (
    Column("Kernel", first="ascending"),
    Column("Share", is_number=True),
    Column("Gain", is_number=True),
    Column("First finding", first="ascending"),
    Column("Time", is_number=True),
    Column("Launches", is_number=True),
)
"""The most important columns are on the left: a phone shows only those at first."""
_MEMBER_COLUMNS = (
    Column("Launch", first="ascending"),
    Column("Time", is_number=True),
    Column("First finding", first="ascending"),
)
_GAIN_NOTE = "Gain: times faster, if the first finding of the kernel were fixed (an estimate)."


def program_section(
    program: ProgramExplanation, anchors: Anchors, targets: Collection[int]
) -> Html:
    """`targets`: launches that have a section on the page."""
    rows = list(program.rows[:MOST_ROWS])
    if rest := program.rows[MOST_ROWS:]:
        rows.append(program.combined_row(rest))
    repeated = Counter(row.kernel for row in rows)
    cells = [_cells(row, program, repeated, anchors, targets) for row in rows]
    return element(
        "section",
        element("h2", "Program"),
        _sentences(program),
        data_table("Kernels by time", _COLUMNS, cells),
        element("p", _GAIN_NOTE, class_="muted") if any(map(gain_text, rows)) else None,
        _across(program),
        _run_notes(program),
        class_="program",
        id=anchors.top("program"),
    )


def _sentences(program: ProgramExplanation) -> Iterator[Html]:
    warnings = program.run.warnings if program.run else ()
    for number, text in enumerate(program.all_texts):
        if text in warnings:
            yield element("p", prose(text), class_="note warn")
        else:
            yield element("p", prose(text), class_=None if number else "lead")


def _cells(
    row: ProgramRow,
    program: ProgramExplanation,
    repeated: Counter[str],
    anchors: Anchors,
    targets: Collection[int],
) -> list[Cell]:
    share, launches, time = figures(row)
    timed, gain = bool(program.us_total), gain_text(row)
    part, count, took, *_ = row.evidence
    percent = float(part.value)
    return [
        Cell(list(_kernel(row, detail_text(row, repeated), anchors, targets)), row.kernel),
        Cell([share, meter(percent)] if timed else share, percent if timed else ""),
        Cell(gain, row.gain.likely if row.gain and gain else ""),
        Cell(answer_text(row)),
        Cell(time, float(took.value) if timed else ""),
        Cell(launches, float(count.value)),
    ]


def _kernel(
    row: ProgramRow, detail: str, anchors: Anchors, targets: Collection[int]
) -> Iterator[Content]:
    name, first = kernel_text(row), row.first
    full = full_name(first.launch) if first else None
    launches = (first, *(each for group in row.groups for each in group.members))
    placed = [each.launch.id for each in launches if each and each.launch.id in targets]
    if placed:
        yield element("a", name, href=f"#{anchors.launch(placed[0])}", title=full)
    else:
        yield element("span", name, title=full)
    if detail:
        yield [element("br"), element("span", detail, class_="muted detail")]


def _across(program: ProgramExplanation) -> Html | None:
    found = listed_across(program)
    return element("ul", [element("li", prose(each.text)) for each in found]) if found else None


def _run_notes(program: ProgramExplanation) -> Iterator[Html]:
    if program.run is None:
        return
    from keet.pages.program import skipped_texts

    notes = (f"note: {note}" for note in program.run.notes)
    for text in (*skipped_texts(program.run), *notes):
        yield element("p", text, class_="note warn")


def members_fold(each: LaunchExplanation, program: ProgramExplanation | None) -> Html | None:
    """The launches that this one represents; None if there are no others, or if another launch of
    the group lists them."""
    group = program.standing.get(each.launch.id) if program else None
    if program is None or group is None or len(group.launches) < 2:
        return None
    ranked = longest_first(group.launches)
    labels = {each.launch.id: each.label for each in group.members}
    left = len(ranked) - _MOST_MEMBERS
    others = {other.launch.id for other in group.different}
    rows = [
        _member(launch, labels.get(launch.id, _NOT_EXPLAINED), others)
        for launch in ranked[:_MOST_MEMBERS]
    ]
    count, *times = program.numbers_of(group)
    title = Sentence("All {count:.0f} launches of this kernel and shape", count=count)
    return element(
        "details",
        element("summary", title),
        element("p", _spread_text(*times)) if times else None,
        data_table("Launches of this kernel and shape", _MEMBER_COLUMNS, rows),
        element("p", f"{left} shorter ones are not listed.") if left > 0 else None,
        class_="fold",
    )


def _spread_text(shortest: Evidence, median: Evidence, longest: Evidence) -> Sentence:
    text = "Time: shortest {shortest}, median {median}, longest {longest}."
    return Sentence(text, shortest=shortest, median=median, longest=longest)


def _member(launch: Launch, label: str, others: Collection[int]) -> list[Cell]:
    duration = launch.get("duration")
    other = _OTHER if launch.id in others else ""
    return [
        Cell(f"#{launch.id}", launch.id),
        Cell(str(duration) if duration else "-", launch.rank_time or ""),
        Cell(f"{label}{other}"),
    ]
