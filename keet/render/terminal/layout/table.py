"""Tables: columns as wide as their cells need, or narrower if the terminal is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.render.terminal.layout.cells import is_narrow
from keet.render.terminal.layout.lines import Renderable, filled, lines_of, over_style, widest
from keet.render.terminal.layout.styles import Style, StyleName, style_of
from keet.render.terminal.layout.text import Justify, Line, Overflow, Setting, Text

_CAPTION = "dim italic"


class _Box(NamedTuple):
    """Characters of the lines of a table: left, between, at a column border, right."""

    top: str = "    "
    head: str = "    "
    rule: str = " ── "
    """The line below the headings."""
    row: str = "    "
    last: str = "    "
    """The frame of the last row."""
    bottom: str = "    "


_RULED = _Box()
_ASCII = _Box(top="+--+", head="| ||", rule="|-+|", row="| ||", last="| ||", bottom="+--+")
"""For terminals without Unicode."""


class Column(NamedTuple):
    heading: str = ""
    justify: Justify = "left"
    style: StyleName = ""
    overflow: Overflow = "ellipsis"
    no_wrap: bool = False
    width: int | None = None
    """Width of the cells without padding; None for as wide as needed."""
    min_width: int | None = None
    max_width: int | None = None


class _Place(NamedTuple):
    """A column with its computed width."""

    width: int
    """Including the padding."""
    inner: int
    left: str
    right: str
    how: Setting
    style: Style | None
    is_right: bool


_Frame = tuple[str, str, str]


class Table:
    def __init__(  # noqa: PLR0913 - options
        self,
        *headings: str,
        is_ruled: bool = False,
        has_edge: bool = False,
        has_heading: bool = True,
        heading_style: StyleName = "bold",
        padding: tuple[int, int] = (1, 1),
        pads_edge: bool = False,
    ) -> None:
        """`is_ruled`: a line below the headings. `has_edge`: a ruled table has an empty line above
        and below it, and a blank at its sides. `padding`: blanks at the left and right of cells;
        only with `pads_edge` also at the edges of the table."""
        self.columns = [Column(heading) for heading in headings]
        self.rows: list[tuple[Renderable, ...]] = []
        self.caption: str | None = None
        self.is_ruled = is_ruled
        self.has_edge = has_edge
        self.has_heading = has_heading
        self.heading_style = heading_style
        self.padding = padding
        self.pads_edge = pads_edge
        self._measured: tuple[int, list[int | None]] = (-1, [])
        """For so many rows: cells that each column needs. Measured once."""

    @classmethod
    def grid(cls, padding: tuple[int, int] = (0, 0)) -> Table:
        """A table without headings."""
        return cls(has_heading=False, padding=padding)

    def add_column(  # noqa: PLR0913 - the fields of a column
        self,
        heading: str = "",
        *,
        justify: Justify = "left",
        style: StyleName = "",
        overflow: Overflow = "ellipsis",
        no_wrap: bool = False,
        width: int | None = None,
        min_width: int | None = None,
        max_width: int | None = None,
    ) -> None:
        column = Column(heading, justify, style, overflow, no_wrap, width, min_width, max_width)
        self.columns.append(column)

    def add_row(self, *cells: Renderable) -> None:
        """Adds columns if there are more cells than columns; missing cells are empty."""
        self.columns += [Column() for _ in cells[len(self.columns) :]]
        self.rows.append(cells)

    def lines(self, width: int, how: Setting) -> Iterator[Line]:
        if not self.columns:
            yield [""]
            return
        widths = self._widths(max(0, width - self._beside()))
        box = _ASCII if how.ascii_only else _RULED
        places = [self._place(at, each, how) for at, each in enumerate(widths)]
        is_edged = self.is_ruled and self.has_edge
        if is_edged:
            yield [_drawn(box.top, places, has_edge=True)]
        yield from self._rows(places, box, how)
        if is_edged:
            yield [_drawn(box.bottom, places, has_edge=True)]
        if self.caption:
            whole = sum(widths) + self._beside()
            caption = Text(self.caption, _CAPTION)
            yield from lines_of(caption, whole, how._replace(justify="center"))

    def room(self, width: int) -> int:
        """Total number of cells of its width."""
        available = sum(self._widths(max(0, width - self._beside())))
        return sum(self._needed(at, available) for at in range(len(self.columns))) + self._beside()

    # --- widths

    def _beside(self) -> int:
        """Cells taken by the lines between and beside columns."""
        return len(self.columns) - 1 + 2 * self.has_edge if self.is_ruled else 0

    def _sides(self, at: int) -> tuple[int, int]:
        """Blanks at the left and right of a column's cells."""
        left, right = self.padding
        is_last = at == len(self.columns) - 1
        return (
            left if at or self.pads_edge else 0,
            right if not is_last or self.pads_edge else 0,
        )

    def _widths(self, width: int) -> list[int]:
        """Widths of the columns, including padding."""
        every = range(len(self.columns))
        widths = [self._needed(at, width) or 1 for at in every]
        if sum(widths) > width:
            can_shrink = [column.width is None and not column.no_wrap for column in self.columns]
            widths = _narrowed(widths, can_shrink, width)
            if sum(widths) > width:
                widths = _reduced(sum(widths) - width, [1] * len(widths), widths, widths)
            widths = [self._needed(at, widths[at]) for at in every]
        return widths

    def _needed(self, at: int, width: int) -> int:
        """Cells that a column needs, at most `width`."""
        if width < 1:
            return 0
        column, sides = self.columns[at], sum(self._sides(at))
        if column.width is not None:
            return min(column.width + sides, width)
        cells = self._natural()[at]
        needed = width if cells is None else min(cells + sides, width)
        if column.min_width is not None:
            needed = max(needed, column.min_width + sides, 0)
        return needed if column.max_width is None else min(needed, column.max_width + sides)

    def _natural(self) -> list[int | None]:
        """Cells that each column needs with unlimited width; None for a column without cells."""
        if self._measured[0] != len(self.rows):
            self._measured = len(self.rows), [*map(self._longest, range(len(self.columns)))]
        return self._measured[1]

    def _longest(self, at: int) -> int | None:
        column = self.columns[at]
        if column.width is not None:
            return None
        found = widest(column.heading, _ANY) if self.has_heading else -1
        for row in self.rows:
            cell = row[at] if at < len(row) else ""
            if type(cell) is str and cell.isascii() and cell.isprintable():
                size = len(cell)
            else:
                size = widest(cell, _ANY)
            found = max(found, size)
        return None if found < 0 else found

    # --- lines

    def _place(self, at: int, width: int, how: Setting) -> _Place:
        column = self.columns[at]
        left, right = self._sides(at)
        setting = how._replace(
            justify=column.justify, overflow=column.overflow, no_wrap=column.no_wrap
        )
        return _Place(
            width, width - left - right, " " * left, " " * right, setting,
            style_of(column.style) if how.styled else None, column.justify == "right",
        )  # fmt: skip

    def _rows(self, places: Sequence[_Place], box: _Box, how: Setting) -> Iterator[Line]:
        if self.has_heading:
            style = style_of(self.heading_style) if how.styled else None
            headings = [column.heading for column in self.columns]
            ground = [place._replace(style=style) for place in places]
            yield from _row(headings, ground, self._frame(box.head), is_heading=True)
            if self.is_ruled:
                yield [_drawn(box.rule, places, has_edge=self.has_edge)]
        frame, last = self._frame(box.row), self._frame(box.last)
        for number, row in enumerate(self.rows, 1):
            yield from _row(row, places, last if number == len(self.rows) else frame)

    def _frame(self, drawn: str) -> _Frame:
        """The texts left of, between and right of the cells of a row."""
        if not self.is_ruled:
            return "", "", ""
        return (drawn[0], drawn[2], drawn[3]) if self.has_edge else ("", drawn[2], "")


_ANY = 1 << 30
"""A width that is enough for every text."""


def _drawn(line: str, places: Sequence[_Place], *, has_edge: bool) -> str:
    drawn = line[2].join(line[1] * place.width for place in places)
    return f"{line[0]}{drawn}{line[3]}" if has_edge else drawn


def _row(
    cells: Sequence[Renderable],
    places: Sequence[_Place],
    frame: _Frame,
    *,
    is_heading: bool = False,
) -> Iterator[Line]:
    """As many lines as the highest cell has. Headings are aligned at the bottom."""
    left, between, right = frame
    columns = [_cell(cell, place) for cell, place in zip(cells, places)]
    columns += [_cell("", place) for place in places[len(columns) :]]
    height = max(map(len, columns))
    if height != min(map(len, columns)) or not height:
        columns = [
            _heightened(column, max(height, 1), place, is_heading=is_heading, is_styled=height > 0)
            for column, place in zip(columns, places)
        ]
    for first, *others in zip(*columns):
        line = [left, *first]
        for other in others:
            line.append(between)
            line += other
        yield [*line, right]


def _cell(cell: Renderable, place: _Place) -> list[Line]:
    """The lines of the cell, each as wide as the column."""
    inner, style = place.inner, place.style
    if type(cell) is str and 0 < inner >= len(cell) and not style and is_narrow(cell):
        # Fast path: most cells of a large table.
        text = cell.rstrip().rjust(inner) if place.is_right else cell.ljust(inner)
        return [[f"{place.left}{text}{place.right}"]]
    lines = [
        [place.left, *filled(line, inner), place.right] for line in lines_of(cell, inner, place.how)
    ]
    return [over_style(line, style) for line in lines] if style else lines


def _heightened(
    column: list[Line], height: int, place: _Place, *, is_heading: bool, is_styled: bool
) -> list[Line]:
    """Adds empty lines: below the others, or above those of a heading."""
    blanks = " " * place.width
    empty: Line = [(blanks, place.style) if place.style and is_styled else blanks]
    missing = [empty] * (height - len(column))
    return missing + column if is_heading else column + missing


def _narrowed(widths: list[int], can_shrink: Sequence[bool], width: int) -> list[int]:
    """Repeatedly shrinks the widest of the columns that can shrink, until all fit."""
    excess = sum(widths) - width
    while excess > 0 and any(can_shrink):
        most = max(size for size, shrinks in zip(widths, can_shrink) if shrinks)
        rest = (size for size, shrinks in zip(widths, can_shrink) if shrinks and size != most)
        step = most - max(rest, default=0)
        chosen = [int(size == most and shrinks) for size, shrinks in zip(widths, can_shrink)]
        if not step:
            break
        widths = _reduced(excess, chosen, [min(excess, step)] * len(widths), widths)
        excess = sum(widths) - width
    return widths


def _reduced(
    excess: int, chosen: Sequence[int], limits: Sequence[int], widths: Sequence[int]
) -> list[int]:
    """Takes the excess evenly from the selected columns, from each at most its limit."""
    left = sum(share for share, limit in zip(chosen, limits) if limit)
    reduced = []
    for share, limit, width in zip(chosen, limits, widths):
        taken = 0
        if share and limit and left > 0:
            taken = min(limit, round(share * excess / left))
            excess, left = excess - taken, left - share
        reduced.append(width - taken)
    return reduced
