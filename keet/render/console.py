"""Making consoles: the one place that decides width and colour."""

from __future__ import annotations

import io
import os
import re
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from keet.errors import one_line

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
    """A console that leaves a broken pipe to `main`, which knows what it means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Harmless:
    """What names and sources in a report could do to a terminal, undone: escapes are shown."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = "\n".join(one_line(line) for line in segment.text.split("\n"))
                yield Segment(lines, segment.style)


def make_console(file: TextIO) -> Console:
    """Colour only on a terminal and not under NO_COLOR, as rich decides; names are never markup."""
    # rich would read these too, and stumble over what is no number.
    sizes = ("COLUMNS", "LINES")
    surroundings = {name: value for name, value in os.environ.items() if name not in sizes}
    return _Console(
        file=file,
        width=console_width(file),
        highlight=False,
        markup=False,
        emoji=False,
        _environ=surroundings,
    )


def to_text(renderable: RenderableType, width: int) -> str:
    """What a console of that width would show, without colour: for files and for tests."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Harmless(renderable), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
