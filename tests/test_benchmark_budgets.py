"""The arithmetic of `make bench`: budgets, ratios and exponents. No test here looks at a clock."""

import math
import subprocess
import sys

import pytest

from tests.benchmarks.measure import Point, at_least, at_most, exponent, line, ratio_of, spent
from tests.rows import each_row


@each_row("power", [0.0, 0.5, 1.0, 3.0])
def test_the_exponent_of_a_growth_is_found(power: float) -> None:
    points = [Point(8.0**at, 5 + 0.1 * 8.0 ** (at * power)) for at in range(1, 6)]
    assert exponent(points, 5) == pytest.approx(power, abs=1e-3)


@each_row(
    ("budget", "value", "words"),
    [
        (at_most(1.0), 1.0, "(budget <= 1, holds)"),
        (at_most(1.0), 1.001, "(budget <= 1, MISSED)"),
        (at_least(2.5), 2.5, "(budget >= 2.5, holds)"),
        (at_most(1 / 6, "1/6"), 0.2, "(budget <= 1/6, MISSED)"),
        (at_least(1.8), math.nan, "(budget >= 1.8, MISSED)"),
    ],
)
def test_a_budget_is_described_in_words(budget, value: float, words: str) -> None:
    assert budget.words(value) == words
    assert words in line(value, budget, "", "")


def test_a_ratio_compares_neighbouring_runs() -> None:
    """A machine that is twice as slow half of the time changes the medians, not the ratio."""
    found = ratio_of([(1.0, 2.0), (2.0, 4.0), (1.0, 2.0), (2.0, 4.0)])
    assert (found.ratio, found.ours) == (0.5, 1.5)


def test_a_program_that_fails_is_not_measured() -> None:
    failing = [sys.executable, "-c", "print(input() + '!'); raise SystemExit(1)"]
    with pytest.raises(subprocess.CalledProcessError):
        spent(failing, "text")
    run = spent(failing, "text", accepted=(0, 1))
    assert (run.out, run.cpu > 0, run.peak > 1 << 20) == ("text!\n", True, True)
