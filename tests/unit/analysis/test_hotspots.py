"""Hotspots: ranking, absence, and reports from before samples were counted."""

from pathlib import Path

import pytest

from keet.analysis.hotspots import Hotspots, find_hotspots
from keet.ingest.container import blocks_of
from keet.ingest.ncu_rep import Report
from keet.profile import Absent, Launch
from tests import encode


def launch_with(**instances: list[tuple[int, int]]) -> Launch:
    names = {
        "executed": "inst_executed",
        "samples": "smsp__pcsamp_sample_count",
        "wait": "smsp__pcsamp_warps_issue_stalled_wait",
        "barrier": "smsp__pcsamp_warps_issue_stalled_barrier",
    }
    kernel = encode.Kernel("k", instances={names[key]: rows for key, rows in instances.items()})
    data = encode.report([kernel])
    return Report(Path("x"), data, blocks_of(data, Path("x"))).launches()[0]


def test_ranked_by_samples_and_all_there() -> None:
    launch = launch_with(
        executed=[(16, 100), (32, 1), (48, 1)],
        samples=[(32, 30), (48, 10)],
        wait=[(32, 20), (48, 10)],
        barrier=[(32, 10), (48, 0)],
    )
    found = find_hotspots(launch)
    assert isinstance(found, Hotspots)
    assert (found.by, found.ranked_by, found.total) == ("instruction", "samples", 40)
    assert [spot.address for spot in found.spots] == [32, 48, 16]
    assert [spot.share for spot in found.spots] == [0.75, 0.25, 0.0]
    assert found.spots[0].stalls == (("wait", 20), ("barrier", 10))
    assert found.spots[2].samples == 0


def test_samples_without_a_total() -> None:
    """Before ncu 2021.2 only the split by reason was stored."""
    found = find_hotspots(launch_with(executed=[(16, 5)], wait=[(16, 3)], barrier=[(16, 4)]))
    assert isinstance(found, Hotspots)
    assert found.spots[0].samples == 7


def test_no_samples_at_all() -> None:
    found = find_hotspots(launch_with(executed=[(16, 5), (32, 9)]))
    assert isinstance(found, Hotspots)
    assert found.ranked_by == "executed"
    assert found.spots[0].address == 32
    assert found.spots[0].samples is None
    assert found.spots[0].sectors_global is None


def test_nothing_to_rank() -> None:
    found = find_hotspots(launch_with())
    assert isinstance(found, Absent)
    assert "SourceCounters" in found.remedy


def test_instructions_without_a_line_are_a_row(profile_of) -> None:
    """By line, and there are no lines: one row with everything, not an empty table."""
    launch = profile_of("tour_nolines.ncu-rep").launches[0]
    found = find_hotspots(launch, "line")
    assert isinstance(found, Hotspots)
    assert len(found.spots) == 1
    assert found.spots[0].location is None
    assert found.spots[0].share == pytest.approx(1)
