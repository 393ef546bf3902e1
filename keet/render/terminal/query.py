"""The view of `keet query` for a terminal: the result as a table or list, and a store's views."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from keet.errors import one_line
from keet.evidence import Sentence, counted
from keet.render.terminal.layout import Group, Renderable, Text

_NARROWEST = 12
"""Minimum number of characters of a name."""
_WIDEST = 60
_GAP = 2

Row = Sequence[Any]
Column = tuple[str, str, str, str]
"""Name, type, unit, meaning."""


def query_view(columns: Sequence[str], rows: Sequence[Row], width: int, *, more: bool) -> Group:
    """A table if it fits, else a list of the cells of each row."""
    cells = [[_cell(value) for value in row] for row in rows]
    sizes = _fitted(columns, cells, width)
    parts: list[Renderable] = []
    if sizes:
        numeric = [_is_numeric(rows, at) for at in range(len(columns))]
        parts = [*_table(columns, cells, sizes, numeric)]
    else:
        parts = [*_records(columns, cells, width)]
    return Group(*parts, Text(_row_count_text(len(rows), more=more), style="dim"))


def _row_count_text(count: int, *, more: bool) -> Sentence:
    rows = counted(count, "row")
    text = "{rows}, and there are more: use --limit N, or --format csv for all"
    return Sentence(text, rows=rows) if more else rows


def _cell(value: Any) -> str:
    """One line; NULL is a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number(value) if isinstance(value, float) else one_line(str(value))


def _number(value: float) -> str:
    """Six digits, without an exponent up to 1e16."""
    if not math.isfinite(value):
        return str(value)
    if 1e6 <= abs(value) < 1e16:
        return f"{value:.0f}"
    return f"{value:.6g}"


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


def _table(
    columns: Sequence[str], cells: Sequence[Row], sizes: Sequence[int], numeric: Sequence[bool]
) -> Iterator[Text]:
    yield Text(_line([one_line(name) for name in columns], sizes, numeric), style="bold")
    yield Text(_line(["─" * size for size in sizes], sizes, numeric), style="dim")
    cut = [_cut_apart([row[at] for row in cells], size) for at, size in enumerate(sizes)]
    for row in zip(*cut):
        yield Text(_line(row, sizes, numeric))


def _line(texts: Sequence[str], sizes: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        _cut(text, size).rjust(size) if right else _cut(text, size).ljust(size)
        for text, size, right in zip(texts, sizes, numeric)
    )
    return (" " * _GAP).join(padded).rstrip()


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


def _records(columns: Sequence[str], cells: Sequence[Row], width: int) -> Iterator[Text]:
    names = max((len(one_line(name)) for name in columns), default=0)
    for number, row in enumerate(cells, 1):
        yield Text(f"row {number}", style="bold")
        for name, text in zip(columns, row):
            room = max(_NARROWEST, width - names - 4)
            kept = _RIGHT if " " in text else _MIDDLE
            yield Text.assemble((f"  {one_line(name):{names}}  ", "dim"), _cut(text, room, kept))


def views_view(views: Mapping[str, Sequence[Column]], examples: Sequence[str], width: int) -> Group:
    """The views of a store and their columns."""
    parts: list[Text] = []
    for view, columns in views.items():
        parts += [Text(view, style="bold cyan"), *_columns(columns, width), Text("")]
    lines = (Text(f"  {line}", no_wrap=True, overflow="ignore") for line in examples)
    return Group(*parts, Text("examples:", style="dim"), *lines)


def _columns(columns: Sequence[Column], width: int) -> Iterator[Text]:
    names = max(len(name) for name, *_ in columns)
    for name, kind, unit, meaning in columns:
        text = f"{meaning} [{unit}]" if unit else meaning
        first, *rest = textwrap.wrap(text, max(20, width - names - 15))
        yield Text.assemble(f"  {name:{names}}  ", (f"{kind:9}  ", "dim"), first)
        yield from (Text(f"{'':{names + 15}}{line}") for line in rest)
