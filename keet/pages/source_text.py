"""The text of source lines, if the report or --source has it, and excerpts of it: the important
lines and those around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from keet.analysis.source_lines.hotspots import Spot
from keet.profile import Launch
from keet.safe_text import bounded_lines

_LANGUAGES = {"py": "python", "cu": "cuda", "cuh": "cuda"}


def source_lines(launch: Launch) -> Mapping[str, Sequence[str]]:
    """The lines of each source file whose text is available."""
    return _SourceLines({path: text for path, text in launch.source_files.items() if text})


class _SourceLines(Mapping[str, Sequence[str]]):
    """Splits a file on first access: most commands need lines of few files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, path: str) -> Sequence[str]:
        return bounded_lines(self._texts[path])

    def __contains__(self, path: object) -> bool:
        return path in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def source_line(spot: Spot, lines: Mapping[str, Sequence[str]]) -> str | None:
    """The text of a spot's line; `None` if the file is not available or too short."""
    where = spot.location
    if where is None:
        return None
    text = lines.get(where.file, ())
    return text[where.line - 1] if 1 <= where.line <= len(text) else None


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
