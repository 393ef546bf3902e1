"""Explanations of launches with odd numbers."""

import math

import pytest

from keet.explanation.analyst import explain
from keet.ingest.stored import StoredLaunch
from keet.profile import Device, KernelName, Launch, Profile, Provenance, RawMetric, Workload


def profile_with(**metrics: float) -> Profile:
    stored = {name: RawMetric(value) for name, value in metrics.items()}
    launch = Launch(
        number=0,
        name=KernelName("k", "k()", "_Z1k"),
        workload=Workload.KERNEL,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        data=StoredLaunch(Device("NVIDIA H200", "9.0", 132), stored),
    )
    return Profile((launch,), Provenance("made", "ncu-rep", 0, "0", "a test"))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_an_odd_number_of_samples_is_no_crash(odd: float) -> None:
    profile = profile_with(smsp__pcsamp_sample_count=odd)
    told = explain(profile, profile.launches, 5)
    assert told.launches[0].findings == ()
