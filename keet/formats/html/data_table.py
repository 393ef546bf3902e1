"""Tables that the page's script sorts, in a box that scrolls when they are wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from keet.formats.html.markup import Content, Html, element, scrolling
from keet.safe_text import one_line


class Column(NamedTuple):
    name: str
    is_number: bool = False
    first: str | None = None
    """How the first click sorts: `ascending`, or else descending."""


class Cell(NamedTuple):
    """`value` is the sort key; None: sorted by its text."""

    content: Content
    value: float | str | None = None


def data_table(label: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Html:
    """The first column names the row. `label` says to screen readers which table it is."""
    table = element(
        "table",
        element("thead", element("tr", *map(_header, columns))),
        element("tbody", *(_row(columns, row) for row in rows)),
        data_sortable=True,
        data_filter=True,
    )
    return scrolling(label, table)


def _header(column: Column) -> Html:
    look = "number" if column.is_number else None
    return element("th", one_line(column.name), scope="col", class_=look, data_first=column.first)


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> Html:
    (first, *others), (first_column, *other_columns) = row, columns
    cells = [_cell(column, cell) for column, cell in zip(other_columns, others, strict=True)]
    return element("tr", _cell(first_column, first, name="th", scope="row"), *cells)


def _cell(column: Column, cell: Cell, name: str = "td", scope: str | None = None) -> Html:
    look = "number" if column.is_number else None
    # All digits: an attribute of type float is cut to four.
    value = None if cell.value is None else str(cell.value)
    return element(name, cell.content, scope=scope, class_=look, data_value=value)
