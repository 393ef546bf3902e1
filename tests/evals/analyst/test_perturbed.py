"""A perturbed launch: what is measured moves within its limits, what was configured stays."""

import math
from collections.abc import Callable
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.analyst.first_answer import first_answer
from evals.analyst.perturbed import (
    Original,
    PerturbedLaunch,
    factor_of,
    is_measured,
    scaled,
    shared_code,
)
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Launch, Profile
from keet.units import Quantity

CONFIGURED = (
    "grid_size", "block_size", "registers_per_thread", "shared_memory_per_block", "waves_per_sm",
    "block_limit_registers", "theoretical_occupancy_pct",
    "theoretical_warps_per_scheduler", "device_sm_count", "dram_peak_bytes_per_cycle",
    "sampling_interval_cycles",
)  # fmt: skip
MEASURED = (
    "duration", "sm_active_cycles", "dram_throughput_pct", "achieved_occupancy_pct",
    "inst_executed", "stall_long_scoreboard", "global_load_sectors", "samples_total",
)  # fmt: skip


@pytest.fixture(scope="module")
def launch(profile_of: Callable[[str], Profile]) -> Launch:
    return profile_of("tour_full.ncu-repz").launches[0]


def numbers(launch: Launch, *ids: str) -> dict[str, float]:
    found = {metric_id: launch.get(metric_id) for metric_id in ids}
    assert all(isinstance(quantity, Quantity) for quantity in found.values()), found
    return {metric_id: float(q.value) for metric_id, q in found.items() if q is not None}


@given(st.integers(), st.integers(0, 1000), st.floats(0, 0.5))
def test_a_factor_stays_within_its_width(metric: int, draw: int, width: float) -> None:
    factor = factor_of(f"metric {metric}", draw, width)
    assert 1 - width <= factor <= 1 + width
    assert factor == factor_of(f"metric {metric}", draw, width)


def test_factors_are_spread_over_the_whole_width() -> None:
    factors = [factor_of(f"metric {n}", draw, 0.02) for n in range(50) for draw in range(20)]
    assert len(set(factors)) == 1000
    assert min(factors) < 0.981
    assert max(factors) > 1.019
    assert abs(sum(factors) / 1000 - 1) < 0.002


@given(st.integers() | st.floats(allow_nan=False) | st.just("a text") | st.none())
def test_values_keep_their_type(value: float | str | None) -> None:
    assert type(scaled(value, 1.02)) is type(value)
    if isinstance(value, str) or value is None:
        assert scaled(value, 1.02) == value


@pytest.mark.parametrize("width", [0.02, 0.05])
def test_the_configuration_stays_and_measurements_move(launch: Launch, width: float) -> None:
    drawn = PerturbedLaunch(Original(launch), 3, width)
    assert numbers(drawn, *CONFIGURED) == numbers(launch, *CONFIGURED)
    before, after = numbers(launch, *MEASURED), numbers(drawn, *MEASURED)
    ratios = [after[name] / before[name] for name in MEASURED if before[name] > 100]
    assert all(abs(ratio - 1) <= width + 0.01 for ratio in ratios)  # counts are rounded
    assert len(set(ratios)) == len(ratios) > 4
    assert (drawn.grid, drawn.block, drawn.device) == (launch.grid, launch.block, launch.device)


def test_metrics_and_their_parts_are_moved(launch: Launch) -> None:
    drawn = PerturbedLaunch(Original(launch), 0, 0.02)
    for name in launch.metric_names():
        own, other = launch.metric(name), drawn.metric(name)
        is_large = isinstance(own.value, int | float) and 1000 < abs(own.value) < math.inf
        assert (own.value != other.value) == (is_large and is_measured(name)) or not is_large, name
    drawn = PerturbedLaunch(Original(launch), 1, 0.05)
    own, other = launch.instances("inst_executed"), drawn.instances("inst_executed")
    assert own.ids == other.ids
    ratios = [b / a for a, b in zip(own.values, other.values) if isinstance(a, int) and a > 10_000]
    assert max(ratios) - min(ratios) < 1e-3
    assert abs(ratios[0] - 1) > 1e-3
    assert drawn.instances("memory_type") == launch.instances("memory_type")


@pytest.mark.slow
def test_without_width_the_findings_are_those_of_the_launch(
    profile_of: Callable[[str], Profile],
) -> None:
    """The wrapper itself changes nothing, the shared machine code included."""
    launches = profile_of("zoo.ncu-repz").launches
    with shared_code():
        for launch in launches[:3]:
            drawn = PerturbedLaunch(Original(launch), 0, 0.0)
            plain, same = diagnose(launch), diagnose(drawn)
            assert first_answer(plain) == first_answer(same)
            assert [f.locations for f in plain.findings] == [f.locations for f in same.findings]


def test_the_code_is_analysed_once_and_its_stalls_are_those_of_the_draw(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, asked = import_module("keet.analysis.machine_code.launch_code"), []
    plain = module.machine_code
    monkeypatch.setattr(module, "machine_code", lambda each: asked.append(each) or plain(each))
    original = Original(launch)
    with shared_code():
        codes = [
            LaunchView(PerturbedLaunch(original, draw, 0.05), reads_code=True).code
            for draw in (0, 1)
        ]
    assert asked == [launch]
    first, second = codes
    assert first.program is second.program
    assert first.purposes is second.purposes
    assert first.sectors != second.sectors
    assert module.machine_code is not plain  # the test's own patch is back, not the shared one
