"""How busy units are on average and while an SM is active."""

from __future__ import annotations

import pytest

from keet.analysis.amounts.units import unit_uses
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import UnitUseDocument
from tests.unit.analysis.made_up_launch import ELAPSED, made_up
from tests.unit.analysis.real_launches import launch_of


def uses(name: str) -> dict[str, UnitUseDocument]:
    return {each.unit: each for each in unit_uses(LaunchView(launch_of(name)))}


def test_a_small_grid_leaves_most_sms_without_work() -> None:
    # Twelve blocks on 132 SMs. The report has the share of the active cycles of some pipes, and the
    # cycles that give it for others.
    launch, found = launch_of("row_norms"), uses("row_norms")
    alu = found["ALU pipe"]
    measured = launch.metric("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active")
    assert (alu.active_pct, alu.average_pct) == (measured.value, pytest.approx(2.59, abs=0.01))
    l1 = found["L1"]
    assert l1.active_pct / l1.average_pct == pytest.approx(
        measured.value / alu.average_pct, rel=0.02
    )
    assert [each.average_pct for each in found.values()] == sorted(
        (each.average_pct for each in found.values()), reverse=True
    )
    found = uses("row_norms")
    assert found["DRAM"].active_pct is None
    assert found["L2"].active_pct is None


def test_cycles_of_the_sms_give_what_the_report_measures() -> None:
    """In a launch of 2 us, the GPCs count 6 % fewer cycles than the SMs."""
    launch = launch_of("ring_steps")
    kept = LaunchView(launch)
    issue = {each.unit: each for each in unit_uses(kept)}["issue slots"]
    measured = launch.metric("smsp__issue_active.avg.pct_of_peak_sustained_active")
    assert issue.active_pct == pytest.approx(measured.value, rel=0.1)
    lsu = {each.unit: each for each in unit_uses(kept)}["LSU pipe"]
    exact = launch.metric("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active")
    assert lsu.active_pct == exact.value


def test_made_up_shares() -> None:
    half = made_up(
        {"fp64": 21, "l2": 40, "xu": 0.5}, sm_active_cycles=ELAPSED / 4, elapsed_cycles=ELAPSED
    )
    found = {each.unit: each.active_pct for each in unit_uses(LaunchView(half))}
    assert found == {"L2": None, "FP64 pipe": pytest.approx(84), "XU pipe": pytest.approx(2)}
    always = made_up({"fp64": 21, "xu": 0.5}, sm_active_cycles=ELAPSED, elapsed_cycles=ELAPSED)
    (only,) = unit_uses(LaunchView(always))
    assert (only.unit, only.active_pct) == ("FP64 pipe", pytest.approx(21))
    assert len(only.evidence) == 1  # nothing else to say
    (only,) = unit_uses(LaunchView(made_up({"fp64": 21})))
    assert only.active_pct is None
    assert unit_uses(LaunchView(made_up({}))) == ()
