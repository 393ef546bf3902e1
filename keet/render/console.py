"""Making consoles: the one place that decides width and colour."""

from __future__ import annotations

import io
import os
import shutil
from typing import TextIO

from rich.console import Console, RenderableType

_PIPED_WIDTH = 120
"""Wide enough that nothing is folded away from `grep`, narrow enough for a pager."""


def console_width(file: TextIO) -> int:
    """COLUMNS where it is set, else the terminal's width, else room for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    if not file.isatty():
        return _PIPED_WIDTH
    return shutil.get_terminal_size().columns


def make_console(file: TextIO) -> Console:
    """Colour only on a terminal and not under NO_COLOR, as rich decides; names are never markup."""
    return Console(file=file, width=console_width(file), highlight=False, markup=False, emoji=False)


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
    console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
