"""Makes rich consoles: the one place that decides width and colour."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.segment import Segment

from keet.texts import one_line, terminal_stream

_PIPED_WIDTH = 120
"""Wide enough that nothing is folded away from `grep`, narrow enough for a pager."""


def console_width(file: TextIO) -> int:
    """COLUMNS where it is set, else the terminal's width, else room for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"[1-9][0-9]{0,3}", columns):
        return int(columns)
    if not file.isatty():
        return _PIPED_WIDTH
    import shutil  # which loads compression libraries that nothing else here needs

    return shutil.get_terminal_size().columns


class _Console(Console):
    """A console that prints escapes of its own and none from the text that it is given, and leaves
    a broken pipe to `main`, which knows what it means."""

    def __init__(self, file: TextIO, width: int, **options: Any) -> None:
        # rich would read these too, and stumble over what is no number.
        sizes = ("COLUMNS", "LINES")
        surroundings = {name: value for name, value in os.environ.items() if name not in sizes}
        super().__init__(
            file=terminal_stream(file),
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            _environ=surroundings,
            **options,
        )

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Every text passes here on its way out, laid out and not yet coloured."""
        return super()._render_buffer(map(_harmless, buffer))


def _harmless(segment: Segment) -> Segment:
    if segment.control or segment.text.isprintable():
        return segment
    lines = "\n".join(one_line(line) for line in segment.text.split("\n"))
    return Segment(lines, segment.style)


def make_console(file: TextIO) -> Console:
    """Colour only on a terminal and not under NO_COLOR, as rich decides; names are never markup."""
    return _Console(file, console_width(file))


def to_text(renderable: RenderableType, width: int) -> str:
    """What a console of that width would show, without colour: for files and for tests."""
    out = io.StringIO()
    console = _Console(out, width, color_system=None, legacy_windows=False)
    console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
