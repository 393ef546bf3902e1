"""Splits a text into sentences, list items and table rows, with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"^(?:```|~~~).*?(?:^(?:```|~~~)[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"\n\s*\n|\n(?=\s*(?:[-*+•]\s|\d+[.)]\s|\||#{1,6} |>|[A-Z][a-z]+(?: [a-z]+)?: ))|(?<=\|)\n"
)
_END = re.compile(r"[.!?]['\")\]*_]*\s+|;\s+(?=[A-Za-z])")
"""A semicolon before a new subject ends a sentence too: `L2 at 83 %; DRAM at 12 %`."""
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|vs|approx|ca|avg|etc|no|fig|max|min|cf)\.\s*$", re.I)


_COLUMNS = re.compile(r"\S {2,}\S|[\u2500-\u259f]")
"""Columns and bars: rows that a program printed."""
_ITEM = ("→", "•", "▸")
"""Begins a row; the row may be wrapped."""
_TITLE = re.compile(r"#\d+ \S")
"""First line of keet's output about a launch."""
_CHANGE = re.compile(r"\d\S{0,30}(?: [^\W\d]\S{0,30})? →(?: \S{0,30}\d|\s*$)")
"""A row of `keet diff`: `Registers Per Thread 16 → 26`."""
_CHANGE_BEFORE = re.compile(r"\d\S{0,30}(?: [^\W\d]\S{0,30})?\s*\Z")
_CHANGE_AFTER = re.compile(r"\s*→ \S{0,30}\d")
"""The two parts of such a row that was wrapped before its arrow."""
_SHORT_LINE = 40
"""Shorter lines were not wrapped."""
_LONGEST = 1000
"""Characters; longer sentences are cut at a space."""


class SentenceSpan(NamedTuple):
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def split_sentences(text: str) -> Iterator[SentenceSpan]:
    """Sentences, without fenced code."""
    without_code = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    width = max(map(len, text.splitlines()), default=0)
    for start, end in _pieces(without_code, _BLOCK, 0, len(text)):
        for top, bottom in _paragraphs(without_code, start, end, width):
            for first, last in _pieces(without_code, _END, top, bottom):
                yield from _trimmed(text, without_code, first, last)


def _paragraphs(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """Joins the lines of wrapped paragraphs; rows of tables stay separate."""
    begin = place = start
    before: str | None = None
    for line in text[start:end].splitlines(keepends=True):
        if before is not None and not _goes_on(before, line, width):
            yield begin, place
            begin = place
        before, place = line, place + len(line)
    yield begin, end


def _goes_on(before: str, line: str, width: int) -> bool:
    indents = [len(part) - len(part.lstrip()) for part in (before, line)]
    if _TITLE.match(before):
        return False
    if _CHANGE_AFTER.match(line) and _CHANGE_BEFORE.search(before):
        return len(before.rstrip()) >= _SHORT_LINE
    if _CHANGE.search(before) or _CHANGE.search(line):
        # A row was wrapped only if the next word did not fit.
        size = len(before.rstrip())
        return size >= _SHORT_LINE and size + len((line.split() or [""])[0]) >= width
    laid_out = any(_COLUMNS.search(part.strip()) for part in (before, line))
    laid_out = laid_out or line.lstrip().startswith(_ITEM)
    return indents[0] >= indents[1] - 4 and not laid_out and len(before.rstrip()) >= _SHORT_LINE


def _trimmed(text: str, without_code: str, first: int, last: int) -> Iterator[SentenceSpan]:
    while first < last:
        cut = last
        if last - first > _LONGEST:
            cut = without_code.rfind(" ", first + 1, first + _LONGEST) + 1 or first + _LONGEST
        part = without_code[first:cut]
        if part.strip():
            start = first + len(part) - len(part.lstrip())
            yield SentenceSpan(text[start : first + len(part.rstrip())], start)
        first = cut


def _pieces(text: str, cut: re.Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for match in cut.finditer(text, start, end):
        if not _ABBREVIATED.search(text[max(begin, match.end() - 12) : match.end()]):
            yield begin, match.end()
            begin = match.end()
    yield begin, end
