"""Forecasts on made-up pairs: errors, ranges, and what is no forecast."""

import math
from dataclasses import replace

import pytest

from evals.diagnosis.answers import Answer, Claim, NoAnswer
from evals.diagnosis.nvidia import Advice
from evals.forecast.scoring import (
    Pair,
    Range,
    doublings,
    naive_range,
    off_by,
    pairs_of,
    score_pair,
    score_range,
)
from evals.forecast.task import summarise, threshold_values
from evals.task_command import Unscored
from kernels_samples.samples import Sample, load_samples
from tests.rows import each_row


@each_row(
    ("likely", "covered"), [(0.99, False), (1.0, True), (2.0, True), (4.0, True), (4.01, False)]
)
def test_the_range_includes_its_ends(likely: float, covered: bool) -> None:
    assert score_range(Range(likely / 2, likely, likely * 2), 2.0).covered is covered


def test_the_range_score_includes_width_and_distance_outside() -> None:
    near, wide = score_range(Range(1, 2, 4), 2.0), score_range(Range(1, 2, 1024), 2.0)
    assert near.covered
    assert wide.covered
    assert (near.width, near.range_score) == (2, 2)
    assert (wide.width, wide.range_score) == (10, 10)
    missed = score_range(Range(1, 2, 4), 8.0)
    assert (missed.covered, missed.range_score) == (False, 2 + 10 * 1)
    assert score_range(Range(4, 4, 4), 2.0).range_score == 10
    assert (doublings(4, 2), doublings(1, 2), doublings(3, 3)) == (1, -1, 0)
    assert (off_by(4, 2), off_by(1, 2)) == (1, 1)
    assert off_by(None, 8) == off_by(1.0, 8) == 3
    # Not even what was 1x: who says nothing has given no range.
    assert not score_range(None, 1.0).covered
    assert score_range(Range(1, 1, 1), 1.0).covered


NONE = [
    (Range(1, math.inf, math.inf), "finite"),
    (Range(1, 2, math.inf), "finite"),
    (Range(math.nan, 2, 3), "finite"),
    (Range(1, math.nan, 3), "finite"),
    (Range(0, 0, 0), "zero"),
    (Range(-3, -2, -1), "zero"),
    (Range(0, 2, 3), "zero"),
    (Range(1, 50, 2), "order"),
    (Range(3, 2, 4), "order"),
]


@each_row(("said", "why"), NONE)
def test_invalid_forecasts_count_as_missing(said: Range, why: str) -> None:
    row = score_pair(a_pair(8.0, said), [])
    assert row.keet == replace(score_range(None, 8.0))
    assert (row.keet.error, row.keet.covered) == (3, False)
    assert why in (row.invalid or "")
    assert "scored as 1x" in row.why


def a_pair(measured: float, said: Range | None = None, sample: str = "made_up") -> Pair:
    return Pair(sample, "slow", "fast", "tail_effect", measured, said)


def test_estimates_of_nvidia() -> None:
    pair = replace(a_pair(2.0, Range(1, 2, 3)), estimates=(4.0, 2.1, 1.01))
    row = score_pair(pair, [pair])
    assert (row.nvidia, row.nvidia_nearest) == (4, 2.1)
    assert row.nvidia_error == 1
    row = score_pair(replace(a_pair(2.0), estimates=(math.inf, math.nan, -1.0)), [])
    assert (row.nvidia, row.nvidia_nearest, row.nvidia_error) == (None, None, 1)


def test_the_naive_forecast_is_the_mean_of_the_others() -> None:
    pairs = [a_pair(2.0, sample="a"), a_pair(8.0, sample="b"), a_pair(1000.0, sample="c")]
    again = a_pair(1000.0, sample="c")
    said = naive_range(pairs[2], [*pairs, again])
    assert said.likely == pytest.approx(4)  # of a and b: steps of its own sample are not others
    assert 2 <= said.low <= said.likely <= said.high <= 8
    assert said.problem is None


def test_a_pair_counts_once_and_steps_of_a_sample_go_together() -> None:
    first = a_pair(2.0, Range(1, 2, 3), "a")
    second = replace(first, before="step1", measured=4.0)
    other = a_pair(8.0, None, "b")
    pairs = [first, second, other]
    summary = summarise([score_pair(pair, pairs) for pair in pairs])
    assert (summary.pairs, summary.samples) == (3, 2)
    assert summary.means["largest"].keet.mean == pytest.approx((0 + 1 + 3) / 3)
    assert summary.means["bias"].keet.mean == pytest.approx((0 - 1 - 3) / 3)
    assert summary.means["first_steps"].keet.mean == pytest.approx((0 + 3) / 2)
    assert summary.means["covered"].keet.mean == pytest.approx(1 / 3)
    assert summary.by_finding["tail_effect"].pairs == 3
    with pytest.raises(ValueError, match="a is scored twice"):
        summarise([score_pair(pair, pairs) for pair in [*pairs, first]])


def test_unscored_is_counted() -> None:
    pairs = [a_pair(2.0, Range(1, 2, 3), "a"), a_pair(4.0, Range(1, 2, 3), "b")]
    rows = [score_pair(replace(pair, estimates=(1.5,)), pairs) for pair in pairs]
    values = threshold_values(summarise(rows, [Unscored("c", "slow", "why")]))
    assert (values["unscored"], values["invalid"]) == (1, 0)


@pytest.fixture
def layered() -> Sample:
    return next(sample for sample in load_samples() if sample.name == "xs_lookup")


def answers(sample: Sample, **claims: tuple[Claim, ...]) -> dict[str, Answer | NoAnswer]:
    advice = (Advice("CPIStall", 75.0),)
    return {
        variant: Answer(claims.get(variant, ()), global_advice=advice)
        for variant in sample.variants
    }


def test_each_step_is_a_pair(layered: Sample) -> None:
    slow = (Claim("sfu_bound", 1, 9, 10), Claim("small_grid", 1, 2, 3))
    step1 = (Claim("small_grid", 1, 2, 3), Claim("uncoalesced_global", 1, 4, 5))
    first, second = pairs_of(layered, answers(layered, slow=slow, step1=step1))
    assert (first.name, second.name) == ("xs_lookup", "xs_lookup, step1")
    assert first.measured == pytest.approx(1658.90 / 487.68)
    assert second.measured == pytest.approx(487.68 / 291.87)
    assert first.said == Range(1, 2, 3)  # the accepted name of the cause, not the first finding
    assert second.said == Range(1, 4, 5)  # what limits step1, not what limited slow
    assert first.estimates == pytest.approx((4,))


def test_pairs_that_are_not_scored(layered: Sample, wording) -> None:
    bare = layered.model_copy(update={"measured": None})
    wording([str(each) for each in pairs_of(bare, answers(bare))])
    said = answers(layered) | {"step1": NoAnswer("the report cannot be read")}
    first, second = pairs_of(layered, said)
    assert isinstance(first, Pair)
    assert second == Unscored("xs_lookup", "step1", "the report cannot be read")
    truth = layered.truth.model_copy(update={"left": {}})
    first, second = pairs_of(layered.model_copy(update={"truth": truth}), answers(layered))
    assert first.said is None
    assert second == Unscored("xs_lookup", "step1", "what fast mends is not planted")
