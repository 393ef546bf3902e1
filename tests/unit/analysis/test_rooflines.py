"""A compute roofline is that of an arithmetic pipe; full issue slots are none."""

from __future__ import annotations

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.roofline.launch_roofline import AT_CEILING, issue_limited, reached_roofline
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.headline import verdict_of
from keet.profile import Launch
from keet.profile.metric import Value
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import CASES, changed, launch_of, profile_of

FMA_PIPES = ("sm__inst_executed_pipe_fma", "sm__pipe_fma", "sm__inst_executed_pipe_fmaheavy")


def with_idle_fma(launch: Launch, factor: float) -> Launch:
    """An edited snapshot: the same launch, with less work on the FMA pipes."""

    def change(name: str, value: Value) -> Value:
        is_fma = name.startswith(FMA_PIPES) and isinstance(value, int | float)
        return value * factor if is_fma else value  # type: ignore[operator]

    return changed(launch, change)


def model_of(launch: Launch) -> TimeModel:
    return TimeModel(LaunchView(launch, reads_code=True))


def test_a_full_arithmetic_pipe_is_a_roofline_also_with_fuller_issue_slots() -> None:
    model = model_of(launch_of("tile_smooth:fast"))
    assert model.busiest == "issue"
    assert model.loads["FMA"] >= AT_CEILING
    assert reached_roofline(model) == "compute"
    assert not issue_limited(model)


@pytest.mark.parametrize("factor", [0.8, 0.5])
def test_issue_slots_alone_are_no_roofline(factor: float) -> None:
    launch = with_idle_fma(launch_of("tile_smooth:fast"), factor)
    model = model_of(launch)
    assert model.loads["issue"] > AT_CEILING > model.loads["FMA"]
    assert issue_limited(model)
    assert reached_roofline(model) != "compute"


def test_the_headline_says_what_the_instructions_are_for() -> None:
    """tap_filter: issue slots at 71 % and FMA at 49 % of peak were called the compute roofline."""
    diagnosis = diagnose(launch_of("tap_filter:fast"))
    assert diagnosis.healthy is None
    named = [each for each in (*diagnosis.findings, *diagnosis.minor) if each.variant == "issue"]
    (finding,) = named
    assert finding.id == "pipe_saturated"
    assert "not arithmetic on data" in str(finding.text)
    assert "addresses and indices" in str(finding.text)
    assert finding.label == "many instructions beside the arithmetic"


def test_without_a_finding_the_headline_names_the_instructions() -> None:
    diagnosis = diagnose(launch_of("phase_sum:fast"))
    assert not diagnosis.findings
    headline = str(verdict_of(diagnosis).headline)
    assert "limit the number of instructions, not the arithmetic" in headline
    assert "Of the time:" in headline


def test_a_busy_tensor_pipe_computes_however_few_its_instructions_are() -> None:
    assert reached_roofline(model_of(launch_of("token_mix:fast"))) == "compute"


def test_a_busy_tensor_pipe_that_delivers_half_is_no_roofline() -> None:
    """An edited snapshot: as busy as before, with half of the matrix instructions."""
    path = next(
        case.profile_path(variant)
        for case in CASES.values()
        if case.family.name == "triton_matmul"
        for variant in case.spec.variants
        if variant == "large_staged" or str(variant).endswith("large_staged")
    )
    launch = profile_of(path).launches[0]

    def halved(name: str, value: Value) -> Value:
        is_count = name.startswith("sass__inst_executed_per_opcode")
        return value / 2 if is_count and isinstance(value, int | float) else value

    assert reached_roofline(model_of(launch)) == "compute"
    assert reached_roofline(model_of(changed(launch, halved))) != "compute"


@pytest.mark.parametrize(
    ("units", "metrics", "roofline"),
    [
        ({"dram": 60.0}, {}, None),
        ({"dram": 60.0, "l2": 80.0}, {}, None),
        ({"dram": 80.0}, {}, "DRAM"),
        ({"dram": 68.0, "l2": 92.0}, {}, "DRAM"),  # L2 passes on the bytes of DRAM
        ({"fma": 61.0, "issue_slots": 62.0}, {}, None),
        ({"fma": 75.0, "issue_slots": 62.0}, {}, "compute"),
        ({}, {"sm_throughput_pct": 61.0}, None),  # the basic set: only the busiest pipe
        ({}, {"sm_throughput_pct": 80.0}, "compute"),
    ],
)
def test_a_roofline_is_most_of_what_the_unit_can_do(
    units: dict[str, float], metrics: dict[str, float], roofline: str | None
) -> None:
    """Made-up launches. SMs that are active for a part of the time make no roofline: the share
    counts that was reached over the whole time."""
    activity = {"elapsed_cycles": 1e6, "sm_active_cycles": 7e5, "sm_active_cycles_max": 7.5e5}
    launch = made_up(units, None, None, **metrics, **activity)
    assert reached_roofline(model_of(launch)) == roofline
