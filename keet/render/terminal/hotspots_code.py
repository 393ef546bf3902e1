"""A part of `keet hotspots`' view: what instructions are for, bytes read per
pointer, and the stall reasons in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.source_lines import Spot
from keet.catalog import stalls
from keet.documents.hotspots import HotspotsLaunch, PointerDocument
from keet.evidence import Sentence, counted
from keet.pages.hotspots import (
    STALLS_SHOWN,
    distinct_bytes_text,
    mix_text,
    size_text,
    stall_reasons,
    times_read_text,
)
from keet.profile import Location
from keet.profile.names import file_name
from keet.render.terminal.layout import Renderable, Table, Text

_POINTERS = 3
"""Pointers listed per launch; the JSON has all of them."""
_WIDE = 100
"""Columns from which on there is room for the bytes from L2."""


def mix_lines(found: HotspotsLaunch) -> list[Renderable]:
    if found.instruction_mix is None:
        return []
    head = ("What the executed instructions are for: ", "dim")
    return [Text.assemble(head, mix_text(found.instruction_mix))]


def pointer_table(found: HotspotsLaunch, width: int) -> list[Renderable]:
    """One row per pointer that is read, most requested bytes first; empty if none is read."""
    rows = found.reuse
    if not rows:
        return []
    shown = rows[:_POINTERS]
    has_l2 = width >= _WIDE and any(row.l2_basis == "measured" for row in shown)
    table = Table(padding=(0, 2), heading_style="dim")
    table.add_column("Bytes read per pointer", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("requested", justify="right", no_wrap=True)
    table.add_column("distinct", overflow="fold")
    table.add_column("times read", justify="right", no_wrap=True)
    if has_l2:
        table.add_column("from L2", justify="right", no_wrap=True)
    table.add_column("at", style="cyan", no_wrap=True, overflow="ellipsis")
    for row in shown:
        table.add_row(*_cells(row, has_l2=has_l2))
    left = len(rows) - len(shown)
    text = Sentence("{pointers}: --format json", pointers=counted(left, "more pointer"))
    more = [Text(text, style="dim")]
    return ["", table, *(more if left > 0 else [])]


def _cells(row: PointerDocument, *, has_l2: bool) -> list[str]:
    distinct = row.distinct_bytes_at_most
    l2_bytes = size_text(row.l2_bytes) if row.l2_basis == "measured" else "-"
    return [
        row.pointer,
        size_text(row.requested_bytes),
        distinct_bytes_text(distinct, row.basis, row.why_unknown or ""),
        times_read_text(row.requested_bytes, distinct) or "-",
        *([l2_bytes] if has_l2 else []),
        lines_text(row.lines),
    ]


def stall_legend(reasons: Iterable[str]) -> list[Renderable]:
    """Explains stall reasons in words."""
    known = stalls()
    lines: list[Renderable] = [
        Text.assemble(
            (known[reason].label, "dim bold"), (f": waits for {known[reason].waits_for}", "dim")
        )
        for reason in reasons
    ]
    return ["", *lines] if lines else []


def printed_reasons(spots: Iterable[Spot], waiting: Sequence[str]) -> Iterator[str]:
    """The stall reasons of the rows that the width left room for."""
    known = stalls()
    for spot in spots:
        for reason in stall_reasons(spot)[:STALLS_SHOWN]:
            if any(known[reason].label in text for text in waiting):
                yield reason


_LINES = 3


def lines_text(lines: Sequence[Location]) -> str:
    """`slow.cu:19, 27, other.cuh:5`: each file is named once."""
    parts: list[str] = []
    before = None
    for line in lines[:_LINES]:
        name = file_name(line.file)
        parts.append(str(line.line) if name == before else f"{name}:{line.line}")
        before = name
    return ", ".join(parts) + (", …" if len(lines) > _LINES else "")
