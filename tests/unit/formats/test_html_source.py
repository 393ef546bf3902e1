"""The listing of a launch's code on a page: every line, its costs, and links that lead somewhere.

All numbers of a line are over the same instructions."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

from keet.analysis.account import KINDS
from keet.analysis.hotspots.line_facts import CodeByLine, line_facts
from keet.analysis.hotspots.source_lines import Spot, source_lines
from keet.catalog import stalls
from keet.documents.finding import Place
from keet.documents.hotspots import StallDocument
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.listing import Listing, source_listing
from keet.formats.html.markup import STEPS, heat_class
from keet.formats.html.source_lines import traffic_facts
from keet.formats.html.source_rows import (
    COLUMNS,
    LABELS,
    SourceData,
    group_of,
    parts,
    stall_bar,
    waiting,
)
from keet.pages.blocks import Anchors, plain
from keet.pages.hotspots import chance_error, hotspots_summary
from keet.pages.hotspots_line import routine_items
from keet.pages.listings import few_samples, listing_block
from keet.profile import Location
from keet.report import read_profile
from tests.page_blocks import ROOM, first_launch, hotspots_of, listing_of
from tests.page_parts import links_in, page_tree, with_class, with_id, words
from tests.rows import each_row
from tests.unit.machine_code.assembled import assembled, machine

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
ELEMENT = SAMPLES / "hydro_element/slow.ncu-repz"
TILES = SAMPLES / "score_tiles/slow.ncu-repz"
TOUR = REPORTS / "tour_full.ncu-repz"
NO_LINES = REPORTS / "tour_nolines.ncu-repz"
SHOWN = [PHYSICS, FLIP, REPORTS / "triton.ncu-repz"]


@cache
def listed(path: Path, room: int = ROOM, *, sass: bool = True) -> tuple[Listing, ET.Element]:
    return drawn(first_launch(path, sass=sass), room)


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


def panel(path: Path, line: int) -> str:
    """The row of a line of the only file, and its opened panel."""
    return "".join(row_at(listed(path)[1], f"-L{line}").itertext())


def row_of(root: ET.Element, spot: Spot) -> ET.Element:
    """The row of a line of the only file, or of an instruction, with its opened panel."""
    at = f"-at-{spot.address:x}" if spot.location is None else f"-L{spot.location.line}"
    return row_at(root, at)


def row_at(root: ET.Element, end: str) -> ET.Element:
    (row,) = [node for node in root.iter() if node.get("id", "").endswith(end)]
    return row


def facts_of(row: ET.Element) -> dict[str, ET.Element]:
    (facts,) = with_class(row, "facts")
    return {words(name): fact for name, fact in zip(facts[::2], facts[1::2], strict=True)}


def by_line(path: Path) -> CodeByLine:
    return CodeByLine(first_launch(path).launch, first_launch(path).view.code)


@each_row("path", SHOWN)
def test_every_executed_line_has_a_row_with_its_own_numbers(path: Path) -> None:
    """Sums over the rows, with those that have no line, are the totals that the script divides by."""
    found, (listing, root) = hotspots_of(path), listed(path)
    by_id = {node.get("id"): node for node in root.iter()}
    for spot in found.rows:
        if spot.location is None:
            continue
        row = by_id[line_id(path, *spot.location)]
        assert (spot.location.file, spot.location.line) in listing.lines
        assert f"{spot.samples:,} of the {found.total:,} samples" in words(row)
        (share,) = having(row, "span", "share")
        assert words(share) == (f"{spot.share:.1%}" if spot.share else "")
    (whole,) = having(root, "div", "listing")
    columns = dict(each.split(":") for each in whole.get("data-columns", "").split("|"))
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
    """SASS follows its line."""
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
    """Stall reasons in the same part of the account are in the same group."""
    sampled = [name for name, each in stalls().items() if any("pcsamp" in m for m in each.metrics)]
    unnamed = [reason for reason in sampled if group_of(reason) == "other"]
    assert sorted(unnamed) == ["dispatch_stall", "misc", "sleeping"]
    assert {group_of(reason) for reason in stalls()} == {*LABELS}
    for reason, stall in stalls().items():
        assert (group_of(reason) == "issue") == (not stall.counts_as_stall)
    kinds = {(KINDS.get(reason, reason), group_of(reason)) for reason in sampled}
    assert len(kinds) == len({kind for kind, _ in kinds})
    wanted = {"imc_miss": "constant", "gmma": "math", "tex_throttle": "memory", "membar": "sync"}
    assert {reason: group_of(reason) for reason in wanted} == wanted
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


def test_a_line_sums_up_the_instructions_listed_for_it() -> None:
    wrong = []
    for path in (FLIP, PHYSICS, ELEMENT):
        code = by_line(path)
        for spot in hotspots_of(path).rows:
            if spot.location is None:
                continue
            own = code.facts(spot.location).instructions
            sums = (sum(e.samples for e in own), sum(e.executed for e in own))
            if sums != (spot.samples, spot.executed):
                wrong.append((path, spot.location.line, sums, spot.samples, spot.executed))
    assert not wrong


def test_samples_behind_the_last_instruction_are_shown() -> None:
    """No warp executes the BRA after EXIT, but all samples of the closing brace are there."""
    row = r"^> 0x0170 +0 +110 +BRA `\(.L_x_0\) 0x0170 .* Drain for the store"
    assert re.search(row, panel(FLIP, 9), re.M), "targets are offsets, as addresses are"
    assert "behind EXIT" in panel(FLIP, 9)
    assert "behind EXIT" not in panel(FLIP, 7)
    assert re.search(r"\(\}: [^)]* at slow\.cu:7\)", words(listed(FLIP)[1])), "a closing brace"


def test_a_routine_stays_at_its_line_and_names_its_caller() -> None:
    """31 instructions of a routine at line 172 are only called from line 58."""
    (called,) = by_line(PHYSICS).facts(_line(PHYSICS, 58)).calls
    (calling,) = by_line(PHYSICS).facts(_line(PHYSICS, 172)).callers
    for each in (called, calling):
        assert (each.instructions, each.executed, each.samples) == (31, 124, 0)
    assert (called.location, calling.location) == (_line(PHYSICS, 172), _line(PHYSICS, 58))
    counted = "31 instructions, 124 executed warp instructions, 0 samples"
    assert f"counted at slow.cu:172 ({counted}), not here" in panel(PHYSICS, 58)
    assert f"{counted}: " in panel(PHYSICS, 172)
    assert routine_items(by_line(PHYSICS).facts(_line(PHYSICS, 109))) == []


def _line(path: Path, number: int) -> Location:
    (found,) = [
        s.location for s in hotspots_of(path).rows if s.location and s.location.line == number
    ]
    return found


def test_what_is_counted(wording) -> None:
    executed = re.findall(r"Executed ?([^;]*);", words(listed(NO_LINES)[1]))
    assert executed
    assert all(re.fullmatch(r"[\d,]+ times? \(warp instru.*", text) for text in executed)
    found = hotspots_of(FLIP)
    spot = next(s for s in found.rows if s.sectors_global)
    assert [label for label, _ in traffic_facts(spot)] == ["Global memory"]
    wording(re.findall(r"[\d,]+ sectors [^(]*", panel(FLIP, 7)))
    assert "not the traffic" in words(listed(FLIP)[1])
    unplaced = replace(found.rows[0], file=None, line=None, instructions=2)
    with_it = replace(found, rows=(*found.rows, unplaced))
    wording(hotspots_summary(found), hotspots_summary(with_it))


def test_a_reason_of_few_samples_has_no_share(wording) -> None:
    data = SourceData(first_launch(FLIP), hotspots_of(FLIP), Anchors())
    spot = hotspots_of(FLIP).rows[0]
    few = replace(spot, samples=9, stalls=(StallDocument(reason="drain", samples=9),))
    wording(waiting(data, spot), waiting(data, few))
    (few,) = [s for s in hotspots_of(FLIP).rows if s.location and s.location.line == 6]
    assert waiting(data, few) == "Wait"
    assert "Wait (1 sample)" in panel(FLIP, 6)
    assert "50%" not in panel(FLIP, 6)


def test_a_warning_about_few_samples_states_the_error() -> None:
    """Wilson's interval of two standard deviations; near 100 % it is that of few samples."""
    rows = {(0.5, 100): 0.098, (1.0, 9): 0.308, (1.0, 100): 0.038, (0.417, 264): 0.061}
    assert {row: round(chance_error(*row), 3) for row in rows} == rows
    assert " 6 percentage points" in (few_samples(hotspots_of(FLIP)) or "")
    (first, *rest) = hotspots_of(FLIP).rows
    found = replace(hotspots_of(FLIP), rows=(replace(first, share=1.0), *rest), total=9)
    assert "31 percentage points" in (few_samples(found) or "")
    assert few_samples(replace(found, total=900)) is None


def test_call_that_never_returns_is_not_a_routine() -> None:
    """Compilers end kernels with such a call: it is a jump, and the code after it is not called."""
    jump = "@!P3 CALL.REL.NOINC end\nMOV R2, R3\n"
    for end, wanted in (("end: EXIT", 0), ("end: MOV R4, R5\nRET.REL.NODEC R20, 0x0", 1)):
        texts = assembled(jump + "EXIT\n" + end)
        code = machine(texts, dict.fromkeys(texts, 2))
        lines = {address: Location("k.cu", 1 + (address >= 0x30)) for address in texts}
        launch = first_launch(FLIP).launch
        facts = CodeByLine(launch, replace(code, locations=lines)).facts(Location("k.cu", 1))
        assert len(facts.calls) == wanted


def test_a_row_says_how_much_of_a_reason_waits_for_one_thing() -> None:
    """`Long Scoreboard 50% for its own load` is wrong if most of these samples wait for another
    line."""
    data = SourceData(first_launch(ELEMENT), hotspots_of(ELEMENT), Anchors())
    shares = {}
    for spot in data.found.rows:
        wait = next(iter(data.row(spot).waits), None)
        if wait is None or spot.location is None:
            continue
        words = data.awaits(wait, spot)
        share = wait.samples / spot.samples_by_reason[wait.reason]
        if words:
            shares[words.startswith(f", {share:.0%} of that for ")] = share
            assert words.startswith(" for ") == (share >= 0.9)
    assert shares.keys() == {True, False}


def test_with_little_room_lines_of_findings_get_details_first() -> None:
    """They come before lines with more samples; among them, the hottest come first."""
    each = first_launch(FLIP)
    *_, coldest = [spot.location for spot in hotspots_of(FLIP).rows if spot.location]
    places = (Place(*coldest, 1.0, "samples"), *each.findings[0].locations)
    named = replace(each, findings=(replace(each.findings[0], locations=places),))
    hottest = hotspots_of(FLIP).rows[0].location
    assert hottest != coldest
    assert (_first_opened(each), _first_opened(named)) == (7, coldest.line)
    assert _first_opened(replace(each, findings=())) == hottest.line


def _first_opened(each: LaunchExplanation) -> int:
    """The line that gets details if there is only room for one."""
    for room in range(500, 20_000, 250):
        rows = with_class(page_tree(listing_of(each, room).html), "line")
        if opened := [row for row in rows if row.tag == "details"]:
            (only,) = opened
            return int(only.get("id", "").rpartition("-L")[2])
    raise AssertionError("no room is enough")


def test_excess_is_that_of_the_line() -> None:
    """The share, and the traffic of ideal accesses."""
    seen: Counter[str] = Counter()
    for path in (FLIP, ELEMENT, TILES, NO_LINES):
        sass = path is NO_LINES
        _, root = listed(path, sass=sass)
        for spot in hotspots_of(path, sass=sass).rows:
            if (spot.location, spot.address) == (None, None):
                continue
            row = row_of(root, spot)
            for name, whole, excess in (
                ("Global memory", spot.sectors_global, spot.sectors_global_excess),
                ("Shared memory", spot.wavefronts_shared, spot.wavefronts_shared_excess),
            ):
                if not whole:
                    continue
                shown, share = words(facts_of(row)[name]), (excess or 0) / whole
                assert shown.startswith(f"{whole:,} ")
                assert re.findall(r"(\d+)%", shown) == ([f"{100 * share:.0f}"] if excess else [])
                assert not excess or f" {whole - excess:,} " in shown
                seen[f"{name} {'some' if excess else 'none'}"] += 1
    assert len(seen) == 4, seen


@each_row("path", [PHYSICS, TOUR])
def test_line_lists_what_waits_for_it(path: Path) -> None:
    each = first_launch(path)
    code, found = each.view.code, 0
    assert code is not None
    for spot in hotspots_of(path).rows:
        if spot.location is None:
            continue
        row = row_of(listed(path)[1], spot)
        waiting = line_facts(each.launch, code, spot.location).waited_for_by
        waited_for_by = facts_of(row).get("Waited for by")
        assert (waited_for_by is None) == (not waiting)
        if waited_for_by is not None:
            lines = [int(link.rpartition("-L")[2]) for link in links_in(waited_for_by)]
            assert lines == [other.line for other in waiting if other.line][: len(lines)]
            assert words(waited_for_by).startswith(
                f"{sum(other.samples for other in waiting):,} sample"
            )
            found += 1
    assert found


def test_instruction_lists_what_waits_for_it() -> None:
    each, (_, root) = first_launch(NO_LINES), listed(NO_LINES)
    code, known = each.view.code, stalls()
    waits = [wait for wait in code.waits if wait.producers and known[wait.reason].counts_as_stall]
    pairs: dict[int, Counter[int]] = {}
    for wait in waits:
        waiter, producer = (
            code.program.code[n].address for n in (wait.position, wait.producers[0])
        )
        if waiter != producer:
            pairs.setdefault(producer, Counter())[waiter] += wait.samples
    assert len(pairs) > 2
    for spot in hotspots_of(NO_LINES).rows:
        waited_for_by = facts_of(row_of(root, spot)).get("Waited for by")
        wanted = pairs.get(spot.address or 0, Counter())
        assert (waited_for_by is None) == (not wanted)
        if waited_for_by is not None:
            shown = [int(link.rpartition("-")[2], 16) for link in links_in(waited_for_by)]
            assert {*shown} <= {*wanted}
            assert shown[0] in {a for a, n in wanted.items() if n == max(wanted.values())}
            assert words(waited_for_by).startswith(f"{wanted.total():,} sample")
