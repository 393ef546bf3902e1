"""Explanations of whole reports, and of launches with odd numbers."""

import math
from collections.abc import Callable

import pytest

from keet.analysis.launch_view import LaunchView
from keet.explanation.analyst import _healthy, explain
from keet.profile import Device, KernelName, Launch, Profile, Provenance, RawMetric, Workload
from keet.report.snapshot import InMemoryLaunch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up


def profile_with(**metrics: float) -> Profile:
    stored = {name: RawMetric(value) for name, value in metrics.items()}
    launch = Launch(
        number=0,
        name=KernelName("k", "k()", "_Z1k"),
        workload=Workload.KERNEL,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        data=InMemoryLaunch(Device("NVIDIA H200", "9.0", 132), stored),
    )
    return Profile((launch,), Provenance("made", "ncu-rep", 0, "0", "a test"))


@each_row("odd", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_an_invalid_number_of_samples_does_not_crash(odd: float) -> None:
    profile = profile_with(smsp__pcsamp_sample_count=odd)
    told = explain(profile, profile.launches, 5)
    assert told.launches[0].findings == ()


@pytest.mark.parametrize(
    "name", ["tour_full.ncu-repz", "tour_basic.ncu-repz", "metrics_only.ncu-repz"]
)
def test_every_number_of_an_explanation_has_evidence(
    name: str, profile_of: Callable[[str], Profile]
) -> None:
    """Whatever the report lacks, each launch has an account that adds up and a first sentence."""
    profile = profile_of(name)
    told = explain(profile, profile.launches, 5, sass=False)
    assert {each.launch.id for each in told.launches} == {each.id for each in profile.launches}
    for each in told.launches:
        assert each.verdict.headline
        shares = [part.percent.value for part in each.account]
        assert sum(shares) == pytest.approx(100, abs=0.1)


LOADS = {"bank_conflicts_load": 0, "shared_load_wavefronts": 400, "shared_store_wavefronts": 80}
SECTORS = {
    "src_l2_sectors_global_excess": 0,
    "src_l2_sectors_global": 140,
    "global_load_sectors": 125,
}


@each_row(("metrics", "praised"), [
    (LOADS | {"bank_conflicts_store": 0}, ["shared_bank_conflict"]),
    (LOADS | {"bank_conflicts_store": 50}, []),
    (SECTORS | {"global_reduction_sectors": 10}, ["uncoalesced_global"]),
    (SECTORS | {"global_reduction_sectors": 500}, []),
])  # fmt: skip
def test_what_is_praised(metrics: dict[str, float], praised: list[str]) -> None:
    """Shared memory if loads and stores are clean, coalescing unless reductions dominate."""
    view = LaunchView(made_up({"dram": 20.0}, None, None, **metrics))
    assert [note.id for note in _healthy(view, set())] == praised


def test_findings_beyond_top_are_not_listed(profile_of: Callable[[str], Profile]) -> None:
    profile = profile_of("zoo.ncu-repz")
    every, first = (explain(profile, profile.launches[4:5], top, sass=False) for top in (5, 1))
    assert len(every.launches[0].findings) > 1
    assert first.launches[0].findings == every.launches[0].findings[:1]
