"""Numbers of a source listing: those of `find_hotspots` and of the analysis of the machine code,
each at the line or instruction that it belongs to."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.findings import Place
from keet.analysis.source_lines.hotspots import Hotspots, Spot, find_hotspots
from keet.catalog import stalls
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.ingest import read_profile
from keet.profile import Launch
from keet.render.html.anchors import Anchors
from keet.render.html.source.listing import Listing, source_listing
from keet.render.json.hotspots_line import line_document
from tests.page_parts import links_in, page_tree, with_class, words

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics/slow.ncu-rep"
ELEMENT = SAMPLES / "hydro_element/slow.ncu-rep"
TILES = SAMPLES / "score_tiles/slow.ncu-rep"
TOUR = REPORTS / "tour_full.ncu-rep"
NO_LINES = REPORTS / "tour_nolines.ncu-repz"
ROOM = 1_000_000


@cache
def listing_of(path: Path, *, sass: bool = True) -> ET.Element:
    return listed(_first(path, sass=sass), ROOM)


@cache
def _first(path: Path, *, sass: bool) -> LaunchExplanation:
    profile = read_profile(path)
    return explain(profile, profile.launches[:1], 5, sass=sass).launches[0]


def listed(each: LaunchExplanation, room: int) -> ET.Element:
    found = source_listing(each, Anchors(), room)
    assert isinstance(found, Listing)
    return page_tree(found.html)


def spots_of(launch: Launch) -> tuple[Spot, ...]:
    found = find_hotspots(launch)
    assert isinstance(found, Hotspots)
    return found.spots


def row_of(root: ET.Element, spot: Spot) -> ET.Element:
    """The row of a line of the only file, or of an instruction, with what it shows when opened."""
    end = f"-at-{spot.address:x}" if spot.location is None else f"-line-{spot.location.line}"
    (row,) = [node for node in root.iter() if node.get("id", "").endswith(end)]
    return row


def facts_of(row: ET.Element) -> dict[str, ET.Element]:
    (facts,) = with_class(row, "facts")
    return {words(name): fact for name, fact in zip(facts[::2], facts[1::2], strict=True)}


def test_where_room_is_short_lines_of_findings_have_details_first() -> None:
    """Before lines with more samples, and of those the hottest first."""
    each = _first(FLIP, sass=True)
    *_, coldest = [spot.location for spot in spots_of(each.launch) if spot.location]
    places = (Place(*coldest, 1.0, "samples"), *each.findings[0].places)
    named = each._replace(findings=(replace(each.findings[0], places=places),))
    hottest = spots_of(each.launch)[0].location
    assert hottest is not None
    assert hottest != coldest
    assert (_first_opened(each), _first_opened(named)) == (7, coldest.line)
    assert _first_opened(each._replace(findings=())) == hottest.line


def _first_opened(each: LaunchExplanation) -> int:
    """The line that has details when there is room for no more than one."""
    for room in range(500, 20_000, 250):
        rows = with_class(listed(each, room), "line")
        if opened := [row for row in rows if row.tag == "details"]:
            (only,) = opened
            return int(only.get("id", "").rpartition("-")[2])
    raise AssertionError("no room is enough")


def test_excess_is_that_of_the_line() -> None:
    """Shares of rows and panels, and what ideal accesses would take."""
    seen: Counter[str] = Counter()
    for path in (FLIP, ELEMENT, TILES, NO_LINES):
        root = listing_of(path, sass=path is NO_LINES)
        for spot in spots_of(_first(path, sass=path is NO_LINES).launch):
            if (spot.location, spot.address) == (None, None):
                continue
            row, marks = row_of(root, spot), []
            for name, whole, excess in (
                ("Global memory", spot.sectors_global, spot.sectors_global_excess),
                ("Shared memory", spot.wavefronts_shared, spot.wavefronts_shared_excess),
            ):
                if not whole:
                    continue
                told, share = words(facts_of(row)[name]), (excess or 0) / whole
                assert told.startswith(f"{whole:,} ")
                assert re.findall(r"(\d+)%", told) == ([f"{100 * share:.0f}"] if excess else [])
                assert not excess or f" {whole - excess:,} " in told
                marks += [f"{share:.0%}"] if share >= 0.1 else []
                seen[f"{name} {'marked' if share >= 0.1 else 'some' if excess else 'none'}"] += 1
            (traffic,) = with_class(row, "traffic")
            bold = " ".join(words(mark) for mark in traffic.iter("b"))
            assert re.findall(r"\d+%", bold) == re.findall(r"\d+%", words(traffic)) == marks
    assert len(seen) >= 5, seen


@pytest.mark.parametrize("path", [PHYSICS, TOUR])
def test_what_waits_for_a_line_is_told_at_that_line(path: Path) -> None:
    each = _first(path, sass=True)
    code, found = each.view.code, 0
    assert code is not None
    for spot in spots_of(each.launch):
        if spot.location is None:
            continue
        row = row_of(listing_of(path), spot)
        waiting = line_document(each.launch, code, spot.location).waited_for_by
        told = facts_of(row).get("Waited for by")
        assert (told is None) == (not waiting)
        if told is not None:
            lines = [int(link.rpartition("-")[2]) for link in links_in(told)]
            assert lines == [other.line for other in waiting if other.line][: len(lines)]
            assert words(told).startswith(f"{sum(other.samples for other in waiting):,} sample")
            found += 1
    assert found


def test_what_waits_for_an_instruction_is_told_at_that_instruction() -> None:
    each, root = _first(NO_LINES, sass=True), listing_of(NO_LINES)
    code, known = each.view.code, stalls()
    assert code is not None
    waits = [wait for wait in code.waits if wait.producers and known[wait.reason].counts_as_stall]
    pairs: dict[int, Counter[int]] = {}
    for wait in waits:
        waiter, producer = (
            code.program.code[n].address for n in (wait.position, wait.producers[0])
        )
        if waiter != producer:
            pairs.setdefault(producer, Counter())[waiter] += wait.samples
    assert len(pairs) > 2
    for spot in spots_of(each.launch):
        told = facts_of(row_of(root, spot)).get("Waited for by")
        wanted = pairs.get(spot.address or 0, Counter())
        assert (told is None) == (not wanted)
        if told is not None:
            shown = [int(link.rpartition("-")[2], 16) for link in links_in(told)]
            assert {*shown} <= {*wanted}
            assert shown[0] in {a for a, n in wanted.items() if n == max(wanted.values())}
            assert words(told).startswith(f"{wanted.total():,} sample")
