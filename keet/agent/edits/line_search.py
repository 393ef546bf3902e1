"""Searches lines in a file: exactly, or by their characters without white space."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from keet.agent.edits.unified_diff import line_end, plain_path, split_lines
from keet.errors import one_line

_MOST_PLACES = 500


class SourceText:
    """One file, prepared for searching."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.name = one_line(plain_path(path).rsplit("/", 1)[-1])
        self.lines = split_lines(text)
        self.texts = [line.rstrip("\r\n") for line in self.lines]
        self.bare = [text.rstrip() for text in self.texts]
        self.end = line_end(text)
        dense = ["".join(line.split()) for line in self.texts]
        self.dense = "".join(dense)
        """All characters except white space."""
        self.starts = [0]
        """Offset of each line in `dense`, followed by the length of `dense`."""
        for line in dense:
            self.starts.append(self.starts[-1] + len(line))

    def line_at(self, offset: int) -> int:
        """The line of a character of `dense`; empty lines have the offset of the next line."""
        return bisect_right(self.starts, offset) - 1

    def column(self, line: int, offset: int) -> int:
        """Column of a character of `dense` in its line."""
        left = offset - self.starts[line]
        for column, char in enumerate(self.texts[line]):
            if not char.isspace():
                if left == 0:
                    return column
                left -= 1
        return len(self.texts[line])


class Match(NamedTuple):
    """Lines first..last (not included) of the file, and the file's line for each old line."""

    first: int
    last: int
    at: Sequence[int | None]


def exact_places(source: SourceText, old: Sequence[str]) -> Iterator[int]:
    """White space at line ends is ignored."""
    wanted = [line.rstrip() for line in old]
    for at in range(len(source.bare) - len(wanted) + 1):
        ends = source.bare[at], source.bare[at + len(wanted) - 1]
        if ends == (wanted[0], wanted[-1]) and source.bare[at : at + len(wanted)] == wanted:
            yield at


def occurrences(text: str, part: str) -> Iterator[int]:
    """At most `_MOST_PLACES` positions of the part."""
    at = text.find(part) if part else -1
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(part, at + 1)


def _dense_match(source: SourceText, offset: int, old: Sequence[str]) -> Match:
    """Maps each old line to the file's line with the same characters; to None if lines are wrapped
    differently."""
    ends = [0]
    for line in old:
        ends.append(ends[-1] + len("".join(line.split())))
    at: list[int | None] = []
    for begin, end in pairwise(ends):
        number = source.line_at(offset + begin)
        same = begin < end and source.starts[number : number + 2] == [offset + begin, offset + end]
        at.append(number if same else None)
    wrapped = any(place is None and line.strip() for place, line in zip(at, old))
    first, last = source.line_at(offset), source.line_at(offset + ends[-1] - 1) + 1
    return Match(first, last, [None] * len(old) if wrapped else at)


def dense_places(source: SourceText, part: Sequence[str]) -> list[Match]:
    dense = "".join("".join(part).split())
    whole = set(source.starts)
    return [
        _dense_match(source, at, part)
        for at in occurrences(source.dense, dense)
        if at in whole and at + len(dense) in whole
    ]


def line_range(source: SourceText, at: int, dense: str) -> tuple[int, int]:
    return source.line_at(at), source.line_at(at + len(dense) - 1) + 1


def is_whole_words(source: SourceText, at: int, dense: str) -> bool:
    """`n = 4` is not in `len = 42`."""
    first, last = line_range(source, at, dense)
    start = source.column(first, at)
    end = source.column(last - 1, at + len(dense) - 1) + 1
    before, after = source.texts[first][:start], source.texts[last - 1][end:]
    return not (_joins(before[-1:], dense[0]) or _joins(dense[-1], after[:1]))


def _joins(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def nearest(matches: Sequence[Match], line: int | None) -> Match | None:
    """The only match, or the one that is clearly nearest to the line; otherwise None."""
    if len(matches) < 2 or line is None:
        return matches[0] if len(matches) == 1 else None
    for match in matches:
        if match.first == line - 1:
            return match
    ranked = sorted(matches, key=lambda match: _distance(match, line))
    best, second = (_distance(match, line) for match in ranked[:2])
    return ranked[0] if best <= 10 and second >= max(2 * best, best + 3) else None


def _distance(match: Match, line: int) -> int:
    return max(match.first + 1 - line, line - match.last, 0)
