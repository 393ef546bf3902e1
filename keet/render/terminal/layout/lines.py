"""Lines of layout elements, fitted to a width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from keet.render.terminal.layout.cells import cell_len, set_cell_len
from keet.render.terminal.layout.styles import Style, over
from keet.render.terminal.layout.text import Line, Piece, Setting, Text


class Element(Protocol):
    """Protocol: anything that can be laid out as lines."""

    def lines(self, width: int, how: Setting) -> Iterable[Line]: ...


Renderable = str | Text | Element


def lines_of(part: Renderable, width: int, how: Setting) -> Iterable[Line]:
    """Empty if the width is zero."""
    if width < 1:
        return ()
    return (Text(part) if isinstance(part, str) else part).lines(width, how)


def widest(part: Renderable, width: int) -> int:
    """Number of cells that a part takes on a terminal of that width."""
    if width < 1:
        return 0
    if isinstance(part, str):
        part = Text(part)
    if isinstance(part, Text):
        return min(width, part.widest())
    room = getattr(part, "room", None)
    return width if room is None else min(width, room(width))


def filled(line: Line, width: int) -> Line:
    """Cut or padded to exactly so many cells."""
    missing = width - sum(cell_len(text_of(piece)) for piece in line)
    if missing > 0:
        return [*line, " " * missing]
    return _cut(line, width) if missing < 0 else line


def _cut(line: Line, width: int) -> Line:
    kept: Line = []
    for piece in line:
        cells = cell_len(text_of(piece))
        if cells >= width:
            return [*kept, _with_text(piece, set_cell_len(text_of(piece), width))]
        kept.append(piece)
        width -= cells
    return kept


def text_of(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece[0]


def _with_text(piece: Piece, text: str) -> Piece:
    return text if isinstance(piece, str) else (text, piece[1])


def over_style(line: Line, style: Style) -> Line:
    """Adds the style below the styles of the line's parts."""
    return [
        (piece, style) if isinstance(piece, str) else (piece[0], over(style, piece[1]) or style)
        for piece in line
    ]
