"""A part of `keet explain`'s view: where a launch's time goes, and how busy its units are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.explanation.account_rows import AccountRow, account_rows, leading_text, time_text
from keet.explanation.explanation_types import LaunchExplanation
from keet.render.common.account import (
    HEADING,
    busiest_units,
    evidence_text,
    shown_notes,
    with_depth,
)
from keet.render.terminal.layout import Indented, Renderable, Table, Text

_ROWS, _ROWS_WITH_NOTES = 7, 6
"""Rows of the account, without and with notes: the first finding must fit on a screen of 24 lines.
"""
_UNIT_BAR = 10
_NARROW, _WIDE = 12, 24
"""Length of a bar in characters, on a terminal of 80 columns and on a wide one."""


def account_view(
    each: LaunchExplanation, width: int, *, verbose: bool = False
) -> Iterator[Renderable]:
    """The account, its notes, and the busiest units."""
    if each.verdict.not_judged:
        return
    notes = [Text(note.text) for note in shown_notes(each, everything=verbose)]
    if each.account.parts:
        ids = " (right: evidence ids, as in --format json)" if verbose else ""
        yield _indented(Text.assemble((HEADING, "bold"), (ids, "dim")))
        most = _ROWS_WITH_NOTES if notes else _ROWS
        rows = account_rows(each.view, each.account, most)
        yield _indented(_tree(each) if verbose else _table(rows, width))
    yield from map(_indented, [*units_line(each, width), *notes])


def account_line(each: LaunchExplanation) -> Iterator[Renderable]:
    """The largest parts in one line."""
    text = leading_text(each.view, each.account)
    if text and not each.verdict.not_judged:
        yield _indented(Text.assemble(("Time: ", "dim"), text))


def _table(rows: Sequence[AccountRow], width: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    for justify in ("right", "left", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_column(overflow="fold")
    room = _WIDE if width >= 110 else _NARROW
    for row in rows:
        label = Text(f"{'  ' * row.depth}{row.label}", style="dim" if row.depth else "")
        share = Text(f"{row.share:.0f}", style="" if row.depth else "bold")
        bar = _bar(float(row.share.value) / 100, room, "blue" if row.depth else "cyan")
        grid.add_row(share, bar, row.time, label)
    return grid


def _bar(share: float, room: int, style: str) -> Text:
    full = min(room, round(room * share))
    return Text.assemble(("█" * full, style), ("░" * (room - full), "dim"))


def _tree(each: LaunchExplanation) -> Table:
    """Every part, with the ids of its share and of the numbers that it was computed from."""
    grid = Table.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold", style="dim")
    for part, depth in with_depth(each.account.parts):
        label = f"{'  ' * depth}{part.label}"
        grid.add_row(f"{part.share:.1f}", time_text(part.us), label, evidence_text(part))
    return grid


def units_line(each: LaunchExplanation, width: int) -> Iterator[Text]:
    """As many units as fit on one line."""
    line = Text("Units, share of peak:", style="dim")
    for place, ceiling in enumerate(busiest_units(each)):
        bar = _bar(ceiling.share, _UNIT_BAR, "red" if ceiling.share >= 0.6 else "cyan")
        unit = Text.assemble("  ", (f"{ceiling.name} ", ""), bar, f" {ceiling.reached:.0f}")
        if place and line.cell_len + unit.cell_len > width - 2:
            break
        line = Text.assemble(line, unit)
    if each.ceilings:
        yield line


def _indented(content: Renderable) -> Indented:
    return Indented(content, 2)
