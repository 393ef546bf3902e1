"""Excerpts of source files: the important lines and those around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from keet.pages.blocks import EDITOR, Reader
from keet.profile import Launch
from keet.safe_text import one_line

_BACKTICKS = re.compile(r"`+")
_LANGUAGES = {
    "py": "python",
    "cu": "cuda",
    "cuh": "cuda",
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp", "hxx", "inl"), "cpp"),
}


def file_link(launch: Launch, file: str, reader: Reader, line: int = 1) -> str:
    """The URL of a source file that is on this machine: for a terminal that opens it, and in HTML
    for an editor."""
    path = launch.local_file(file) if reader.has_links else None
    if path and reader.format == "html":
        from urllib.parse import quote  # most pages do without it

        return f"{EDITOR}{quote(path.as_posix().lstrip('/'), safe='/:')}:{line}"
    return path.as_uri() if path else ""


def around(numbers: Iterable[int], radius: int, length: int) -> list[int]:
    """Line numbers within `radius` of the given ones, in a file of `length` lines."""
    near = {n for centre in numbers for n in range(centre - radius, centre + radius + 1)}
    return sorted(n for n in near if 1 <= n <= length)


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Splits sorted numbers into consecutive runs."""
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1]
    bounds = [0, *cuts, len(numbers)]
    return [list(numbers[a:b]) for a, b in pairwise(bounds) if a < b]


def indentation(lines: Iterable[str]) -> int:
    """Number of columns by which all non-empty lines are indented."""
    wide = [line.expandtabs(4) for line in lines]
    return min((len(line) - len(line.lstrip()) for line in wide if line.strip()), default=0)


def language(path: str, other: str = "cpp") -> str:
    """The language of a file, as named in fenced code blocks. `other`: for other file names."""
    suffix = path.rsplit(".", 1)[-1].lower() if "." in path else ""
    return _LANGUAGES.get(suffix, other)


def fence(lines: Sequence[str], language: str = "") -> str:
    """A code block with a fence that no line of the code can close."""
    inert = [one_line(line.expandtabs(4)) for line in lines]
    ticks = "`" * max(3, 1 + max(map(longest_run, inert), default=0))
    return "\n".join([f"{ticks}{language}", *inert, ticks])


def longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text))) if "`" in text else 0
