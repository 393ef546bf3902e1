"""Prints views: the only module that decides width and colour."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TextIO

from keet.render.terminal.layout import Line, Renderable, Setting
from keet.render.terminal.layout.lines import lines_of, text_of
from keet.render.terminal.layout.styles import escapes
from keet.safe_text import one_line, terminal_stream

_PIPED_WIDTH = 120
"""Wide enough that `grep` finds text on one line, narrow enough for a pager."""
_DUMB_WIDTH = 80
"""Width of a terminal that does not report its width."""


def console_width(file: TextIO) -> int:
    """COLUMNS if it is set, else the width of the terminal, else `_PIPED_WIDTH` for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and columns[0] != "0" and len(columns) <= 4:
        return int(columns)
    if not file.isatty():
        return _PIPED_WIDTH
    import shutil  # imports compression libraries that nothing else here needs

    return shutil.get_terminal_size().columns


class Console:
    """A stream that may be a terminal. It prints its own escape sequences, but none that are
    contained in the text."""

    def __init__(self, file: TextIO) -> None:
        self._stream = terminal_stream(file)
        self.is_terminal = _is_terminal(self._stream)
        is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
        self.width = _DUMB_WIDTH if self.is_terminal and is_dumb else console_width(file)
        self._setting = Setting(
            styled=self.is_terminal and not is_dumb, ascii_only=not _is_unicode(self._stream)
        )
        self._has_colours = not os.environ.get("NO_COLOR")

    def print(self, view: Renderable) -> None:
        lines = lines_of(view, self.width, self._setting)
        self._stream.writelines(f"{self._printed(line)}\n" for line in lines)
        self._stream.flush()

    def _printed(self, line: Line) -> str:
        if not self._setting.styled:
            return _plain(line)
        printed = []
        for piece in line:
            before, after = ("", "")
            if not isinstance(piece, str) and piece[0]:
                before, after = escapes(piece[1], colours=self._has_colours)
            printed.append(f"{before}{one_line(text_of(piece))}{after}")
        return "".join(printed)


def _is_terminal(stream: TextIO) -> bool:
    """By the environment variables of force-color.org, else by the stream."""
    compatible = os.environ.get("TTY_COMPATIBLE")
    if compatible in ("0", "1"):
        return compatible == "1"
    forced = os.environ.get("FORCE_COLOR")
    return stream.isatty() if forced is None else forced != ""


def _is_unicode(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def _plain(line: Line) -> str:
    return one_line("".join(map(text_of, line)))


def plain_lines(view: Renderable, width: int) -> Iterator[str]:
    """The lines that a console of that width would print, without colour and trailing blanks; at
    least one line."""
    is_empty = True
    for line in lines_of(view, width, Setting()):
        is_empty = False
        yield f"{_plain(line).rstrip()}\n"
    if is_empty:
        yield "\n"


def to_text(view: Renderable, width: int) -> str:
    """The lines of `plain_lines` as one text, for files and tests."""
    return "".join(plain_lines(view, width))
