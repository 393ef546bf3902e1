"""Steps between barriers in which a part of the block's threads has work."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.block_steps import block_steps
from keet.analysis.launch_view import LaunchView
from tests.unit.analysis.real_launches import launch_of


@pytest.mark.parametrize(
    ("case", "threads"),
    [
        # Seven steps of a tree over 128 threads: half of them, then a quarter, and so on.
        ("expert_route/token_per_block", (64 + 32 + 16 + 8 + 4 + 2 + 1) / 7 / 128),
        # One column of 16 divides, and a square that gets smaller is updated.
        ("small_lu/barrier_per_step", 0.15),
    ],
)
def test_the_threads_of_a_step_are_counted(case: str, threads: float) -> None:
    found = block_steps(LaunchView(launch_of(case), reads_code=True))
    assert found is not None
    assert found.threads == pytest.approx(threads, abs=0.05)
    assert found.idle > 0.4
    assert found.waiting > 0.9
    assert all(0 <= share <= 1 for share in found.gone.values())


@pytest.mark.parametrize(
    "case",
    [
        # All threads of a block work in each step.
        "heat_steps/two_barriers",
        "wave_seismic/two_barriers_per_plane",
        # Several warps of the only block of an SM: with one warp per item, the others have none.
        "option_tree/barriers_between_four_warps",
        "align_dp/barrier_per_four_rows",
    ],
)
def test_blocks_whose_warps_are_needed_have_no_such_steps(case: str) -> None:
    found = block_steps(LaunchView(launch_of(case), reads_code=True))
    assert found is None or found.idle < 0.05
