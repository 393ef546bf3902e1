"""Why threads are inactive: the block's size, a check of the index, or paths that differ."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.inactive_threads import inactive_threads, uneven_trips
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.findings.warp_divergence import candidates
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import CASES, launch_of, public_launch


@needs_corpus
@pytest.mark.parametrize(
    ("owner", "launch", "line"),
    [("lk-spec__", 8, "new-forward.cu:53"), ("chia7__", 4, "new-forward.cu:47")],
)
def test_threads_outside_of_the_output(owner: str, launch: int, line: str) -> None:
    """34 columns in blocks of 16 or 32: the others leave at `if (x < width && y < height)`."""
    view = LaunchView(public_launch(owner, launch))
    (found,) = candidates(view, TimeModel(view))
    assert found.variant == "outside"
    assert "bounds check" in found.text
    assert [place.where for place in found.places()] == [line]


@needs_corpus
def test_an_early_exit_by_data_is_a_path() -> None:
    """The self-join leaves its loop of distances when one is too large."""
    found = inactive_threads(LaunchView(public_launch("bwd29__", 0)))
    assert found.cause == "paths"


@each_row("launch, cause", [
    ("decay_ratios", "paths"),
    ("sparse_apply", "paths"),
    ("window_median", "paths"),
    (made_up({}, block_size=6, active_threads_per_warp=6.0), "block_size"),
    (made_up({}, block_size=48, active_threads_per_warp=24.0), "block_size"),
    (made_up({}, block_size=4), "block_size"),  # the size alone shows partial warps
    (made_up({}, block_size=256), None),
    # 48 threads per block explain 24 per warp, not 9.
    (made_up({}, block_size=48, active_threads_per_warp=9.0), None),
])  # fmt: skip
def test_why_threads_are_inactive(launch, cause) -> None:
    found = inactive_threads(LaunchView(launch_of(launch) if isinstance(launch, str) else launch))
    assert (found and found.cause) == cause


def test_a_loop_without_loads_is_a_divergent_path() -> None:
    """Nothing is loaded before the loop whose length differs: that is no check at the entry."""
    case = next(name for name in CASES if name.startswith("monte_carlo/"))
    found = inactive_threads(LaunchView(launch_of(case)))
    assert found is None or found.cause == "paths"


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("seed_extend/few_long_matches", False), ("sph_density/uneven_lists", True)],
)
def test_a_loop_that_loaded_values_end_can_only_be_evened_out_in_part(name, is_known) -> None:
    """A seed shows how far it extends when it does; a list of neighbours has a known length."""
    trips = uneven_trips(LaunchView(launch_of(name), reads_code=True))
    assert trips.even < 1
    assert (trips.executed == trips.even) == is_known
    assert trips.even <= trips.executed < 1
