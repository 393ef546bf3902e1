"""Parts of a result page (headings, prose, tables, lists), printed as text or as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill, wrap
from typing import NamedTuple

from evals.bootstrap import Interval, Paired
from evals.tables import Rows, markdown_table, text_table


class Heading(NamedTuple):
    text: str


class Prose(NamedTuple):
    """A paragraph; it is wrapped when printed."""

    text: str


class Table(NamedTuple):
    rows: Rows
    """The first row is the head."""
    keys: int = 1
    """Number of leading columns that identify a row."""


class Points(NamedTuple):
    """A list; an empty one is printed as such."""

    lines: Sequence[str]
    none: str = "None."


Part = Heading | Prose | Table | Points


_WIDEST = 100
"""Line width of prose: longer lines are hard to read on any terminal."""


def as_text(parts: Iterable[Part]) -> str:
    from keet.formats.terminal import terminal_width

    width = terminal_width(sys.stdout)
    return "\n\n".join("\n".join(_text(part, width)) for part in parts) + "\n"


def as_markdown(title: str, command: str, parts: Iterable[Part]) -> str:
    """`command` reproduces the page; a test compares its output."""
    head = [f"# {title}", f"Printed by `{command}`; not edited by hand."]
    return "\n\n".join([*head, *("\n".join(_markdown(part)) for part in parts)]) + "\n"


def _text(part: Part, width: int) -> list[str]:
    if isinstance(part, Heading):
        return [*wrap(part.text, width), "-" * min(len(part.text), width)]
    if isinstance(part, Table):
        return text_table(part.rows, width, part.keys)
    if isinstance(part, Points):
        return list(_points(part.lines or [part.none], width))
    return wrap(part.text, min(width, _WIDEST))


def _points(lines: Iterable[str], width: int) -> Iterator[str]:
    """Lines start with a path or an id, which is not broken."""
    for line in lines:
        yield fill(
            line,
            width,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _markdown(part: Part) -> list[str]:
    if isinstance(part, Heading):
        return [f"## {part.text}"]
    if isinstance(part, Table):
        return markdown_table(part.rows)
    if isinstance(part, Points):
        return [f"- {line}" for line in part.lines] or [part.none]
    return wrap(part.text, _WIDEST)


def interval_cell(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def paired_cells(pair: Paired) -> tuple[str, str, str]:
    return interval_cell(pair.keet), interval_cell(pair.baseline), interval_cell(pair.difference)


def number_cell(value: float | None, spec: str = ".2f") -> str:
    """`-` if there is no value: not measured is never printed as zero."""
    return "-" if value is None else format(value, spec)
