"""How many lines a view takes, without rendering it, which would take as long as to print it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from keet.render.terminal.console import to_text


def line_count(parts: Iterable[RenderableType], width: int) -> int:
    """Lines of what is printed one below the other."""
    return sum(_lines(part, width) for part in parts)


def _lines(part: RenderableType, width: int) -> int:
    inside, room, around = part, width, 0
    if isinstance(part, Padding):
        inside, around = part.renderable, part.top + part.bottom
        room = max(1, width - part.left - part.right)
    counted = _counted(inside, room)
    return to_text(part, width).count("\n") if counted is None else counted + around


def _counted(part: RenderableType, width: int) -> int | None:
    """Of what is printable text, or a table of it; None: it has to be rendered."""
    text = _plain(part)
    if text is not None:
        return _wrapped(text, width) if text.isprintable() else None
    return part.row_count if isinstance(part, Table) and _is_one_line_per_row(part, width) else None


def _plain(part: RenderableType) -> str | None:
    """The text of what is nothing else."""
    return part.plain if isinstance(part, Text) else part if isinstance(part, str) else None


@cache
def _wrapped(text: str, width: int) -> int:
    """Lines of a text that is wrapped at words."""
    return 1 if cell_len(text) <= width else len(Text(text).wrap(_console(), width))


@cache
def _console() -> Console:
    """`Text.wrap` needs one, and uses nothing of it."""
    return Console(file=io.StringIO())


def _is_one_line_per_row(table: Table, width: int) -> bool:
    """Of a grid (no box, heading or title): whether all columns have the room that they need."""
    if table.box or table.show_header or table.title or table.caption:
        return False
    _, right, _, left = table.padding
    needed = [_widest(column) for column in table.columns]
    fits = sum(cells or width for cells in needed) + len(needed) * (left + right) <= width
    return fits and None not in needed


def _widest(column: Column) -> int | None:
    """None where a cell is no text of one line."""
    cells = [_plain(cell) for cell in column.cells]
    if not all(cell is not None and cell.isprintable() for cell in cells):
        return None
    return max((cell_len(cell) for cell in cells if cell), default=0)
