"""Numbers on a page of `keet diff`: they match the JSON document, and times of lines match the
samples."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pytest

from keet.analysis.source_lines import find_hotspots
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.line_changes import SideLines, match_lines, read_lines
from keet.documents.diff import PairDocument
from keet.formats import page_text
from keet.formats.html.blocks import reader
from keet.pages.blocks import Cell
from keet.pages.diff import diff_page
from keet.profile import Location
from keet.units import Quantity
from tests.diff_pages import cells, difference, html_blocks_of, tables
from tests.page_blocks import every_block
from tests.page_parts import page_tree, with_class, words
from tests.rows import each_row

HOT = 0.005
"""Share of a side's samples from which its line has a time on the page."""


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.find_spec", lambda name: None)


def test_kernels_are_sorted_by_the_times_of_the_document() -> None:
    pairs = difference("pipeline").pairs
    rows = tables(html_blocks_of(difference("pipeline")))["Kernels before and after"].rows
    assert len(rows) == len(pairs) > 3
    for row, pair in zip(rows, pairs, strict=True):
        times = _times(pair)
        assert cells(row)[2] == pair.kernel
        *shown, change = (float(cell.value or 0) for cell in row[3:6] if isinstance(cell, Cell))
        assert shown == [pytest.approx(time, abs=0.6) for time in times]
        assert change == pytest.approx(times[1] - times[0], abs=0.6)


def test_where_there_are_many_kernels_the_longest_are_listed() -> None:
    found = difference("pipeline")
    page = diff_page(found, reader()._replace(rows=2), 5)
    table = tables([*every_block(page.blocks)])["Kernels before and after"]
    longest = sorted(found.pairs, key=lambda pair: -max(_times(pair)))
    assert [cells(row)[2] for row in table.rows] == [pair.kernel for pair in longest[:2]]
    assert table.caption.startswith(f"and {len(found.pairs) - 2} more kernels")


def _times(pair: PairDocument) -> list[float]:
    """Nanoseconds before and after."""
    both = (pair.verdict.before, pair.verdict.after)
    return [1000 * time.value if time and time.value is not None else 0.0 for time in both]


class Listed(NamedTuple):
    """A row of the only listing of a page."""

    numbers: tuple[int | None, int | None]
    """Of the lines before and after."""
    marks: tuple[str, str]
    codes: tuple[str, str]
    changes: list[tuple[float, str]]
    """Nanoseconds, and the class that colours them."""


class Lines(NamedTuple):
    """The times of one side's lines, from its samples."""

    file: str
    ns: dict[int, float]
    whole: float
    of: SideLines

    def time(self, line: int | None) -> float:
        return self.ns.get(line or 0, 0.0)

    def is_hot(self, line: int | None) -> bool:
        return self.time(line) >= HOT * self.whole

    def text(self, line: int | None) -> str:
        return self.of.files[self.file][line - 1] if line else ""

    def deviation(self, line: int | None) -> float:
        return self.of.cost(Location(self.file, line)).deviation if line else 0.0


@cache
def listed(name: str) -> list[Listed]:
    page = page_text(lambda reader: diff_page(difference(name), reader, 5), "html")
    (listing,) = with_class(page_tree(page), "sides")
    return [_row(row) for row in with_class(listing, "row") if "head" not in row.get("class", "")]


def _row(row: ET.Element) -> Listed:
    numbers, marks, codes = [], [], []
    for side in ("before", "after"):
        number = next(with_class(row, "no", side), None)
        code = next(with_class(row, "code", side), None)
        numbers.append(None if number is None else int(words(number)))
        marks.append("" if code is None else words(next(code.iter("i"))))
        codes.append("" if code is None else words(next(code.iter("code"))))
    (change,) = with_class(row, "change")
    changes = [(_nanoseconds(words(each)), each.get("class", "")) for each in change]
    return Listed((numbers[0], numbers[1]), (marks[0], marks[1]), (codes[0], codes[1]), changes)


def _nanoseconds(text: str) -> float:
    found = re.fullmatch(r"([+−]?)([\d.,]+) (\w+)", text)
    assert found, text
    size = Quantity(float(found[2].replace(",", "")), found[3]).to("ns").value
    return -size if found[1] == "−" else size


@cache
def sides(name: str) -> tuple[Lines, Lines]:
    before, after = (_side(each) for each in difference(name).pairs[0].weighted)
    return before, after


def _side(launches: Sequence[WeightedLaunch]) -> Lines:
    (each,) = launches
    found, lines = find_hotspots(each.explanation.launch, "line"), read_lines([each])
    assert isinstance(lines, SideLines)
    (file,) = {spot.location.file for spot in found.rows if spot.location}
    whole = each.time or 0.0
    times = {s.location.line: (s.share or 0.0) * whole for s in found.rows if s.location}
    return Lines(file, times, whole, lines)


@cache
def matched(name: str) -> set[tuple[int, int]]:
    """Numbers of matched lines, edited or not."""
    before, after = sides(name)
    return {(one.line, other.line) for one, other in match_lines(before.of, after.of).items()}


NAMES = ["matrix_flip", "column_physics", "score_tiles"]


@pytest.mark.slow
@each_row("name", NAMES)
def test_removed_and_added_lines_are_marked_on_their_side(name: str) -> None:
    both, seen = sides(name), set()
    for row in listed(name):
        for side, number, code in zip(both, row.numbers, row.codes, strict=True):
            text = " ".join(side.text(number).split())
            assert code == text or (code.endswith("…") and text.startswith(code[:-1]))
        texts = {side.text(n).strip() for side, n in zip(both, row.numbers, strict=True)}
        is_same = row.numbers in matched(name) and len(texts) == 1
        wanted = tuple(m if n and not is_same else "" for m, n in zip("−+", row.numbers))
        assert row.marks == wanted
        seen.add(wanted)
    assert {("−", "+"), ("", "")} <= seen
    assert {("−", ""), ("", "+")} & seen


@pytest.mark.slow
@each_row("name", NAMES)
def test_the_change_of_a_line_is_its_time_after_less_its_time_before(name: str) -> None:
    """Computed from the times of both sides, even if one is too short to be shown."""
    before, after = sides(name)
    words_seen: set[str] = set()
    for row in listed(name):
        one, other = row.numbers
        hot = (before.is_hot(one), after.is_hot(other))
        if row.numbers in matched(name):
            wanted = [(after.time(other) - before.time(one), one, other)] if any(hot) else []
        else:
            wanted = [(-before.time(one), one, None)] if hot[0] else []
            wanted += [(after.time(other), None, other)] if hot[1] else []
        assert len(row.changes) == len(wanted), row
        for (shown, look), (true, one, other) in zip(row.changes, wanted, strict=True):
            assert shown == pytest.approx(true, rel=0.06), row
            deviation = math.hypot(before.deviation(one), after.deviation(other))
            word = "good" if true < 0 else "bad"
            assert look == (word if abs(true) > 2 * deviation else "muted"), row
            words_seen.add(look)
    assert "good" in words_seen
    assert len(words_seen) > 1
