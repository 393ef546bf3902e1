"""Excerpts of source files: the important lines and those around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from keet.analysis.examined import source_line, source_lines

__all__ = ["around", "indentation", "language", "runs", "source_line", "source_lines"]

_LANGUAGES = {"py": "python", "cu": "cuda", "cuh": "cuda"}


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


def language(path: str) -> str:
    """The language of a file, as named in fenced code blocks."""
    suffix = path.rsplit(".", 1)[-1].lower() if "." in path else ""
    return _LANGUAGES.get(suffix, "cpp")
