"""The text of a source line, where it is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keet.analysis.hotspots import Spot
from keet.profile import Launch
from keet.texts import bounded_lines


def source_lines(launch: Launch) -> Mapping[str, Sequence[str]]:
    """The lines of each source file whose text is at hand."""
    return {path: bounded_lines(text) for path, text in launch.source_files.items() if text}


def source_line(spot: Spot, lines: Mapping[str, Sequence[str]]) -> str | None:
    """The text of a spot's line; `None` where the file is not at hand or is shorter than that."""
    where = spot.location
    if where is None:
        return None
    text = lines.get(where.file, ())
    return text[where.line - 1] if 1 <= where.line <= len(text) else None
