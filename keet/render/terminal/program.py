"""A part of `keet explain`'s view: the program, before its launches.

Kernels by share of the time, what each could gain, what several launches show together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.render.common.program import (
    HEADINGS,
    LEAST_NAME,
    answer_text,
    detail_text,
    figures,
    gain_text,
    is_profiled,
    kernel_text,
    listed_across,
    listed_rows,
)
from keet.render.common.whole_run import skipped_texts
from keet.render.terminal.layout import Renderable, Table, Text

_GAIN, _GAP = 5, 2
"""Characters of `12.3x`, and between columns."""
_NAME, _LEAST_FINDING = 30, 20
"""Minimum width of a name before findings are folded, and minimum width of a finding."""


def program_view(program: ProgramExplanation, width: int) -> Iterator[Renderable]:
    yield from _sentences(program)
    yield ""
    yield _table(program, width)
    if program.cross_launch:
        yield ""
        yield _bullets([found.text for found in listed_across(program)])
    if program.run:
        notes = (f"note: {note}" for note in program.run.notes)
        yield from (Text(text, style="yellow") for text in (*skipped_texts(program.run), *notes))


def _bullets(texts: Sequence[str]) -> Table:
    """Texts with a hanging indent."""
    listed = Table.grid(padding=(0, 1))
    for text in texts:
        listed.add_row("•", Text(text))
    return listed


def _sentences(program: ProgramExplanation) -> Iterator[Text]:
    warnings = program.run.warnings if program.run else ()
    for number, text in enumerate(program.all_texts):
        yield Text(text, style="yellow" if text in warnings else "" if number else "bold")


def _table(program: ProgramExplanation, width: int) -> Table:
    rows = listed_rows(program)
    repeated = Counter(row.kernel for row in rows)
    numbers = [figures(row) for row in rows]
    room, finding = _widths(rows, numbers, width)
    shown = Table(is_ruled=True, padding=(0, 1))
    for heading in HEADINGS[:3]:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column(HEADINGS[3], overflow="fold", max_width=room)
    shown.add_column(HEADINGS[4], justify="right", no_wrap=True, min_width=_GAIN)
    shown.add_column(HEADINGS[5], overflow="fold", max_width=finding)
    for row, cells in zip(rows, numbers):
        style = "" if is_profiled(row) or row.members else "yellow"
        name = _kernel(row, detail_text(row, repeated), room)
        shown.add_row(*cells, name, gain_text(row), Text(answer_text(row), style=style))
    return shown


def _widths(
    rows: Sequence[ProgramRow], numbers: Sequence[tuple[str, str, str]], width: int
) -> tuple[int, int]:
    """Widths of names and findings, so that a row takes one line if possible. Names are shortened
    first, then findings."""
    fixed = sum(max(map(len, column)) + _GAP for column in zip(HEADINGS[:3], *numbers))
    left = width - fixed - _GAIN - 2 * _GAP
    names = max(len(kernel_text(row)) for row in rows)
    longest = max(len(answer_text(row)) for row in rows)
    finding = max(_LEAST_FINDING, min(longest, left - min(names, _NAME)))
    return max(LEAST_NAME, left - finding), finding


def _kernel(row: ProgramRow, detail: str, room: int) -> Text:
    name = Text(kernel_text(row, room), style="" if row.members else "bold")
    return name.append(f"\n{detail}", style="dim not bold") if detail else name
