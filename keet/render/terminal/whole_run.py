"""A part of the views of `keet explain` and `keet show`: the run of the whole program.

What it spends its GPU time on, and where ncu's replay differs from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.errors import one_line
from keet.pages.program import ROWS, profiled_text, run_rows, skipped_texts, spread_text
from keet.render.terminal.layout import Renderable, Table, Text

if TYPE_CHECKING:
    from keet.explanation.whole_run import KernelRow, WholeRun


def run_view(run: WholeRun, most: int = ROWS) -> Iterator[Renderable]:
    for number, text in enumerate(run.text):
        yield Text(text, style="yellow" if text in run.warnings else "" if number else "bold")
    yield ""
    yield _table(run, most)
    listed = [*skipped_texts(run), *(f"note: {note}" for note in run.notes)]
    yield from [""] if listed else []
    yield from (Text(text, style="yellow") for text in listed)


def _table(run: WholeRun, most: int) -> Table:
    shown = Table(is_ruled=True, padding=(0, 1))
    for heading in ("Share", "Launches", "Time"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("Kernel", overflow="fold", min_width=12)
    shown.add_column("Profiled", overflow="fold", min_width=8)
    for row in run_rows(run, most):
        share, launches, busy, *_ = row.evidence
        style = "" if row.profiled or row.in_range else "yellow"
        profiled = Text(profiled_text(row), style=style)
        shown.add_row(f"{share:share}", str(launches), str(busy), _kernel(row), profiled)
    return shown


def _kernel(row: KernelRow) -> Text:
    name = Text(one_line(row.kernel), style="" if row.members else "bold")
    spread = spread_text(row)
    return name.append(f"\n{spread}", style="dim not bold") if spread else name
