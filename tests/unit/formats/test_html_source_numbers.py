"""Numbers of a source listing: they match `find_hotspots` and the machine-code analysis."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.line_facts import line_facts
from keet.analysis.source_lines import Spot
from keet.catalog import stalls
from keet.documents.finding import Place
from keet.explanation.explanation_types import LaunchExplanation
from tests.page_blocks import first_launch, hotspots_of, listing_of
from tests.page_parts import links_in, page_tree, with_class, words

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
ELEMENT = SAMPLES / "hydro_element/slow.ncu-repz"
TILES = SAMPLES / "score_tiles/slow.ncu-repz"
TOUR = REPORTS / "tour_full.ncu-repz"
NO_LINES = REPORTS / "tour_nolines.ncu-repz"


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
    for path in (FLIP, ELEMENT, TILES, NO_LINES):
        sass = path is NO_LINES
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
    each, root = first_launch(NO_LINES), listed(NO_LINES)
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
