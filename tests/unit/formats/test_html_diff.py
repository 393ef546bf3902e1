"""The page of `keet diff`: rows that add up, aligned lines, links that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from keet.analysis.hotspots.source_lines import find_hotspots
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.line_changes import (
    AlignedRow,
    FilePair,
    LineCost,
    SideLines,
    in_order,
    paired_files,
    read_lines,
    stretches,
)
from keet.comparison.comparability import Caveat, forbids, no_verdict, note, weakens
from keet.comparison.compare import Difference
from keet.comparison.result import PairDifference
from keet.comparison.sentences import headline_parts
from keet.documents.diff import PairDocument
from keet.formats import page_text
from keet.formats.html.blocks import reader
from keet.formats.html.diff import draw_accounts
from keet.pages.blocks import (
    AccountsFigure,
    Anchors,
    Block,
    Cell,
    Items,
    Notice,
    Table,
    plain,
    spans,
)
from keet.pages.diff import diff_page, diff_part, finding_words, main_reasons
from keet.pages.diff_source import few_samples, source_blocks
from keet.profile import Launch, Location, Profile
from keet.profile.launch import KernelName
from tests.conftest import REPORTS
from tests.diff_pages import (
    BEFORE,
    cells,
    compared,
    difference,
    html_blocks_of,
    items,
    labelled,
    pair,
    profile,
    tables,
    text,
)
from tests.many_launches import DURATION, copied
from tests.page_blocks import every_block, texts_of
from tests.page_parts import (
    PageParts,
    broken_links,
    html_blocks,
    page_tree,
    table_rows,
    with_class,
    words,
)
from tests.rows import each_row


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.report.disassembler.find_spec", lambda name: None)


def page_of(found: Difference) -> str:
    return page_text(lambda reader: diff_page(found, reader, 5), "html")


def part_of(found: Difference) -> str:
    return html_blocks([diff_part(found, reader(), 5, Anchors("r1"))])


def source_of(found: PairDifference) -> list[Block]:
    return [*source_blocks(*found.weighted, (Anchors("x-before"), Anchors("x-after")), 3)]


@each_row("name", ["matrix_flip", "pipeline"])
def test_the_page_says_what_the_terminal_says(name: str) -> None:
    found = difference(name)
    said = text(html_blocks_of(found))
    expected: list[str] = [*filter(None, headline_parts(found))]
    for each in found.pairs:
        if each.timing.word == "unchanged":
            continue
        expected += [attribution.what for attribution in each.attribution]
        expected += [label for s in finding_words(each).values() for label in s.split(", ")]
        expected += [each.verdict.headline] if len(found.pairs) > 1 else []
    assert len(expected) > 10
    assert [each for each in expected if each not in said] == []


@each_row("name", ["matrix_flip", "pipeline"], few=1)
def test_links_lead_to_unique_ids(name: str) -> None:
    for markup in (page_of(difference(name)), part_of(difference(name))):
        assert PageParts(markup).targets
        assert broken_links(PageParts(markup)) == []


def test_each_changed_line_is_a_link_to_its_row() -> None:
    found = difference("matrix_flip")
    lines = [each for each in found.pairs[0].attribution if each.kind == "line"]
    blocks, page = html_blocks_of(found), page_of(found)
    (listed,) = [block for block in blocks if isinstance(block, Items) and block.name == "lines"]
    for item, each in zip(listed.items, lines, strict=True):
        where = next(spans(item.words))
        assert where.text == each.where
        # The page's script scrolls elements with this class to the middle of the window.
        row = re.search(rf'class="no (?:before|after) line" id="{where.to}">(\d+)<', page)
        assert row
        assert int(row[1]) in {place.line for place in (each.before, each.after) if place}


def test_embedded_page_prefixes_its_ids() -> None:
    part = part_of(difference("pipeline"))
    assert all(name.startswith("r1-diff") for name in PageParts(part).ids)
    levels = [int(level) for level in re.findall(r"<h(\d)", part)]
    assert (levels[0], min(levels[1:])) == (2, 3)


def test_accounts() -> None:
    """Bars are as long as the times, parts have one colour, and times add up."""
    found = difference("matrix_flip").pairs[0]
    html = draw_accounts(AccountsFigure(found.account))
    rights = []
    for bar in html.split('<svg class="account-bar"')[1:]:
        rects = re.findall(r'<rect class="part[^>]* x="([\d.]+)%" y="0" width="([\d.]+)%"', bar)
        rights.append(max(float(x) + float(width) for x, width in rects))
    assert rights[0] == pytest.approx(100, abs=0.1)
    ratio = (found.timing.after or 0) / (found.timing.before or 1)
    assert rights[1] / rights[0] == pytest.approx(ratio, rel=0.01)
    # Parts of one kind differ in their tint.
    drawn = re.findall(r'<rect class="part ([^"]*)"[^>]*><title>([^\n<]*)\n', html)
    listed = re.findall(r'<span class="swatch ([^"]*)"[^>]*></span>([^<]*)<', html)
    looks = {label: look for look, label in listed}
    assert all(look == looks[label] for look, label in drawn)
    tints = {look for look in looks.values() if "k-latency" in look}
    assert tints == {"k-latency", "k-latency tint-1", "k-latency tint-2"}
    root = page_tree(html)
    columns = ("Before, us", "After, us", "Change, us")
    shown = [words(row[name]) for row in table_rows(root) for name in columns]
    assert len(shown) > 40
    assert [cell for cell in shown if not re.fullmatch(r"[+−]?[\d,]+\.\d|<0\.1|", cell)] == []
    (foot,) = root.iter("tfoot")
    assert "1,020.4 145.3 −875.1" in " ".join(map(words, next(iter(foot))))


def files_of(name: str) -> list[FilePair]:
    before, after = (read_lines(side) for side in difference(name).pairs[0].weighted)
    assert isinstance(before, SideLines)
    assert isinstance(after, SideLines)
    return paired_files(before, after)


@each_row("name", ["matrix_flip", "column_physics", "pipeline"])
def test_every_line_of_both_files_has_one_place_in_order(name: str) -> None:
    """Hot and edited lines are never folded."""
    for files in files_of(name):
        parts = stretches(files)
        rows = [row for part in parts for row in part.rows]
        assert tuple(rows) == files.rows
        for which, side in enumerate((files.before, files.after)):
            numbers = [row[which] for row in rows if row[which] is not None]
            assert numbers == list(range(len(side.lines)))
        folded = [row for part in parts if part.folded for row in part.rows]
        assert not [row for row in folded if files.is_hot(row) or files.is_edited(row)]
    assert name != "column_physics" or any(part.folded for part in stretches(files_of(name)[0]))


def test_moved_lines_and_long_files() -> None:
    assert in_order([(0, 3), (1, 0), (2, 1), (3, 2)]) == [(1, 0), (2, 1), (3, 2)]
    assert in_order([]) == []
    one, two, three = "int first = one(1);", "float second = two(2);", "long third = three(3);"
    sides = [_side(lines) for lines in ((one, two, three), (two, three, one))]
    (files,) = paired_files(*sides)
    assert files.moved == {0: 2}
    assert files.rows == (
        AlignedRow(0, None, matched=False),
        AlignedRow(1, 0, matched=True),
        AlignedRow(2, 1, matched=True),
        AlignedRow(None, 2, matched=False),
    )
    lines = tuple(f"float value_{n} = table[{n}];" for n in range(5_000))
    cost = {Location("k.cu", 2_500): LineCost(100.0, 1.0)}
    side = SideLines({"k.cu": lines}, cost, 100.0)
    (files,) = paired_files(side, side)
    kept = [row for part in stretches(files) if not part.folded for row in part.rows]
    assert [row.before for row in kept] == list(range(2_496, 2_503))


def _side(lines: tuple[str, ...], file: str = "k.cu") -> SideLines:
    costs = {Location(file, n + 1): LineCost(100.0, 1.0) for n in range(len(lines))}
    return SideLines({file: lines}, costs, 100.0 * len(lines))


def test_times_of_the_rows_are_those_of_the_samples() -> None:
    both = difference("matrix_flip").pairs[0]
    html = html_blocks(source_of(both))
    (each,) = both.weighted[0]
    found = find_hotspots(each.explanation.launch, "line")
    for spot in found.rows[:3]:
        assert spot.share
        us = spot.share * (each.time or 0.0) / 1e3
        number = rf'<span class="no before[^>]*>{spot.location.line}</span>'
        shown = re.search(rf'{number}<span [^>]*title="([^"]*)">(.*?)</span>', html)
        assert shown
        assert shown[1] == f"{spot.samples} of {found.total} samples"
        assert shown[2] == f"{spot.share:.0%} <b>{us:.0f} us</b>"


def test_few_or_many_samples(wording) -> None:
    found = difference("hydro_element").pairs[0]
    blocks = source_of(found)
    html = html_blocks(blocks)
    assert 'title="0 of 132 samples">&lt; <b>3.3 us</b>' in html
    assert ">0 ns<" not in html
    wording(text(blocks))
    line = next(each for each in found.attribution if each.where == "slow.cu:94 → fast.cu:97")
    wording(line.what)
    assert line.samples == (48, 0)
    costs = {Location("k.cu", 1): LineCost(100.0, 1.0, 1_000)}
    few, many = (
        SideLines({"k.cu": ("x",)}, costs, 100.0, True, n, 100.0 / n) for n in (999, 1_000)
    )
    assert few_samples(many, many) is None
    assert few_samples(many, few)


def test_lines_of_a_part_of_the_launch_have_shares_and_no_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def partly(launches: Sequence[WeightedLaunch]) -> SideLines | str:
        found = read_lines(launches)
        return found if isinstance(found, str) else found._replace(sampled=False)

    monkeypatch.setattr("keet.pages.diff_source.read_lines", partly)
    blocks = source_of(difference("matrix_flip").pairs[0])
    assert "No times: " in text(blocks)
    html = html_blocks(blocks)
    assert ">41%</span>" in html
    assert not re.search(r"\d (ns|us|ms)<", html)
    assert 'class="change' not in html


def test_without_source_lines_the_hottest_instructions_of_both_sides_are_listed(wording) -> None:
    sides = (profile(REPORTS / x) for x in ("tour_nolines.ncu-repz", "tour_full.ncu-repz"))
    blocks = source_of(compared(*sides).pairs[0])
    (notice,) = [block for block in blocks if isinstance(block, Notice)]
    wording(plain(notice.words))
    *_, last = blocks
    for side, first in zip(last.blocks, ("Instruction", "Line"), strict=True):
        (table,) = [block for block in every_block([side]) if isinstance(block, Table)]
        assert table.columns[0].name == first


def test_why_names_what_explains_most_of_the_change() -> None:
    found = difference("hydro_element").pairs[0]
    causes = [each for each in found.attribution if each.kind == "cause"]
    assert main_reasons(found) == causes[:1]  # 70 % of the change, though a part has 91 %
    small = [replace(each, share=each.share and 0.17) for each in causes]
    work = replace(causes[0], what="fewer instructions", share=None)
    others = [each for each in found.attribution if each.kind != "cause"]
    main = main_reasons(replace(found, attribution=(*small, work, *others)))
    assert [each.kind for each in main] == ["account", "cause"]
    assert main[1].what == "fewer instructions"
    found = difference("pipeline")
    first, second, *_ = found.pairs
    undecided = replace(second, verdict=replace(second.verdict, word="inconclusive"))
    blocks = html_blocks_of(replace(found, pairs=(first, undecided)))
    table = tables(blocks)["Kernels before and after"]
    assert [bool(cells(row)[-1]) for row in table.rows] == [True, False]


def test_what_the_page_says_of_the_reports(wording) -> None:
    flip, pipeline = (html_blocks_of(difference(name)) for name in ("matrix_flip", "pipeline"))
    wording(labelled(flip)["Not compared"])
    assert "Assumed, not measured" in labelled(flip)["Noise"]
    assert "Not compared" not in labelled(pipeline)  # all launches are in the reports
    wording(labelled(pipeline)["Noise"])
    told = tables(flip)
    assert [cells(row) for row in told["Launch of flip"].rows] == [
        ["Grid", "256×1024", "256×256"],
        ["Block", "32×8", "32×8"],
        ["Registers per thread", "16", "26"],
        ["SM clock", "1.98 GHz", "1.94 GHz"],
        ["Warp samples", "264", "312"],
    ]
    reports = {name: rest for name, *rest in map(cells, told["Reports"].rows)}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", x) for x in reports["Captured"])
    told = (spans(each.words) for each in items(pipeline))
    badges = {span.text for each in told for span in each if span.look.startswith("badge")}
    assert badges == {"fixed", "now reported", "remaining"}
    said = texts_of(html_blocks_of(difference("hydro_element")))
    wording([text for text in said if "3.51x" in text or "add up" in text])


@each_row(
    ("caveat", "label", "look"),
    [
        (forbids("x", "other work"), "Not comparable: ", "strong bad"),
        (weakens("x", "other clocks", 0.1), "Less certain: ", "warn"),
        (note("x", "other versions"), "Note: ", "muted"),
        (no_verdict("x", "the total", "kernels may have overlapped"), "", "warn"),
    ],
)
def test_a_caveat_says_how_much_it_weighs(caveat: Caveat, label: str, look: str) -> None:
    """One that gives no verdict says so itself."""
    blocks = html_blocks_of(replace(difference("matrix_flip"), caveats=(caveat,)))
    (notice,) = [
        x for x in blocks if isinstance(x, Notice) and plain(x.words).endswith(caveat.text)
    ]
    assert (plain(notice.words), notice.look) == (f"{label}{caveat.text}", look)


def test_a_report_against_itself() -> None:
    found = compared(*[profile(pair("matrix_flip")[0])] * 2)
    assert [each.id for each in found.all_caveats] == ["same_file"]
    page = page_of(found)
    assert "Share of the change" not in page
    assert 'class="row edited' not in page


def test_hostile_names_and_lines_are_text() -> None:
    nasty = "</code><script>alert(1)</script><img src=x onerror=alert(2)>"
    found = compared(*(_renamed(profile(each), nasty) for each in pair("matrix_flip")))
    (both,) = found.pairs
    attribution = tuple(
        replace(each, what=f"{each.where}{nasty}", code=nasty) for each in both.attribution
    )
    page = page_of(replace(found, pairs=(replace(both, attribution=attribution), both)))
    assert nasty not in page
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page


def _renamed(base: Profile, name: str) -> Profile:
    launches = tuple(_named(launch, launch.id, name) for launch in base.launches)
    return replace(base, launches=launches, code_loader=None)


def _named(launch: Launch, number: int, name: str, factor: float = 1.0) -> Launch:
    changed = copied(launch, number, {DURATION: factor})
    changed.name = KernelName(name, name, name)
    return changed


@pytest.mark.slow
def test_150_pairs_stay_below_the_size_of_a_page() -> None:
    found = compared(*(_of_150(profile(BEFORE), factor) for factor in (1.0, 1.5)))
    assert len(tables(html_blocks_of(found))["Kernels before and after"].rows) == 150
    assert len(page_of(found).encode()) < 6_000_000


def _of_150(base: Profile, factor: float) -> Profile:
    launches = (base.launches[number % len(base.launches)] for number in range(150))
    named = (_named(each, number, f"step_{number}", factor) for number, each in enumerate(launches))
    return replace(base, launches=tuple(named), code_loader=None)


def test_kernels_are_sorted_and_limited_by_the_times_of_the_document() -> None:
    found = difference("pipeline")
    rows = tables(html_blocks_of(found))["Kernels before and after"].rows
    assert len(rows) > 3
    for row, each in zip(rows, found.pairs, strict=True):
        times = _times(each)
        assert cells(row)[2] == each.kernel
        *shown, change = (float(cell.value or 0) for cell in row[3:6] if isinstance(cell, Cell))
        assert shown == [pytest.approx(time, abs=0.6) for time in times]
        assert change == pytest.approx(times[1] - times[0], abs=0.6)
    page = diff_page(found, reader()._replace(rows=2), 5)
    table = tables([*every_block(page.blocks)])["Kernels before and after"]
    longest = sorted(found.pairs, key=lambda pair: -max(_times(pair)))
    assert [cells(row)[2] for row in table.rows] == [pair.kernel for pair in longest[:2]]
    assert table.caption.startswith(f"and {len(found.pairs) - 2} more kernels")


def _times(pair: PairDocument) -> list[float]:
    """Nanoseconds before and after."""
    both = (pair.verdict.before, pair.verdict.after)
    return [1000 * time.value if time and time.value is not None else 0.0 for time in both]


@each_row("name", ["matrix_flip", "column_physics"])
def test_rows_of_the_listing(name: str, wording) -> None:
    """Removed and added lines are marked on their side. The change of a line is its time after less
    its time before, even if one is too short to be shown, and has a colour if it is no chance."""
    (listing,) = with_class(page_tree(page_of(difference(name))), "sides")
    told = []
    for row in with_class(listing, "row"):
        (change,) = with_class(row, "change")
        looks = [each.get("class", "") for each in change]
        if looks or any(words(mark) for mark in row.iter("i")):
            told.append(" ".join([*map(words, row), *looks]))
    wording(told, case=name)
