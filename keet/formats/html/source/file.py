"""One source file in a listing: rows for what was executed, text for the rest, cold text folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from keet.analysis.source_lines import Spot
from keet.formats.html.markup import Content, Html, element, fragment
from keet.formats.html.source.comments import marked
from keet.formats.html.source.data import SourceData, total_share
from keet.formats.html.source.row import badges, cells, heads, opening_row
from keet.formats.html.source.shown_lines import ShownLines
from keet.formatting import count_noun, share_cell
from keet.pages.hotspots import mix_text
from keet.pages.source_text import around, indentation, runs
from keet.profile.names import file_name
from keet.safe_text import one_line

_CONTEXT = 3
"""Lines around a hot one that are not folded."""
_FOLDED_FROM = 6
"""Consecutive cold lines that are folded; fewer are shown."""


class LineRun(NamedTuple):
    """Consecutive lines that are all visible, or all folded."""

    numbers: list[int]
    is_folded: bool


class SourceFile:
    """Rows are made first, then get panels as long as there is room; then the file is written."""

    def __init__(self, data: SourceData, file: str, extent: ShownLines) -> None:
        self._data, self._file, self._extent = data, file, extent
        self._spots, self._lines = data.spots_by_file[file], data.files[file].text
        self._length = len(self._lines)
        self._named = {*data.files[file].named}
        self._shown = frozenset(extent.numbers)
        self._code = self._texts(extent.numbers)
        self._cells: dict[int, Html] = {}
        self._rows: dict[int, Html | None] = {}

    def shows(self, number: int) -> bool:
        return number in self._shown

    def cells(self, number: int) -> Html:
        """Of the row of an executed line."""
        if number not in self._cells:
            spot = self._spots[number]
            code, has_text = self._marked_code(number, spot), number in self._code
            self._cells[number] = fragment(
                cells(self._data, spot, str(number), code, has_text=has_text)
            )
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

    # --- which lines

    def _stretches(self, numbers: Sequence[int]) -> list[LineRun]:
        hot = {n for n, spot in self._spots.items() if spot.share} | self._named
        seen = {*hot, *around(hot, _CONTEXT, self._length)}
        parts = [(is_seen, list(own)) for is_seen, own in groupby(numbers, seen.__contains__)]
        found: list[LineRun] = []
        for is_seen, own in parts:
            is_folded = not is_seen and len(own) > _FOLDED_FROM
            if found and not is_folded and not found[-1].is_folded:
                found[-1].numbers.extend(own)
            else:
                found.append(LineRun(own, is_folded))
        return found

    # --- how they look

    def _body(self) -> Iterator[Content]:
        before = None
        for stretch in self._stretches(self._extent.numbers):
            yield self._gap(before, stretch.numbers[0])
            yield self._stretch(stretch)
            before = stretch.numbers[-1]

    def _gap(self, before: int | None, number: int) -> Content:
        """The note before a line if lines before it were left out."""
        if before is None or number == before + 1 or not self._length:
            return None
        return element("p", f"lines {before + 1:,} to {number - 1:,} left out", class_="gap")

    def _texts(self, numbers: Sequence[int]) -> Mapping[int, Content]:
        """The text of the lines, without their common indentation."""
        indent = indentation(self._lines[n - 1] for n in numbers if n <= self._length)
        return marked(self._lines, self._file, self._shown, indent)

    def _stretch(self, stretch: LineRun) -> Content:
        body = list(self._parts(stretch.numbers))
        if not stretch.is_folded:
            return body
        summary = element("summary", self._folded_text(stretch.numbers))
        return element("details", summary, body, class_="cold")

    def _folded_text(self, numbers: Sequence[int]) -> str:
        ran = sum(n in self._spots for n in numbers)
        lines = f"lines {numbers[0]:,} to {numbers[-1]:,}"
        if not ran:
            return f"{lines} (not executed by this kernel)"
        return f"{lines} ({count_noun(ran, 'executed line')}, no samples)"

    def _parts(self, numbers: Sequence[int]) -> Iterator[Content]:
        """Rows and plain text, with a note where lines are left out between them."""
        before = None
        for run in runs(numbers):
            yield self._gap(before, run[0])
            for is_row, own in groupby(run, self._rows.__contains__):
                lines = list(own)
                yield [self._row(n) for n in lines] if is_row else self._text(lines)
            before = run[-1]

    def _row(self, number: int) -> Html:
        key = self._data.line_anchor(self._file, number)
        return opening_row(self.cells(number), self._rows[number], key)

    def _marked_code(self, number: int, spot: Spot | None = None) -> Content:
        """The code, before links to the findings that name the line."""
        mentions = self._data.mentions.get((self._file, number), ())
        code = self._code.get(number)
        if code is None and spot is not None:
            code = element("span", mix_text(self._data.row(spot).purposes), class_="muted")
        return [code, [[" ", badge] for badge in badges(self._data, mentions)]]

    def _text(self, numbers: Sequence[int]) -> Html:
        return element("ol", [self._item(n) for n in numbers], class_="text", start=numbers[0])

    def _item(self, number: int) -> Html:
        if (self._file, number) not in self._data.anchored:
            return element("li", self._code.get(number))
        key = self._data.line_anchor(self._file, number)
        return element("li", self._marked_code(number), id=key, class_="line")
