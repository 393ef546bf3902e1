"""A diff with line numbers and little context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
"""The header of a hunk: its first line before, and the number of lines before and after."""


class DiffLine(NamedTuple):
    number: str
    """Line number in the current source; empty for added lines and file names."""
    text: str
    """With the sign of the diff."""

    @property
    def is_changed(self) -> bool:
        return self.text[:1] in ("+", "-")


def short_diff(diff: str, most: int) -> list[DiffLine]:
    """File names are only included if there are several. A text that is not a diff is returned
    unchanged.

    `most`: if there are more lines, unimportant context is left out, then removed lines: the new
    code says what to do.
    """
    lines = diff.expandtabs(4).strip("\r\n").splitlines()
    hunks = list(_hunks(lines))
    if not hunks:
        return [DiffLine("", line) for line in lines]
    shown = _shown(hunks, is_needed=_is_near)
    if len(shown) > most:
        shown = _shown(hunks, is_needed=_says_where)
    is_new = any(row.text.startswith("+") for row in shown)
    return list(_folded(shown)) if len(shown) > most and is_new else shown


def _folded(rows: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Several removed lines in a row as one: `-(8 lines)`."""
    for is_removed, run in groupby(rows, lambda row: bool(row.number) and row.text[:1] == "-"):
        lines = list(run)
        if is_removed and len(lines) > 1:
            yield DiffLine(lines[0].number, f"-({len(lines)} lines)")
        else:
            yield from lines


def _shown(
    hunks: Sequence[tuple[str, Sequence[DiffLine]]],
    is_needed: Callable[[Sequence[DiffLine], int], bool],
) -> list[DiffLine]:
    several = len({file for file, _ in hunks}) > 1
    shown: list[DiffLine] = []
    before = ""
    for file, hunk in hunks:
        shown += [DiffLine("", file)] if several and file != before else []
        shown += [line for place, line in enumerate(hunk) if is_needed(hunk, place)]
        before = file
    return shown


def _hunks(lines: Sequence[str]) -> Iterator[tuple[str, list[DiffLine]]]:
    """The hunks, each with its file. Lines are counted, because `--- x` may also be a removed
    line."""
    file, place = "", 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        if match := HUNK.match(line):
            counts = int(match[2] or 1), int(match[3] or 1)
            hunk = _numbered(lines[place:], int(match[1]), *counts)
            place += len(hunk)
            yield file, hunk


def _numbered(lines: Sequence[str], first: int, old: int, new: int) -> list[DiffLine]:
    hunk: list[DiffLine] = []
    end_old, number = first + old, first
    for line in lines:
        sign = line[:1]
        if (number >= end_old and new <= 0 and sign != "\\") or HUNK.match(line):
            break
        hunk.append(DiffLine("" if sign in ("+", "\\") else str(number), line))
        number += sign not in ("+", "\\")
        new -= sign not in ("-", "\\")
    return hunk


def _is_changed(hunk: Sequence[DiffLine], place: int) -> bool:
    return 0 <= place < len(hunk) and hunk[place].is_changed


def _is_near(hunk: Sequence[DiffLine], place: int) -> bool:
    """A changed line, or a line next to one. A blank line is left out there, unless it is between
    two changes."""
    beside = [_is_changed(hunk, place - 1), _is_changed(hunk, place + 1)]
    has_text = bool(hunk[place].text.strip())
    return hunk[place].is_changed or all(beside) or (any(beside) and has_text)


def _says_where(hunk: Sequence[DiffLine], place: int) -> bool:
    """A changed line, or the line after which lines are only added, because added lines have no
    number."""
    if hunk[place].is_changed:
        return True
    changes = list(takewhile(lambda line: line.is_changed, hunk[place + 1 :]))
    return bool(changes) and all(line.text.startswith("+") for line in changes)
