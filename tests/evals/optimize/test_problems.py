"""Floors hold against what was measured: never above an honest time, and near it where DRAM limits."""

from __future__ import annotations

import pytest

from evals.optimize import bundle
from evals.optimize.gpu.scorer.floor import Floor, floor_of
from evals.optimize.problems import (
    best_known_speedup,
    best_known_us,
    difficulty_of,
    known_samples,
    load_problems,
)
from keet.ingest import read_profile
from tests.evals.optimize.test_gpu_verdicts import H200
from tests.rows import each_row

NAMES = sorted(load_problems())
STREAMING = [
    name for name in NAMES if known_samples()[name].truth.left.get("fast") == "at_dram_roofline"
]


def floor(name: str) -> Floor:
    """On an H200, from what a bundle says of the sample."""
    return floor_of(bundle._floor(load_problems()[name]), H200)


def test_every_cuda_sample_has_its_facts() -> None:
    assert sorted(known_samples()) == NAMES
    assert len(NAMES) == 33


@each_row("name", NAMES)
def test_no_floor_is_above_a_measured_time(name: str) -> None:
    least = floor(name).least
    assert least is not None
    assert least < 0.95 * best_known_us(known_samples()[name])


@each_row("name", STREAMING)
def test_a_program_at_the_dram_roofline_is_within_twice_its_floor(name: str) -> None:
    impossible = floor(name).impossible
    assert impossible is not None
    assert best_known_us(known_samples()[name]) < 2 * impossible


def test_there_are_enough_streaming_problems() -> None:
    assert len(STREAMING) >= 10


@each_row("name", NAMES)
def test_the_fast_program_was_seen_to_read_what_is_compulsory(name: str) -> None:
    """The profiler empties the caches first, so that DRAM bytes cannot be fewer."""
    launches = read_profile(known_samples()[name].report("fast")).launches
    read = sum(launch.get("dram_bytes_read").value for launch in launches)
    assert read >= load_problems()[name].compulsory_read


@each_row("name", STREAMING)
def test_the_minimum_time_to_write_excludes_what_l2_holds(name: str) -> None:
    launches = read_profile(known_samples()[name].report("fast")).launches
    written = sum(launch.get("dram_bytes_written").value for launch in launches)
    wanted = load_problems()[name].compulsory_write
    assert wanted - H200["l2_bytes"] <= written <= wanted + 4e6


@each_row("name", NAMES)
def test_the_difficulty_agrees_with_the_kinds_of_the_sample(name: str) -> None:
    sample, difficulty = known_samples()[name], load_problems()[name].difficulty
    assert (difficulty == "healthy") == sample.healthy
    if "hidden" in sample.kinds:
        assert difficulty in ("hidden", "decoy")
    if "plain" in sample.kinds:
        assert difficulty == "visible"


def test_each_difficulty_has_several_samples() -> None:
    counts: dict[str, int] = {}
    for known in load_problems().values():
        counts[known.difficulty] = counts.get(known.difficulty, 0) + 1
    assert counts == {"visible": 16, "hidden": 8, "decoy": 6, "healthy": 3}


def test_triton_samples_have_a_difficulty_too() -> None:
    names = ("softmax_rows", "token_mix", "key_count", "nowhere")
    assert [difficulty_of(name) for name in names] == ["visible", "healthy", "hidden", None]


def test_the_best_known_is_the_fastest_variant() -> None:
    """The `fast` of a healthy sample may be the slower one."""
    assert best_known_us(known_samples()["field_axpy"]) == pytest.approx(151.39)
    assert best_known_speedup(known_samples()["field_axpy"]) == 1
    assert best_known_speedup(known_samples()["matrix_flip"]) == pytest.approx(1014.37 / 144.99)
