"""Steps between barriers in which a part of the block's threads has work."""

from __future__ import annotations

from pathlib import Path

import pytest

from keet.analysis.kernel.block_steps import BlockSteps, block_steps
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.findings.barrier_bound import FINDING
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import with_code
from tests.unit.analysis.real_launches import launch_of, profile_of, public_launch

FAMILIES = Path("kernels_samples/casebook/families")


@pytest.mark.parametrize(("case", "threads"), [
    # Seven steps of a tree over 128 threads: half of them, then a quarter, and so on.
    ("expert_route/token_per_block", (64 + 32 + 16 + 8 + 4 + 2 + 1) / 7 / 128),
    # One column of 16 divides, and a square that gets smaller is updated.
    ("small_lu/barrier_per_step", 0.15),
])  # fmt: skip
def test_the_threads_of_a_step_are_counted(case: str, threads: float) -> None:
    found = block_steps(LaunchView(launch_of(case), reads_code=True))
    assert found.threads == pytest.approx(threads, abs=0.05)
    assert found.idle > 0.4
    assert found.waiting > 0.9
    assert all(0 <= share <= 1 for share in found.gone.values())


@each_row("case", [
    "heat_steps/two_barriers",  # all threads of a block work in each step
    "wave_seismic/two_barriers_per_plane",
    # Several warps of the only block of an SM: with one warp per item, the others have none.
    "option_tree/barriers_between_four_warps",
    "align_dp/barrier_per_four_rows",
])  # fmt: skip
def test_blocks_whose_warps_are_needed_have_no_such_steps(case: str) -> None:
    found = block_steps(LaunchView(launch_of(case), reads_code=True))
    assert found is None or found.idle < 0.05


def test_threads_that_data_choose_are_no_idle_threads() -> None:
    """Each pixel that may grow looks at its neighbours, and any pixel may be one. Of 32 lanes 9
    are active, in nearly all warps."""
    path = FAMILIES / "edge_detect/profiles/trace.tile_sweeps.keet.json.zst"
    launch = profile_of(path).launches[0]
    found = block_steps(LaunchView(launch, reads_code=True))
    assert found is None or found.idle < 0.05
    told = [each for each in diagnose(launch).findings if each.id == "barrier_bound"]
    assert all(each.variant == "" for each in told)


@pytest.mark.slow
@needs_corpus
def test_blocks_that_wait_for_other_blocks_have_no_such_steps() -> None:
    """A decoupled look-back: with an item per warp, more would have to look back."""
    launch = public_launch("thedavidchu__speedy_scan")
    assert block_steps(LaunchView(launch, reads_code=True)) is None
    found = next(each for each in diagnose(launch).findings if each.id == FINDING.id)
    assert (found.variant, found.advice and found.advice.variant) == ("", "look_back")


def steps_of(body: str, *runs: tuple[int, int]) -> BlockSteps | None:
    return block_steps(LaunchView(with_code(body, *runs), reads_code=True))


ALL, HALF = (8, 256), (4, 128)
BRANCHES = """
        S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x80, PT; @P0 BRA other; LDS R2, [R0]
        BRA both
        other: LDS R2, [R0+0x400]
        both: STG.E desc[UR4][R4.64], RZ; BAR.SYNC 0x0; EXIT
"""
PREDICATES = """
        S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x80, PT; @P0 LDS R2, [R0]
        @!P0 LDS R3, [R0+0x400]; BAR.SYNC 0x0; EXIT
"""


def test_branches_and_predicates_that_exclude_each_other_share_the_threads() -> None:
    # Half of the warps load one tile, half the other: no thread is idle.
    none = (8, 0)
    runs = (ALL, ALL, (8, 128), HALF, HALF, HALF, none, ALL, ALL)
    assert steps_of(BRANCHES, *runs) is None
    one_side = BRANCHES.replace(" other: LDS R2, [R0+0x400]", " other: MOV R2, RZ")
    found = steps_of(one_side, *runs)
    assert found.threads == pytest.approx(0.5)
    runs = (ALL, ALL, (8, 128), (8, 128), ALL, ALL)
    assert steps_of(PREDICATES, *runs) is None
    found = steps_of(PREDICATES.replace("@!P0", "@P0"), *runs)
    assert found.threads == pytest.approx(0.5)


BROADCAST = """
        S2R R0, SR_TID.X; ISETP.NE.AND P0, PT, R0, RZ, PT; @!P0 STS [RZ], R2; BAR.SYNC 0x0
        LDS R3, [RZ]; STG.E desc[UR4][R4.64], R3; BAR.SYNC 0x0; EXIT
"""
BROADCAST_LOAD = 4


def test_what_one_thread_stores_for_all_is_not_their_own() -> None:
    """One of the 8 warps, which has the item then, still loads it."""
    found = steps_of(BROADCAST, ALL, ALL, (8, 1), ALL, ALL, ALL, ALL, ALL)
    assert found.gone[BROADCAST_LOAD] == pytest.approx(found.executed * (1 - 1 / 8))
