"""PM samples show how busy units were where a report has no other numbers of it."""

from __future__ import annotations

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.profile import Instances, KernelName, Launch, RawMetric, Workload
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200

SHARE = "pmsampling:{}.avg.pct_of_peak_sustained_elapsed"


def sampled(samples: dict[str, tuple[float, ...]], active: float = 9e5) -> Launch:
    """A made-up launch of 1 ms: one sample per 100 us, the first at the start of the window."""
    instances = {
        SHARE.format(name): Instances(values, tuple(range(0, 100_000 * len(values), 100_000)))
        for name, values in samples.items()
    }
    metrics = {name: RawMetric(None) for name in instances} | {
        "gpu__time_duration.sum": RawMetric(1e6, "ns"),
        "gpc__cycles_elapsed.max": RawMetric(1e6, "cycle"),
        "pmsampling:sm__cycles_active.avg": RawMetric(active, "cycle"),
    }
    return Launch(
        number=0,
        name=KernelName("k", "k()", "_Z1kv"),
        workload=Workload.KERNEL,
        grid=(1000, 1, 1),
        block=(256, 1, 1),
        data=InMemoryLaunch(H200, metrics, instances),
    )


TENSOR = "sm__pipe_tensor_cycles_active_realtime"
OUTSIDE = (0.0,) * 10


@each_row("samples", [(*OUTSIDE, *(60.0,) * 10, *OUTSIDE), (60.0,) * 6])
def test_samples_outside_of_the_launch_and_a_window_that_ends_early(samples) -> None:
    units = LaunchView(sampled({TENSOR: samples})).ceilings
    assert units.share("tensor") == pytest.approx(0.6)
    assert not units.are_counted


@each_row("active", [0.0, 3e6, float("nan")])
def test_samples_of_other_work_are_not_used(active: float) -> None:
    assert not LaunchView(sampled({TENSOR: (60.0,) * 11}, active)).ceilings.ranked


def test_sampled_dram_bounds_the_gain_only() -> None:
    launch = sampled({TENSOR: (60.0,) * 11, "dramc__throughput": (9.3,) * 11})
    model = TimeModel(LaunchView(launch))
    assert model.loads["DRAM"] == pytest.approx(0.1)
    assert model.view.ceilings.share("DRAM") is None
