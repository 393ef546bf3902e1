"""The listing of a launch's code on a page: every line, its costs, and links that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

from keet.analysis.source_lines import Hotspots, find_hotspots, source_lines
from keet.catalog import stalls
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.listing import Listing, marked, source_listing
from keet.formats.html.markup import STEPS, Content, fragment, heat_step
from keet.formats.html.source_rows import LABELS, compact, group_of, parts, stall_bar
from keet.ingest import read_profile
from keet.pages.anchors import Anchors
from keet.profile import Absent
from keet.safe_text import code_lines

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
ROOM = 1_000_000
SHOWN = [
    SAMPLES / "column_physics/slow.ncu-rep",
    SAMPLES / "matrix_flip/slow.ncu-rep",
    REPORTS / "triton.ncu-repz",
]


class Node(NamedTuple):
    """An element, with the elements around it and the text inside it."""

    name: str
    attributes: dict[str, str | None]
    around: tuple[Node, ...]
    texts: list[str]

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Tree(HTMLParser):
    """All elements of a parsed text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self._open: list[Node] = []
        self.feed(markup)
        assert not self._open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs), tuple(self._open), [])
        self.nodes.append(node)
        if tag != "br":
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for node in self._open:
            node.texts.append(data)

    def having(self, name: str, class_: str = "") -> list[Node]:
        return [n for n in self.nodes if n.name == name and (not class_ or class_ in n.classes)]

    @property
    def ids(self) -> dict[str, Node]:
        found = [node for node in self.nodes if node.attributes.get("id")]
        ids = {node.attributes["id"] or "": node for node in found}
        assert len(ids) == len(found), "an id is given once"
        return ids

    @property
    def links(self) -> set[str]:
        return {(n.attributes["href"] or "").removeprefix("#") for n in self.having("a")}


@cache
def explained(path: Path, *, sass: bool = True) -> LaunchExplanation:
    """The first launch of a report."""
    profile = read_profile(path)
    return explain(profile, profile.launches[:1], 5, sass=sass).launches[0]


@cache
def listed(path: Path, room: int = ROOM) -> tuple[Listing, Tree]:
    listing = source_listing(explained(path), Anchors(), room)
    assert isinstance(listing, Listing)
    return listing, Tree(listing.html)


def hotspots_of(path: Path) -> Hotspots:
    found = find_hotspots(explained(path).launch)
    assert isinstance(found, Hotspots)
    return found


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.parent.name + path.stem)
class TestLines:
    def test_every_executed_line_has_a_row_with_its_own_numbers(self, path: Path) -> None:
        found, (listing, tree) = hotspots_of(path), listed(path)
        for spot in found.rows:
            if spot.location is None:
                continue
            row = tree.ids[Anchors().launch(0, _row_id(path, *spot.location))]
            assert (spot.location.file, spot.location.line) in listing.lines
            expected = f"{spot.samples:,} of the {found.total:,} samples of this launch"
            assert expected in row.text
            (share,) = [n.text for n in tree.having("span", "share") if row in n.around]
            assert share == (f"{spot.share:.1%}" if spot.share else "")

    def test_the_whole_text_is_there(self, path: Path) -> None:
        """Every line is there, folded or not."""
        (_, tree), launch = listed(path), explained(path).launch
        texts = [
            [line.expandtabs(4).strip() for line in own] for own in source_lines(launch).values()
        ]
        sections = tree.having("section", "file")
        assert sections
        for section in sections:
            assert _code_in(tree, section) in texts

    def test_links_lead_to_rows_and_findings(self, path: Path) -> None:
        each, (listing, tree) = explained(path), listed(path)
        findings = {Anchors().finding(0, n) for n, _ in enumerate(each.findings, 1)}
        assert tree.links <= {*tree.ids, *findings}
        anchors = Anchors()
        named = {anchors.launch(0, _row_id(path, *line)) for line in listing.lines}
        assert named == {key for key in tree.ids if "-line-" in key}

    def test_findings_are_marked_where_they_are_seen(self, path: Path) -> None:
        """Each place of a finding links back to it and is not folded."""
        each, (listing, tree) = explained(path), listed(path)
        for number, finding in enumerate(each.findings, 1):
            for place in finding.places:
                if (place.file, place.line) not in listing.lines:
                    continue
                row = tree.ids[Anchors().launch(0, _row_id(path, place.file, place.line))]
                assert not any("cold" in node.classes for node in row.around)
                badges = [node for node in tree.having("a", "badge") if row in node.around]
                wanted = f"#{Anchors().finding(0, number)}"
                assert wanted in [badge.attributes["href"] for badge in badges]


def _row_id(path: Path, file: str, line: int) -> str:
    """The part of a row's id for its line; files are numbered in the order of the listing."""
    numbers = _file_numbers(path)
    return f"file-{numbers[file]}-line-{line}"


@cache
def _file_numbers(path: Path) -> dict[str, int]:
    anchors = Anchors()
    source_listing(explained(path), anchors, ROOM)
    return dict(anchors._files)


def _code_in(tree: Tree, section: Node) -> list[str]:
    """The lines of one file, without the links to findings after them."""
    cells = [n for n in tree.nodes if section in n.around and _is_code(n)]
    return [re.sub(r"( finding \d+)+$", "", cell.text).strip() for cell in cells]


def _is_code(node: Node) -> bool:
    parent = node.around[-1]
    return (node.name == "li" and "text" in parent.classes) or (
        node.name == "code" and "row" in parent.classes
    )


def _all_code(tree: Tree) -> str:
    return "\n".join(node.text for node in [*tree.having("code"), *tree.having("li")])


def test_parts_of_the_files_add_up() -> None:
    """The samples of all rows add up to those of the launch."""
    path = SAMPLES / "column_physics/slow.ncu-rep"
    (_, tree), total = listed(path), hotspots_of(path).total
    totals = [dd.text for dd in tree.having("dd") if "samples of this launch" in dd.text]
    assert sum(int(text.split(" ")[0].replace(",", "")) for text in totals) == total


def test_both_ends_of_a_wait_are_linked() -> None:
    """The waiting line links to the loading line, and vice versa."""
    path = SAMPLES / "column_physics/slow.ncu-rep"
    _, tree = listed(path)
    anchors, file = Anchors(), next(iter(_file_numbers(path)))
    waiting, loading = (anchors.line(0, file, number) for number in (109, 108))
    links = {
        (key, node.attributes["href"])
        for node in tree.having("a")
        for key in (waiting, loading)
        if tree.ids[key] in node.around
    }
    assert {(waiting, f"#{loading}"), (loading, f"#{waiting}")} <= links
    assert "Waited for by" in tree.ids[loading].text


def test_sass_follows_its_line() -> None:
    path = SAMPLES / "matrix_flip/slow.ncu-rep"
    _, tree = listed(path)
    code = explained(path).view.code
    assert code is not None
    shown = "\n".join(node.text for node in tree.having("pre", "sass"))
    executed = [code.program.code[position] for position in code.program.ran]
    texts = [" ".join(each.text.split()) for each in executed if each.target is None]
    assert [text for text in texts if text not in shown] == []
    unmarked = [node.text for node in tree.having("pre", "sass") if "\n> " not in node.text]
    assert unmarked == []  # the hottest instruction of each line is marked


class TestRoom:
    PATH = SAMPLES / "column_physics/slow.ncu-rep"

    def test_panels_stay_within_the_limit_hottest_first(self) -> None:
        hottest = hotspots_of(self.PATH).rows[0].location
        assert hottest is not None
        for room in (50_000, 70_000):  # rows and ids take 15,000
            listing, tree = listed(self.PATH, room)
            panels = re.findall(r'<div class="inside">.*?</div>', listing.html, re.DOTALL)
            assert len(panels) == len(tree.having("details", "line"))
            assert room / 2 < sum(len(panel.encode()) for panel in panels) <= room
            row = tree.ids[Anchors().launch(0, _row_id(self.PATH, *hottest))]
            assert row.name == "details"

    def test_omissions_are_stated(self) -> None:
        listing, tree = listed(self.PATH, 20_000)
        command = "keet hotspots REPORT --launch 0 --line FILE:LINE"
        assert command in listing.note
        assert listing.note in "".join(node.text for node in tree.having("p"))
        opened = len(tree.having("details", "line"))
        assert f"all details of {len(hotspots_of(self.PATH).rows) - opened} lines" in listing.note
        assert listed(self.PATH)[0].note == ""

    def test_lines_keep_their_anchors_without_room(self) -> None:
        listing, tree = listed(self.PATH, 0)
        assert listing.lines == listed(self.PATH)[0].lines
        assert len([key for key in tree.ids if "-line-" in key]) == len(listing.lines)


class TestWithoutLines:
    PATH = REPORTS / "tour_nolines.ncu-repz"

    def test_instructions_are_listed_in_the_order_of_the_code(self) -> None:
        listing, tree = listed(self.PATH)
        spots = hotspots_of(self.PATH).rows
        rows = [key for key in tree.ids if "-at-" in key]
        assert rows == [
            Anchors().launch(0, f"at-{a:x}") for a in sorted(s.address or 0 for s in spots)
        ]
        assert tree.links <= {*tree.ids}
        assert tree.links
        assert listing.lines == frozenset()

    def test_listing_says_how_to_get_source_lines(self) -> None:
        _, tree = listed(self.PATH)
        assert any("nvcc -lineinfo" in node.text for node in tree.having("p", "note"))

    def test_details_stay_within_the_limit(self) -> None:
        listing, tree = listed(self.PATH, 16_000)
        assert 0 < len(tree.having("details", "line")) < len(hotspots_of(self.PATH).rows)
        assert "--by instruction" in listing.note


def test_a_report_without_numbers_says_what_to_do() -> None:
    listing = source_listing(explained(REPORTS / "tour_basic.ncu-rep"), Anchors(), ROOM)
    assert isinstance(listing, Absent)
    assert "SourceCounters" in listing.remedy


def test_code_is_not_read_if_switched_off() -> None:
    each = explained(SAMPLES / "matrix_flip/slow.ncu-rep", sass=False)
    listing = source_listing(each, Anchors(), ROOM)
    assert isinstance(listing, Listing)
    assert "disassembly" not in vars(each.launch)
    assert "No SASS: the machine code of this launch was not read" in listing.html


class TestOtherText:
    """Source texts that no sample has."""

    @staticmethod
    def _with_text(text: str) -> tuple[Listing, Tree]:
        profile = read_profile(SAMPLES / "matrix_flip/slow.ncu-rep")
        (launch,) = profile.launches
        each = explain(profile, [launch], 5).launches[0]
        path = next(iter(launch.source_files))
        launch.__dict__["source_files"] = {path: text}
        listing = source_listing(each, Anchors(), ROOM)
        assert isinstance(listing, Listing)
        return listing, Tree(listing.html)

    def test_markup_in_source_stays_text(self) -> None:
        hostile = '</code></li><script>alert(1)</script><img src=x onerror="alert(1)"> // </i>'
        _, tree = self._with_text("\n".join([hostile] * 12))
        assert not tree.having("script")
        assert not tree.having("img")
        assert hostile in _all_code(tree)

    def test_lines_are_listed_without_source_text(self) -> None:
        listing, tree = self._with_text("")
        assert len(listing.lines) == len(tree.having("details", "line")) == 6
        assert "the text is not in the report" in tree.having("h4")[0].text

    def test_lines_beyond_the_end_of_the_file_are_listed(self) -> None:
        listing, tree = self._with_text("int a;\nint b;\n")
        assert len(listing.lines) == len(tree.having("details", "line")) == 6

    def test_a_long_file_is_cut_around_what_ran(self) -> None:
        lines = [f"int line_{number};" for number in range(1, 6001)]
        _, tree = self._with_text("\n".join(lines))
        assert "6,000 lines" in tree.having("h4")[0].text
        shown = _all_code(tree)
        assert "int line_30;" in shown
        assert "int line_1000;" not in shown

    def test_cold_stretches_are_folded(self) -> None:
        lines = [f"int line_{number};" for number in range(1, 101)]
        _, tree = self._with_text("\n".join(lines))
        folds = tree.having("details", "cold")
        assert [
            fold.text.startswith("lines 13 to 100 (not executed by this k") for fold in folds
        ] == [True]
        assert all(node.attributes.get("open") is None for node in folds)


def test_every_stall_reason_has_a_group() -> None:
    sampled = [name for name, each in stalls().items() if any("pcsamp" in m for m in each.metrics)]
    unnamed = [reason for reason in sampled if group_of(reason) == "other"]
    assert sorted(unnamed) == ["dispatch_stall", "misc", "sleeping"]
    assert {group_of(reason) for reason in stalls()} == {*LABELS}
    for reason, stall in stalls().items():
        assert (group_of(reason) == "issue") == (not stall.counts_as_stall)


def test_a_bar_is_as_long_as_its_samples() -> None:
    """It consists of one piece per stall group."""
    found = hotspots_of(SAMPLES / "matrix_flip/slow.ncu-rep")
    most = max(spot.samples or 0 for spot in found.rows)
    for spot in found.rows:
        assert sum(part.samples for part in parts(spot.samples_by_reason.items())) == spot.samples
        rects = Tree(stall_bar(spot, most) or "").having("rect")
        ends = [_percent(r, "x") + _percent(r, "width") for r in rects]
        assert ends[-1] <= 100 * (spot.samples or 0) / most + 1
        assert all(_percent(b, "x") >= a - 0.1 for a, b in zip(ends, rects[1:]))


def _percent(rect: Node, name: str) -> float:
    return float((rect.attributes.get(name) or "0%").rstrip("%"))


def test_heat_grows_with_the_share() -> None:
    assert [heat_step(share) for share in STEPS] == list(range(1, 9))
    assert [heat_step(share) for share in (None, 0.0, 0.001, 1.0)] == [0, 0, 0, 8]


def test_counts_are_short() -> None:
    counts = {0: "0", 999: "999", 1000: "1.00k", 8_388_608: "8.39M", 12_345_678: "12.3M"}
    assert {count: compact(count) for count in counts} == counts


COMMENTS = [
    ("a.cu", ["x = 1; // why"], ["x = 1; <i>// why</i>"]),
    ("a.cu", ['s = "// no";'], ["s = &quot;// no&quot;;"]),
    ("a.cu", ["a /* b", "c */ d"], ["a <i>/* b</i>", "<i>c */</i> d"]),
    ("a.cu", ["a /* b */ c // d"], ["a <i>/* b */</i> c <i>// d</i>"]),
    ("a.py", ["x = 1  # why"], ["x = 1  <i># why</i>"]),
    ("a.py", ['"""One', 'two"""', "x"], ["<i>&quot;&quot;&quot;One</i>", "<i>two&quot;&quot;&quot;</i>", "x"]),
    ("a.F90", ["!$acc loop", "x = 1 ! why"], ["!$acc loop", "x = 1 <i>! why</i>"]),
    ("a.cu", ['"open', "// next"], ["&quot;open", "<i>// next</i>"]),
]  # fmt: skip


def _all_marked(lines: Sequence[str], path: str) -> list[Content]:
    return [*marked(lines, path, range(1, len(lines) + 1)).values()]


def test_comments_are_marked() -> None:
    wrong = [
        (path, lines, found)
        for path, lines, wanted in COMMENTS
        if (found := [str(fragment(line)) for line in _all_marked(lines, path)]) != wanted
    ]
    assert not wrong


def test_marking_keeps_the_text() -> None:
    text = (SAMPLES / "column_physics/slow.cu").read_text(encoding="utf-8")
    lines = code_lines(text)
    pieces = Tree("".join(str(fragment(line, "\n")) for line in _all_marked(lines, "slow.cu")))
    assert pieces.having("i")
    assert all(node.text in text for node in pieces.having("i"))
