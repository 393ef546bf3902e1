"""Which lines of a text are which lines of an edited version of it.

Lines that are there once on both sides hold the texts together ("patience diff"); what lies between
two of them is aligned for itself. That is quick for long files, and braces do not match by chance.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from keet.records import NamedTuple

_ALIKE = 0.6
"""Of two lines in an edited place, to be versions of one another."""
_BLOCK = 60
"""Lines of an edited place within which versions are looked for."""
_PATCH = 400
"""Lines without any landmark that are still aligned."""


class _Place(NamedTuple):
    """Lines `b1` to `b2` of the one text, which stand where `a1` to `a2` stand in the other."""

    b1: int
    b2: int
    a1: int
    a2: int


def align(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Numbers of lines, from 0, that are equal but for their indentation, or versions of one
    another. Each line is in at most one pair."""
    before, after = [line.strip() for line in one], [line.strip() for line in other]
    found: dict[int, int] = {}
    edited: list[_Place] = []
    open_places = [_Place(0, len(before), 0, len(after))]
    while open_places:
        place = _trim(before, after, open_places.pop(), found)
        if place.b1 == place.b2 or place.a1 == place.a2:
            continue
        landmarks = _landmarks(before, after, place)
        if landmarks:
            open_places += _between(place, landmarks)
        else:
            edited += _patch(before, after, place, found)
    taken = set(found.values())
    whole = _Place(0, len(before), 0, len(after))
    moved = [(b, a) for b, a in _once(before, after, whole) if b not in found and a not in taken]
    found |= dict(moved)
    taken = set(found.values())
    for place in edited:
        found |= _versions(before, after, place, found, taken)
    return sorted(found.items())


def _trim(
    before: Sequence[str], after: Sequence[str], place: _Place, found: dict[int, int]
) -> _Place:
    """Enters what is equal at both ends, and leaves the middle."""
    b1, b2, a1, a2 = place
    while b1 < b2 and a1 < a2 and before[b1] == after[a1]:
        found[b1] = a1
        b1, a1 = b1 + 1, a1 + 1
    while b1 < b2 and a1 < a2 and before[b2 - 1] == after[a2 - 1]:
        b2, a2 = b2 - 1, a2 - 1
        found[b2] = a2
    return _Place(b1, b2, a1, a2)


def _once(before: Sequence[str], after: Sequence[str], place: _Place) -> list[tuple[int, int]]:
    """Lines that are there once on each side of a place, in the order of the one text."""
    counts = [Counter(before[place.b1 : place.b2]), Counter(after[place.a1 : place.a2])]
    where = {after[a]: a for a in range(place.a1, place.a2)}
    return [
        (b, where[before[b]])
        for b in range(place.b1, place.b2)
        if counts[0][before[b]] == counts[1][before[b]] == 1 and before[b]
    ]


def _landmarks(before: Sequence[str], after: Sequence[str], place: _Place) -> list[tuple[int, int]]:
    """The longest run of such lines that has the same order on both sides."""
    return in_order(_once(before, after, place))


def in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of them whose order is the same on both sides; `pairs` sorted by the first."""
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


def _between(place: _Place, landmarks: Sequence[tuple[int, int]]) -> Iterator[_Place]:
    """The places between landmarks; each begins with the landmark before it."""
    starts = [(place.b1, place.a1), *landmarks]
    stops = [*landmarks, (place.b2, place.a2)]
    for (b1, a1), (b2, a2) in zip(starts, stops, strict=True):
        yield _Place(b1, b2, a1, a2)


def _patch(
    before: Sequence[str], after: Sequence[str], place: _Place, found: dict[int, int]
) -> Iterator[_Place]:
    """Aligns a place without landmarks, and gives those where lines were replaced."""
    b1, b2, a1, a2 = place
    if max(b2 - b1, a2 - a1) > _PATCH:
        return
    matcher = difflib.SequenceMatcher(None, before[b1:b2], after[a1:a2], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found |= dict(zip(range(b1 + i1, b1 + i2), range(a1 + j1, a1 + j2), strict=True))
        elif tag == "replace" and max(i2 - i1, j2 - j1) <= _BLOCK:
            yield _Place(b1 + i1, b1 + i2, a1 + j1, a1 + j2)


def _versions(
    before: Sequence[str],
    after: Sequence[str],
    place: _Place,
    found: Container[int],
    taken: set[int],
) -> dict[int, int]:
    """In an edited place, lines that resemble each other, the most alike first. `taken` grows."""
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
    """By their words in any order, for edits swap indices, and by their letters, for edits rename;
    nothing where it is below what versions have."""
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
