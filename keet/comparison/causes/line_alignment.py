"""Aligns the lines of a text with the lines of an edited version of it (patience diff).

Lines that occur once on both sides are landmarks; the text between two landmarks is aligned
separately. This is fast for long files, and braces do not match by chance.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

_ALIKE = 0.6
"""Similarity of two lines, at least, to be versions of one another."""
_BLOCK = 60
"""Largest edited range, in lines, in which versions of lines are searched."""
_PATCH = 400
"""Largest range without landmarks, in lines, that is still aligned."""


class _Range(NamedTuple):
    """Lines `b1` to `b2` of one text, at the position of `a1` to `a2` in the other."""

    b1: int
    b2: int
    a1: int
    a2: int


def align(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of line numbers, from 0: lines that are equal except for indentation, or versions of
    one another. Each line is in at most one pair."""
    before, after = [line.strip() for line in one], [line.strip() for line in other]
    found: dict[int, int] = {}
    edited: list[_Range] = []
    open_ranges = [_Range(0, len(before), 0, len(after))]
    while open_ranges:
        place = _trim(before, after, open_ranges.pop(), found)
        if place.b1 == place.b2 or place.a1 == place.a2:
            continue
        landmarks = _landmarks(before, after, place)
        if landmarks:
            open_ranges += _between(place, landmarks)
        else:
            edited += _patch(before, after, place, found)
    taken = set(found.values())
    whole = _Range(0, len(before), 0, len(after))
    moved = [(b, a) for b, a in _once(before, after, whole) if b not in found and a not in taken]
    found |= dict(moved)
    taken = set(found.values())
    for place in edited:
        found |= _versions(before, after, place, found, taken)
    return sorted(found.items())


def _trim(
    before: Sequence[str], after: Sequence[str], place: _Range, found: dict[int, int]
) -> _Range:
    """Matches equal lines at both ends, and returns the middle."""
    b1, b2, a1, a2 = place
    while b1 < b2 and a1 < a2 and before[b1] == after[a1]:
        found[b1] = a1
        b1, a1 = b1 + 1, a1 + 1
    while b1 < b2 and a1 < a2 and before[b2 - 1] == after[a2 - 1]:
        b2, a2 = b2 - 1, a2 - 1
        found[b2] = a2
    return _Range(b1, b2, a1, a2)


def _once(before: Sequence[str], after: Sequence[str], place: _Range) -> list[tuple[int, int]]:
    """Lines that occur once on each side of a range, in the order of the first text."""
    counts = [Counter(before[place.b1 : place.b2]), Counter(after[place.a1 : place.a2])]
    where = {after[a]: a for a in range(place.a1, place.a2)}
    return [
        (b, where[before[b]])
        for b in range(place.b1, place.b2)
        if counts[0][before[b]] == counts[1][before[b]] == 1 and before[b]
    ]


def _landmarks(before: Sequence[str], after: Sequence[str], place: _Range) -> list[tuple[int, int]]:
    """The longest sequence of such lines that has the same order on both sides."""
    return in_order(_once(before, after, place))


def in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Longest subsequence with the same order on both sides; `pairs` are sorted by the first."""
    ends: list[int] = []
    tops: list[int] = []
    previous: list[int] = []
    for number, (_, after) in enumerate(pairs):
        at = bisect_left(ends, after)
        previous.append(tops[at - 1] if at else -1)
        ends[at : at + 1] = [after]
        tops[at : at + 1] = [number]
    chain, number = [], tops[-1] if tops else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _between(place: _Range, landmarks: Sequence[tuple[int, int]]) -> Iterator[_Range]:
    """The ranges between landmarks; each begins with the landmark before it."""
    starts = [(place.b1, place.a1), *landmarks]
    stops = [*landmarks, (place.b2, place.a2)]
    for (b1, a1), (b2, a2) in zip(starts, stops, strict=True):
        yield _Range(b1, b2, a1, a2)


def _patch(
    before: Sequence[str], after: Sequence[str], place: _Range, found: dict[int, int]
) -> Iterator[_Range]:
    """Aligns a range without landmarks, and yields the ranges where lines were replaced."""
    b1, b2, a1, a2 = place
    if max(b2 - b1, a2 - a1) > _PATCH:
        return
    matcher = difflib.SequenceMatcher(None, before[b1:b2], after[a1:a2], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found |= dict(zip(range(b1 + i1, b1 + i2), range(a1 + j1, a1 + j2), strict=True))
        elif tag == "replace" and max(i2 - i1, j2 - j1) <= _BLOCK:
            yield _Range(b1 + i1, b1 + i2, a1 + j1, a1 + j2)


def _versions(
    before: Sequence[str],
    after: Sequence[str],
    place: _Range,
    found: Container[int],
    taken: set[int],
) -> dict[int, int]:
    """Similar lines in an edited range, the most similar first. Adds to `taken`."""
    likeness = [
        (-ratio, abs(b - place.b1 - a + place.a1), b, a)
        for b in range(place.b1, place.b2)
        for a in range(place.a1, place.a2)
        if b not in found and a not in taken and (ratio := _likeness(before[b], after[a]))
    ]
    versions: dict[int, int] = {}
    for *_, b, a in sorted(likeness):
        if b not in versions and a not in taken:
            versions[b] = a
            taken.add(a)
    return versions


def _likeness(one: str, other: str) -> float:
    """By words in any order (edits swap indices) and by characters (edits rename); 0 below
    `_ALIKE`."""
    words = _common_words(one, other)
    if words >= _ALIKE:
        return words
    matcher = difflib.SequenceMatcher(None, one, other)
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= _ALIKE else 0.0


def _common_words(one: str, other: str) -> float:
    bags = [Counter(re.findall(r"\w+", line)) for line in (one, other)]
    return 2 * (bags[0] & bags[1]).total() / max(1, bags[0].total() + bags[1].total())
