"""Searches lines in a file: exactly, without white space, or the most similar ones."""

from __future__ import annotations

import re
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


LIMIT = 0.8
"""Least share of common words and signs, without comments, for three or more lines."""
_LIMIT_SHORT = 0.87
"""The same for one or two lines, which more often resemble others."""
LIMIT_NEAR = 0.7
"""The same within `_NEAR` lines of the line that the model names."""
_NEAR = 12
MARGIN = 0.05
"""The best place must be more similar than any other by this much."""
_SAME_LINE = 0.5
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMENT = re.compile(r"(?<=\S)\s*//.*$")
_MOST_LINES = 20_000
_MOST_TOKENS = 1500
_MOST_WORK = 4_000_000
"""Steps of about 0.3 us. A text that needs more is probably built to be slow; it is not
searched."""


class Window(NamedTuple):
    first: int
    last: int
    """Not included."""
    score: float


class Windows(NamedTuple):
    fitting: list[Window]
    """Places that are similar enough. Several: equally similar, so ambiguous."""
    nearest: list[Window]
    """Best first, also if not similar enough."""


def similar_windows(texts: Sequence[str], old: Sequence[str], line: int | None) -> Windows:
    rows = [at for at, text in enumerate(texts[:_MOST_LINES]) if text.strip()]
    wanted = [_tokens(row) for row in old if row.strip()]
    near = [at for at in rows if line is not None and abs(at + 1 - line) <= _NEAR + len(old)]
    for some, limit in ((near, LIMIT_NEAR), (rows, LIMIT if len(wanted) > 2 else _LIMIT_SHORT)):
        scored = _apart(sorted(_scored(texts, some, wanted), key=lambda window: -window.score))
        fitting = [w for w in scored if w.score >= limit and w.score > scored[0].score - MARGIN]
        if fitting or some is rows:
            break
    return Windows(fitting, scored[:3])


def _tokens(row: str) -> list[str]:
    """The rest after 1000 characters is one token."""
    return [*_TOKEN.findall(_COMMENT.sub("", row[:1000])), *filter(None, [row[1000:]])]


def _scored(texts: Sequence[str], rows: Sequence[int], wanted: Sequence[list[str]]) -> list[Window]:
    """Ranges of about as many lines."""
    measure = _Likeness([token for row in wanted for token in row][:_MOST_TOKENS])
    tokens = [_tokens(texts[at]) for at in rows]
    result: list[Window] = []
    for size in _sizes(len(wanted)):
        for start in range(len(rows) - size + 1):
            part = [token for row in tokens[start : start + size] for token in row]
            score = measure.of(part[:_MOST_TOKENS])
            if measure.work > _MOST_WORK:
                return []
            if score > _SAME_LINE:
                result.append(Window(rows[start], rows[start + size - 1] + 1, score))
    return result


class _Likeness:
    """Share of elements that two sequences have in common, in order (2 x common / both lengths).

    The longest common subsequence is counted with one bit per element (Hyyro's method): difflib
    would take minutes for long texts of few different words.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self.length = len(wanted)
        self.masks: dict[str, int] = {}
        for at, element in enumerate(wanted):
            self.masks[element] = self.masks.get(element, 0) | 1 << at
        self.work = 0

    def of(self, other: Sequence[str]) -> float:
        both = self.length + len(other)
        self.work += 1 + len(other) // 8
        if not both or 2 * min(self.length, len(other)) <= _SAME_LINE * both:
            return 0.0  # too different in length to be alike
        self.work += len(other) * (1 + self.length // 512)
        full = (1 << self.length) - 1
        free = full
        for element in other:
            found = free & self.masks.get(element, 0)
            free = ((free + found) | (free - found)) & full
        return 2 * (self.length - free.bit_count()) / both


def _sizes(count: int) -> list[int]:
    """Lengths to try: models omit a line or two, or add one."""
    return [count] if count < 2 else [count, count + 1, count + 2, count - 1]


def _apart(windows: Sequence[Window]) -> list[Window]:
    """The best of each group of overlapping ranges."""
    kept: list[Window] = []
    for window in windows:
        if all(window.last <= other.first or other.last <= window.first for other in kept):
            kept.append(window)
        if len(kept) > 8:
            break
    return kept


def aligned(old: Sequence[str], texts: Sequence[str], window: Window) -> list[int | None]:
    """The file's line for each old line: the pairing in order with the highest total similarity."""
    places = [at for at in range(window.first, window.last) if texts[at].strip()]
    measure = _likeness if len(old) <= 60 else _same
    scores = [[measure(_dense(row), _dense(texts[at])) for at in places] for row in old]
    best = [[0.0] * (len(places) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(places) - 1, -1, -1):
            taken = scores[i][j] + best[i + 1][j + 1] if scores[i][j] else 0.0
            best[i][j] = max(taken, best[i + 1][j], best[i][j + 1])
    return _walk(best, scores, places)


def _dense(row: str) -> str:
    return "".join(_COMMENT.sub("", row[:1000]).split())[:200]


def _same(a: str, b: str) -> float:
    return 1.0 if a and a == b else 0.0


def _likeness(a: str, b: str) -> float:
    if not a or a == b:
        return _same(a, b)
    ratio = _Likeness(a).of(b)
    return ratio if ratio >= _SAME_LINE else 0.0


def _walk(
    best: Sequence[Sequence[float]], scores: Sequence[Sequence[float]], places: Sequence[int]
) -> list[int | None]:
    result: list[int | None] = []
    j = 0
    for i, row in enumerate(scores):
        while j < len(places) and best[i][j] == best[i][j + 1] and best[i][j] > best[i + 1][j]:
            j += 1
        pair = j < len(places) and row[j] > 0 and best[i][j] == row[j] + best[i + 1][j + 1]
        result.append(places[j] if pair else None)
        j += pair
    return result
