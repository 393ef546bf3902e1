"""The code of one launch with the cost of each line; details of a line open on a click."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from keet.analysis.code_names import line_text
from keet.analysis.hotspots.examined import first_wait
from keet.analysis.hotspots.source_lines import Hotspots, Spot, source_line
from keet.formats.html.markup import STEPS, Content, Html, element, fragment, joined, small_print
from keet.formats.html.source_lines import line_panel
from keet.formats.html.source_rows import (
    OF_ID,
    TAB,
    ShownLines,
    SourceData,
    badges,
    cells,
    extents_within,
    heads,
    legend,
    opening_row,
    spot_share,
    total_share,
)
from keet.formatting import count_noun, enumerated, share_cell
from keet.pages.blocks import ListingFigure, around, indentation, runs
from keet.pages.hotspots import mix_text
from keet.profile import Location
from keet.profile.launch import file_name
from keet.safe_text import one_line

# --- a file: rows for what was executed, text for the rest, cold text folded

_CONTEXT = 3
"""Lines around a hot one that are not folded."""
_FOLDED_FROM = 6
"""Consecutive cold lines that are folded; fewer are shown."""


class SourceFile:
    """Rows are made first, then get panels as long as there is room; then the file is written."""

    def __init__(self, data: SourceData, file: str, extent: ShownLines) -> None:
        self._data, self._file, self._extent = data, file, extent
        self._spots, self._lines = data.spots_by_file[file], data.files[file].text
        self._length = len(self._lines)
        self._named = {*data.files[file].named}
        self._shown = frozenset(extent.numbers)
        texts = {n: self._lines[n - 1].expandtabs(TAB) for n in extent.numbers if n <= self._length}
        indent = indentation(texts.values())
        self._code = {number: text[indent:].rstrip() for number, text in texts.items()}
        self._cells: dict[int, Html] = {}
        self._rows: dict[int, Html | None] = {}
        self.open_line: int | None = None
        """The line whose panel is open at first."""

    def shows(self, number: int) -> bool:
        return number in self._shown

    def cells(self, number: int) -> Html:
        """Of the row of an executed line."""
        if number not in self._cells:
            spot = self._spots[number]
            code = self._marked_code(number, spot)
            self._cells[number] = fragment(cells(self._data, spot, str(number), code))
        return self._cells[number]

    def add_row(self, number: int, panel: Html | None = None) -> None:
        """`panel`: what the row shows when it is opened. Lines without a row are text."""
        self._rows[number] = panel

    def block(self) -> Html:
        last = "code" if self._length else "what its instructions are for"
        label = f"Source code of {one_line(file_name(self._file))}"
        return element(
            "section",
            self._heading(),
            element(
                "div",
                heads("line", self._data.found.ranked_by, last),
                list(self._body()),
                class_="rows",
                role="group",
                aria_label=label,
            ),
            class_="file",
            data_lines=self._data.line_anchor(self._file, 0)[:-1] if self._length else None,
        )

    def _heading(self) -> Html:
        notes = [f"{share_cell(total_share(self._spots))} of {self._data.shares_of}"]
        notes += [] if self._length else ["the text is not in the report"]
        notes += [self._extent.note] if self._extent.note else []
        path = one_line(self._file)
        is_ambiguous = self._data.file_names[file_name(self._file)] > 1
        return element(
            "h4",
            element("span", one_line(file_name(self._file)), class_="mono", title=path),
            element("span", " " + "; ".join(notes), class_="muted"),
            element("span", f" {path}", class_="path muted") if is_ambiguous else None,
        )

    def _body(self) -> Iterator[Content]:
        """Rows and text; more than a few consecutive lines without samples are folded."""
        hot = {n for n, spot in self._spots.items() if spot.share} | self._named
        seen = {*hot, *around(hot, _CONTEXT, self._length)}
        before = None
        for is_seen, own in groupby(self._extent.numbers, seen.__contains__):
            numbers = list(own)
            yield self._gap(before, numbers[0])
            body = list(self._parts(numbers))
            if is_seen or len(numbers) <= _FOLDED_FROM:
                yield body
            else:
                ran = sum(n in self._spots for n in numbers)
                why = f"{count_noun(ran, 'executed line')}, no samples"
                why = why if ran else "not executed by this kernel"
                text = f"lines {numbers[0]:,} to {numbers[-1]:,} ({why})"
                yield element("details", element("summary", text), body, class_="cold")
            before = numbers[-1]

    def _gap(self, before: int | None, number: int) -> Content:
        """The note before a line if lines before it were left out."""
        if before is None or number == before + 1 or not self._length:
            return None
        return element("p", f"lines {before + 1:,} to {number - 1:,} left out", class_="gap")

    def _parts(self, numbers: Sequence[int]) -> Iterator[Content]:
        """Rows and plain text, with a note where lines are left out between them."""
        before = None
        for run in runs(numbers):
            yield self._gap(before, run[0])
            for is_row, own in groupby(run, self._rows.__contains__):
                lines = list(own)
                rows = map(self._row if is_row else self._item, lines)
                yield [*rows] if is_row else element("ol", rows, class_="text", start=lines[0])
            before = run[-1]

    def _row(self, number: int) -> Html:
        key, panel = self._data.line_anchor(self._file, number), self._rows[number]
        values = self._data.values(self._spots[number])
        return opening_row(self.cells(number), panel, key, values, is_open=number == self.open_line)

    def _marked_code(self, number: int, spot: Spot | None = None) -> Content:
        """The code, before links to the findings that name the line."""
        mentions = self._data.mentions.get((self._file, number), ())
        code: Content = self._code.get(number)
        if code is None and spot is not None:
            code = element("span", mix_text(self._data.row(spot).purposes), class_="muted")
        return [code, [[" ", badge] for badge in badges(self._data, mentions)]]

    def _item(self, number: int) -> Html:
        if (self._file, number) not in self._data.anchored:
            return element("li", self._code.get(number))
        key = self._data.line_anchor(self._file, number)
        return element("li", self._marked_code(number), id=key, class_="line")


# --- which lines have a row, and which rows a panel: as many as fit, the hottest first

_SMALLEST = 300
"""Least bytes of a panel: with less room, none is made."""
_ROWS = 0.5
"""Share of the room that closed rows may take. A judgement."""
_OF_FACTS = 1_000
"""Bytes of a panel without machine code: 800 to 1,300 in samples of keet."""
_SASS = 0.5
"""Least share of the room of panels that machine code may take, however many lines there are. A
judgement."""
_FEWEST = 20
"""Rows that every listing has, however little room there is."""


class _Filling:
    """Adds rows, and what they show, to the files of a listing."""

    def __init__(self, data: SourceData, files: Mapping[str, SourceFile], room: int) -> None:
        self._data, self._files, self._room = data, files, room
        self._rows: set[Location] = set()
        self._opened = self._without_sass = 0
        self.unplaced: Html | None = None
        """The panel of instructions without a line."""
        self._add_rows()
        facts = _OF_FACTS * sum(bool(spot.share) for spot in data.found.rows)
        self._for_sass = max(self._room - facts, _SASS * self._room)
        self._add_panels()

    def _add_rows(self) -> None:
        """Of executed lines, the hottest first."""
        least = self._room * (1 - _ROWS)
        for number, line in enumerate(self._data.spots):
            file = self._file_of(line)
            if file is None:
                continue
            size = _size(file.cells(line.line))
            if number >= _FEWEST and self._room - size < least:
                break
            self._add(file, line, None, size)

    def _add_panels(self) -> None:
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
            if not self._opened:
                file.open_line = line.line
        else:
            self.unplaced = panel
            self._room -= _size(panel)
        self._opened += 1
        self._without_sass += not has_sass
        return True

    def _panel(self, spot: Spot, room: int) -> tuple[Html | None, bool]:
        """What fits, and whether the machine code is in it."""
        mentions = self._data.mentions.get(spot.location or ("", 0), ())
        facts, sass = line_panel(self._data, spot, mentions)
        whole = element("div", facts, sass, class_="inside")
        if _size(whole) <= room and _size(sass) <= self._for_sass:
            self._for_sass -= _size(sass)
            return whole, True
        where = one_line(line_text(spot.location))
        what = f"--line {where}" if spot.location else "--by instruction"
        command = f"keet hotspots REPORT --launch {self._data.launch.id} {what}"
        left = "SASS left out for the size of the page: "
        told = element("p", left, element("code", command))
        brief = element("div", facts, told, class_="inside")
        return (brief if _size(brief) <= room else None), False

    def _file_of(self, line: Location) -> SourceFile | None:
        file = self._files.get(line.file)
        return file if file and file.shows(line.line) else None

    def _add(self, file: SourceFile, line: Location, panel: Html | None, size: int) -> None:
        file.add_row(line.line, panel)
        self._rows.add(line)
        self._room -= size

    def left_out(self) -> str:
        """Empty where nothing was."""
        spots = self._data.spots.items()
        counts = {
            "the SASS of": self._without_sass,
            "all details of": len(self._data.found.rows) - self._opened,
            f"the {self._data.shares_of} of": sum(
                bool(spot.share) and line not in self._rows for line, spot in spots
            ),
        }
        parts = [f"{what} {count_noun(count, 'line')}" for what, count in counts.items() if count]
        if files := len(self._data.files) - len(self._data.extents):
            parts.append(count_noun(files, "file"))
        if not parts:
            return ""
        command = f"keet hotspots REPORT --launch {self._data.launch.id} --line FILE:LINE"
        left = f"Left out for the size of the page: {enumerated(parts)}"
        return f"{left}; the hottest lines come first. To see them: {command}"


def _size(html: Html) -> int:
    return len(html) if html.isascii() else len(html.encode("utf-8", "backslashreplace"))


# --- the listing

_HOTTEST = 5
_LEAST_SHARE = 0.01
"""Share of the samples below which a line is not mentioned."""
_TEXT = 0.5
"""Share of a listing's room that source text may take, if text is counted. A judgement."""


class Listing(NamedTuple):
    """The code of a launch on a page. It has headings from h4 on."""

    html: Html
    lines: frozenset[tuple[str, int]]
    """Files and lines that have an anchor."""
    note: str = ""
    """What was left out because of the size of the page; empty if nothing was."""


def draw_listing(block: ListingFigure) -> Html:
    return source_listing(block).html


def source_listing(block: ListingFigure) -> Listing:
    """The hottest lines get their rows, and what these show when they are opened, first."""
    hotspots, room = block.hotspots, block.room
    data = SourceData(block.each, hotspots, block.anchors)
    if hotspots.by == "instruction":
        from keet.formats.html.source_instructions import InstructionListing

        rows, note = InstructionListing(data, room).drawn()
        return Listing(_listing(block, data, [rows], note), frozenset(), note)
    if block.counts_text:
        data.extents, used = extents_within(data.files, round(room * _TEXT))
        room -= used
    else:
        room -= OF_ID * len(data.anchored)
    files = {path: SourceFile(data, path, extent) for path, extent in data.extents.items()}
    filled = _Filling(data, files, room)
    blocks = [file.block() for file in files.values()]
    note = filled.left_out()
    whole = _listing(block, data, [blocks, _unplaced(data, filled.unplaced)], note)
    return Listing(whole, data.anchored, note)


def _listing(block: ListingFigure, data: SourceData, blocks: Sequence[Content], note: str) -> Html:
    return element(
        "div",
        _hottest(block, data),
        [element("p", text, class_="note warn") for text in block.warnings],
        [element("p", text, class_="note") for text in block.notes],
        legend(data.found.rows),
        _touched(data.found),
        element("div", element("div", blocks), class_="files"),
        element("p", note, class_="muted") if note else None,
        class_="listing" if data.most else "listing unsampled",
        data_columns="|".join(f"{name}:{total}" for name, total in data.columns.items()),
        data_steps=" ".join(map(str, STEPS)),
    )


# --- what stands above and below the listing


def _hottest(block: ListingFigure, data: SourceData) -> Html:
    """`Hottest: k.cu:31 41.0%, …`, and what was counted."""
    links = []
    for spot in data.found.rows[:_HOTTEST]:
        link: Content = data.line_link(spot.location) if spot.location else None
        link = link if spot.address is None else data.address_link(spot.address)
        if link and (spot.share or 0.0) >= _LEAST_SHARE:
            links.append(fragment(link, " ", spot_share(spot), _ended(data, spot)))
    counted = f"{block.summary}."
    unplaced = data.unplaced if data.found.by == "line" else None
    if unplaced and (unplaced.share or 0.0) >= _LEAST_SHARE:
        counted += f" {spot_share(unplaced)} of {data.shares_of} have no source line."
    if not links:
        return element("p", counted)
    return element("p", element("b", "Hottest: "), joined(links, ", "), f". {counted}")


def _ended(data: SourceData, spot: Spot) -> Content:
    """Why a row is hot at which warps have ended, often a closing brace: they wait for stores."""
    if spot.stall_shares().get("drain", 0.0) <= 0.5:
        return None
    wait = first_wait(data.row(spot).waits, "drain")
    is_elsewhere = wait is not None and (spot.address is not None or wait.producer != spot.location)
    awaited = data.linked_awaits(wait, spot) if is_elsewhere else None
    is_brace = (source_line(spot, data.text) or "").strip() == "}"
    brace = "}: " if is_brace else ""
    return [f" ({brace}warps have ended and wait", awaited or " for their stores", ")"]


def _touched(hotspots: Hotspots) -> Content:
    """Says what the bytes of rows are, because they look like traffic and are not."""
    if not any(spot.sectors_global or spot.sectors_local for spot in hotspots.rows):
        return None
    text = (
        "Sectors (32 bytes each) are those that accesses touch, before hits in L1; not the traffic "
        "of L2 or DRAM. Excess: beyond those that contiguous addresses would need."
    )
    return small_print(text)


def _unplaced(data: SourceData, panel: Html | None) -> Content:
    """The instructions without a line, as one row."""
    spot = data.unplaced
    if spot is None or not spot.share:
        return None
    count = count_noun(spot.instructions, "instruction")
    row = cells(data, spot, "", element("span", f"{count} without a source line", class_="muted"))
    return element(
        "section",
        element("h4", f"No source line: {spot_share(spot)} of {data.shares_of}"),
        element("div", opening_row(row, panel, None, data.values(spot)), class_="rows"),
        class_="file",
    )
