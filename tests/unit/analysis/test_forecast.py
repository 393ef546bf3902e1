"""Forecasts: a likely gain by the time model, and a range around it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.candidates.candidate import MOST, Candidate
from keet.analysis.forecast import forecast, gain_of
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect
from tests.unit.analysis.made_up_launch import made_up, model_of

ALL_WORK = Effect({"DRAM": 0.0}, every_wait=0.0)
GAINS = st.floats(1, MOST)


def candidate(effect: Effect | float) -> Candidate:
    return Candidate("latency_bound", "Made up.", effect, (), lambda: ())


def of_a_launch(effect: Effect | float, **metrics: Any) -> float:
    return gain_of(candidate(effect), model_of(made_up({"dram": 50.0}, **metrics)))


@given(GAINS)
def test_the_likely_gain_lies_within_its_range(gain: float) -> None:
    low, likely, high = forecast(gain)
    assert 1 <= low <= likely <= high <= MOST
    assert likely == pytest.approx(gain, abs=0.005)


@given(GAINS, GAINS)
def test_a_larger_gain_has_a_higher_range(first: float, second: float) -> None:
    small, large = sorted((first, second))
    assert all(a <= b for a, b in zip(forecast(small), forecast(large)))


@given(st.floats(2, MOST / 4))
def test_the_range_has_the_fitted_width(gain: float) -> None:
    low, likely, high = forecast(gain)
    assert math.log2(likely / low) == pytest.approx(parameter("range_below"), abs=0.01)
    assert math.log2(high / likely) == pytest.approx(parameter("range_above"), abs=0.01)


def test_ranges_are_narrow_enough_to_be_useful() -> None:
    """Issue 18 asks for a median of high over low of at most 3."""
    assert 2 ** (parameter("range_below") + parameter("range_above")) <= 3


def test_a_gain_is_that_of_the_time_model() -> None:
    model = model_of(made_up({"dram": 50.0}))
    halved = Effect({"DRAM": 0.5}, every_wait=0.5)
    assert gain_of(candidate(halved), model) == model.gain(halved) == pytest.approx(2)


def test_no_kernel_gets_shorter_than_an_empty_one() -> None:
    """Three times as long as starting and draining a grid: at most three times faster."""
    least = parameter("least_kernel_ns")
    assert of_a_launch(ALL_WORK, duration=3 * least) == pytest.approx(3)
    assert of_a_launch(ALL_WORK, duration=least / 2) == 1
    assert of_a_launch(ALL_WORK, duration=1e9) == MOST
    assert of_a_launch(ALL_WORK) == MOST  # without a duration


@pytest.mark.parametrize(
    ("stated", "gain"), [(0.0, 1), (-3.0, 1), (1.5, 1.5), (1e6, MOST), (math.inf, MOST), (math.nan, 1)]
)  # fmt: skip
def test_a_stated_gain_is_kept_within_what_anyone_would_believe(stated: float, gain: float) -> None:
    assert of_a_launch(stated) == gain
