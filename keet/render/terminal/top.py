"""The view of `keet top` for a terminal: the largest possible savings, as a table or in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from keet.documents.top import OpportunityDocument, TopDocument
from keet.errors import one_line
from keet.render.common.top import (
    about_times,
    device_names,
    example_command,
    forecast_launches,
    forecast_range,
    forecast_text,
    gpu_lines,
    group_finding,
    group_name,
    launch_shape,
    next_step,
    no_saving_text,
    partial_note,
    remarks,
    saving_text,
    time_taken,
    top_heading,
    top_notes,
)
from keet.render.common.top_times import (
    duration,
    gap_command,
    gap_note,
    launches_cell,
    percent,
    sections,
)
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text

_WIDE = 140
"""Columns from which on limiter, finding and GPU have their own columns."""


def top_view(top: TopDocument, width: int) -> Group:
    rows = _wide(top) if width >= _WIDE else _blocks(top)
    notes = (Text(note, style="dim") for note in top_notes(top))
    where = _unbroken(one_line(top.store), "bold")
    head = (Text(line) for line in (top_heading(top), *(f"  {line}" for line in gpu_lines(top))))
    about = (Text(line, style="dim") for line in about_times(top))
    gaps = _gaps(top)
    return Group(where, *head, *about, Text(""), *rows, *notes, *gaps, _unbroken(next_step(top)))


def _gaps(top: TopDocument) -> list[Text]:
    note = gap_note(top)
    if note is None:
        return []
    return [Text(note, style="dim"), _unbroken(f"    {gap_command(top)}", "dim")]


def _unbroken(text: str, style: str = "") -> Text:
    """A line to be copied: the terminal may wrap it, but keet does not."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _wide(top: TopDocument) -> list[Renderable]:
    """One row per group, and below the table the command for each group."""
    grids: list[Renderable] = []
    for title, some in sections(top):
        grids += [*_title(title), _grid(top, some), Text("")]
    commands = [_unbroken(f"{each.rank:>2}  {_marked(each)}", "dim") for each in top.opportunities]
    about = (Text(note, style="dim") for note in partial_note(top))
    return [*grids, *commands, Text(""), *about]


def _title(title: str | None) -> list[Text]:
    return [Text(title, style="bold"), Text("")] if title else []


def _grid(top: TopDocument, some: Sequence[OpportunityDocument]) -> Table:
    grid = Table(is_ruled=True)
    for name in ("", "could save", "share of time", "time", "launches"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name in ("file" if top.by == "file" else "kernel", "GPU", "limiter", "finding"):
        grid.add_column(name, overflow="fold")
    grid.add_column("forecast", no_wrap=True)
    for each, device in zip(some, device_names(some, top.gpus)):
        what = Text.assemble(
            (group_name(top, each), "bold"), f"\n{launch_shape(each)}" if each.grid else ""
        )
        grid.add_row(
            Text(str(each.rank), style="dim"),
            Text(saving_text(top, each), style="bold green" if each.saved_us else ""),
            *(percent(each.share), duration(each.time_us), launches_cell(each)),
            *(what, device, each.limiter or "-"),
            *(group_finding(each) + remarks(each), forecast_text(each)),
        )
    return grid


def _blocks(top: TopDocument) -> list[Renderable]:
    """A few lines per group, for 80 columns."""
    parts: list[Renderable] = []
    for title, some in sections(top):
        parts += _title(title)
        for each, device in zip(some, device_names(some, top.gpus)):
            parts += _block(top, each, device)
    return parts


def _block(top: TopDocument, each: OpportunityDocument, device: str) -> list[Renderable]:
    saves = f"could save {saving_text(top, each)}" if each.saved_us else no_saving_text(each)
    gain = each.forecast
    forecast = f": {forecast_range(each, gain)}{forecast_launches(each)}" if gain else ""
    first = Table.grid()
    first.add_column(min_width=4)
    first.add_row(
        Text(f"{each.rank:>2}. ", style="dim"),
        Text.assemble((saves, "bold green" if each.saved_us else ""), f"; {time_taken(top, each)}"),
    )
    by_finding = top.by == "finding"
    rest = [
        Text.assemble((group_name(top, each), "" if by_finding else "bold"), _aside(top, each)),
        Text.assemble((group_finding(each), "bold" if by_finding else ""), forecast, remarks(each)),
        Text(f"limiter: {each.limiter or 'not known'}, on {device}"),
    ]
    if by_finding:
        rest[:2] = rest[1::-1]
    command = _unbroken(f"    {_marked(each)}", "dim")
    return [first, *(Indented(line, 4, is_filled=True) for line in rest), command, Text("")]


def _aside(top: TopDocument, each: OpportunityDocument) -> str:
    """What else distinguishes the group from others."""
    if top.by == "file":
        return f"  {one_line(each.kernel)}"
    return f"  {launch_shape(each)}" if each.grid else ""


def _marked(each: OpportunityDocument) -> str:
    return (
        f"{example_command(each)}  # this file was moved or deleted"
        if each.gone
        else example_command(each)
    )
