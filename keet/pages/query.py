"""The pages of `keet query`: the answer to a query, and the views of a store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from keet.evidence import Sentence, counted
from keet.pages.blocks import (
    Block,
    Column,
    Command,
    Gap,
    Heading,
    Item,
    Items,
    Page,
    Reader,
    Span,
    Table,
    Text,
)
from keet.safe_text import one_line

_NARROWEST = 12
"""Characters of a column at least: below, the answer is a list."""
_WIDEST = 60
_GAP = 3
"""Of a table with a rule."""

Row = Sequence[Any]
ViewColumn = tuple[str, str, str, str]
"""Name, type, unit, meaning."""


def query_page(columns: Sequence[str], rows: Sequence[Row], reader: Reader, *, more: bool) -> Page:
    """A table if it fits, else a list of the cells of each row. `more`: whether rows are left
    out."""
    shown = rows[: reader.rows]
    names = [one_line(name) for name in columns]
    cells = [[_cell(value) for value in row] for row in shown]
    blocks: list[Block]
    if sizes := _fitted(names, cells, reader.width):
        cut = [_cut_apart([row[at] for row in cells], size) for at, size in enumerate(sizes)]
        heads = [
            Column(_cut(name, size), is_number=_is_numeric(shown, at), is_unbroken=True)
            for at, (name, size) in enumerate(zip(names, sizes))
        ]
        blocks = [Table(heads, [*zip(*cut)], "", "Rows of the answer")]
    else:
        width = max(map(len, names), default=0)
        room = max(_NARROWEST, reader.width - width - 4)
        numbered = enumerate(cells, 1)
        blocks = [block for number, row in numbered for block in _record(number, names, row, room)]
    count: Sentence = counted(len(shown), "row")
    if more or len(shown) < len(rows):
        text = "{rows}, and there are more: use --limit N, or --format csv for all"
        count = Sentence(text, rows=count)
    return Page([*blocks, Text(count, "muted")], "Query")


def _record(number: int, names: Sequence[str], row: Sequence[str], room: int) -> Iterator[Block]:
    yield Heading(f"row {number}", 3)
    cut = (_cut(text, room, _RIGHT if " " in text else _MIDDLE) for text in row)
    yield Items([Item(text, Span(name, "muted")) for name, text in zip(names, cut)], indent=2)


def views_page(views: Mapping[str, Sequence[ViewColumn]], examples: Sequence[str]) -> Page:
    """The views of a store and their columns."""
    blocks: list[Block] = []
    for view, columns in views.items():
        heads = (
            Column("Column", is_unbroken=True),
            Column("Type", look="muted"),
            Column("Meaning"),
        )
        rows = [
            (name, kind, f"{meaning} [{unit}]" if unit else meaning)
            for name, kind, unit, meaning in columns
        ]
        table = Table(heads, rows, "", view, is_ruled=False, has_heading=False, indent=2)
        blocks += [Heading(view, 2, "strong label"), table, Gap()]
    return Page([*blocks, Text("examples:", "muted"), *map(Command, examples)], "Views")


def _cell(value: Any) -> str:
    """One line; NULL is a dash. Numbers have six digits, without an exponent up to 1e16."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return one_line(str(value))
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e16 else f"{value:.6g}"


def _is_numeric(rows: Sequence[Row], at: int) -> bool:
    known = [row[at] for row in rows if row[at] is not None]
    return bool(known) and all(
        isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in known
    )


def _fitted(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Widths that fit on the terminal, cutting the longest columns first; None if too little would
    be left."""
    lengths = [
        max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(columns)
    ]
    sizes = [min(_WIDEST, length) for length in lengths]
    room = width - _GAP * (len(sizes) - 1)
    if sum(min(size, _NARROWEST) for size in sizes) > room:
        return None
    while sum(sizes) > room:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _cut(text: str, size: int, kept: float = 1.0) -> str:
    """Cuts the middle. `kept`: share of the remaining characters that are taken from the
    beginning."""
    if len(text) <= size:
        return text
    head = round((size - 1) * kept)
    return f"{text[:head]}…{text[len(text) - (size - 1 - head) :]}"


_RIGHT, _MIDDLE, _LEFT = 1.0, 0.35, 0.0


def _cut_apart(texts: Sequence[str], size: int) -> list[str]:
    """Cuts a column so that most cells stay different: paths differ at their ends."""
    prose = all(" " in text for text in texts if len(text) > size)
    ways = (_RIGHT, _MIDDLE, _LEFT) if prose else (_MIDDLE, _LEFT, _RIGHT)
    columns = [[_cut(text, size, kept) for text in texts] for kept in ways]
    return max(columns, key=lambda column: len(set(column)))
