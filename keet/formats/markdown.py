"""Blocks in Markdown, as GitHub and chats show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape

from keet.formatting import capitalized
from keet.pages import blocks
from keet.pages.blocks import Block, Cell, Look, Reader, Span, Words, fence, longest_run, spans
from keet.safe_text import one_line

WIDTH = 120
"""Columns of a terminal whose tables Markdown has."""
_CODE_SPAN = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""Underscores inside of words are not emphasis, so they are not escaped."""
_LINE_START = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]\s))")
_LAUNCH = re.compile(r"(?:\blaunch )?#(?=\d)")
"""`#3` would become a link to an issue."""
_CODE_LOOKS = frozenset(("code", "name", "place"))
_DOTS = {"good": "🟢", "bad": "🔴", "warn": "🟡"}
_STRONG_LOOKS = frozenset(("strong", "label", "model"))


def reader() -> Reader:
    return Reader("markdown", WIDTH, lines=lambda shown: markdown(shown).count("\n") + 1)


def markdown(page: Iterable[Block]) -> str:
    """The blocks with an empty line between them."""
    return "\n\n".join(filter(None, _parts(page))) + "\n"


def _parts(page: Iterable[Block]) -> Iterator[str]:
    for block in page:
        if not block.only or "markdown" in block.only:
            kind = next(kind for kind in type(block).__mro__ if kind in _RENDERERS)
            yield from _RENDERERS[kind](block)


# --- escaping


def prose(text: str) -> str:
    """A text without markup, whatever names it contains; code in backticks stays code."""
    return _LINE_START.sub(_escaped_start, _inner(text))


def _inner(text: str) -> str:
    """For a text that does not begin a line."""
    shown = []
    for at, part in enumerate(_CODE_SPAN.split(one_line(text))):  # text and code by turns
        if at % 2:
            shown.append(code(part))
        else:
            shown.append(_MARKUP.sub(r"\\\g<0>", _LAUNCH.sub("launch ", part)))
    return "".join(shown)


def _escaped_start(match: re.Match[str]) -> str:
    """`1.` and `-` begin lists, so the dot after a number and a leading sign are escaped."""
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"


def code(text: str) -> str:
    """A name as a code span, with more backticks around it than it contains."""
    inside = one_line(text)
    ticks = "`" * (longest_run(inside) + 1)
    pad = " " if not inside.strip() or "`" in (inside[0], inside[-1]) else ""
    return f"{ticks}{pad}{inside}{pad}{ticks}" if inside else "(no name)"


def _words(words: Words, *, begins: bool = True) -> str:
    """`begins`: whether the words begin a line."""
    shown = (_span(span, is_first=begins and not at) for at, span in enumerate(spans(words)))
    return "".join(shown).strip()


def _span(span: Span, *, is_first: bool) -> str:
    if span == blocks.LINE_BREAK:
        return " "
    looks = {*span.look.split()}
    if "verdict" in looks:
        return f"{_dot(span.look)}{_inner(span.text)}"
    stripped = span.text.strip()
    if not looks & (_CODE_LOOKS | _STRONG_LOOKS | {"italic"}) or not stripped:
        return prose(span.text) if is_first else _inner(span.text)
    before, after = " " * (span.text[0] == " "), " " * (span.text[-1] == " ")
    if looks & _CODE_LOOKS:
        shown = f"[{code(stripped)}]({span.to})" if span.to.endswith(".md") else code(stripped)
        return f"{before}{shown}{after}"
    mark = "**" if looks & _STRONG_LOOKS else "*"
    return f"{before}{mark}{_inner(stripped)}{mark}{after}"


def _dot(look: Look) -> str:
    """Before a verdict."""
    looks = look.split()
    colour = next((_DOTS[word] for word in looks if word in _DOTS), "⚪")
    return f"{colour} " if "verdict" in looks else ""


# --- one function per kind of block


def _heading(block: blocks.Heading) -> Iterator[str]:
    """Without bold words in it, and with a capital letter."""
    looks = [(span, {*span.look.split()} - _STRONG_LOOKS) for span in spans(block.words)]
    words = _words([s._replace(look=" ".join(look)) for s, look in looks], begins=False)
    mark = f"{block.mark} " if block.mark else ""
    words = words if mark else capitalized(words)
    yield f"{'#' * (block.level + 1)} {_dot(block.look)}{mark}{words}"


def _paragraph(block: blocks.Text) -> Iterator[str]:
    words = _words((block.mark, block.words))
    if block.look == "strong":
        words = f"**{words}**" if "**" not in words else words
    yield words


def _items(block: blocks.Items) -> Iterator[str]:
    if block.name:
        yield f"{prose(capitalized(block.name))}:"
    yield "\n".join(
        f"{'  ' * item.depth}- {f'{label} ' if label else ''}{_words(item.words)}"
        for item, label in ((item, _words(item.label, begins=False)) for item in block.items)
    )


def _table(block: blocks.Table) -> Iterator[str]:
    shown = [at for at, column in enumerate(block.columns) if column.wide <= WIDTH]
    head = [prose(block.columns[at].name) for at in shown]
    rule = ["---:" if block.columns[at].is_number else "---" for at in shown]
    rows = [
        [_cell(row[at], block.columns[at]) for at in shown if at < len(row)]
        for row in (*block.rows, *block.last)
    ]
    # Pipes are escaped, even within code.
    lines = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in [head, rule, *rows]]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if block.caption:
        yield prose(block.caption)


def _cell(cell: Words | Cell, column: blocks.Column) -> str:
    words, below = (cell.words, cell.below) if isinstance(cell, Cell) else (cell, "")
    if column.look in _CODE_LOOKS and isinstance(words, str):
        words = Span(words, column.look)
    return f"{_words(words)} ({_words(below)})" if below else _words(words)


def _bars(block: blocks.Bars) -> Iterator[str]:
    rows = []
    for bar in block.bars:
        aside = f" ({_words(bar.aside)})" if bar.aside else ""
        mark = f"{'  ' * bar.depth}- {f'{bar.mark} ' if bar.mark.strip() else ''}"
        rows.append(f"{mark}{_words(bar.amount)}{aside}: {_words(bar.label)}")
    yield "\n".join(rows)


def _code(block: blocks.Code) -> Iterator[str]:
    numbers = block.numbers if any(block.numbers) else [""] * len(block.lines)
    width = max(map(len, numbers), default=0)
    before = [f"{number:>{width}}  " if width else "" for number in numbers]
    yield fence([f"{a}{line}".rstrip() for a, line in zip(before, block.lines)], block.language)


def _fold(block: blocks.Fold) -> Iterator[str]:
    inner = "\n\n".join(_parts(block.blocks))
    if inner:
        yield f"<details><summary>{_summary(block.summary)}</summary>\n\n{inner}\n\n</details>"


def _summary(words: Words) -> str:
    """In HTML, where Markdown has no meaning."""
    shown = []
    for span in spans(words):
        text = escape(_LAUNCH.sub("launch ", span.text))
        shown.append(f"<code>{text}</code>" if {*span.look.split()} & _CODE_LOOKS else text)
    return one_line("".join(shown))


_RENDERERS: dict[type[Block], Callable[..., Iterator[str]]] = {
    blocks.Gap: lambda _: iter(()),
    blocks.Heading: _heading,
    blocks.Text: _paragraph,
    blocks.Notice: lambda block: iter([f"> {_dot(block.look)}{_words(block.words)}"]),
    blocks.Foot: lambda block: iter([f"<sub>{_words(block.words)}</sub>"]),
    blocks.Items: _items,
    blocks.Table: _table,
    blocks.Bars: _bars,
    blocks.Code: _code,
    blocks.Command: lambda block: iter([fence([block.command], "sh")]),
    blocks.Fold: _fold,
    blocks.Part: lambda block: _parts(block.blocks),
    blocks.Figure: lambda block: _parts(block.short),
}
