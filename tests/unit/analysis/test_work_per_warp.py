"""How much of a launch's time one warp needs for code that no other thread can take over."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.resident_warps import chain_share, instructions_per_warp
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.findings import uncoalesced_global
from tests.unit.analysis.real_launches import CASES, launch_of, profile_of


def test_a_loop_can_be_shared_and_code_outside_of_it_can_not() -> None:
    """Steps of a ring are a few instructions and a launch each; rows are summed in a long loop."""
    steps, rows = (
        LaunchView(launch_of(name), reads_code=True) for name in ("ring_steps", "row_norms")
    )
    assert chain_share(steps) > 0.2
    assert chain_share(rows) < 0.02
    each = instructions_per_warp(steps)
    assert each is not None
    assert each.value < 200


@pytest.mark.parametrize("name", ["ring_steps", "row_norms"])
def test_without_machine_code_the_chain_is_not_known(name: str) -> None:
    assert chain_share(LaunchView(launch_of(name), reads_code=False)) == 0


@pytest.mark.parametrize(("name", "least"), [("column_physics", 0.9), ("fan_update", 0.0)])
def test_scattered_accesses_relieve_a_unit_by_their_part_of_its_work(
    name: str, least: float
) -> None:
    """Local memory is nearly all that L1 does in one of them, global memory in the other."""
    view = LaunchView(launch_of(name), reads_code=True)
    effects = [each.effect for each in uncoalesced_global.candidates(view, TimeModel(view))]
    units = [effect.units for effect in effects if isinstance(effect, Effect)]
    assert units or least
    assert all(least <= kept <= 1 for each in units for kept in each.values())
    assert least or any(kept < 0.5 for each in units for kept in each.values())


def test_a_block_whose_threads_exchange_results_can_not_be_spread() -> None:
    """One block does all sweeps: a sweep reads from shared memory what the one before stored. The
    block of a scan loads new data in each iteration."""
    case = CASES["spmv_ell/sweep_a_launch"]
    sweeps = case.launch(profile_of(case.profile_path(case.spec.after)))
    assert chain_share(LaunchView(sweeps, reads_code=True)) > 0.8
    assert chain_share(LaunchView(launch_of("scan/long_rows"), reads_code=True)) < 0.1
