"""Hotspots: ranking, absence, and reports from before samples were counted."""

from pathlib import Path

import pytest

from keet.analysis.source_lines import Hotspots, find_hotspots
from keet.errors import IngestError
from keet.ingest import read_profile
from keet.ingest.ncu_rep.container import blocks_of
from keet.ingest.ncu_rep.reader import Report
from keet.profile import Absent, Launch
from tests import encode
from tests.conftest import corpus_files, needs_corpus
from tests.rows import each_row


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


def test_spots_are_ranked_by_samples_and_complete() -> None:
    launch = launch_with(
        executed=[(16, 100), (32, 1), (48, 1)],
        samples=[(32, 30), (48, 10)],
        wait=[(32, 20), (48, 10)],
        barrier=[(32, 10), (48, 0)],
    )
    found = find_hotspots(launch)
    assert isinstance(found, Hotspots)
    assert (found.by, found.ranked_by, found.total) == ("instruction", "samples", 40)
    assert [spot.address for spot in found.rows] == [32, 48, 16]
    assert [spot.share for spot in found.rows] == [0.75, 0.25, 0.0]
    assert [*found.rows[0].samples_by_reason.items()] == [("wait", 20), ("barrier", 10)]
    assert found.rows[2].samples == 0


def test_samples_without_a_total() -> None:
    """Before ncu 2021.2 only the split by reason was stored."""
    found = find_hotspots(launch_with(executed=[(16, 5)], wait=[(16, 3)], barrier=[(16, 4)]))
    assert isinstance(found, Hotspots)
    assert found.rows[0].samples == 7


def test_no_samples_at_all() -> None:
    found = find_hotspots(launch_with(executed=[(16, 5), (32, 9)]))
    assert isinstance(found, Hotspots)
    assert found.ranked_by == "executed"
    assert found.rows[0].address == 32
    assert found.rows[0].samples is None
    assert found.rows[0].sectors_global is None


def test_nothing_to_rank() -> None:
    found = find_hotspots(launch_with())
    assert isinstance(found, Absent)
    assert "SourceCounters" in found.remedy


def test_instructions_without_a_line_are_a_row(profile_of) -> None:
    """By line, and there are no lines: one row with everything, not an empty table."""
    launch = profile_of("tour_nolines.ncu-repz").launches[0]
    found = find_hotspots(launch, "line")
    assert isinstance(found, Hotspots)
    assert len(found.rows) == 1
    assert found.rows[0].location is None
    assert found.rows[0].share == pytest.approx(1)


def test_a_column_that_is_zero_is_not_missing(profile_of) -> None:
    """ncu stores no instances of a metric whose total is zero."""
    launch = profile_of("tour_full.ncu-rep").launches[0]
    assert launch.metric("memory_l1_wavefronts_shared").value == 0
    assert launch.instances("memory_l1_wavefronts_shared") is None
    found = find_hotspots(launch)
    assert isinstance(found, Hotspots)
    assert {spot.wavefronts_shared for spot in found.rows} == {0}


def sampled(samples: int, *, interval: float = 1024, cycles: float = 1e6, sms: int = 10) -> Launch:
    kernel = encode.Kernel(
        "k",
        {
            "smsp__pcsamp_interval_cycles": interval,
            "sm__cycles_active.avg": cycles,
            "device__attribute_multiprocessor_count": sms,
        },
        {"smsp__pcsamp_sample_count": [(16, samples)]},
    )
    data = encode.report([kernel])
    return Report(Path("x"), data, blocks_of(data, Path("x"))).launches()[0]


@each_row(
    ("samples", "share", "setting"),
    [
        (9766, None, None),  # 10 SMs, 1e6 cycles, one sample in 1024: all of it
        (9000, None, None),
        (8000, 0.8192, 6),
        (2500, 0.256, 7),
        (500, None, None),  # too few to have filled a buffer
    ],
)
def test_samples_that_stop_early(samples: int, share: float | None, setting: int | None) -> None:
    found = find_hotspots(sampled(samples))
    assert isinstance(found, Hotspots)
    if share is None:
        assert found.partial is None
    else:
        assert found.partial is not None
        assert found.partial.share == pytest.approx(share)
        assert found.partial.remedy.endswith(f"--warp-sampling-interval {setting}")


@needs_corpus
@pytest.mark.slow
def test_four_public_reports_have_partial_samples() -> None:
    """Four reports of the corpus have samples of a part of the launch; the others are whole."""
    partial = {}
    for path in corpus_files():
        try:
            launches = read_profile(path).launches
        except IngestError:
            continue
        found = [
            spots for launch in launches if isinstance(spots := find_hotspots(launch), Hotspots)
        ]
        shares = [spots.partial.share for spots in found if spots.partial]
        if shares:
            partial[path.name.split("__")[0]] = min(shares)
    assert {name: round(share, 3) for name, share in partial.items()} == {
        "bwd29": 0.006,
        "chia7": 0.25,
        "suhithr": 0.305,
        "ScalingIntelligence": 0.516,
    }
