"""The account of a launch: it closes, whatever the report has, and says what it cannot tell."""

import pytest
from hypothesis import given

from keet.analysis.account import Account, account_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import SHARPNESS, TimeModel, attainable
from keet.profile import Launch
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.launch_checks import check_account
from tests.unit.analysis.made_up_launch import (
    ELAPSED,
    GEFORCE,
    H200,
    OPCODES,
    active,
    launches,
    made_up,
)
from tests.unit.analysis.real_launches import profile_of


def account(launch: Launch) -> tuple[Account, LaunchView]:
    view = LaunchView(launch)
    return account_of(view, TimeModel(view)), view


def test_waiting_for_units_that_are_busy_or_few() -> None:
    # On GPUs with full-rate FP64, these states have other reasons.
    states = {"tex_throttle": 60.0, "short_scoreboard": 40.0, "selected": 1.0}
    for device, double in ((GEFORCE, 1.0), (H200, 0.0)):
        launch = made_up({"fp64": 84.0, "issue_slots": 1.0}, states, device=device)
        found, view = account(launch)
        check_account(found, view)
        parts = {part.id: part.percent.value for part in found.all()}
        waiting = parts["waiting"]
        own = parts.get("waiting.busy.fp64", 0.0) + parts.get("waiting.latency.double", 0.0)
        assert own == pytest.approx(double * waiting, abs=1)
        assert ("waiting.latency.textures" in parts) is (not double)
    # The same warp state, by how busy DRAM is: smoothly from one part to the other.
    busy = []
    for dram in (0.0, 20.0, 40.0, 60.0, 80.0, 92.0):
        units = {"dram": dram, "issue_slots": 10.0}
        found, _ = account(made_up(units, {"long_scoreboard": 10.0, "selected": 1.0}))
        waiting, part = found.part("waiting"), found.part("waiting.busy.dram")
        assert waiting.percent.value == pytest.approx(90)
        busy.append(float(part.percent.value) if part else 0.0)
        rest = found.part("waiting.latency.memory")
        assert busy[-1] + (float(rest.percent.value) if rest else 0.0) == pytest.approx(90)
    assert (busy, busy[0]) == (sorted(busy), 0)
    assert busy[-1] > 85


@given(launches(opcodes=OPCODES))
@pytest.mark.slow
def test_any_account_closes(launch) -> None:
    check_account(*account(launch))


def test_a_report_with_next_to_nothing_has_an_account() -> None:
    found, view = account(made_up({}))
    check_account(found, view)
    assert found.unknown == 100
    assert [part.id for part in found.all()] == ["active", "active.unknown"]
    assert all(part.time is None for part in found.all())
    # Parts that would print as 0.0 % go to a neighbour: their sum may be more than that.
    opcodes = {"FFMA": 1, "IMAD": 1, "LDG": 1, "BRA": 1, "MOV": 1, "BAR": 1, "F2F": 1}
    found, view = account(made_up({"issue_slots": 0.3}, opcodes=opcodes))
    check_account(found, view)
    issuing = found.part("issuing")
    assert [child.percent.value for child in issuing.children] == [pytest.approx(0.3)]


@each_row("grid, waves, average, longest, shares", [
    # A quarter of the SMs have a block: the grid explains all that is idle.
    (33, 0.25, 0.225, 0.9, {"launch": 10, "idle": 67.5, "active": 22.5, "idle.small_grid": 67.5,
                            "idle.imbalance": None}),
    # Without the longest SM: those with a block are active for nine tenths of the time.
    (33, 0.25, 0.225, None, {"idle": 77.5, "idle.small_grid": 67.5, "idle.other": 10}),
    (13200, 100, 0.225, 0.9, {"idle.imbalance": 67.5}),  # many equal waves explain nothing of it
    # 1.25 waves: the last one is three quarters empty. What is idle beyond that is imbalance.
    (165, 1.25, 0.45, 0.9, {"idle": 45, "idle.tail": 33.75, "idle.imbalance": 11.25}),
])  # fmt: skip
def test_idle_sms_are_split_by_the_shape_of_the_grid(grid, waves, average, longest, shares) -> None:
    active = {"elapsed_cycles": ELAPSED, "sm_active_cycles": average * ELAPSED}
    active |= {"sm_active_cycles_max": longest * ELAPSED} if longest else {}
    found, _ = account(made_up({}, grid_size=grid, waves_per_sm=waves, **active))
    assert _shares(found, *shares) == [*shares.values()]


def _shares(found: Account, *ids: str) -> list[object]:
    parts = [found.part(each) for each in ids]
    return [part and pytest.approx(part.percent.value, abs=0.01) for part in parts]


def test_parts_of_issuing_of_the_busiest_unit_and_the_leading_ones() -> None:
    found, _ = account(
        made_up({"issue_slots": 60.0}, opcodes={"FFMA": 3, "LDG": 1}, active_threads_per_warp=8)
    )
    ids = ("issuing.lanes_off", "issuing.value", "issuing.memory")
    assert _shares(found, *ids) == [45, 11.25, 3.75]
    found, _ = account(made_up({"dram": 50.0 * attainable("DRAM")}))
    busy = 100 * 0.5**SHARPNESS
    shares = _shares(found, "active", "active.busy.dram", "active.unknown")
    assert shares == [100, busy, 100 - busy]
    launch = profile_of(REPORTS / "tour_full.ncu-repz").launches[0]
    found, _ = account(launch)
    leading = found.leading(most=3)
    assert len(leading) == 3
    assert all(not part.children and part.percent.value >= 3 for part in leading)
    every = sorted((p.percent.value for p in found.all() if not p.children), reverse=True)
    assert [part.percent.value for part in leading] == every[:3]


def test_warps_that_mostly_wait_for_the_tensor_cores_find_them_busy(wording) -> None:
    """Made-up launches. Half of the peak can be all that the instructions used can reach."""
    for fixed in (5.0, 60.0):
        states = {"math_pipe_throttle": 30.0, "wait": fixed}
        units = {"issue_slots": 10.0, "tensor": 40.0}
        found, _ = account(made_up(units, states, None, **active(1.0)))
        wording({part.part for part in found.all()}, case=fixed)
