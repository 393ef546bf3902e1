"""Pieces of source code: the lines that matter and those around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

_LANGUAGES = {"py": "python", "cu": "cuda", "cuh": "cuda"}


def around(numbers: Iterable[int], radius: int, length: int) -> list[int]:
    """Line numbers within `radius` of some, of a file that has `length` lines."""
    near = {n for centre in numbers for n in range(centre - radius, centre + radius + 1)}
    return sorted(n for n in near if 1 <= n <= length)


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Sorted numbers, split where some are left out."""
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1]
    bounds = [0, *cuts, len(numbers)]
    return [list(numbers[a:b]) for a, b in pairwise(bounds) if a < b]


def indentation(lines: Iterable[str]) -> int:
    """Columns that every line with text is indented by."""
    wide = [line.expandtabs(4) for line in lines]
    return min((len(line) - len(line.lstrip()) for line in wide if line.strip()), default=0)


def language(path: str) -> str:
    """The name that fenced code has for a file's language."""
    suffix = path.rsplit(".", 1)[-1].lower() if "." in path else ""
    return _LANGUAGES.get(suffix, "cpp")
