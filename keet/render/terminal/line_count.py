"""Counts the lines that a view takes, without printing it."""

from __future__ import annotations

from collections.abc import Iterable

from keet.render.terminal.layout import Renderable, Setting
from keet.render.terminal.layout.lines import lines_of

_PLAIN = Setting()


def line_count(parts: Iterable[Renderable], width: int) -> int:
    """Number of lines of parts that are printed one below the other."""
    return sum(1 for part in parts for _ in lines_of(part, width, _PLAIN))
