"""Pages of large reports: limits on their size, and on the work to make them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from keet import safe_text
from keet.analysis.code_names import function_start
from keet.analysis.hotspots.source_lines import find_hotspots
from keet.comparison import same_kernel
from keet.comparison.causes import line_changes
from keet.comparison.causes.line_changes import LineCost, SideLines, match_lines, paired_files
from keet.explanation import finding_notes
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html import listing as listings
from keet.formats.html import roofline
from keet.formats.html.blocks import reader
from keet.formats.html.listing import source_listing
from keet.formats.html.source_rows import FileLines, extents_within
from keet.pages import explain as explain_module
from keet.pages.blocks import Anchors
from keet.pages.launch import Shown, launch_blocks
from keet.pages.listings import listing_block
from keet.profile import Location
from keet.report import read_profile
from keet.safe_text import bounded_lines, line_at
from tests.explain_pages import explain_html
from tests.many_launches import different
from tests.page_blocks import listing_of
from tests.page_parts import PageParts, broken_links, html_blocks

SAMPLES = Path("kernels_samples")
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
TEMPLATES = "k{}<" + "Arguments<int, 3>, " * 1_600 + "int>(float *)"
COLD = "    value = value * 2.0f + other[index]; // nothing runs this\n"


@cache
def explained(
    path: Path, count: int, lines_added: int = 0, template: str = "kernel_{}", *, sass: bool = False
) -> Explanation:
    profile = different(read_profile(path), count, added=COLD * lines_added, template=template)
    return explain(profile, profile.launches, 5, sass=sass)


def one(path: Path, lines_added: int) -> LaunchExplanation:
    return explained(path, 1, lines_added).launches[0]


class TestSourceText:
    @pytest.mark.slow
    def test_many_kernels_of_one_long_file_stay_below_the_page_size(self) -> None:
        """Listing the file once per kernel would take 13 MB."""
        assert 20 * 11_000 * len(COLD) > 13_000_000
        page = explain_html(explained(PHYSICS, 20, 11_000, sass=True), everything=True)
        assert len(page.encode()) < 6_000_000
        parts = PageParts(page)
        assert broken_links(parts) == []
        assert parts.text.count("lines, of which the text near") == 20

    def test_page_of_few_launches_lists_the_whole_file(self) -> None:
        page = explain_html(explained(FLIP, 2, 1_000), everything=True)
        assert len(re.findall("<li>[^<]*// nothing runs this", page)) == 2_000

    def test_listings_stay_within_their_limit(self) -> None:
        """Except for what every listing has: legend, headings, the rows of some lines."""
        each, least = one(PHYSICS, 4_800), 30_000
        sizes = []
        for room in (40_000, 100_000, 400_000, 1_500_000):
            listing = source_listing(listing_block(each, Anchors(), room, counts_text=True))
            assert len(listing.html.encode()) < room + least
            sizes.append(len(listing.html))
        assert sizes == sorted(sizes)

    def test_without_room_only_the_hottest_lines_have_a_row(self, monkeypatch) -> None:
        monkeypatch.setattr(listings, "_FEWEST", 5)
        each = one(PHYSICS, 0)
        found = find_hotspots(each.launch)
        hot = [spot.location for spot in found.rows if spot.location and spot.share]
        assert len(hot) > 5
        listing = listing_of(each, 0)
        rows = re.findall(r'class="line row" id="[^"]*-L(\d+)"', listing.html)
        assert sorted(map(int, rows)) == sorted(line.line for line in hot[:5])
        assert f"the samples of {len(hot) - 5} lines" in listing.note

    def test_listing_shrinks_to_the_hottest_lines(self) -> None:
        text = [f"float value_{n} = table[{n}];" for n in range(1, 2_001)]
        file = FileLines(text, [1_000, 1_500, *range(1, 400, 7)], [1_700])
        must = {1_000, 1_500, 1_700, *range(1, 400, 7)}
        found = [extents_within({"k.cu": file}, room)[0].get("k.cu") for room in
                 (100_000, 50_000, 35_000, 15_000, 2_000, 100)]  # fmt: skip
        counts = [len(each.numbers) if each else 0 for each in found]
        assert counts[0] == 2_000
        assert counts == sorted(counts, reverse=True)
        assert must == {*found[3].numbers}
        assert {1_000, 1_700} <= {*found[4].numbers} < must
        assert found[5] is None
        for extent, room in zip(found, (100_000, 50_000, 35_000, 15_000, 2_000), strict=False):
            assert extent is None or file.size(extent.numbers) <= room


class TestWork:
    """Counts calls instead of measuring time."""

    @pytest.mark.slow
    def test_a_file_is_split_once_and_only_if_it_is_shown(self, monkeypatch) -> None:
        explanation = explained(FLIP, 6, 2_001)
        bounded_lines.cache_clear()
        split = _counted(monkeypatch, safe_text, "code_lines")
        explain_html(explanation, everything=True)
        assert len(split) == 1
        bounded_lines.cache_clear()
        brief = [Shown(each, None, reader(), "brief") for each in explanation.launches]
        in_entries = [html_blocks(launch_blocks(each)) for each in brief]
        assert "out[x * n + y] = in[y * n + x];" in in_entries[-1]
        assert len(split) == 1

    def test_lines_and_functions(self) -> None:
        """Without splitting all of a file, or searching all functions."""
        text = "one\r\ntwo\n\n" + "x" * 3_000 + "\nlast"
        for number, line in enumerate(bounded_lines(text), 1):
            assert line_at(text, number) == line
        assert [line_at(text, number) for number in (-1, 0, 6, 99)] == [""] * 4
        assert line_at("", 1) == ""
        starts = [0x100, 0x200, 0x300]
        found = [function_start(starts, each) for each in (0x50, 0x100, 0x1F0, 0x200, 0x999)]
        assert found == [0, 0x100, 0x100, 0x200, 0x300]
        assert function_start([], 5) == 0


class TestMany:
    @pytest.mark.slow
    def test_counts_cover_all_launches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only drawn ones compute a roofline."""
        monkeypatch.setattr(explain_module, "_OTHERS", 10)
        found = _counted(monkeypatch, roofline, "find_roofline")
        page = PageParts(explain_html(explained(FLIP, 40)))
        left = 40 - sum(key.endswith("-source") for key in page.ids)
        assert left > 10
        assert f"{left} more launches of {left} kernels" in page.text_of("others")
        entries = [each for each in page.attributes("article") if each.get("class") == "brief"]
        assert len(entries) == 10
        assert broken_links(page) == []
        assert len(found) == 30
        assert "30 longest" in page.text_of("roofline")

    @pytest.mark.slow
    def test_long_names_are_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And not searched for each case of the casebook."""
        searched = _counted(monkeypatch, finding_notes, "language_of")
        templated, plain = explained(FLIP, 6, template=TEMPLATES), explained(FLIP, 6)
        assert len(templated.launches[0].launch.name.full) > 30_000
        page, short = (explain_html(each, everything=True) for each in (templated, plain))
        assert len(page) < len(short) + 6 * 4_000
        titles = [found.get("title") or "" for _, found in PageParts(page).elements]
        assert max(map(len, titles)) == 500
        assert 0 < len(searched) < 100


class TestDifference:
    def test_files_are_compared_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files with the same path are not compared with others, and a matched file is not matched
        again."""
        telling = _counted(monkeypatch, line_changes, "distinctive_lines")
        aligned = _counted(monkeypatch, line_changes, "align")
        before, after = _side(40, "a", ""), _side(40, "b", "")
        line_changes._aligned.cache_clear()
        matched = match_lines(before, after)
        assert (len(telling), len(aligned)) == (0, 40)
        assert len(paired_files(before, after)) == 40
        assert (len(telling), len(aligned)) == (0, 40)
        assert all(b.file == a.file for b, a in matched.items())
        renamed = match_lines(_side(40, "a", "old_"), _side(40, "a", "new_"))
        assert len(telling) == 80
        assert all(b.file[4:] == a.file[4:] and b.line == a.line for b, a in renamed.items())
        assert len(renamed) == 40 * 30

    def test_each_file_is_read_once_for_many_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        launch = one(FLIP, 0).launch
        read = _counted(monkeypatch, same_kernel, "distinctive_lines")
        files = {f"f{n}.cu": f"other_{n}(first);\n" * 3 for n in range(30)}
        used = {n: Location(f"f{n}.cu", 1) for n in range(30)}
        monkeypatch.setitem(launch.__dict__, "source_files", files)
        monkeypatch.setitem(launch.__dict__, "locations", used)
        assert same_kernel.alike_sources(launch, launch) is False
        assert len(read) == 60


def _side(count: int, word: str, prefix: str) -> SideLines:
    files, costs = {}, {}
    for file in range(count):
        path, last = f"{prefix}file_{file}.cu", f"last_one({word}, {file});"
        files[path] = (*(f"value_{file}_{n} = other_{file}_{n};" for n in range(29)), last)
        costs[Location(path, 1)] = LineCost(1.0, 0.1, 3)
    return SideLines(files, costs, float(count))


def _counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[object]:
    """The first argument of each call of a function."""
    calls: list[object] = []
    function = getattr(module, name)

    def counting(first: object, *others: object) -> object:
        calls.append(first)
        return function(first, *others)

    monkeypatch.setattr(module, name, counting)
    return calls
