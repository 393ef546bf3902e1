"""Forecasts: a likely gain by the time model, and a range around it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.candidate import MAX_GAIN, Basis, Candidate
from keet.analysis.limits import LEAST_KERNEL_NS
from keet.analysis.time_model import Effect
from keet.diagnosis.finding import Forecast
from keet.diagnosis.forecast import (
    DOUBTFUL,
    RANGE_ABOVE,
    RANGE_BELOW,
    certainty,
    expected_gain,
    forecast,
    possible_gain,
)
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up, model_of

ALL_WORK = Effect({"DRAM": 0.0}, every_wait=0.0)
GAINS = st.floats(1, MAX_GAIN)
BASES: tuple[Basis, ...] = ("measured", "assumed", "suspected")
MODEL = model_of(made_up({"dram": 50.0}))


def candidate(
    effect: Effect | float = 1.0, basis: Basis = "measured", likelihood: float = 1.0
) -> Candidate:
    return Candidate(
        "latency_bound", "Made up.", effect, (), lambda: (), basis, likelihood=likelihood
    )


def of_a_launch(effect: Effect | float, **metrics: Any) -> float:
    return possible_gain(candidate(effect), model_of(made_up({"dram": 50.0}, **metrics)))


def told(gain: float, basis: Basis = "measured", sure: float = 1.0) -> Forecast:
    return forecast(candidate(gain, basis), MODEL, gain, sure)


@given(GAINS, st.sampled_from(BASES), st.floats(0.1, 1))
def test_the_likely_gain_lies_within_its_range(gain: float, basis: Basis, sure: float) -> None:
    """A measured cause is expected to gain what it can; a suspicion, if it is true."""
    low, likely, high = told(gain, basis, sure)
    assert 1 <= low <= likely <= high <= MAX_GAIN
    if basis != "assumed":
        assert likely == pytest.approx(gain, abs=0.005)
    if basis == "suspected":
        assert low == 1


@given(GAINS, GAINS, st.sampled_from(BASES))
def test_a_larger_gain_has_a_higher_range(first: float, second: float, basis: Basis) -> None:
    small, large = sorted((first, second))
    assert all(a <= b for a, b in zip(told(small, basis), told(large, basis)))


@given(GAINS, st.floats(0, 1))
def test_an_uncertain_cause_is_expected_to_gain_less(gain: float, likelihood: float) -> None:
    for basis in BASES:
        found = expected_gain(candidate(gain, basis, likelihood), gain)
        assert 1 <= found <= gain * 1.000001


def test_a_small_assumed_gain_is_doubted_and_a_large_one_is_not() -> None:
    """By the casebook: see docs/analyst.md."""
    doubtful = DOUBTFUL
    assert expected_gain(candidate(basis="assumed"), 1.15) < 1.02
    assert expected_gain(candidate(basis="assumed"), doubtful) == pytest.approx(doubtful**0.5)
    assert expected_gain(candidate(basis="assumed"), 3.0) > 2.9


@given(st.floats(2, MAX_GAIN / 4))
def test_the_range_has_the_fitted_width(gain: float) -> None:
    """Issue 18 asks for a median of high over low of at most 3."""
    low, likely, high = told(gain)
    assert math.log2(likely / low) == pytest.approx(RANGE_BELOW, abs=0.01)
    assert math.log2(high / likely) == pytest.approx(RANGE_ABOVE, abs=0.01)
    assert 2 ** (RANGE_BELOW + RANGE_ABOVE) <= 3


def test_other_units_bound_the_range() -> None:
    """DRAM is half busy, and the fix is about waiting: hardly more than twice as fast."""
    without_waits = Effect(every_wait=0.0)
    found = forecast(
        candidate(without_waits), MODEL, possible_gain(candidate(without_waits), MODEL), 1
    )
    assert found.high <= MODEL.most(without_waits) * 2**RANGE_ABOVE + 0.01
    doubted = forecast(candidate(without_waits), MODEL, found.likely, 0.4)
    assert doubted.high == found.high, "less certainty does not make the other units faster"


def test_a_less_certain_gain_has_a_wider_range() -> None:
    known = [certainty(b, 0.0, is_familiar=True) for b in BASES]
    other = [
        certainty("measured", u, is_familiar=f) for u, f in ((0.0, False), (0.5, True), (1, True))
    ]
    for sure in (known, [known[0], *other]):
        found = [told(4, sure=each) for each in sure]
        assert all(b.low < a.low and a.high < b.high for a, b in pairwise(found))
        assert {each.likely for each in found} == {4}


def test_a_gain_is_that_of_the_time_model() -> None:
    model = model_of(made_up({"dram": 50.0}))
    halved = Effect({"DRAM": 0.5}, every_wait=0.5)
    assert possible_gain(candidate(halved), model) == model.gain(halved) == pytest.approx(2)


def test_no_kernel_gets_shorter_than_an_empty_one() -> None:
    """Three times as long as starting and draining a grid: at most three times faster."""
    least = LEAST_KERNEL_NS
    assert of_a_launch(ALL_WORK, duration=3 * least) == pytest.approx(3)
    assert of_a_launch(ALL_WORK, duration=least / 2) == 1
    assert of_a_launch(ALL_WORK, duration=1e9) == MAX_GAIN
    assert of_a_launch(ALL_WORK) == MAX_GAIN  # without a duration


@each_row(
    ("stated", "gain"), [(0.0, 1), (-3.0, 1), (1.5, 1.5), (1e6, MAX_GAIN), (math.inf, MAX_GAIN), (math.nan, 1)]
)  # fmt: skip
def test_a_stated_gain_is_limited_to_the_largest_measured_one(stated: float, gain: float) -> None:
    assert of_a_launch(stated) == gain
