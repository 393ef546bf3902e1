"""Comments of source files, which a listing prints in a lighter ink."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from keet.formats.html.markup import Content, element
from keet.formats.html.source.shown_lines import TAB

# Each alternative takes what it begins with, closed or not, so that a line is gone through once.
_STRING = r'"(?:\\.|[^"\\])*"?' + r"|'(?:\\.|[^'\\])*'?"
_C = re.compile(rf"{_STRING}|(//.*)|(/\*)")
_PYTHON = re.compile(rf'("""|\'\'\')|{_STRING}|(\#.*)')
_FORTRAN = re.compile(rf"{_STRING}|(!(?!\$).*)")
"""`!$acc` is no comment."""
_HASH = ("py", "jl", "mojo")
_FORTRANS = ("f", "f90", "f95", "f03", "f08", "cuf")

Span = tuple[int, int]


class _Language(NamedTuple):
    pattern: re.Pattern[str]
    openings: tuple[str, ...]
    """The marks that open a comment of several lines."""


_LANGUAGES = {
    **dict.fromkeys(_HASH, _Language(_PYTHON, ('"""', "'''"))),
    **dict.fromkeys(_FORTRANS, _Language(_FORTRAN, ())),
}
_LIKE_C = _Language(_C, ("/*",))


def marked(
    lines: Sequence[str], path: str, numbers: Collection[int], indent: int = 0
) -> dict[int, Content]:
    """Some lines of a file, by number, as content of elements: without tabs and common
    indentation, with comments in `<i>`."""
    language = _LANGUAGES.get(path.rsplit(".", 1)[-1].lower(), _LIKE_C)
    found: dict[int, Content] = {}
    for number, open_mark in _open_marks(lines, language, numbers):
        line = lines[number - 1].expandtabs(TAB)[indent:].rstrip()
        found[number] = _content(line, _spans(line, language, open_mark)[0])
    return found


def _open_marks(
    lines: Sequence[str], language: _Language, numbers: Collection[int]
) -> Iterator[tuple[int, str | None]]:
    """The lines that are asked for, and what a comment that is open where one begins ends with.

    All lines are gone through, but only those in which a comment may begin or end are looked at.
    """
    open_mark: str | None = None
    for number, line in enumerate(lines, 1):
        if number in numbers:
            yield number, open_mark
        marks = (open_mark,) if open_mark else language.openings
        if any(mark in line for mark in marks):
            open_mark = _spans(line, language, open_mark)[1]


def _spans(line: str, language: _Language, open_mark: str | None) -> tuple[list[Span], str | None]:
    """Where comments are, and the mark that ends a comment which continues in the next line."""
    at, spans = 0, list[Span]()
    while at < len(line):
        if open_mark:
            end = line.find(open_mark, at)
            if end < 0:
                return [*spans, (at, len(line))], open_mark
            spans.append((at, end + len(open_mark)))
            at, open_mark = spans[-1][1], None
            continue
        next_one = language.pattern.search(line, at)
        if next_one is None:
            break
        at = next_one.end()
        begun = next_one[0]
        if begun in ("/*", '"""', "'''"):
            open_mark = "*/" if begun == "/*" else begun
            spans.append((next_one.start(), at))
        elif next_one.lastindex:
            spans.append(next_one.span())
    return spans, open_mark


def _content(line: str, spans: Sequence[Span]) -> Content:
    if not spans:
        return line
    pieces: list[Content] = []
    at = 0
    for start, end in _joined(spans):
        pieces += [line[at:start], element("i", line[start:end])]
        at = end
    return [*pieces, line[at:]]


def _joined(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in spans:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
