"""Prints the same parts with the package rich, to compare keet's layout with it."""

import io
import os
from collections.abc import Iterable
from unittest import mock

from rich import box
from rich.console import Console, RenderableType
from rich.console import Group as RichGroup
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text as RichText

from keet.render.terminal.console import Console as OwnConsole
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.safe_text import one_line

CLEARED = ("COLUMNS", "LINES", "TTY_COMPATIBLE", "FORCE_COLOR", "NO_COLOR", "TERM", "COLORTERM")


class HarmlessConsole(Console):
    """Shows control characters as escapes, as everything that keet prints."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(map(_harmless, buffer))


def _harmless(segment: Segment) -> Segment:
    return Segment("\n".join(map(one_line, segment.text.split("\n"))), segment.style)


class Terminal(io.StringIO):
    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def as_rich(part: Renderable) -> RenderableType:
    """The same part, made of rich's classes."""
    if isinstance(part, str):
        return part
    if isinstance(part, Text):
        return _text(part)
    if isinstance(part, Group):
        return RichGroup(*map(as_rich, part.parts))
    if isinstance(part, Indented):
        inner = as_rich(part.content)
        return Padding(inner, (0, 0, 0, part.indent), expand=part.is_filled)
    assert isinstance(part, Table), part
    return _table(part)


def _text(text: Text) -> RichText:
    made = RichText(text.plain, str(text.style), overflow=text.overflow, no_wrap=text.no_wrap)
    for start, end, style in text.spans:
        made.stylize(str(style), start, end)
    return made


def _table(table: Table) -> RichTable:
    left, right = table.padding
    made = RichTable(
        box=box.SIMPLE_HEAD if table.is_ruled else None,
        show_edge=table.has_edge,
        show_header=table.has_heading,
        header_style=str(table.heading_style),
        padding=(0, right, 0, left),
        pad_edge=table.pads_edge,
        caption=table.caption,
    )
    for column in table.columns:
        options = {**column._asdict()}
        made.add_column(options.pop("heading"), **options)
    for row in table.rows:
        made.add_row(*map(as_rich, row))
    return made


def printed_by_rich(part: Renderable, width: int, file: Terminal, **environment: str) -> str:
    Style._add.cache_clear()  # what it keeps is for the terminal that it was first asked for
    console = HarmlessConsole(
        file=file, width=width, highlight=False, markup=False, emoji=False, _environ=environment,
        legacy_windows=False,
    )  # fmt: skip
    console.print(RichGroup(as_rich(part)), crop=False)
    return file.getvalue()


def printed(part: Renderable, width: int, file: Terminal, **environment: str) -> str:
    with mock.patch.dict(os.environ, environment):
        for name in CLEARED:
            if name not in environment:
                os.environ.pop(name, None)
        os.environ["COLUMNS"] = str(width)
        OwnConsole(file).print(part)
    return file.getvalue()


def plain_by_rich(part: Renderable, width: int) -> str:
    """As a pipe gets it."""
    out = io.StringIO()
    options = {"highlight": False, "markup": False, "emoji": False, "_environ": {}}
    console = HarmlessConsole(
        file=out, width=width, color_system=None, legacy_windows=False, **options
    )
    console.print(RichGroup(as_rich(part)), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
