"""Two versions of a source file side by side: which lines share a row, and which rows are shown.

Lines that are the same or versions of one another share a row, as long as their order is the same
on both sides. What stands between two such rows is gone on the left and new on the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from keet.comparison.causes.line_changes import NOTHING, LineCost, SideLines, in_order, match_files
from keet.profile.launch import Location

HOT = 0.005
"""Share of a side's samples from which a line is shown and not folded: HTML colours it."""
_LEAST_SHARE = 0.01
"""Share of the samples from which a file is shown, on either side. A judgement: headers of the
toolkit often have a line or two with a sample."""
_CONTEXT = 3
"""Lines around what changed or is hot, as `diff -u` has them."""
_FOLDED_FROM = 6
"""Lines in a row that are worth folding."""
WHOLE_FILE = 1_500
"""Rows up to which all text of a file is on the page, folded; of longer files, only what is around
changed and hot lines."""
_MOST_ROWS = 3_000
"""Rows of a file that are shown. Beyond that only what is hot: at most 200 lines a side have 0.5 %
of the samples each."""


class FileSide(NamedTuple):
    """One file on one side."""

    path: str
    lines: Sequence[str]
    of: SideLines
    time: float
    """Nanoseconds of the file."""

    def share(self, number: int | None) -> float:
        """Of the samples of the side; `number` from 0."""
        return 0.0 if number is None else self.of.share(Location(self.path, number + 1))

    def cost(self, number: int | None) -> LineCost:
        return NOTHING if number is None else self.of.cost(Location(self.path, number + 1))

    def is_hot(self, number: int | None) -> bool:
        return self.share(number) >= HOT

    def text(self, number: int | None) -> str:
        return "" if number is None else self.lines[number]


class AlignedRow(NamedTuple):
    """Lines by number, from 0; None: this side has no line here."""

    before: int | None
    after: int | None
    matched: bool
    """The two are one line, edited or not; else they only stand in the same place."""


class RowBlock(NamedTuple):
    """Consecutive rows that are all shown or all folded."""

    rows: tuple[AlignedRow, ...]
    folded: bool


class FilePair(NamedTuple):
    """A file and its version on the other side; None where the file is on one side only."""

    before: FileSide | None
    after: FileSide | None
    moved: Mapping[int, int]
    """Lines before that moved: after, they are not between the same neighbours."""
    rows: tuple[AlignedRow, ...]

    @property
    def time(self) -> float:
        """Nanoseconds of both sides: what files are ranked by."""
        return sum(side.time for side in (self.before, self.after) if side)

    @property
    def matters(self) -> bool:
        sides = (side for side in (self.before, self.after) if side)
        return any(side.time >= _LEAST_SHARE * side.of.whole for side in sides)

    def is_edited(self, row: AlignedRow) -> bool:
        if not row.matched:
            return True
        one, other = self.texts(row)
        return one.strip() != other.strip()

    def texts(self, row: AlignedRow) -> tuple[str, str]:
        one = self.before.text(row.before) if self.before else ""
        return one, self.after.text(row.after) if self.after else ""

    def is_hot(self, row: AlignedRow) -> bool:
        sides = ((self.before, row.before), (self.after, row.after))
        return any(side is not None and side.is_hot(number) for side, number in sides)


def paired_files(one: SideLines, other: SideLines) -> list[FilePair]:
    """The files with a relevant share of the samples, the costliest first."""
    before, after = _files(one), _files(other)
    pairs = []
    for match in match_files(one, other):
        here, there = before.pop(match.before), after.pop(match.after)
        ordered = in_order(match.lines)
        moved = dict(set(match.lines) - set(ordered))
        rows = _rows(ordered, len(here.lines), len(there.lines))
        pairs.append(FilePair(here, there, moved, tuple(rows)))
    for side in before.values():
        pairs.append(FilePair(side, None, {}, tuple(_rows((), len(side.lines), 0))))
    for side in after.values():
        pairs.append(FilePair(None, side, {}, tuple(_rows((), 0, len(side.lines)))))
    return sorted((pair for pair in pairs if pair.matters), key=lambda pair: -pair.time)


def _files(side: SideLines) -> dict[str, FileSide]:
    """The files with samples whose text is available."""
    times: dict[str, float] = {}
    for place, cost in side.costs.items():
        times[place.file] = times.get(place.file, 0.0) + cost.ns
    return {
        file: FileSide(file, side.files[file], side, time)
        for file, time in times.items()
        if file in side.files
    }


def _rows(ordered: Sequence[tuple[int, int]], lines: int, others: int) -> Iterator[AlignedRow]:
    b, a = 0, 0
    for before, after in (*ordered, (lines, others)):
        for gone, new in zip_longest(range(b, before), range(a, after)):
            yield AlignedRow(gone, new, matched=False)
        if before < lines and after < others:
            yield AlignedRow(before, after, matched=True)
        b, a = before + 1, after + 1


# --- what is shown, and what is folded


def stretches(files: FilePair) -> list[RowBlock]:
    """All rows in order. What neither changed nor is hot, nor is near such a line, is folded; so is
    what one side has alone, where there is much of it and it is cold."""
    shown, count = _shown(files), len(files.rows)
    folded = [False] * count  # too few rows to fold are joined with their neighbours
    for is_shown, group in groupby(range(count), key=shown.__contains__):
        numbers = list(group)
        for number in numbers if not is_shown and len(numbers) >= _FOLDED_FROM else ():
            folded[number] = True
    return [
        RowBlock(tuple(files.rows[number] for number in group), is_folded)
        for is_folded, group in groupby(range(count), key=folded.__getitem__)
    ]


def _shown(files: FilePair) -> set[int]:
    hot = [number for number, row in enumerate(files.rows) if files.is_hot(row)]
    both = files.before is not None and files.after is not None
    edited = [n for n, row in enumerate(files.rows) if files.is_edited(row)] if both else []
    shown = _around((*hot, *edited), len(files.rows))
    return shown if len(shown) <= _MOST_ROWS else _around(hot, len(files.rows))


def _around(numbers: Sequence[int], count: int) -> set[int]:
    return {
        near
        for number in numbers
        for near in range(max(0, number - _CONTEXT), min(count, number + _CONTEXT + 1))
    }
