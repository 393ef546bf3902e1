"""The listing of a launch's code on a page: every line, its costs, and links that lead somewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.source_lines import source_lines
from keet.catalog import stalls
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.listing import Listing, source_listing
from keet.formats.html.markup import STEPS, heat_class
from keet.formats.html.source_rows import COLUMNS, LABELS, group_of, parts, stall_bar
from keet.ingest import read_profile
from keet.pages.blocks import Anchors, plain
from keet.pages.listings import listing_block
from tests.page_blocks import ROOM, first_launch, hotspots_of, listing_of
from tests.page_parts import links_in, page_tree, with_id, words
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
NO_LINES = REPORTS / "tour_nolines.ncu-repz"
SHOWN = [PHYSICS, FLIP, REPORTS / "triton.ncu-repz"]


@cache
def listed(path: Path, room: int = ROOM) -> tuple[Listing, ET.Element]:
    return drawn(first_launch(path), room)


def drawn(each: LaunchExplanation, room: int = ROOM) -> tuple[Listing, ET.Element]:
    listing = listing_of(each, room)
    return listing, page_tree(listing.html)


def having(root: ET.Element, name: str, class_: str = "") -> list[ET.Element]:
    return [
        node for node in root.iter(name) if not class_ or class_ in node.get("class", "").split()
    ]


def ids_of(root: ET.Element) -> set[str]:
    ids = [node.get("id", "") for node in root.iter() if node.get("id")]
    assert len({*ids}) == len(ids), "an id is given once"
    return {*ids}


def line_id(path: Path, file: str, line: int) -> str:
    """Files are numbered in the order of the listing."""
    return Anchors().launch(0, f"file-{_file_numbers(path)[file]}-L{line}")


@cache
def _file_numbers(path: Path) -> dict[str, int]:
    anchors = Anchors()
    source_listing(listing_block(first_launch(path), anchors, ROOM))
    return dict(anchors._files)


@pytest.mark.slow
@each_row("path", SHOWN)
def test_every_executed_line_has_a_row_with_its_own_numbers(path: Path) -> None:
    found, (listing, root) = hotspots_of(path), listed(path)
    for spot in found.rows:
        if spot.location is None:
            continue
        row = with_id(root, line_id(path, *spot.location))
        assert (spot.location.file, spot.location.line) in listing.lines
        assert f"{spot.samples:,} of the {found.total:,} samples" in words(row)
        (share,) = having(row, "span", "share")
        assert words(share) == (f"{spot.share:.1%}" if spot.share else "")


@each_row("path", SHOWN)
def test_rows_have_the_value_of_every_column_for_the_script(path: Path) -> None:
    """Sums over the rows, with those that have no line, are the totals that the script divides by."""
    found, (_, root) = hotspots_of(path), listed(path)
    (listing,) = having(root, "div", "listing")
    columns = dict(each.split(":") for each in listing.get("data-columns", "").split("|"))
    assert {*columns} <= {*COLUMNS}
    assert columns["samples"] == str(found.total)
    values = [v.split(",") for node in root.iter() if (v := node.get("data-v"))]
    sums = [sum(int(own[n] or 0) for own in values) for n, _ in enumerate(columns)]
    assert dict(zip(columns, map(str, sums), strict=True)) == columns


@each_row("path", SHOWN)
def test_the_whole_text_is_there(path: Path) -> None:
    """Every line is there, folded or not."""
    (_, root), launch = listed(path), first_launch(path).launch
    texts = [[line.expandtabs(4).strip() for line in own] for own in source_lines(launch).values()]
    sections = having(root, "section", "file")
    assert sections
    for section in sections:
        assert [(cell.text or "").strip() for cell in _code_in(section)] in texts


def _code_in(root: ET.Element) -> list[ET.Element]:
    """Lines with a row of their own, and those without."""
    inside = {"code": "row", "li": "text"}
    return [
        node
        for parent in root.iter()
        for node in parent
        if inside.get(node.tag, "-") in parent.get("class", "").split()
    ]


@each_row("path", SHOWN)
def test_links_lead_to_rows_and_findings(path: Path) -> None:
    """Each place of a finding links back to it and is not folded."""
    each, (listing, root) = first_launch(path), listed(path)
    findings = {Anchors().finding(0, n) for n, _ in enumerate(each.findings, 1)}
    assert {*links_in(root)} <= ids_of(root) | findings
    named = {line_id(path, *line) for line in listing.lines}
    assert named == {key for key in ids_of(root) if "-L" in key}
    folded = {key for cold in having(root, "details", "cold") for key in ids_of(cold)}
    for number, finding in enumerate(each.findings, 1):
        for place in finding.locations:
            if (place.file, place.line) in listing.lines:
                key = line_id(path, place.file, place.line)
                assert key not in folded
                badges = having(with_id(root, key), "a", "badge")
                assert f"#{Anchors().finding(0, number)}" in [b.get("href") for b in badges]


def test_waits_and_sass_of_a_line() -> None:
    """The waiting line links to the loading line, and vice versa; SASS follows its line."""
    # The waiting line links to the loading line, and vice versa.
    (_, root), file = listed(PHYSICS), next(iter(_file_numbers(PHYSICS)))
    waiting, loading = (line_id(PHYSICS, file, number) for number in (109, 108))
    assert loading in links_in(with_id(root, waiting))
    assert waiting in links_in(with_id(root, loading))
    code = first_launch(FLIP).view.code
    shown = ["".join(node.itertext()) for node in having(listed(FLIP)[1], "pre", "sass")]
    executed = [code.program.code[position] for position in code.program.ran]
    texts = [" ".join(each.text.split()) for each in executed if each.target is None]
    assert [text for text in texts if text not in "\n".join(shown)] == []
    assert all("\n> " in text for text in shown)  # the hottest instruction of each line is marked


class TestRoom:
    @pytest.mark.slow
    def test_panels_stay_within_the_limit_hottest_first(self) -> None:
        hottest = hotspots_of(PHYSICS).rows[0].location
        assert hottest is not None
        for room in (50_000, 70_000):  # rows and ids take 15,000
            listing, root = listed(PHYSICS, room)
            panels = re.findall(r'<div class="inside">.*?</div>', listing.html, re.DOTALL)
            assert len(panels) == len(having(root, "details", "line"))
            assert room / 2 < sum(len(panel.encode()) for panel in panels) <= room
            assert with_id(root, line_id(PHYSICS, *hottest)).tag == "details"

    def test_little_room(self) -> None:
        """Omissions are stated, and lines keep their anchors."""
        listing, root = listed(PHYSICS, 20_000)
        assert "keet hotspots REPORT --launch 0 --line FILE:LINE" in listing.note
        assert any(listing.note in words(node) for node in root.iter("p"))
        left = len(hotspots_of(PHYSICS).rows) - len(having(root, "details", "line"))
        assert f"all details of {left} lines" in listing.note
        assert listed(PHYSICS)[0].note == ""
        listing, root = listed(PHYSICS, 0)
        assert listing.lines == listed(PHYSICS)[0].lines
        assert len([key for key in ids_of(root) if "-L" in key]) == len(listing.lines)


def test_without_lines_instructions_are_listed_in_the_order_of_the_code() -> None:
    listing, root = listed(NO_LINES)
    rows = [key for node in root.iter() if "-at-" in (key := node.get("id", ""))]
    addresses = sorted(spot.address or 0 for spot in hotspots_of(NO_LINES).rows)
    assert rows == [Anchors().launch(0, f"at-{address:x}") for address in addresses]
    assert links_in(root)
    assert {*links_in(root)} <= {*rows}
    assert listing.lines == frozenset()
    assert any("nvcc -lineinfo" in words(node) for node in having(root, "p", "note"))
    short, root = listed(NO_LINES, 16_000)
    assert 0 < len(having(root, "details", "line")) < len(rows)
    assert "--by instruction" in short.note


def test_reports_without_numbers_and_code() -> None:
    why = listing_block(first_launch(REPORTS / "tour_basic.ncu-repz"), Anchors(), ROOM)
    assert "SourceCounters" in plain(why.words)
    each = first_launch(FLIP, sass=False)
    listing, _ = drawn(each)
    assert "disassembly" not in vars(each.launch)
    assert "No SASS: " in listing.html


class TestOtherText:
    """Source texts that no sample has."""

    @staticmethod
    def _with_text(text: str) -> tuple[Listing, ET.Element]:
        profile = read_profile(FLIP)
        (launch,) = profile.launches
        each = explain(profile, [launch], 5).launches[0]
        launch.__dict__["source_files"] = {next(iter(launch.source_files)): text}
        return drawn(each)

    def test_texts_that_no_sample_has(self) -> None:
        hostile = '</code></li><script>alert(1)</script><img src=x onerror="alert(1)"> // </i>'
        _, root = self._with_text("\n".join([hostile] * 12))
        assert not {"script", "img"} & {node.tag for node in root.iter()}
        assert hostile in words(root)
        _, root = self._with_text("\n".join(f"int line_{n};" for n in range(1, 6001)))
        assert "6,000 lines" in words(having(root, "h4")[0])
        shown = [words(node) for node in _code_in(root)]
        assert "int line_30;" in shown
        assert "int line_1000;" not in shown
        _, root = self._with_text("\n".join(f"int line_{n};" for n in range(1, 101)))
        (fold,) = having(root, "details", "cold")
        assert words(fold).startswith("lines 13 to 100 (not executed ")
        assert "open" not in fold.attrib

    def test_lines_are_listed_without_their_text(self) -> None:
        """Also those beyond the end of the file."""
        for text in ("", "int a;\nint b;\n"):
            listing, root = self._with_text(text)
            assert len(listing.lines) == len(having(root, "details", "line")) == 6
            assert ("not in the report" in words(having(root, "h4")[0])) == (not text)


def test_groups_and_colours() -> None:
    sampled = [name for name, each in stalls().items() if any("pcsamp" in m for m in each.metrics)]
    unnamed = [reason for reason in sampled if group_of(reason) == "other"]
    assert sorted(unnamed) == ["dispatch_stall", "misc", "sleeping"]
    assert {group_of(reason) for reason in stalls()} == {*LABELS}
    for reason, stall in stalls().items():
        assert (group_of(reason) == "issue") == (not stall.counts_as_stall)
    assert [heat_class(share) for share in STEPS] == [f"heat-{step}" for step in range(1, 9)]
    assert [heat_class(share) for share in (None, 0.0, 0.001)] == [None] * 3
    assert heat_class(1.0) == "heat-8"


def test_a_bar_is_as_long_as_its_samples() -> None:
    """It consists of one piece per stall group."""
    found = hotspots_of(FLIP)
    most = max(spot.samples or 0 for spot in found.rows)
    for spot in found.rows:
        assert sum(parts(spot.samples_by_reason).values()) == spot.samples
        rects = [*page_tree(stall_bar(spot, most) or "").iter("rect")]
        ends = [_percent(r, "x") + _percent(r, "width") for r in rects]
        assert ends[-1] <= 100 * (spot.samples or 0) / most + 1
        assert all(_percent(b, "x") >= a - 0.1 for a, b in zip(ends, rects[1:]))


def _percent(rect: ET.Element, name: str) -> float:
    return float(rect.get(name, "0%").rstrip("%"))
