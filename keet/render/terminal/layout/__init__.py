"""A small layout engine for terminals: turns styled texts, tables and indented parts into lines.

It implements the part of the package rich that keet's views need, with identical output; tests
compare the two. It exists because importing rich and laying out a page took a third of the time of
`keet explain`, and a table of 100,000 rows took minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keet.render.terminal.layout.lines import Element, Renderable, filled, lines_of, widest
from keet.render.terminal.layout.table import Table
from keet.render.terminal.layout.text import Line, Setting, Text

__all__ = ["Element", "Group", "Indented", "Line", "Renderable", "Setting", "Table", "Text"]


class Group:
    """Parts one below the other."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Renderable) -> None:
        self.parts = parts

    def lines(self, width: int, how: Setting) -> Iterator[Line]:
        for part in self.parts:
            yield from lines_of(part, width, how)


class Indented:
    """A part with blanks before each line, and padded to its longest line."""

    __slots__ = ("content", "indent", "is_filled")

    def __init__(self, content: Renderable, indent: int, *, is_filled: bool = False) -> None:
        """`is_filled`: padded to the width of the terminal."""
        self.content = content
        self.indent = indent
        self.is_filled = is_filled

    def lines(self, width: int, how: Setting) -> Iterable[Line]:
        inner = width - self.indent
        if not self.is_filled:
            inner = min(widest(self.content, width), inner)
        blanks = " " * self.indent
        for line in lines_of(self.content, inner, how):
            yield [blanks, *filled(line, inner)]

    def room(self, width: int) -> int:
        return self.indent + widest(self.content, width)
