"""Source lines with the cost of each, for `keet context`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from keet.analysis.examined import source_lines
from keet.analysis.source_lines import Hotspots, Spot
from keet.documents.finding import Place
from keet.formatting import share_cell
from keet.pages.hotspots import waiting_for
from keet.pages.source_text import around, indentation, language
from keet.profile import Absent, Launch
from keet.profile.names import file_name
from keet.render.markdown.markup import fence

_HOTTEST = 10
_LEAST = 0.01
"""Share of the samples: the cost of a line below it is not printed."""
_LONGEST = 160
"""Maximum number of characters per line of code; generated code has longer lines."""
_NO_TEXT = "(no text)"


class CostedSource:
    """The source lines of one launch, with their costs."""

    def __init__(self, launch: Launch, found: Hotspots | Absent) -> None:
        self._found = found
        self._text = source_lines(launch)
        self._written: dict[frozenset[tuple[str, int]], list[str]] = {}
        """Kept: a context is composed anew with each piece, and few pieces bring lines."""
        self._lines: dict[tuple[str, int], _Line] = {}

    @cached_property
    def _spots(self) -> dict[tuple[str, int], Spot]:
        if isinstance(self._found, Absent) or self._found.by != "line":
            return {}
        return {(*spot.location,): spot for spot in self._found.rows if spot.location}

    @cached_property
    def hottest(self) -> Sequence[Place]:
        """The lines with most samples, in descending order."""
        ranked = [(where, spot.share or 0.0) for where, spot in self._spots.items()]
        return [
            Place(file, line, share, "samples")
            for (file, line), share in ranked[:_HOTTEST]
            if share >= _LEAST
        ]

    @cached_property
    def notes(self) -> list[str]:
        """What limits these costs, and how to get better ones."""
        if isinstance(self._found, Absent):
            return []
        partial = self._found.partial
        notes = [f"{partial.text}; {partial.remedy}"] if partial else []
        if self._spots and not self._text:
            notes.append("The text of the source is not in the report: --source DIR finds it")
        return notes

    def around(self, places: Sequence[Place], radius: int) -> list[tuple[str, int]]:
        found = []
        for file in dict.fromkeys(place.file for place in places):
            centres = [place.line for place in places if place.file == file]
            length = len(self._text.get(file, ()))
            found += [(file, n) for n in around(centres, radius, length)]
        return found

    def text(self, lines: Collection[tuple[str, int]]) -> list[str]:
        """The given lines, file by file, each with its share of the samples and its other costs."""
        key = frozenset(lines)
        if key not in self._written:
            self._written[key] = list(self._blocks(key))
        return self._written[key]

    def _blocks(self, lines: Collection[tuple[str, int]]) -> Iterator[str]:
        for file in sorted({file for file, _ in lines}):
            numbers = sorted(number for path, number in lines if path == file)
            ranked = "" if isinstance(self._found, Absent) else self._found.ranked_by
            costs = {"samples": "share of warp samples", "executed": "share of instructions"}
            unit = f" ({costs[ranked]} in the column left of the code)" if ranked else ""
            yield f"{file_name(file)}{unit}:"
            yield fence(list(self._rows(file, numbers)), language(file))

    def _rows(self, file: str, numbers: Sequence[int]) -> Iterator[str]:
        lines = {n: self._line(file, n) for n in numbers}
        indent = min((x.indent for x in lines.values() if x.indent is not None), default=0)
        width = len(str(numbers[-1]))
        before = numbers[0] - 1
        for n, line in lines.items():
            if n != before + 1:
                yield "..."
            before = n
            code = _NO_TEXT if line.code is None else line.code[indent:]
            yield f"{n:{width}} {line.share:>5}  {_short(code)}".rstrip()
            if line.cost:
                yield f"{'':{width}}        ^ {line.cost}"

    def _line(self, file: str, number: int) -> _Line:
        if (file, number) not in self._lines:
            text, spot = self._text.get(file, ()), self._spots.get((file, number))
            code = text[number - 1].expandtabs(4) if 1 <= number <= len(text) else None
            indent = indentation([code]) if code and code.strip() else None
            line = _Line(code, indent, _share(spot), _cost(spot) if spot else "")
            self._lines[file, number] = line
        return self._lines[file, number]


class _Line(NamedTuple):
    code: str | None
    """Without tabs. `None`: the source text is not available."""
    indent: int | None
    """`None`: the line is empty, or its text is not available."""
    share: str
    cost: str


def _short(code: str) -> str:
    return code if len(code) <= _LONGEST else code[:_LONGEST] + "..."


def _share(spot: Spot | None) -> str:
    known = spot is not None and spot.share is not None and spot.share >= _LEAST / 10
    return share_cell(spot.share) if spot and spot.share and known else ""


def _cost(spot: Spot) -> str:
    """What the line's warps wait for and how much it transfers; empty if it costs little."""
    if (spot.share or 0.0) < _LEAST and not spot.sectors_global_excess:
        return ""
    parts = [f"waits, of its samples: {waiting}"] if (waiting := waiting_for(spot)) else []
    parts += _excess("global sectors", spot.sectors_global_excess, spot.sectors_global)
    parts += _excess("shared wavefronts", spot.wavefronts_shared_excess, spot.wavefronts_shared)
    if spot.sectors_local:
        parts.append(f"{spot.sectors_local:,} local sectors")
    return "; ".join(parts)


def _excess(what: str, excess: int | None, total: int | None) -> list[str]:
    if not excess or not total:
        return []
    return [f"{excess:,} of {total:,} {what} are excess"]
