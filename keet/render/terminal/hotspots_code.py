"""A part of `keet hotspots`' view: what instructions are for, and bytes read per pointer."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.sass import MachineCode
from keet.formatting import count_noun
from keet.profile import Location
from keet.profile.names import file_name
from keet.render.common.hotspot_rows import PointerRow, pointer_rows
from keet.render.common.machine_code import distinct_text, mix_text, size_text
from keet.render.terminal.layout import Renderable, Table, Text

_POINTERS = 3
"""Pointers listed per launch; the JSON has all of them."""
_WIDE = 100
"""Columns from which on there is room for the bytes from L2."""


def mix_lines(code: MachineCode) -> list[Renderable]:
    return [
        Text.assemble(
            ("What the executed instructions are for: ", "dim"),
            mix_text(code.mix),
        )
    ]


def pointer_table(code: MachineCode, width: int) -> list[Renderable]:
    """One row per pointer that is read, most requested bytes first; empty if none is read."""
    rows = pointer_rows(code)
    if not rows:
        return []
    shown = rows[:_POINTERS]
    has_l2 = width >= _WIDE and any(row.reuse.l2_basis == "measured" for row in shown)
    table = Table(padding=(0, 2), heading_style="dim")
    table.add_column("Read by pointer", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("requested", justify="right", no_wrap=True)
    table.add_column("distinct (times read)", overflow="fold")
    if has_l2:
        table.add_column("from L2", justify="right", no_wrap=True)
    table.add_column("where", style="cyan", no_wrap=True, overflow="ellipsis")
    for row in shown:
        table.add_row(*_cells(row, has_l2=has_l2))
    left = len(rows) - len(shown)
    more = [Text(f"{count_noun(left, 'more pointer')}: --format json", style="dim")]
    return ["", table, *(more if left > 0 else [])]


def _cells(row: PointerRow, *, has_l2: bool) -> list[str]:
    reuse = row.reuse
    l2_bytes = size_text(reuse.l2_bytes) if reuse.l2_basis == "measured" else "-"
    return [
        row.name,
        size_text(reuse.requested_bytes),
        distinct_text(
            reuse.distinct_bytes_at_most, reuse.basis, reuse.requested_bytes, row.why_unknown
        ),
        *([l2_bytes] if has_l2 else []),
        lines_text(row.lines),
    ]


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
