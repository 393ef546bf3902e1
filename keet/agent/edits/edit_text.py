"""Parses edits as models write them: old and new lines, or a diff. Does not use the files.

Models copy lines with line numbers of a listing, with signs of a diff, with a code fence, or with
"..." for unchanged lines. `readings` gives the possible interpretations of a change, the literal
one first; the caller takes the first that fits the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class LineReplacement(NamedTuple):
    """Lines to be replaced in one file, as a model gave them."""

    file: str
    """A path, the end of one, or a base name; empty: the file that has the old lines."""
    old: str
    """Empty: `new` is inserted after `line` (0: at the top of the file)."""
    new: str
    line: int | None = None
    """Approximate first line, from 1; models are often off by some lines."""
    parts: tuple[tuple[str, str], ...] = ()
    """Set by `parse_diff`: old and new text of groups; other lines may be between them."""


_FENCE = re.compile(r"^\s*(?:```|~~~)[\w+.-]*\s*$")
_NUMBER = re.compile(r"^\s*L?(\d{1,7})(?:\s?[|:] ?|\t)")
_ELISION = re.compile(
    r"^\s*(?:(?://|\#|/\*)?\s*(?:\.{3,}|…)[\w\s,()'.:-]*(?:\*/)?|(?://|\#|/\*).*(?:\.{3,}|…)\s*(?:\*/)?)\s*$"
)
_HUNK = re.compile(r"^@@+(?:\s*-(\d{1,7})(?:,(\d{1,7}))?)?")
_FILE_LINE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$")
_NOISE = ("diff --git ", "index ", "new file mode", "deleted file mode", "*** ", "\\ No newline")


def lines_of(text: str) -> list[str]:
    """Lines without line ends; a final line end does not start another line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def is_elision(line: str) -> bool:
    """Whether the line stands for omitted lines: `...`, `// ...`, `// rest as before ...`."""
    return len(line) < 200 and _ELISION.match(line) is not None


def readings(change: LineReplacement) -> Iterator[LineReplacement]:
    """The change as given, then with typical additions of models removed step by step."""
    yield change
    steps: Sequence[Callable[[LineReplacement], LineReplacement]] = (
        _without_fences,
        _without_signs,
        _without_numbers,
        _without_signs,
    )
    for step in steps:
        plain = step(change)
        if plain != change:
            change = plain
            yield change


def _without_fences(change: LineReplacement) -> LineReplacement:
    return change._replace(old=_unfenced(change.old), new=_unfenced(change.new))


def _unfenced(text: str) -> str:
    if "```" not in text and "~~~" not in text:
        return text
    return "\n".join(line for line in lines_of(text) if not _FENCE.match(line))


def _without_numbers(change: LineReplacement) -> LineReplacement:
    """The numbers are from the listing, so they are more reliable than `line`."""
    old = lines_of(change.old)
    numbers = [_NUMBER.match(line) for line in old if line.strip() and not is_elision(line)]
    found = [int(number[1]) for number in numbers if number]
    if not found or len(found) < len(numbers) or found != sorted(found):
        return change
    return change._replace(
        old=_joined(_NUMBER.sub("", line) for line in old),
        new=_joined(_NUMBER.sub("", line) for line in lines_of(change.new)),
        line=found[0],
    )


def _without_signs(change: LineReplacement) -> LineReplacement:
    old, new = lines_of(change.old), lines_of(change.new)
    old_signed, new_signed = _signed(old, "-"), _signed(new, "+")
    if not (old_signed or (new_signed and not _signed(old, "+"))):
        return change
    return change._replace(
        old=_joined(_unsigned(old, "-") if old_signed else old),
        new=_joined(_unsigned(new, "+") if new_signed else new),
    )


def _signed(lines: Sequence[str], sign: str) -> bool:
    written = [line for line in lines if line.strip() and not is_elision(line)]
    return any(line[0] == sign for line in written) and all(
        line[0] in (sign, " ") for line in written
    )


def _unsigned(lines: Sequence[str], sign: str) -> list[str]:
    context = _context_reader([line for line in lines if line[:1] != sign])
    return [line[1:] if line[:1] == sign else context(line) for line in lines]


def _joined(lines: Sequence[str] | Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _context_reader(lines: Sequence[str]) -> Callable[[str], str]:
    """How to read unchanged lines of a diff. Models often omit the leading space of such lines;
    then code that is indented by an even number of spaces still is."""
    written = [line for line in lines if line.strip() and not is_elision(line)]
    widths = [len(line) - len(line.lstrip(" ")) for line in written]
    if written and (0 in widths or all(width % 2 == 0 for width in widths)):
        return lambda line: line
    return lambda line: line[1:] if line[:1] == " " else line


class _Hunk:
    def __init__(self, file: str, line: int | None = None, old_count: int | None = None) -> None:
        self.file, self.line, self.old_count = file, line, old_count
        self.rows: list[str] = []

    def change(self) -> LineReplacement | None:
        if not any(row[:1] in ("-", "+") for row in self.rows):
            return None
        context = _context_reader([row for row in self.rows if row[:1] not in ("-", "+")])
        old, new = self._sides(context)
        if not old.strip():  # only new lines: placed by the line number alone
            return LineReplacement(self.file, "", new, self.line if not self.old_count else None)
        parts = tuple(self._parts(context))
        return LineReplacement(self.file, old, new, self.line, parts if len(parts) > 1 else ())

    def _parts(self, context: Callable[[str], str]) -> Iterator[tuple[str, str]]:
        """Splits where removed lines follow added ones: diff programs never write that order, and
        models mean another place."""
        cuts = [
            at for at, (a, b) in enumerate(pairwise(self.rows), 1) if (a[:1], b[:1]) == ("+", "-")
        ]
        for first, last in pairwise([0, *cuts, len(self.rows)]):
            part = _Hunk(self.file)
            part.rows = self.rows[first:last]
            yield part._sides(context)

    def _sides(self, context: Callable[[str], str]) -> tuple[str, str]:
        old = [row[1:] if row[:1] == "-" else context(row) for row in self.rows if row[:1] != "+"]
        new = [row[1:] if row[:1] == "+" else context(row) for row in self.rows if row[:1] != "-"]
        return _joined(old), _joined(new)


def parse_diff(text: str, file: str = "", line: int | None = None) -> list[LineReplacement]:
    """One change per hunk. `file` and `line` are used if the text has no headers. Empty if the text
    has no added or removed lines: then it is a sketch, not a diff."""
    hunks = [_Hunk(file, line)]
    rows = lines_of(_unfenced(text))
    skip = False
    for row, following in zip(rows, [*rows[1:], ""]):
        last = hunks[-1]
        if skip:
            skip = False
        elif row.startswith("--- ") and following.startswith("+++ "):
            hunks.append(_Hunk(_header_path(row, following) or last.file))
            skip = True
        elif named := _FILE_LINE.match(row):
            hunks.append(_Hunk(named[1].strip()))
        elif head := _HUNK.match(row):
            hunks.append(_Hunk(last.file, *_numbers(head)))
        elif is_elision(row.lstrip("+-")):
            hunks.append(_Hunk(last.file))
        elif not row.startswith(_NOISE):
            last.rows.append(row)
    return [change for hunk in hunks if (change := hunk.change())]


def _numbers(head: re.Match[str]) -> tuple[int | None, int | None]:
    """`-31` without a count means one line."""
    if head[1] is None:
        return None, None
    return int(head[1]), 1 if head[2] is None else int(head[2])


def _header_path(old: str, new: str) -> str:
    """The path in `--- a/slow.cu` and `+++ b/slow.cu`, without dates after a tab."""
    paths = [row[4:].split("\t")[0].strip().strip('"') for row in (old, new)]
    path = paths[1] if paths[0] == "/dev/null" else paths[0]
    return re.sub(r"^[ab]/", "", path)


def expanded(change: LineReplacement) -> list[LineReplacement]:
    """If the old or new text is itself a diff, the changes of that diff."""
    for text, other in ((change.old, change.new), (change.new, change.old)):
        plain = _unfenced(text)
        signs = {line[0] for line in lines_of(plain) if line and line[0] in "+-"}
        if signs == {"+", "-"} and not (other.strip() and _has_other_lines(text, other)):
            return parse_diff(plain, change.file, change.line) or [change]
    return [change]


def _has_other_lines(text: str, other: str) -> bool:
    """Whether the other text has lines that the diff does not have: then neither is a diff."""
    said = {line.lstrip("+-").strip() for line in lines_of(text)}
    return any(line.strip() and line.lstrip("+-").strip() not in said for line in lines_of(other))
