"""How captures are compared: the noise that `keet diff` assumes rests on it."""

import math
from pathlib import Path

import pytest

from evals import noise
from keet.comparison.timing.pair_timing import deviation_across_days, deviation_within_hour

ONE = {("a", "slow", "same"): [100.0, 110.0, 121.0], ("a", "slow", "warm"): [55.165]}
OTHER = {("a", "slow", "same"): [220.0], ("b", "slow", "same"): [1.0]}
RESULTS = sorted(Path("evals/results").glob("noise_h200_*.csv"))


def test_captures_are_compared_within_and_between_sessions() -> None:
    logs = [change for _, change in noise.within(ONE)]
    assert sorted(logs) == pytest.approx([math.log(1.1), math.log(1.1), math.log(1.21)])
    assert [change for _, change in noise.between(ONE, OTHER)] == pytest.approx([math.log(2)])
    assert list(noise.warm_over_cold(ONE)) == pytest.approx([0.5], rel=1e-2)


def test_assumed_noise_matches_the_measured_noise() -> None:
    """Not smaller than the root mean square of the kernels of such a length, and not twice it."""
    captures = [noise.read(path) for path in RESULTS]
    every = [*captures, noise.shipped({key[0] for each in captures for key in each})]
    within = [pair for each in captures for pair in noise.within(each)]
    between = [p for i, one in enumerate(every) for o in every[:i] for p in noise.between(one, o)]
    for pairs, assumed in ((within, deviation_within_hour), (between, deviation_across_days)):
        logs = [change / assumed(ns) for ns, change in pairs if ns >= 20_000]
        assert 0.5 < noise.rms(logs) < 1.15


def test_the_page_has_the_table_and_diff_agrees() -> None:
    page = Path("docs/ci_noise.md").read_text(encoding="utf-8")
    assert "\n".join(noise.table()) in page
    told = Path("tests/golden/diff.matrix_flip.80.txt").read_text(encoding="utf-8")
    assert "noise 5.0%" in told  # one capture a side, long kernels: the first cell
