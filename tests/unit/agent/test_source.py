"""Source for a model: the kernel's own, numbered, within its budget, and its cuts said."""

from __future__ import annotations

from pathlib import Path

import pytest

from keet.agent.source import excerpt, own_files, whole_source
from keet.analysis.findings import Place
from keet.explanation.budget import count_tokens
from keet.ingest import read_profile
from keet.profile import Launch

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


def launch_of(name: str) -> Launch:
    return read_profile(SAMPLES / name / "slow.ncu-rep").launches[0]


def test_a_short_source_is_whole() -> None:
    text = whole_source(launch_of("matrix_flip"), 4000)
    lines = (SAMPLES / "matrix_flip" / "slow.cu").read_text(encoding="utf-8").splitlines()
    assert f"{len(lines)}| {lines[-1]}" in text
    assert "left out" not in text


@pytest.mark.parametrize("budget", [120, 400, 1200])
@pytest.mark.parametrize("name", ["column_physics", "hydro_element", "panel_product"])
def test_a_long_source_keeps_to_its_budget_and_says_what_is_cut(name: str, budget: int) -> None:
    launch = launch_of(name)
    text = whole_source(launch, budget)
    assert count_tokens(text) <= budget
    assert "left out" in text


def test_the_places_that_matter_are_in_the_excerpt() -> None:
    launch = launch_of("column_physics")
    (file, *_) = own_files(launch)
    text = excerpt(launch, [Place(file, 96, 1.0, "samples")], 500)
    assert "\n96| " in text
    assert count_tokens(text) <= 500


def test_headers_of_libraries_are_not_the_kernels() -> None:
    names = [Path(path).name for path in own_files(launch_of("gas_state"))]
    assert names[:2] == ["slow.cu", "state_math.h"] or "slow.cu" in names
    assert "cmath" not in names


def test_text_that_is_not_at_hand_is_no_source() -> None:
    launch = read_profile(Path("tests/data/reports/tour_nolines.ncu-rep")).launches[0]
    assert own_files(launch) == []
