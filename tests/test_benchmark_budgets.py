"""The arithmetic of `make bench`: budgets, ratios and exponents. No test here looks at a clock."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.measure import Point, at_least, at_most, exponent, line, ratio_of, spent
from tests.rows import each_row

positive = st.floats(0.1, 100.0)


@given(positive, positive, st.floats(0.0, 3.0), st.integers(2, 6))
def test_an_exponent_is_found_for_any_start_and_factor(
    start: float, factor: float, power: float, count: int
) -> None:
    sizes = [8.0**at for at in range(1, count + 1)]
    points = [Point(size, start + factor * size**power) for size in sizes]
    assert exponent(points, start) == pytest.approx(power, abs=1e-3)


def test_nan_meets_no_budget() -> None:
    unknown = exponent([Point(1, 0.5), Point(8, 0.7)], 0.6)
    assert math.isnan(unknown)
    assert at_most(1.05).words(unknown) == "(budget <= 1.05, MISSED)"
    assert not at_least(1.8).holds(unknown)


@each_row(
    ("budget", "value", "words"),
    [
        (at_most(1.0), 1.0, "(budget <= 1, holds)"),
        (at_most(1.0), 1.001, "(budget <= 1, MISSED)"),
        (at_least(2.5), 2.5, "(budget >= 2.5, holds)"),
        (at_least(2.5), 2.499, "(budget >= 2.5, MISSED)"),
        (at_most(1 / 6, "1/6"), 0.2, "(budget <= 1/6, MISSED)"),
    ],
)
def test_a_budget_is_described_in_words(budget, value: float, words: str) -> None:
    assert budget.words(value) == words
    assert words in line(value, budget, "", "")


def test_a_ratio_compares_neighbouring_runs() -> None:
    """A machine that is twice as slow half of the time changes the medians, not the ratio."""
    found = ratio_of([(1.0, 2.0), (2.0, 4.0), (1.0, 2.0), (2.0, 4.0)])
    assert found.ratio == 0.5
    assert found.ours == 1.5


def test_a_program_is_measured_with_its_output() -> None:
    run = spent([sys.executable, "-c", "print(input() + '!')"], "text")
    assert run.out == "text!\n"
    assert run.cpu > 0
    assert run.peak > 1 << 20


def test_a_program_that_fails_is_not_measured() -> None:
    failing = [sys.executable, "-c", "raise SystemExit(1)"]
    with pytest.raises(subprocess.CalledProcessError):
        spent(failing)
    assert spent(failing, accepted=(0, 1)).cpu > 0
