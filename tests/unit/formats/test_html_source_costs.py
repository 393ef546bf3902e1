"""What a listing says about a line: all its numbers are over the same instructions."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.account import KINDS
from keet.analysis.line_facts import CodeByLine, line_facts
from keet.analysis.source_lines import Spot
from keet.catalog import stalls
from keet.documents.finding import Place
from keet.documents.hotspots import StallDocument
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.source_lines import traffic_facts
from keet.formats.html.source_rows import SourceData, group_of, waiting
from keet.pages.blocks import Anchors
from keet.pages.hotspots import chance_error, hotspots_summary
from keet.pages.hotspots_line import routine_items
from keet.pages.listings import few_samples
from keet.profile import Location
from tests.page_blocks import first_launch, hotspots_of, listing_of
from tests.page_parts import PageParts, links_in, page_tree, with_class, words
from tests.unit.sass.assembled import assembled, machine

SAMPLES = Path("kernels_samples")
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
NO_LINES = Path("tests/data/reports/tour_nolines.ncu-repz")


@cache
def page_of(path: Path) -> PageParts:
    return PageParts(listing_of(first_launch(path)).html)


def by_line(path: Path) -> CodeByLine:
    code = first_launch(path).view.code
    assert code is not None
    return CodeByLine(first_launch(path).launch, code)


def panel(path: Path, line: int) -> str:
    """The row of a line of the only file, and its opened panel."""
    (key,) = [key for key in page_of(path).ids if key.endswith(f"-L{line}")]
    return page_of(path).raw_text_of(key)


class TestTheSameInstructions:
    """The instructions listed for a line are those that its row sums up."""

    def test_samples_and_executions_of_every_line(self) -> None:
        wrong = []
        for path in (FLIP, PHYSICS, SAMPLES / "hydro_element/slow.ncu-repz"):
            code = by_line(path)
            for spot in hotspots_of(path).rows:
                if spot.location is None:
                    continue
                own = code.facts(spot.location).instructions
                sums = (sum(e.samples for e in own), sum(e.executed for e in own))
                if sums != (spot.samples, spot.executed):
                    wrong.append((path, spot.location.line, sums, spot.samples, spot.executed))
        assert not wrong

    def test_samples_behind_the_last_instruction_are_shown(self) -> None:
        """No warp executes the BRA after EXIT, but all samples of the closing brace are there."""
        assert re.search(r"^> 0x0170 +0 +110 +BRA .* Drain for the store", panel(FLIP, 9), re.M)
        assert "behind EXIT" in panel(FLIP, 9)
        assert "behind EXIT" not in panel(FLIP, 7)

    def test_a_routine_stays_at_its_line_and_names_its_caller(self) -> None:
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


class TestWords:
    def test_what_is_counted(self, wording) -> None:
        executed = re.findall(r"Executed ([^;]*);", page_of(NO_LINES).text)
        assert executed
        assert all(re.fullmatch(r"[\d,]+ times? \(warp instru.*", text) for text in executed)
        spot = next(s for s in hotspots_of(FLIP).rows if s.sectors_global)
        assert [label for label, _ in traffic_facts(spot)] == ["Global memory"]
        wording(re.findall(r"[\d,]+ sectors [^(]*", panel(FLIP, 7)))
        assert "not the traffic" in page_of(FLIP).text
        found = hotspots_of(FLIP)
        unplaced = replace(found.rows[0], file=None, line=None, instructions=2)
        with_it = replace(found, rows=(*found.rows, unplaced))
        wording(hotspots_summary(found), hotspots_summary(with_it))

    def test_targets_of_branches_are_offsets(self) -> None:
        """No address is left in the code, as in the rows."""
        for path in (FLIP, NO_LINES):
            code = first_launch(path).view.code
            targets = [f"{each.target:#x}" for each in code.program.code if each.target]
            assert targets
            assert [target for target in targets if target in page_of(path).text] == []
        assert "BRA `(.L_x_0) 0x0170" in panel(FLIP, 9)

    def test_the_hottest_line_says_what_a_closing_brace_waits_for(self) -> None:
        assert re.search(r"\(\}: [^)]* at slow\.cu:7\)", page_of(FLIP).text)

    def test_a_reason_of_few_samples_has_no_share(self, wording) -> None:
        data = SourceData(first_launch(FLIP), hotspots_of(FLIP), Anchors())
        spot = hotspots_of(FLIP).rows[0]
        wording(waiting(data, spot), waiting(data, _few(spot)))
        (few,) = [s for s in hotspots_of(FLIP).rows if s.location and s.location.line == 6]
        assert waiting(data, few) == "Wait"
        assert "Wait (1 sample)" in panel(FLIP, 6)
        assert "50%" not in panel(FLIP, 6)


def _few(spot: Spot) -> Spot:
    return replace(spot, samples=9, stalls=(StallDocument(reason="drain", samples=9),))


class TestFewSamples:
    def test_a_warning_about_few_samples_states_the_error(self) -> None:
        """Wilson's interval of two standard deviations; near 100 % it is that of few samples."""
        rows = {(0.5, 100): 0.098, (1.0, 9): 0.308, (1.0, 100): 0.038, (0.417, 264): 0.061}
        assert {row: round(chance_error(*row), 3) for row in rows} == rows
        assert " 6 percentage points" in (few_samples(hotspots_of(FLIP)) or "")
        (first, *rest) = hotspots_of(FLIP).rows
        sure = replace(first, share=1.0)
        found = replace(hotspots_of(FLIP), rows=(sure, *rest), total=9)
        assert "31 percentage points" in (few_samples(found) or "")
        assert few_samples(replace(found, total=900)) is None


def test_stall_groups_match_the_account() -> None:
    """Stall reasons in the same part of the account are in the same group."""
    sampled = [name for name, each in stalls().items() if any("pcsamp" in m for m in each.metrics)]
    by_kind: dict[str, set[str]] = {}
    for reason in sampled:
        by_kind.setdefault(KINDS.get(reason, reason), set()).add(group_of(reason))
    assert {kind: own for kind, own in by_kind.items() if len(own) > 1} == {}
    wanted = {"imc_miss": "constant", "gmma": "math", "tex_throttle": "memory", "membar": "sync"}
    assert {reason: group_of(reason) for reason in wanted} == wanted


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
    path = SAMPLES / "hydro_element/slow.ncu-repz"
    data = SourceData(first_launch(path), hotspots_of(path), Anchors())
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


REPORTS = Path("tests/data/reports")
ELEMENT = SAMPLES / "hydro_element/slow.ncu-repz"
TILES = SAMPLES / "score_tiles/slow.ncu-repz"
TOUR = REPORTS / "tour_full.ncu-repz"
NO_LINES_OF_NUMBERS = REPORTS / "tour_nolines.ncu-repz"


@cache
def listed(path: Path, *, sass: bool = True) -> ET.Element:
    return page_tree(listing_of(first_launch(path, sass=sass)).html)


def row_of(root: ET.Element, spot: Spot) -> ET.Element:
    """The row of a line of the only file, or of an instruction, with its opened panel."""
    end = f"-at-{spot.address:x}" if spot.location is None else f"-L{spot.location.line}"
    (row,) = [node for node in root.iter() if node.get("id", "").endswith(end)]
    return row


def facts_of(row: ET.Element) -> dict[str, ET.Element]:
    (facts,) = with_class(row, "facts")
    return {words(name): fact for name, fact in zip(facts[::2], facts[1::2], strict=True)}


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
    for path in (FLIP, ELEMENT, TILES, NO_LINES_OF_NUMBERS):
        sass = path is NO_LINES_OF_NUMBERS
        root = listed(path, sass=sass)
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


@pytest.mark.parametrize("path", [PHYSICS, TOUR])
def test_line_lists_what_waits_for_it(path: Path) -> None:
    each = first_launch(path)
    code, found = each.view.code, 0
    assert code is not None
    for spot in hotspots_of(path).rows:
        if spot.location is None:
            continue
        row = row_of(listed(path), spot)
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
    each, root = first_launch(NO_LINES_OF_NUMBERS), listed(NO_LINES_OF_NUMBERS)
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
    for spot in hotspots_of(NO_LINES_OF_NUMBERS).rows:
        waited_for_by = facts_of(row_of(root, spot)).get("Waited for by")
        wanted = pairs.get(spot.address or 0, Counter())
        assert (waited_for_by is None) == (not wanted)
        if waited_for_by is not None:
            shown = [int(link.rpartition("-")[2], 16) for link in links_in(waited_for_by)]
            assert {*shown} <= {*wanted}
            assert shown[0] in {a for a, n in wanted.items() if n == max(wanted.values())}
            assert words(waited_for_by).startswith(f"{wanted.total():,} sample")
