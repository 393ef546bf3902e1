"""Parts of a result page (headings, prose, tables, lists), printed as text or as Markdown."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from textwrap import fill, wrap
from typing import NamedTuple

from evals.bootstrap import Interval, Paired

Rows = Sequence[Sequence[str]]


class Heading(NamedTuple):
    text: str


class Prose(NamedTuple):
    """A paragraph; it is wrapped when printed."""

    text: str


class Table(NamedTuple):
    rows: Rows
    """The first row is the head. Columns of numbers are aligned right."""
    keys: int = 1
    """Number of leading columns that identify a row."""


class Points(NamedTuple):
    """A list; an empty one is printed as such."""

    lines: Sequence[str]
    none: str = "None."


Part = Heading | Prose | Table | Points

_WIDEST = 100
"""Line width of prose: longer lines are hard to read on any terminal."""
_NUMBER = re.compile(r"[+\-−]?[\d,]*\.?\d+(e[+-]?\d+)?(\s?[%x×]|\s[munk]?s)?", re.IGNORECASE)
_NOTHING = ("", "-")
"""Printed in place of a missing number; aligned like a number."""
_GAP = "  "
_LEAST_WIDTH = 12
"""Of a text column: narrower ones would show single syllables."""


def as_text(parts: Iterable[Part]) -> str:
    from keet.formats.terminal import terminal_width

    width = terminal_width(sys.stdout)
    return "\n\n".join("\n".join(_text(part, width)) for part in parts) + "\n"


def as_markdown(title: str, command: str, parts: Iterable[Part]) -> str:
    """`command` reproduces the page; a test compares its output."""
    head = [f"# {title}", f"Printed by `{command}`; not edited by hand."]
    return "\n\n".join([*head, *("\n".join(_markdown(part)) for part in parts)]) + "\n"


def printed(wanted: str, title: str, command: str, parts: Iterable[Part]) -> str:
    """In Markdown or for a terminal."""
    if wanted == "markdown":
        return as_markdown(title, f"{command} --format markdown", parts)
    return as_text([Heading(title), *parts])


def _text(part: Part, width: int) -> list[str]:
    match part:
        case Heading(text):
            return [*wrap(text, width), "-" * min(len(text), width)]
        case Table(rows, keys):
            return text_table(rows, width, keys)
        case Points(lines, none):  # lines start with a path or an id, which is not broken
            unbroken = {"break_long_words": False, "break_on_hyphens": False}
            indents = {"initial_indent": "  ", "subsequent_indent": "    "}
            return [fill(line, width, **indents, **unbroken) for line in lines or [none]]  # type: ignore[arg-type]
        case Prose(text):
            return wrap(text, min(width, _WIDEST))


def _markdown(part: Part) -> list[str]:
    match part:
        case Heading(text):
            return [f"## {text}"]
        case Table(rows):
            return markdown_table(rows)
        case Points(lines, none):
            return [f"- {line}" for line in lines] or [none]
        case Prose(text):
            return wrap(text, _WIDEST)


# --- tables


def text_table(rows: Rows, width: int | None = None, keys: int = 1) -> list[str]:
    """Lines for a terminal of that width, without trailing spaces. A table that is too wide is
    split into several, one below the other; each repeats the first `keys` columns, which identify a
    row."""
    if not rows:
        return []
    count = len(_columns(rows))
    blocks = _blocks(rows, width, keys) if width else [list(range(count))]
    tables = [_block([[row[i] for i in block] for row in rows], width) for block in blocks]
    return list(chain.from_iterable([*table, ""] for table in tables))[:-1]


def _blocks(rows: Rows, width: int, keys: int) -> Iterator[list[int]]:
    """The columns of each part: as many as fit."""
    widths = [max(map(len, column)) for column in _columns(rows)]
    again = list(range(min(keys, len(widths) - 1)))
    block = list(again)
    for i in range(len(again), len(widths)):
        if len(block) > len(again) and _wide([widths[j] for j in (*block, i)]) > width:
            yield block
            block = list(again)
        block.append(i)
    yield block


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _block(rows: Rows, width: int | None) -> Iterator[str]:
    """A row has several lines if a cell is too long for its column."""
    columns = _columns(rows)
    widths = [max(map(len, column)) for column in columns]
    aligned = [str.rjust if _is_numeric(column[1:]) else str.ljust for column in columns]
    if width and (over := _wide(widths) - width) > 0:
        longest = widths.index(max(widths))
        widths[longest] = max(_LEAST_WIDTH, widths[longest] - over)
    for row in rows:
        cells = [wrap(cell, column_width) or [""] for cell, column_width in zip(row, widths)]
        for line in zip_longest(*cells, fillvalue=""):
            shown = (align(cell, size) for align, cell, size in zip(aligned, line, widths))
            yield _GAP.join(shown).rstrip()


def markdown_table(rows: Rows) -> list[str]:
    """Cells are escaped, so that a model's text cannot break the row."""
    if not rows:
        return []
    head, *body = [
        [" ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|") for cell in row]
        for row in rows
    ]
    rule = ["---:" if _is_numeric(column[1:]) else "---" for column in _columns(rows)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def _columns(rows: Rows) -> list[tuple[str, ...]]:
    return list(zip(*rows, strict=True))


def _is_numeric(cells: Sequence[str]) -> bool:
    numbers = [cell for cell in cells if cell not in _NOTHING]
    return bool(numbers) and all(_NUMBER.fullmatch(cell) for cell in numbers)


# --- cells


def interval_cell(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def paired_cells(pair: Paired) -> tuple[str, str, str]:
    return interval_cell(pair.keet), interval_cell(pair.baseline), interval_cell(pair.difference)


def number_cell(value: float | None, spec: str = ".2f") -> str:
    """`-` if there is no value: not measured is never printed as zero."""
    return "-" if value is None else format(value, spec)
