"""Writes a unified diff from replaced lines, and applies one strictly.

Lines carry their line ends. A line ends with a line feed alone, as for git: form feeds and Unicode
separators are part of a line.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

CONTEXT = 3
_NO_END = "\\ No newline at end of file\n"
_HEAD = re.compile(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n$")


class Span(NamedTuple):
    """Lines start..end (from 0, end excluded) of a file, replaced by others."""

    start: int
    end: int
    lines: tuple[str, ...]


def split_lines(text: str) -> list[str]:
    """With their line ends."""
    lines = text.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def line_end(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def minimal(lines: Sequence[str], spans: Sequence[Span]) -> list[Span]:
    """The same changes without unchanged lines, in order. A missing line end at the end of the file
    stays missing; a line gets one if lines are added after it."""
    result: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        result += _smaller(lines, _with_ends(lines, span))
    return result


def _with_ends(lines: Sequence[str], span: Span) -> Span:
    if not lines or span.end < len(lines) or lines[-1].endswith("\n"):
        return span
    added = span.lines
    if not added:
        return span
    start = span.start
    if start == len(lines):
        start -= 1
        added = (lines[-1] + line_end("".join(lines)), *added)
    return Span(start, span.end, (*added[:-1], added[-1].rstrip("\r\n")))


def _smaller(lines: Sequence[str], span: Span) -> Iterator[Span]:
    old = list(lines[span.start : span.end])
    if len(old) * len(span.lines) > 250_000:
        yield span
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, span.lines, False).get_opcodes():
        if tag != "equal":
            yield Span(span.start + i1, span.start + i2, span.lines[j1:j2])


def apply_spans(lines: Sequence[str], spans: Sequence[Span]) -> str:
    """`spans` in order and without overlap."""
    result: list[str] = []
    done = 0
    for span in spans:
        result += [*lines[done : span.start], *span.lines]
        done = span.end
    return "".join([*result, *lines[done:]])


def diff_text(name: str, lines: Sequence[str], spans: Sequence[Span]) -> str:
    """The diff of one file; `spans` minimal and in order. Without a `diff --git` line, so that `git
    apply` in a subfolder of a repository resolves the name from there."""
    parts = [f"--- {_quoted('a/' + name)}\n", f"+++ {_quoted('b/' + name)}\n"]
    shift = 0
    for hunk in _hunks(spans):
        first, last = max(hunk[0].start - CONTEXT, 0), min(hunk[-1].end + CONTEXT, len(lines))
        rows = list(_rows(lines, hunk, first, last))
        growth = sum(len(span.lines) - (span.end - span.start) for span in hunk)
        old, new = last - first, last - first + growth
        parts.append(f"@@ -{first + (old > 0)},{old} +{first + shift + (new > 0)},{new} @@\n")
        parts += rows
        shift += growth
    return "".join(parts)


def _hunks(spans: Sequence[Span]) -> list[list[Span]]:
    """Changes whose context lines touch become one hunk."""
    hunks: list[list[Span]] = []
    for span in spans:
        if hunks and span.start - hunks[-1][-1].end <= 2 * CONTEXT:
            hunks[-1].append(span)
        else:
            hunks.append([span])
    return hunks


def _rows(lines: Sequence[str], hunk: Sequence[Span], first: int, last: int) -> Iterator[str]:
    done = first
    for span in hunk:
        yield from (_row(" ", line) for line in lines[done : span.start])
        yield from (_row("-", line) for line in lines[span.start : span.end])
        yield from (_row("+", line) for line in span.lines)
        done = span.end
    yield from (_row(" ", line) for line in lines[done:last])


def _row(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n{_NO_END}"


def _quoted(name: str) -> str:
    """As git writes names: in quotes with escapes, or with a tab behind a name with spaces."""
    if any(char in '"\\' or ord(char) < 32 or ord(char) == 127 for char in name):
        return '"' + "".join(map(_escaped, name)) + '"'
    return f"{name}\t" if " " in name else name


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return f"\\{ord(char):03o}" if ord(char) < 32 or ord(char) == 127 else char


def diff_names(paths: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The common folder of all files, and each path relative to it. Paths come from reports:
    drives, `..` and mixed slashes become plain relative names."""
    plain = {path: plain_path(path) for path in paths}
    folders = [posixpath.dirname(path) for path in plain.values()]
    same_kind = len({path.startswith("/") for path in plain.values()}) == 1
    if same_kind and not any(".." in path.split("/") for path in plain.values()):
        root = posixpath.commonpath(folders) if all(folders) else ""
        return root, {path: posixpath.relpath(p, root or ".") for path, p in plain.items()}
    names = {path: posixpath.basename(p) for path, p in plain.items()}
    if len(set(names.values())) < len(names):
        names = {path: p.replace("../", "").lstrip("/") for path, p in plain.items()}
    return "", names


def plain_path(path: str) -> str:
    """`C:\\work\\slow.cu` as `/C/work/slow.cu`; `./`, `//` and inner `..` are resolved."""
    if re.match(r"^[A-Za-z]:[\\/]", path):
        path = f"/{path[0]}/{path[3:]}"
    return posixpath.normpath(re.sub(r"[\\/]+", "/", path)) if path else path


def applied(diff: str, before: Mapping[str, str]) -> dict[str, str] | str:
    """New texts by the names in the diff, or the problem. Strict: every line must be where the diff
    says."""
    result: dict[str, str] = {}
    rows = split_lines(diff)
    at = 0
    while at < len(rows):
        name = _name_in(rows[at])
        if name not in before:
            return f"{name}: no such file"
        at, text = _apply_file(rows, at + 2, split_lines(before[name]))
        if text is None:
            return f"{name}: patch does not apply at row {at + 1}"
        result[name] = text
    return result


def _name_in(row: str) -> str:
    name = row[4:].rstrip("\n").rstrip("\t")
    if name.startswith('"'):
        name = re.sub(r"\\([0-7]{3}|.)", _unescaped, name[1:-1])
    return name[2:]


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 8)) if len(found[1]) == 3 else found[1]


def _apply_file(rows: Sequence[str], at: int, lines: Sequence[str]) -> tuple[int, str | None]:
    """The row after the file's hunks, and the new text; None if a row does not fit."""
    result: list[str] = []
    done = 0
    while at < len(rows) and (head := _HEAD.match(rows[at])):
        start, old, _, new = map(int, head.groups())
        start -= old > 0
        hunk = _apply_hunk(rows, at + 1, lines[start : start + old], (old, new))
        if hunk is None or not done <= start:
            return at, None
        at, added = hunk
        result += [*lines[done:start], *added]
        done = start + old
    return at, "".join([*result, *lines[done:]])


def _apply_hunk(
    rows: Sequence[str], at: int, lines: Sequence[str], counts: tuple[int, int]
) -> tuple[int, list[str]] | None:
    """The row after the hunk and its new lines, if its old lines are exactly `lines`."""
    old: list[str] = []
    new: list[str] = []
    while (len(old), len(new)) != counts:
        if at >= len(rows) or rows[at][0] not in " -+" or len(old) > counts[0]:
            return None
        cut = rows[at + 1 : at + 2] == [_NO_END]
        line = rows[at][1:-1] if cut else rows[at][1:]
        old += [line] if rows[at][0] != "+" else []
        new += [line] if rows[at][0] != "-" else []
        at += 1 + cut
    return (at, new) if old == list(lines) else None
