"""Blocks in a terminal, laid out by the package rich. Where rich is not installed, the text of the
Markdown renderer takes its place.

Only this module decides width and colour.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TextIO

from keet.formatting import command_lines
from keet.pages import blocks
from keet.pages.blocks import Block, Cell, Look, Page, Reader, Span, Words, spans
from keet.safe_text import one_line, terminal_stream

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_PIPED_WIDTH = 120
"""Wide enough that `grep` finds text on one line, narrow enough for a wide terminal."""
_STYLES = {
    "strong": "bold",
    "verdict": "bold",
    "muted": "dim",
    "italic": "italic",
    "underline": "underline",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "label": "cyan",
    "name": "bold",
    "place": "cyan",
    "code": "",
    "model": "bold magenta",
    "plain": "not bold",
}
_HEIGHT = 25
"""Nothing depends on it. Without one, rich reads COLUMNS, and fails where it is no number."""
_NAME_WIDTH = 8
"""Columns of the name of a list."""
_DIFF_STYLES = {"+": "green", "-": "red", "@": "dim"}


def terminal_width(file: TextIO) -> int:
    """COLUMNS if it is set, else the width of the terminal: for a pipe, of the one at which the
    command was typed. Files have `_PIPED_WIDTH`, and pipes where there is no terminal."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and columns[0] != "0" and len(columns) <= 4:
        return int(columns)
    if file.isatty():
        import shutil  # imports compression libraries that nothing else here needs

        return shutil.get_terminal_size().columns
    is_pipe = False
    with suppress(OSError, ValueError):  # not a file of the system
        is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
    for descriptor in (2, 0) if is_pipe else ():
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns or _PIPED_WIDTH
    return _PIPED_WIDTH


def is_terminal(file: TextIO) -> bool:
    """By the environment variables of force-color.org, else by the stream."""
    compatible = os.environ.get("TTY_COMPATIBLE")
    if compatible in ("0", "1"):
        return compatible == "1"
    forced = os.environ.get("FORCE_COLOR")
    return file.isatty() if forced is None else forced != ""


def _has_links(file: TextIO) -> bool:
    """Whether to print links (OSC 8): most terminals open them or ignore them. That of Linux itself
    prints them as text."""
    is_plain = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown", "linux")
    return file.isatty() and not is_plain and "NO_COLOR" not in os.environ


def _has_rich() -> bool:
    try:
        import rich.console  # noqa: F401
    except ImportError:
        return False
    return True


class PlainText:
    """The lines that a terminal of that width would show, without colour and trailing blanks, for
    files and pipes. Each block is laid out once, however often a page asks how many lines it has.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._laid_out: dict[int, tuple[Block, list[str]]] = {}
        """By the id of the block, which lives as long as its lines."""

    def reader(self) -> Reader:
        """Where rich is missing: that of Markdown, whose text takes the place of the terminal's."""
        if _has_rich():
            return Reader(
                "terminal",
                self._width,
                lines=lambda page: sum(len(self._lines_of(block)) for block in page),
            )
        from keet.formats import markdown

        return markdown.reader()

    def lines(self, page: Iterable[Block]) -> Iterator[str]:
        if not _has_rich():
            from keet.formats.markdown import markdown

            yield from markdown([*page]).splitlines(keepends=True)
            return
        for block in page:
            yield from self._lines_of(block)

    def _lines_of(self, block: Block) -> list[str]:
        if id(block) not in self._laid_out:
            console = _plain_console(self._width)
            lines = (
                line for part in _parts([block], self._width) for line in _plain(part, console)
            )
            self._laid_out[id(block)] = block, [f"{one_line(line).rstrip()}\n" for line in lines]
        return self._laid_out[id(block)][1]


def reader(width: int) -> Reader:
    return PlainText(width).reader()


def plain_page(make: Callable[[Reader], Page], width: int) -> Iterator[str]:
    """The lines of a page for a file or pipe."""
    text = PlainText(width)
    return text.lines(make(text.reader()).blocks)


def print_page(make: Callable[[Reader], Page], file: TextIO) -> None:
    """On a terminal, with its width and colours."""
    stream = terminal_stream(file)
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    width = 80 if is_dumb else terminal_width(stream)
    text = PlainText(width)
    page = make(text.reader()._replace(has_links=_has_links(stream)))
    if not _has_rich():
        stream.writelines(text.lines(page.blocks))
        return
    from rich.console import Group

    console = _console(width, file=stream, force_terminal=True)
    for part in _parts(page.blocks, width):
        console.print(Group(part), crop=False)  # a text alone would lose `no_wrap`
    stream.flush()


def _plain(part: RenderableType, console: Console) -> Iterator[str]:
    """The lines of a part. Texts, which most parts are, are wrapped without their styles: a third
    of the time."""
    from rich.padding import Padding
    from rich.segment import Segment
    from rich.text import Text

    indent, inner = 0, part
    while isinstance(inner, Padding):
        indent, inner = indent + inner.left, inner.renderable
    if isinstance(inner, str):
        yield inner
    elif isinstance(inner, Text):
        text = Text(inner.plain)
        width = max(1, console.width - indent)
        for line in text.wrap(
            console, width, overflow=inner.overflow or "fold", no_wrap=bool(inner.no_wrap)
        ):
            yield " " * indent + line.plain
    else:
        options = console.options.update(max_width=console.width - indent)
        for segments in Segment.split_lines(console.render(inner, options)):
            yield " " * indent + "".join(segment.text for segment in segments)


def terminal_text(page: Sequence[Block], width: int) -> str:
    """The lines of blocks as one text."""
    return "".join(PlainText(width).lines(page)) or "\n"


def _console(width: int, **options: Any) -> Console:
    from rich.console import Console

    options |= {"highlight": False, "markup": False, "emoji": False}
    return Console(width=width, height=_HEIGHT, **options)


@cache
def _plain_console(width: int) -> Console:
    from io import StringIO

    return _console(width, file=StringIO(), color_system=None)


def _parts(page: Iterable[Block], width: int) -> Iterator[RenderableType]:
    for block in page:
        if not block.only or "terminal" in block.only:
            kind = next(kind for kind in type(block).__mro__ if kind in _RENDERERS)
            yield from _RENDERERS[kind](block, width)


def _style(look: Look) -> str:
    return " ".join(filter(None, (_STYLES.get(word) for word in look.split())))


def _text(words: Words, look: Look = "", *, is_unbroken: bool = False) -> Text:
    """Control characters are shown as escapes."""
    from rich.text import Text

    text = Text(style=_style(look))
    if is_unbroken:
        text.no_wrap, text.overflow = True, "ignore"
    for span in spans(words):
        link = f" link {span.to}" if span.to.startswith("file:") else ""
        shown = span.text
        if not shown.isprintable():
            shown = "\n".join(map(one_line, shown.split("\n")))
        text.append(shown, f"{_style(span.look)}{link}".strip())
    return text


def _indented(content: RenderableType, indent: int) -> RenderableType:
    if not indent:
        return content
    from rich.padding import Padding

    return Padding(content, (0, 0, 0, indent), expand=False)


def _grid(columns: str = "", gap: int = 1) -> Table:
    """Without headings; `columns`: `l` or `r` for each column that is aligned left or right."""
    from rich.table import Table

    grid = Table.grid(padding=(0, gap))
    for column in columns:
        grid.add_column(justify="right" if column == "r" else "left", no_wrap=True)
    return grid


# --- one function per kind of block


def _paragraph(block: blocks.Heading | blocks.Text, _: int) -> Iterator[RenderableType]:
    text = _text(block.words, block.look, is_unbroken=block.is_unbroken)
    if isinstance(block, blocks.Text) and block.mark:
        grid = _grid("l", gap=0)
        grid.add_column(overflow="fold")
        grid.add_row(_text(block.mark), text)
        yield _indented(grid, block.indent)
    elif block.is_unbroken and block.indent:
        from rich.text import Text

        before = Text(" " * block.indent, no_wrap=True, overflow="ignore")
        yield before.append_text(text)
    else:
        yield _indented(text, block.indent)


def _items(block: blocks.Items, _: int) -> Iterator[RenderableType]:
    has_labels = any(item.label for item in block.items)
    grid = _grid(gap=2 if has_labels and not block.name and not block.is_right else 1)
    if block.name:
        grid.add_column(width=_NAME_WIDTH, justify="right", style=_style("label"))
    if has_labels or block.mark:
        justify: Literal["left", "right"] = "right" if block.is_right else "left"
        grid.add_column(width=block.label_width, justify=justify, no_wrap=True)
    grid.add_column(overflow="ellipsis" if block.is_cut else "fold", no_wrap=block.is_cut)
    for number, item in enumerate(block.items):
        name = [block.name if not number else ""] if block.name else []
        before = [_text(item.label if has_labels else block.mark)]
        words = _indented(_text(item.words), 2 * item.depth)
        grid.add_row(*name, *(before if has_labels or block.mark else []), words)
    yield _indented(grid, block.indent)


def _table(block: blocks.Table, width: int) -> Iterator[RenderableType]:
    from rich import box
    from rich.table import Table

    shown = [at for at, column in enumerate(block.columns) if width >= column.wide]
    table = Table(
        box=box.SIMPLE_HEAD if block.is_ruled else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1) if block.is_ruled else (0, block.gap),
        collapse_padding=not block.is_ruled,
        show_header=block.has_heading,
        header_style="bold" if block.is_ruled else "dim",
        caption=_text(block.caption, "muted italic") if block.caption else None,
    )
    for at in shown:
        column = block.columns[at]
        table.add_column(
            _text(column.name),
            justify="right" if column.is_number else "left",
            style=_style(column.look),
            no_wrap=column.is_number or column.is_unbroken,
            overflow=column.overflow,
            min_width=column.least,
            max_width=column.most,
        )
        if column.bar:
            table.add_column(no_wrap=True)
    for row in (*block.rows, *block.last):
        cells = (_cells(row[at], block.columns[at].bar) for at in shown if at < len(row))
        table.add_row(*chain.from_iterable(cells))
    yield _indented(table, block.indent)


def _cells(cell: Words | Cell, bar: int) -> Iterator[Text]:
    """The cell, and the bar that follows it."""
    whole = cell if isinstance(cell, Cell) else Cell(cell)
    below = [Span(span.text, span.look or "muted plain") for span in spans(whole.below)]
    yield _text((whole.words, "\n" if below else "", below))
    if bar:
        yield _drawn(whole.share, bar, "cyan") if whole.share is not None else _text("")


def _bars(block: blocks.Bars, _: int) -> Iterator[RenderableType]:
    has_marks = any(bar.mark for bar in block.bars)
    grid = _grid("lrlr" if has_marks else "rlr")
    grid.add_column(overflow="fold")
    for bar in block.bars:
        inner = bool(bar.depth)
        drawn = _drawn(bar.share, block.length, "blue" if inner else "cyan")
        label = _text(("  " * bar.depth, bar.label), "muted" if inner else "")
        amount = _text(bar.amount, "" if inner else "strong")
        mark = [_text(bar.mark)] if has_marks else []
        grid.add_row(*mark, amount, drawn, _text(bar.aside), label)
    yield _indented(grid, block.indent)


def _drawn(share: float, length: int, style: str) -> Text:
    from rich.text import Text

    full = min(length, round(length * min(max(share, 0.0), 1.0)))
    return Text.assemble(("█" * full, style), ("░" * (length - full), "dim"))


def _code(block: blocks.Code, _: int) -> Iterator[RenderableType]:
    """Behind a vertical bar, so that its end is visible whatever the code contains."""
    from rich.text import Text

    grid = _grid("r" * any(block.numbers) + "l" * block.has_bar)
    grid.add_column(overflow="fold")
    # Printing one more line is as short as a note that there is one.
    is_cut = block.most is not None and len(block.lines) > block.most + 1
    shown = block.lines[: block.most] if is_cut else block.lines
    styles = _DIFF_STYLES if block.language == "diff" else {}
    bar = [Text("│", "dim")] if block.has_bar else []
    for at, line in enumerate(shown):
        code = Text(one_line(line.expandtabs(4)), styles.get(line[:1], ""))
        if block.most is not None:
            code.no_wrap, code.overflow = True, "ellipsis"
        number = [_text(block.numbers[at], "muted")] if any(block.numbers) else []
        grid.add_row(*number, *bar, code)
    if is_cut:
        rest = f"... {len(block.lines) - len(shown)} more lines: {block.rest}"
        grid.add_row(*([""] if any(block.numbers) else []), *bar, Text(rest, "dim"))
    yield _indented(grid, block.indent)


def _command(block: blocks.Command, width: int) -> Iterator[RenderableType]:
    """Never moved to the right: blanks would divide a word that a line continues."""
    for line in command_lines(one_line(block.command), width):
        yield _text(line, "place", is_unbroken=True)


def _part(block: blocks.Part | blocks.Fold, width: int) -> Iterator[RenderableType]:
    for part in _parts(block.blocks, width - block.indent):
        yield _indented(part, block.indent)


_RENDERERS: dict[type[Block], Callable[..., Iterator[RenderableType]]] = {
    blocks.Gap: lambda *_: iter([""]),
    blocks.Heading: _paragraph,
    blocks.Text: _paragraph,
    blocks.Notice: lambda block, _: iter([_indented(_text(block.words, block.look), block.indent)]),
    blocks.Foot: lambda block, _: iter([_text(block.words, "muted")]),
    blocks.Items: _items,
    blocks.Table: _table,
    blocks.Bars: _bars,
    blocks.Code: _code,
    blocks.Command: _command,
    blocks.Fold: _part,
    blocks.Part: _part,
    blocks.Figure: lambda block, width: _parts(block.short, width),
}
