"""The text of source lines, if the report or --source has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.analysis.source_lines import Spot
from keet.profile import Launch
from keet.safe_text import bounded_lines


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
