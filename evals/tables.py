"""Tables from rows of cells, as plain text and as Markdown: every task of `keet eval` prints them.

The first row is the head. A column of numbers is set to the right, so that their digits line up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Rows = Sequence[Sequence[str]]

_NUMBER = re.compile(r"[+\-−]?[\d,]*\.?\d+(e[+-]?\d+)?(\s?[%x×]|\s[munk]?s)?", re.IGNORECASE)
_NOTHING = ("", "-")
"""Where there is no number: beside numbers, it stands as one."""


def text_table(rows: Rows) -> list[str]:
    """Lines for a terminal, without spaces at their ends."""
    if not rows:
        return []
    columns = _columns(rows)
    widths = [max(map(len, column)) for column in columns]
    right = [_is_numeric(column[1:]) for column in columns]
    return [_text_line(row, widths, right) for row in rows]


def markdown_table(rows: Rows) -> list[str]:
    if not rows:
        return []
    head, *body = [[_escaped(cell) for cell in row] for row in rows]
    columns = _columns(rows)
    rule = ["---:" if _is_numeric(column[1:]) else "---" for column in columns]
    return [_markdown_line(row) for row in (head, rule, *body)]


def _columns(rows: Rows) -> list[tuple[str, ...]]:
    return list(zip(*rows, strict=True))


def _text_line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(row, widths, right)
    ]
    return "  ".join(cells).rstrip()


def _markdown_line(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _escaped(cell: str) -> str:
    """A cell stays on its line and in its column, whatever a model wrote into it."""
    return " ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|")


def _is_numeric(cells: Sequence[str]) -> bool:
    said = [cell for cell in cells if cell not in _NOTHING]
    return bool(said) and all(_NUMBER.fullmatch(cell) for cell in said)
