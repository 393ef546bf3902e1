"""Which lines of a listing have a row, and which rows a panel to open: as many as fit, the hottest
first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.code_names import line_text
from keet.analysis.source_lines import Spot
from keet.formats.html.markup import Html, element
from keet.formats.html.source.data import SourceData
from keet.formats.html.source.file import SourceFile
from keet.formats.html.source.line import line_panel
from keet.formatting import count_noun
from keet.profile import Location
from keet.safe_text import one_line

_SMALLEST = 300
"""Least bytes of a panel: with less room, none is made."""
_ROWS = 0.5
"""Share of the room that closed rows may take. A judgement."""
_FEWEST = 20
"""Rows that every listing has, however little room there is."""


class Filled(NamedTuple):
    """What was left out because of the size of the page."""

    unplaced: Html | None
    """Whether the details of instructions without a line were left out."""
    without_sass: int
    """Lines whose machine code was left out."""
    without_panel: int
    """Lines that have nothing to open."""
    without_row: int
    """Lines with samples that are shown as text, or not at all."""


def fill_rows(data: SourceData, files: Mapping[str, SourceFile], room: int) -> Filled:
    """Adds rows, and what they show, to the files of a listing."""
    filling = _Filling(data, files, room)
    without_row = filling.add_rows()
    filling.add_panels()
    without_panel = len(data.found.rows) - filling.opened
    return Filled(filling.unplaced, filling.without_sass, without_panel, without_row)


class _Filling:
    def __init__(self, data: SourceData, files: Mapping[str, SourceFile], room: int) -> None:
        self._data, self._files, self._room = data, files, room
        self._rows: set[Location] = set()
        self.opened = self.without_sass = 0
        self.unplaced: Html | None = None

    def add_rows(self) -> int:
        """Gives rows to lines with samples, and returns how many of these got none."""
        hot = [spot.location for spot in self._data.found.rows if spot.location and spot.share]
        least = self._room * (1 - _ROWS)
        for number, line in enumerate(hot):
            file = self._file_of(line)
            if file is None:
                continue
            size = _size(file.cells(line.line))
            if number >= _FEWEST and self._room - size < least:
                break
            self._add(file, line, None, size)
        return len(hot) - len(self._rows)

    def add_panels(self) -> None:
        """First those that findings lead to, then the hottest."""
        mentions = self._data.mentions
        first = {place for place, own in mentions.items() if any(m.is_first for m in own)}
        for spot in sorted(self._data.found.rows, key=lambda spot: spot.location not in first):
            if self._room < _SMALLEST or not self._add_panel(spot):
                break

    def _add_panel(self, spot: Spot) -> bool:
        """False if there is not enough room for it."""
        line = spot.location
        file = self._file_of(line) if line else None
        if line and file is None:
            return True
        row = _size(file.cells(line.line)) if file and line and line not in self._rows else 0
        panel, has_sass = self._panel(spot, self._room - row)
        if panel is None:
            return False
        if file and line:
            self._add(file, line, panel, row + _size(panel))
        else:
            self.unplaced = panel
            self._room -= _size(panel)
        self.opened += 1
        self.without_sass += not has_sass
        return True

    def _panel(self, spot: Spot, room: int) -> tuple[Html | None, bool]:
        """What fits, and whether the machine code is in it."""
        mentions = self._data.mentions.get(spot.location or ("", 0), ())
        facts, sass = line_panel(self._data, spot, mentions)
        whole = element("div", facts, sass, class_="inside")
        if _size(whole) <= room:
            return whole, True
        brief = element("div", facts, _command(self._data, spot.location), class_="inside")
        return (brief if _size(brief) <= room else None), False

    def _file_of(self, line: Location) -> SourceFile | None:
        file = self._files.get(line.file)
        return file if file and file.shows(line.line) else None

    def _add(self, file: SourceFile, line: Location, panel: Html | None, size: int) -> None:
        file.add_row(line.line, panel)
        self._rows.add(line)
        self._room -= size


def _size(html: Html) -> int:
    return len(html) if html.isascii() else len(html.encode("utf-8", "backslashreplace"))


def _command(data: SourceData, line: Location | None) -> Html:
    what = f"--line {one_line(line_text(line))}" if line else "--by instruction"
    command = f"keet hotspots REPORT --launch {data.launch.id} {what}"
    return element("p", "SASS left out for the size of the page: ", element("code", command))


def left_out(data: SourceData, filled: Filled) -> str:
    """Empty where nothing was."""
    parts = []
    if filled.without_sass:
        parts.append(f"the SASS of {_lines(filled.without_sass)}")
    if filled.without_panel:
        parts.append(f"all details of {_lines(filled.without_panel)}")
    if filled.without_row:
        parts.append(f"the {data.shares_of} of {_lines(filled.without_row)}")
    if files := len(data.files) - len(data.extents):
        parts.append("1 file" if files == 1 else f"{files:,} files")
    if not parts:
        return ""
    command = f"keet hotspots REPORT --launch {data.launch.id} --line FILE:LINE"
    left = " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]
    return (
        f"Left out for the size of the page: {left}; the hottest lines come first. "
        f"To see them: {command}"
    )


def _lines(count: int) -> str:
    return count_noun(count, "line")
