"""Floors hold against what was measured: never above an honest time, and near it where DRAM limits."""

from __future__ import annotations

import pytest

from evals.optimize.problems import (
    H200,
    ProblemFacts,
    best_known_speedup,
    best_known_us,
    difficulty_of,
    floor_us,
    known_samples,
    load_problems,
)
from keet.ingest import read_profile

NAMES = sorted(load_problems())
STREAMING = [
    name for name in NAMES if known_samples()[name].truth.left.get("fast") == "at_dram_roofline"
]


def facts(**given: object) -> ProblemFacts:
    base = {
        "difficulty": "visible",
        "reason": "",
        "compulsory_read": 0,
        "compulsory_write": 0,
        "note": "",
    }
    return ProblemFacts.model_validate({**base, **given})


def test_every_cuda_sample_has_its_facts() -> None:
    assert sorted(known_samples()) == NAMES
    assert len(NAMES) == 33


@pytest.mark.parametrize("name", NAMES)
def test_no_floor_is_above_a_measured_time(name: str) -> None:
    assert floor_us(load_problems()[name], leave_l2=False) < 0.95 * best_known_us(
        known_samples()[name]
    )


@pytest.mark.parametrize("name", STREAMING)
def test_a_program_at_the_dram_roofline_is_within_twice_its_floor(name: str) -> None:
    assert best_known_us(known_samples()[name]) < 2 * floor_us(load_problems()[name])


def test_there_are_enough_of_those() -> None:
    assert len(STREAMING) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_program_was_seen_to_read_what_is_compulsory(name: str) -> None:
    """The profiler empties the caches first, so that DRAM bytes cannot be fewer."""
    launches = read_profile(known_samples()[name].report("fast")).launches
    read = sum(launch.get("dram_bytes_read").value for launch in launches)
    assert read >= load_problems()[name].compulsory_read


@pytest.mark.parametrize("name", STREAMING)
def test_and_to_write_it_but_for_what_the_l2_still_holds(name: str) -> None:
    launches = read_profile(known_samples()[name].report("fast")).launches
    written = sum(launch.get("dram_bytes_written").value for launch in launches)
    wanted = load_problems()[name].compulsory_write
    assert wanted - H200.l2_bytes <= written <= wanted + 4e6


@pytest.mark.parametrize("name", NAMES)
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


def test_the_longest_of_the_compulsory_parts_is_the_floor() -> None:
    bytes_alone = facts(compulsory_read=4_800_000, compulsory_write=4_800_000)
    assert floor_us(bytes_alone, leave_l2=False) == pytest.approx(2.0)
    assert floor_us(bytes_alone) == 0
    assert floor_us(facts(compulsory_flops={"fp16": 99 * 10**10})) == pytest.approx(1000)
    assert floor_us(facts(compulsory_host=64_000)) == pytest.approx(1.0)
    both = facts(compulsory_read=480 * 10**6, compulsory_flops={"fp32": 67 * 10**6})
    assert floor_us(both, leave_l2=False) == pytest.approx(100)


def test_the_best_known_is_the_fastest_variant() -> None:
    """The `fast` of a healthy sample may be the slower one."""
    assert best_known_us(known_samples()["field_axpy"]) == pytest.approx(151.39)
    assert best_known_speedup(known_samples()["field_axpy"]) == 1
    assert best_known_speedup(known_samples()["matrix_flip"]) == pytest.approx(1014.37 / 144.99)
