"""Forecasts: a likely gain by the time model, and a range around it."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.account import account_of
from keet.analysis.candidate import MAX_GAIN, Basis, Candidate
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import LEAST_KERNEL_NS
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import (
    ABOVE,
    BELOW,
    DOUBTFUL,
    DOUBTFUL_SPECIFIC,
    diagnose,
    expected_gain,
    forecast,
    is_worth,
    order_reason,
    possible_gain,
    ranked_candidates,
    saved_parts,
)
from keet.documents.finding import Forecast
from keet.evidence import Sentence
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up, model_of
from tests.unit.analysis.real_launches import launch_of

ALL_WORK = Effect({"DRAM": 0.0}, every_wait=0.0)
GAINS = st.floats(1, MAX_GAIN)
BASES: tuple[Basis, ...] = ("measured", "assumed", "suspected")
MODEL = model_of(made_up({"dram": 50.0}))


def candidate(
    effect: Effect | float = 1.0,
    basis: Basis = "measured",
    likelihood: float = 1.0,
    name: str = "latency_bound",
) -> Candidate:
    text = Sentence("Made up.")
    return Candidate(text, effect, (), lambda: (), basis, likelihood=likelihood, id=name)


def of_a_launch(effect: Effect | float, **metrics: Any) -> float:
    return possible_gain(candidate(effect), model_of(made_up({"dram": 50.0}, **metrics)))


def told(gain: float, basis: Basis = "measured", unknown: float = 0.0) -> Forecast:
    return forecast(candidate(gain, basis), MODEL, gain, unknown)


@given(GAINS, GAINS, st.sampled_from(BASES), st.floats(0, 1))
def test_the_likely_gain_is_that_of_the_cause(gain: float, other: float, basis, unknown) -> None:
    """Whether the cause is there is another question: doubt changes no gain, but what is expected. A
    larger gain has a higher range."""
    small, large = sorted((gain, other))
    assert all(a <= b for a, b in zip(told(small, basis), told(large, basis)))
    assert 1 <= expected_gain(candidate(gain, basis, unknown), gain) <= gain * 1.000001
    low, likely, high = told(gain, basis, unknown)
    assert 1 <= low <= likely <= high <= round(MAX_GAIN, 2)
    assert likely == pytest.approx(gain, abs=0.005)
    if basis == "suspected":
        assert low == 1


def test_doubt_depends_on_the_evidence_of_a_cause() -> None:
    # By the casebook: see docs/analyst.md.
    general, specific = candidate(basis="assumed"), candidate(basis="assumed", name="narrow_access")
    assert expected_gain(general, 1.15) < 1.02
    for each, half in ((general, DOUBTFUL), (specific, DOUBTFUL_SPECIFIC)):
        assert expected_gain(each, half) == pytest.approx(half**0.5)
        assert expected_gain(each, 3.0) > 2.9
    assert expected_gain(general, 1.25) < expected_gain(specific, 1.25), "it names what is wasted"
    # It counts where the gain is small.
    weak = candidate(basis="assumed", name="warp_divergence")
    strong = weak._replace(doubt=0.1)
    assert expected_gain(weak, 1.22) < 1.05
    assert expected_gain(strong, 1.22) > 1.19
    assert expected_gain(weak, 3.0) == pytest.approx(expected_gain(strong, 3.0), rel=0.03)


@given(st.floats(1.5, MAX_GAIN / 8), st.sampled_from(BASES[:2]))
def test_the_range_has_the_fitted_width(gain: float, basis) -> None:
    """It grows with the gain: a forecast of 30x is off by more than one of 1.2x."""
    low, likely, high = told(gain, basis)
    size = 1 + math.log2(gain)
    assert math.log2(likely / low) == pytest.approx(BELOW * size, abs=0.02)
    assert math.log2(high / likely) == pytest.approx(ABOVE * size, abs=0.02)


def test_less_is_known_so_the_range_is_wider(monkeypatch) -> None:
    """Less on a GPU that nothing was fitted on, and less if more of the time is unexplained."""
    found = [told(4), told(4, unknown=0.3), told(4, unknown=0.5)]
    monkeypatch.setattr("keet.diagnosis.diagnosis.FITTED_ON", (8, 9))
    found.insert(1, told(4))
    assert all(b.low < a.low and a.high < b.high for a, b in pairwise(found))
    assert {each.likely for each in found} == {4}
    assert told(4, unknown=0.8) == told(4, unknown=1.0), "no wider than at the least certainty"


def test_other_units_and_an_empty_kernel_bound_the_range() -> None:
    model = model_of(made_up({"dram": 50.0}))
    halved = Effect({"DRAM": 0.5}, every_wait=0.5)
    assert possible_gain(candidate(halved), model) == model.gain(halved) == pytest.approx(2)
    # DRAM is half busy, and the fix is about waiting: hardly more than twice as fast.
    without_waits = Effect(every_wait=0.0)
    cause = candidate(without_waits)
    found = forecast(cause, MODEL, possible_gain(cause, MODEL), 0)
    above = ABOVE * (1 + math.log2(found.likely))
    assert found.high <= MODEL.most(without_waits) * 2**above + 0.01
    doubted = forecast(cause, MODEL, found.likely, 0.6)
    assert doubted.high == found.high, "unexplained time does not make the other units faster"
    # Three times as long as starting and draining a grid: at most three times faster.
    least = LEAST_KERNEL_NS
    assert of_a_launch(ALL_WORK, duration=3 * least) == pytest.approx(3)
    assert of_a_launch(ALL_WORK, duration=least / 2) == 1
    assert of_a_launch(ALL_WORK, duration=1e9) == MAX_GAIN
    assert of_a_launch(ALL_WORK) == MAX_GAIN  # without a duration


@each_row("stated, gain", [
    (0.0, 1), (-3.0, 1), (1.5, 1.5), (1e6, MAX_GAIN), (math.inf, MAX_GAIN), (math.nan, 1),
])  # fmt: skip
def test_a_stated_gain_is_limited_to_the_largest_measured_one(stated: float, gain: float) -> None:
    assert of_a_launch(stated) == gain


def saves_more(reason: Sentence) -> bool:
    """Whether the finding that comes first saves more than the other one."""
    own, their = (each.value for each in reason.evidence.values() if each.unit != "%")
    return own > their


def test_gains_of_the_order_of_findings(wording) -> None:
    # The named part is one of which the other fix removes more.
    diagnosis = diagnose(launch_of("halo_filter/edges_of_single_bytes"), reads_code=False)
    reason = diagnosis.order_reason
    wording(reason)
    assert saves_more(reason)
    ranked = ranked_candidates(diagnosis.view, diagnosis.model)
    effects = {each.candidate.id: each.candidate.effect for each in ranked}
    other = next(each.id for each in diagnosis.findings if f"before {each.spec.label}" in reason)
    saved = [
        {p.part: share for p, share in saved_parts(effects[i], diagnosis.model, diagnosis.account)}
        for i in (diagnosis.findings[0].id, other)
    ]
    label = next(each for each in saved[1] if each in reason)
    assert saved[1][label] > saved[0][label]
    # The order of a real launch is turned round. Nothing is said where the first one is only
    # possible: it is no more certain than the other.
    view = LaunchView(launch_of("ode_batch/triangle_in_registers"), reads_code=False)
    model = TimeModel(view)
    worth = [each for each in ranked_candidates(view, model) if is_worth(each)]
    worth.sort(key=lambda each: each.possible)
    account = account_of(view, model)
    reason = order_reason(worth, model, account, is_doubtful=False)
    wording(reason)
    assert not saves_more(reason)
    assert order_reason(worth, model, account, is_doubtful=True) is None
