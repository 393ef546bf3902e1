"""Warps: what each does, and which do nothing."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.resident_warps import chain_share, idle_warps, instructions_per_warp
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.findings import uncoalesced_global
from keet.profile import Launch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, H200, made_up
from tests.unit.analysis.real_launches import CASES, launch_of, profile_of


def test_a_loop_can_be_shared_and_code_outside_of_it_can_not() -> None:
    # Steps of a ring are a few instructions and a launch each; rows are summed in a long loop.
    steps, rows = (
        LaunchView(launch_of(name), reads_code=True) for name in ("ring_steps", "row_norms")
    )
    assert chain_share(steps) > 0.2
    assert chain_share(rows) < 0.02
    each = instructions_per_warp(steps)
    assert each.value < 200
    # One block does all sweeps: a sweep reads from shared memory what the one before stored. The
    # block of a scan loads new data in each iteration.
    case = CASES["spmv_ell/sweep_a_launch"]
    sweeps = case.launch(profile_of(case.profile_path(case.spec.after)))
    assert chain_share(LaunchView(sweeps, reads_code=True)) > 0.8
    assert chain_share(LaunchView(launch_of("scan/long_rows"), reads_code=True)) < 0.1


def test_without_machine_code_the_chain_is_not_known() -> None:
    assert chain_share(LaunchView(launch_of("ring_steps"), reads_code=False)) == 0


@pytest.mark.parametrize(("name", "least"), [("column_physics", 0.9), ("fan_update", 0.0)])
def test_scattered_accesses_relieve_a_unit_by_their_part_of_its_work(name, least) -> None:
    """Local memory is nearly all that L1 does in one of them, global memory in the other."""
    view = LaunchView(launch_of(name), reads_code=True)
    effects = [each.effect for each in uncoalesced_global.candidates(view, TimeModel(view))]
    units = [effect.units for effect in effects if isinstance(effect, Effect)]
    assert units or least
    assert all(least <= kept <= 1 for each in units for kept in each.values())
    assert least or any(kept < 0.5 for each in units for kept in each.values())


WARPS = 1_000_000
BUSY = {"issue_slots": 75.0, "dram": 1.0}


def with_accesses(accesses: int, per_warp: int) -> Launch:
    """`per_warp`: instructions that every warp executes."""
    opcodes = {"IMAD": WARPS * per_warp // 2, "ISETP": WARPS * per_warp // 2, "STG": accesses}
    shape = {"grid_size": WARPS / 8, "block_size": 256.0}
    counts = {"inst_executed": float(sum(opcodes.values())), "duration": 1e6}
    return made_up(BUSY, None, opcodes, **shape, **counts)


def test_warps_without_an_access_are_waste(wording) -> None:
    launch = with_accesses(WARPS // 20, 12)
    found = idle_warps(LaunchView(launch))
    assert found.share.value == pytest.approx(95)
    first = diagnose(launch).findings[0]
    assert (first.id, first.label) == ("warp_divergence", "warps without work")
    assert first.forecast.likely > 4
    wording(first.action)


@pytest.mark.parametrize(("accesses", "per_warp"), [(WARPS, 12), (WARPS // 20, 2000)])
def test_warps_that_store_or_compute_have_work(accesses: int, per_warp: int) -> None:
    """The look-alike: warps that compute much, of which one stores the result of all."""
    assert idle_warps(LaunchView(with_accesses(accesses, per_warp))) is None


def of_the_basic_set(sent: float, per_warp: float) -> Launch:
    """`sent`: cycles per warp in which L1 sends to L2."""
    device_cycles = ELAPSED * (H200.sm_count or 1)
    shape = {"grid_size": WARPS / 8, "block_size": 256.0, "inst_executed": per_warp * WARPS}
    busy = 100 * sent * WARPS / device_cycles
    return made_up(
        {"issue_slots": 15.0, "fp64": 43.0},
        None,
        None,
        l1_to_crossbar_pct=busy,
        elapsed_cycles=ELAPSED,
        duration=1e6,
        **shape,
    )


def test_the_basic_set_shows_warps_that_store_nothing() -> None:
    """Their exit costs time, but they do not compute in double precision."""
    launch = of_the_basic_set(0.1, 12)
    found = idle_warps(LaunchView(launch))
    assert found.share.value == pytest.approx(90)
    first = diagnose(launch).findings[0]
    assert first.label == "warps without work"
    assert 1.5 < first.forecast.likely < 1 / 0.43


@each_row(("sent", "per_warp"), [(1.0, 12), (1.9, 16), (0.1, 100)])
def test_the_basic_set_shows_that_warps_may_have_work(sent: float, per_warp: float) -> None:
    """The look-alikes: each warp loads or stores once; few results of much work."""
    assert idle_warps(LaunchView(of_the_basic_set(sent, per_warp))) is None
