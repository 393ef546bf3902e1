"""Formats rows of cells as tables, in plain text and in Markdown.

The first row is the head. Columns of numbers are aligned right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from textwrap import wrap

Rows = Sequence[Sequence[str]]

_NUMBER = re.compile(r"[+\-−]?[\d,]*\.?\d+(e[+-]?\d+)?(\s?[%x×]|\s[munk]?s)?", re.IGNORECASE)
_NOTHING = ("", "-")
"""Printed in place of a missing number; aligned like a number."""


_GAP = "  "
_LEAST = 12
"""Minimum width of a text column: narrower ones would show single syllables."""


def text_table(rows: Rows, width: int | None = None, keys: int = 1) -> list[str]:
    """Lines for a terminal of that width, without trailing spaces. A table that is too wide is
    split into several, one below the other; each repeats the first `keys` columns, which identify a
    row."""
    if not rows:
        return []
    count = len(_columns(rows))
    blocks = _blocks(rows, width, keys) if width else [list(range(count))]
    tables = [_block([[row[i] for i in block] for row in rows], width) for block in blocks]
    return list(chain.from_iterable([*table, ""] for table in tables))[:-1]


def _blocks(rows: Rows, width: int, keys: int) -> Iterator[list[int]]:
    """The columns of each part: as many as fit."""
    widths = [max(map(len, column)) for column in _columns(rows)]
    again = list(range(min(keys, len(widths) - 1)))
    block = list(again)
    for i in range(len(again), len(widths)):
        if len(block) > len(again) and _wide([widths[j] for j in (*block, i)]) > width:
            yield block
            block = list(again)
        block.append(i)
    yield block


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _block(rows: Rows, width: int | None) -> list[str]:
    columns = _columns(rows)
    widths = [max(map(len, column)) for column in columns]
    right = [_is_numeric(column[1:]) for column in columns]
    if width and (over := _wide(widths) - width) > 0:
        longest = widths.index(max(widths))
        widths[longest] = max(_LEAST, widths[longest] - over)
    return [line for row in rows for line in _text_lines(row, widths, right)]


def _text_lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """Several lines if a cell is too long for its column."""
    cells = [wrap(cell, width) or [""] for cell, width in zip(row, widths)]
    for line in zip_longest(*cells, fillvalue=""):
        yield _text_line(line, widths, right)


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
    return _GAP.join(cells).rstrip()


def _markdown_line(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _escaped(cell: str) -> str:
    """Escapes a cell, so that a model's text cannot break the row."""
    return " ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|")


def _is_numeric(cells: Sequence[str]) -> bool:
    said = [cell for cell in cells if cell not in _NOTHING]
    return bool(said) and all(_NUMBER.fullmatch(cell) for cell in said)
