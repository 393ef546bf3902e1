"""Markdown as GitHub and chats render it: escaping, tables and code blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.errors import one_line

_SPAN = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""Underscores inside of words are not emphasis, so they are not escaped."""
_LINE_START = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]\s))")
_BACKTICKS = re.compile(r"`+")


def prose(text: str) -> str:
    """A sentence without markup, whatever names it contains; code in backticks stays code."""
    # A split at a group alternates text and code.
    parts = _SPAN.split(one_line(text))
    return "".join(code(part) if i % 2 else _escape(part) for i, part in enumerate(parts))


def _escape(text: str) -> str:
    escaped = _MARKUP.sub(lambda match: "\\" + match[0], text)
    return _LINE_START.sub(_escape_start, escaped)


def _escape_start(match: re.Match[str]) -> str:
    """`1.` and `-` begin lists, so the dot after a number and a leading sign are escaped."""
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"


def code(text: str) -> str:
    """A name as a code span, with more backticks around it than it contains."""
    inside = one_line(text)
    ticks = "`" * (_longest(inside) + 1)
    pad = " " if not inside.strip() or "`" in (inside[0], inside[-1]) else ""
    return f"{ticks}{pad}{inside}{pad}{ticks}" if inside else "(no name)"


def cell(text: str) -> str:
    """Markdown for a table cell: pipes are escaped, even within code."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in line)} |" for line in lines)


def fence(lines: Sequence[str], language: str = "") -> str:
    """A code block with a fence that no line of the code can close."""
    inert = [one_line(line.expandtabs(4)) for line in lines]
    ticks = "`" * max(3, 1 + max(map(_longest, inert), default=0))
    return "\n".join([f"{ticks}{language}", *inert, ticks])


def _longest(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text))) if "`" in text else 0


def unlinked(text: str) -> str:
    """`#3` would become a link to an issue."""
    return text.replace("#", "launch ")
