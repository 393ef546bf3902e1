"""What the analyst makes of the few and rounded numbers of a printed page."""

from __future__ import annotations

from functools import cache

import pytest

from keet.analysis.account import Account, account_of
from keet.analysis.candidate import Candidate
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.headline import verdict_of
from keet.findings import findings
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import public_launch

SMS = 132


def view_of(units: dict[str, float], **metrics: float) -> LaunchView:
    return LaunchView(made_up(units, **metrics))


def account(view: LaunchView) -> Account:
    return account_of(view, TimeModel(view))


@cache
def export(start: str) -> Diagnosis:
    return diagnose(public_launch(start), reads_code=False)


def test_counts_are_exact_where_they_are_printed() -> None:
    # 0.03 instructions per cycle may be 0.025 or 0.035; counts are exact.
    few = {"ipc_executed_elapsed": 0.03, "inst_issued_total": 16_114_912}
    view = view_of({}, **few, smsp_elapsed_cycles_total=1_966_292_704)
    assert view.ceilings.share("issue") == pytest.approx(0.0081956, rel=1e-4)
    assert f"{view.ceilings.reached('issue'):.1f}" == "0.8%"
    assert idle(sm_elapsed_cycles_total=68_185 * SMS) == pytest.approx(9.86, abs=0.01)
    of_launch = pytest.approx(12.57, abs=0.01)
    assert idle() == of_launch
    assert idle(sm_elapsed_cycles_total=68_185 * SMS // 7) == of_launch
    assert idle(sm_elapsed_cycles_total=68_185 * SMS * 2) == of_launch


@each_row(("rate", "share"), [(0.03, 0.8), (3.02, 75.5), (2.2987, 57.4675)])
def test_a_rounded_rate_has_as_many_digits_as_it_supports(rate: float, share: float) -> None:
    found = view_of({}, ipc_executed_elapsed=rate).ceilings.reached("issue")
    assert found.value == pytest.approx(share, abs=1e-9)


@needs_corpus
@pytest.mark.parametrize(("start", "share"), [("brycelelbach", 0.82), ("jIab", 75.41)])
def test_issue_slots_of_an_export_are_those_that_it_prints(start: str, share: float) -> None:
    found = export(start).view.ceilings.reached("issue")
    assert round(found.value, 2) == share


def idle(**metrics: float) -> float:
    view = view_of({"issue_slots": 50.0}, elapsed_cycles=70_302, sm_active_cycles=61_465, **metrics)
    part = account(view).part("idle")
    return float(part.percent.value) if part else 0.0


def test_the_sm_is_ranked_with_the_other_units_and_not_beside_its_busiest_pipe() -> None:
    view = view_of({"dram": 33.0}, sm_throughput_pct=77.0)
    assert [each.name for each in view.ceilings.ranked] == ["SM", "DRAM"]
    assert TimeModel(view).busiest == "SM"
    for unit in ("issue_slots", "fma"):
        assert len(view_of({unit: 77.0}, sm_throughput_pct=77.4).ceilings.ranked) == 1


def candidates(finding: str, view: LaunchView) -> list[Candidate]:
    return list(findings()[finding].candidates(view, TimeModel(view)))


def test_latency_and_headline_name_the_same_unit(wording) -> None:
    launch = made_up({"l1": 21.0}, sm_throughput_pct=24.0, duration=1e6)
    found = diagnose(launch, reads_code=False)
    wording(verdict_of(found).headline)
    (latency,) = candidates("latency_bound", found.view)
    told = latency.text
    wording(told)


LIMITS = {
    "block_limit_registers": 2.0,
    "block_limit_shared_memory": 32.0,
    "block_limit_sm": 32.0,
    "block_limit_warps": 8.0,
    "theoretical_occupancy_pct": 25.0,
    "waves_per_sm": 100.0,
}


@pytest.mark.parametrize("busy", [{"sm_throughput_pct": 77.0}, {"dram_throughput_pct": 80.0}])
def test_a_unit_that_explains_the_time_leaves_no_assumed_waits(busy: dict[str, float]) -> None:
    view = view_of({}, **busy, **LIMITS)
    # Without any level of memory, one of them may explain the time.
    idle = dict.fromkeys(busy, 30.0) | {"dram_throughput_pct": 30.0}
    idle_view = view_of({}, **idle, **LIMITS)
    for finding in ("latency_bound", "occupancy_limited_registers"):
        assert not candidates(finding, view)
        assert candidates(finding, idle_view)


@needs_corpus
def test_exports_with_a_busy_sm_or_two_limits() -> None:
    assert "latency_bound" not in [each.id for each in export("AlpriElse").findings]
    found = {each.id: each for each in export("microsoft").findings}
    tied = found["occupancy_limited_registers"]
    assert "registers and shared memory" in tied.label
    assert tied.cause_certainty == "possible"
    assert tied.expected < tied.forecast.likely, "shared memory may limit it as before"
    first = export("brycelelbach").findings[0]
    assert first.id == "uncoalesced_global"
    assert first.text.startswith("75% of the 33,554,432 sectors")


@each_row("limits, times, tied", [
    ({}, 4.0, False),  # up to the warps
    ({"block_limit_shared_memory": 6.0}, 3.0, False),
    ({"block_limit_shared_memory": 3.0}, 1.5, False),
    ({"block_limit_barriers": 5.0}, 2.5, False),
    ({"block_limit_shared_memory": 2.0}, 4.0, True),
])  # fmt: skip
def test_more_warps_fit_up_to_the_next_limit(limits, times, tied) -> None:
    view = view_of({"dram": 20.0}, **(LIMITS | limits))
    (found,) = candidates("occupancy_limited_registers", view)
    assert found.effect.waits["long_scoreboard"] == pytest.approx(1 / times)
    assert ("shared memory equally" in found.text, found.likelihood < 1) == (tied, tied)


def test_larger_blocks_relieve_what_each_block_takes() -> None:
    """A block without shared memory is charged for some, and has a barrier."""
    small = {"block_limit_registers": 128.0, "block_limit_warps": 64.0}
    view = view_of({"dram": 20.0}, **(LIMITS | small | {"block_limit_barriers": 32.0}))
    assert not candidates("occupancy_limited_shared", view)
    (found,) = candidates("occupancy_limited_block", view)
    assert (found.likelihood, found.effect.waits["long_scoreboard"]) == (1, pytest.approx(1 / 2))
