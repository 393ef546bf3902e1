"""Explanations of whole reports, and of launches with odd numbers."""

import math
from collections.abc import Callable

import pytest

from keet.explanation.analyst import explain
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.profile import Device, KernelName, Launch, Profile, Provenance, RawMetric, Workload
from keet.verification.explanation_check import ExplanationCheck
from tests.rows import each_row


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
    "name", ["tour_full.ncu-rep", "tour_basic.ncu-rep", "metrics_only.ncu-repz"]
)
def test_every_number_of_an_explanation_has_evidence(
    name: str, profile_of: Callable[[str], Profile]
) -> None:
    """Whatever the report lacks, each launch has an account that adds up and a first sentence."""
    profile = profile_of(name)
    told = explain(profile, profile.launches, 5, sass=False)
    assert ExplanationCheck(told).unchecked == ()
    assert {each.launch.id for each in told.launches} == {each.id for each in profile.launches}
    for each in told.launches:
        assert each.verdict.headline
        shares = [part.share.value for part in each.account.parts]
        assert sum(shares) == pytest.approx(100, abs=0.1)


def test_findings_beyond_top_are_not_listed(
    profile_of: Callable[[str], Profile],
) -> None:
    profile = profile_of("zoo.ncu-repz")
    every, first = (explain(profile, profile.launches[4:5], top, sass=False) for top in (5, 1))
    assert len(every.launches[0].findings) > 1
    assert first.launches[0].findings == every.launches[0].findings[:1]
