"""A diff with line numbers and little context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from keet.lazy_regex import regex
from keet.records import NamedTuple

HUNK = regex(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
"""The head of a hunk: its first line before, and how many lines before and after."""


class DiffLine(NamedTuple):
    number: str
    """In the source as it is; empty for what is added, and for names of files."""
    text: str
    """With its sign."""

    @property
    def is_changed(self) -> bool:
        return self.text[:1] in ("+", "-")


def short_diff(diff: str, most: int) -> list[DiffLine]:
    """Names of files only where there are several. All of a text that is not a diff.

    `most`: where it has more lines, context is left out that a reader can do without.
    """
    lines = diff.expandtabs(4).strip("\r\n").splitlines()
    hunks = list(_hunks(lines))
    if not hunks:
        return [DiffLine("", line) for line in lines]
    shown = _shown(hunks, is_needed=_is_near)
    return shown if len(shown) <= most else _shown(hunks, is_needed=_says_where)


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
    """Each with the file that it changes. Counted, since `--- x` may be a line that is removed."""
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
    """A changed line, or one beside it. A blank one there says nothing, but between two changes it
    is part of the code."""
    beside = [_is_changed(hunk, place - 1), _is_changed(hunk, place + 1)]
    has_text = bool(hunk[place].text.strip())
    return hunk[place].is_changed or all(beside) or (any(beside) and has_text)


def _says_where(hunk: Sequence[DiffLine], place: int) -> bool:
    """A changed line, or the one behind which lines are only added: those have no number."""
    if hunk[place].is_changed:
        return True
    changes = list(takewhile(lambda line: line.is_changed, hunk[place + 1 :]))
    return bool(changes) and all(line.text.startswith("+") for line in changes)
