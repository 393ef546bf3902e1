"""Finds the places in code that a text names: `slow.cu:7`, `line 7`, an instruction offset."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from keet.profile import Launch
from keet.profile.names import file_name

_LINE = re.compile(r"(?<=\w):(\d{1,9})(?!\d)|\b[Ll]ine\s(\d{1,9})(?!\d)")
"""Up to nine digits."""
_FILE = re.compile(r"[\w./\\-]*\w\.[A-Za-z]\w*")
_NO_LINE = re.compile(r"\bno source line\b|(?<![\w+])0x(?P<at>[0-9a-f]{4,6})\b")
_WORD_AND_LINE = re.compile(r"\b([^\W\d]\w*):\d")
_ROW_HEAD = re.compile(r"\s*-?\d[\d.,]*\s?%?(?:\s{2,}[\d.,]+)*\s{2,}")
_TITLE = re.compile(r"#\d+ \S")

NO_LINE = 0
RowKey = tuple[str, int] | int | str
"""Key of a table row: (file name, line), the offset of an instruction in its function, or the text
of the first cell, such as the name of a pointer."""


class TextPlace(NamedTuple):
    """A source line that a sentence names."""

    start: int
    end: int
    file: str | None
    """`None`: not given; matches any file."""
    line: int
    """`NO_LINE` for code without a source line."""
    offset: int | None = None
    """Offset of an instruction in its function, if the text names that instead of a line."""


def find_places(text: str, files: Collection[str] = ()) -> list[TextPlace]:
    """In order. `files`: names of source files that look like words (`cmath`)."""
    found = list(_lines(text))
    for name in files:
        odd = re.finditer(rf"(?<![\w./]){re.escape(name)}:(\d{{1,9}})(?!\d)", text)
        found += [TextPlace(m.start(), m.end(), name, int(m[1])) for m in odd]
    found += [
        TextPlace(m.start(), m.end(), None, NO_LINE, int(m["at"], 16) if m["at"] else None)
        for m in _NO_LINE.finditer(text)
    ]
    return sorted(found, key=lambda place: place.start)


def _lines(text: str) -> Iterator[TextPlace]:
    """Searches backwards from the colon: a pattern that begins with the file name would take
    quadratic time on long words."""
    last = 0
    for match in _LINE.finditer(text):
        if match[2]:
            yield TextPlace(match.start(), match.end(), None, int(match[2]))
        elif (start := _path_start(text, match.start(), last)) is not None:
            file = text[start : match.start()]
            yield TextPlace(start, match.end(), file, int(match[1]))
        last = match.end()


def _path_start(text: str, end: int, first: int) -> int | None:
    """Start of the file name that ends at `end`; None if there is none."""
    start = end
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "_./\\-"):
        start -= 1
    return start if _FILE.fullmatch(text, start, end) else None


def places_within(places: Sequence[TextPlace], start: int, end: int) -> list[TextPlace]:
    """The places of one sentence, with positions relative to the sentence."""
    first = bisect_left(places, start, key=lambda place: place.start)
    last = bisect_left(places, end, key=lambda place: place.start)
    inside = (place for place in places[first:last] if place.end <= end)
    return [p._replace(start=p.start - start, end=p.end - start) for p in inside]


def row_place(
    text: str, places: Sequence[TextPlace], title: TextPlace | None = None
) -> TextPlace | None:
    """`53.4%  141  slow.cu:21  Long Scoreboard 99% for the load at slow.cu:18`: the place that the
    row is about stands behind nothing but numbers, and all numbers are its own. Below the title of
    a source line, rows begin with the offset of an instruction."""
    first = places[0] if places else None
    if first and title and first.start == 0 and first.offset is not None:
        return first
    return first if first and _ROW_HEAD.fullmatch(text, 0, first.start) else None


def is_title(text: str) -> bool:
    """Whether it is the first line of keet's output about a launch."""
    return bool(_TITLE.match(text))


def title_place(text: str, places: Sequence[TextPlace]) -> TextPlace | None:
    """`#0 flip slow.cu:7`, as `keet hotspots --line` begins: the numbers below are that line's."""
    last = places[-1] if places else None
    return last if last and last.end == len(text) and last.file and is_title(text) else None


def wordlike_files(text: str, launches: Iterable[Launch]) -> set[str]:
    """Files without an extension that the text names: `cmath:31`, of the standard library.

    Line tables are read only if the text contains something of this form.
    """
    said = {match[1] for match in _WORD_AND_LINE.finditer(text)}
    files = {path for launch in launches for path in _files_of(launch)} if said else ()
    return said.intersection(name for name in map(file_name, files) if name.isidentifier())


def _files_of(launch: Launch) -> set[str]:
    return {location.file for location in launch.locations.values()}
