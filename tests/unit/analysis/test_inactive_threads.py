"""Why threads are inactive: the block's size, a check of the index, or paths that differ."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.inactive_threads import inactive_threads
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import diagnose
from keet.diagnosis.finding import Finding
from keet.findings.warp_divergence import candidates
from keet.profile import Launch
from kernels_samples.casebook.cases import load_cases
from kernels_samples.samples import load_samples
from tests.conftest import corpus_files, needs_corpus
from tests.unit.analysis.changed_launch import profile_of
from tests.unit.analysis.made_up_launch import made_up

SAMPLES = {sample.name: sample for sample in load_samples()}
CASES = {case.id: case for case in load_cases() if case.split == "work"}


def public(owner: str, launch: int) -> Launch:
    (path,) = (path for path in corpus_files() if path.name.startswith(owner))
    return profile_of(path).launches[launch]


def found_in(launch: Launch) -> Finding:
    diagnosis = diagnose(launch)
    told = (*diagnosis.findings, *diagnosis.minor)
    return next(each for each in told if each.id == "warp_divergence")


@needs_corpus
@pytest.mark.parametrize(
    ("owner", "launch", "line"),
    [("lk-spec__", 8, "new-forward.cu:53"), ("chia7__", 4, "new-forward.cu:47")],
)
def test_threads_outside_of_the_output(owner: str, launch: int, line: str) -> None:
    """34 columns in blocks of 16 or 32: the others leave at `if (x < width && y < height)`."""
    view = LaunchView(public(owner, launch))
    (found,) = candidates(view, TimeModel(view))
    assert found.variant == "outside"
    assert "bounds check" in found.text
    assert [place.where for place in found.places()] == [line]


@needs_corpus
def test_an_early_exit_by_data_is_a_path() -> None:
    """The self-join leaves its loop of distances when one is too large."""
    found = inactive_threads(LaunchView(public("bwd29__", 0)))
    assert found is not None
    assert found.cause == "paths"


@pytest.mark.parametrize("sample", ["decay_ratios", "sparse_apply", "window_median"])
def test_a_sample_with_paths_that_differ(sample: str) -> None:
    (launch, *_) = profile_of(SAMPLES[sample].report("slow")).launches
    found = inactive_threads(LaunchView(launch))
    assert found is not None
    assert found.cause == "paths"


def test_a_loop_without_loads_is_a_divergent_path() -> None:
    """Nothing is loaded before the loop whose length differs: that is no check at the entry."""
    case = next(case for name, case in CASES.items() if name.startswith("monte_carlo/"))
    found = inactive_threads(
        LaunchView(case.launch(profile_of(case.profile_path(case.spec.before))))
    )
    assert found is None or found.cause == "paths"


@pytest.mark.parametrize(("block", "threads"), [(6, 6.0), (48, 24.0)])
def test_a_block_that_does_not_fill_its_warps(block: int, threads: float) -> None:
    launch = made_up({}, block_size=block, active_threads_per_warp=threads)
    found = inactive_threads(LaunchView(launch))
    assert found is not None
    assert found.cause == "block_size"


def test_a_block_size_alone_shows_partial_warps() -> None:
    assert inactive_threads(LaunchView(made_up({}, block_size=256))) is None
    found = inactive_threads(LaunchView(made_up({}, block_size=4)))
    assert found is not None
    assert found.cause == "block_size"


def test_without_instructions_the_reason_is_unknown() -> None:
    """48 threads per block explain 24 per warp, not 9."""
    assert (
        inactive_threads(LaunchView(made_up({}, block_size=48, active_threads_per_warp=9.0)))
        is None
    )
