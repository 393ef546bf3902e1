"""Scores of chains that were made up, against values computed by hand."""

import math

import pytest

from evals.optimize.conditions import ConditionName
from evals.optimize.rounds import EvalResult, Score, ratios, saturated, scores
from tests.evals.optimize.synthetic import Items, result_of

RESULT = result_of(
    {
        "flow": {"times": [[4.0, "slower"]], "keet": [[2.0, 8.0]]},
        "heat": {"times": [["wrong", 9.0], ["no_build", 4.0]], "keet": [[36.0, "no_gain"]]},
    }
)


def score(result: EvalResult, condition: ConditionName, number: int) -> Score:
    return next(s for s in scores(result) if (s.condition, s.round) == (condition, number))


def test_speedups_by_hand() -> None:
    first, second = score(RESULT, "times", 1), score(RESULT, "times", 2)
    assert first.speedup == pytest.approx(2.0)  # of 4 and of 1, the mean of 1 and 1
    assert second.speedup == pytest.approx(math.sqrt(24))  # of 4, which stays, and 6: of 9 and 4
    assert second.gain == pytest.approx(math.sqrt(6))
    assert score(RESULT, "keet", 2).speedup == pytest.approx(24.0)  # of 16 and 36
    assert (first.prompt_tokens, first.answer_tokens) == (1000, 200)
    # That of all chains: 16 and 36; or one of elsewhere.
    assert score(RESULT, "times", 2).share == pytest.approx(math.sqrt(24) / 24)
    known = RESULT.model_copy(update={"best_known": {"flow.naive": 64.0}})
    assert score(known, "keet", 2).share == pytest.approx(0.5)


def test_failures_and_what_was_repaired() -> None:
    first, second = score(RESULT, "times", 1), score(RESULT, "times", 2)
    assert first.failures | {"not built": 1, "wrong": 1} == first.failures
    assert sum(first.failures.values()) == 2
    assert first.repaired == 0
    assert second.failures["slower"] == 1
    assert second.repaired == 2  # of heat: what was wrong, and what did not compile
    assert score(RESULT, "keet", 2).failures["no gain"] == 1
    assert score(RESULT, "keet", 2).repaired == 0


def test_a_chain_that_is_not_finished_is_left_out() -> None:
    """It is not taken for one without a gain."""
    items: Items = {"flow": {"keet": [[4.0, 2.0], [4.0], []]}, "heat": {"keet": [[]]}}
    result = result_of(items)
    first, second = score(result, "keet", 1), score(result, "keet", 2)
    assert (first.chains, first.missing) == (2, 2)
    assert (second.chains, second.missing) == (1, 3)
    assert [first.speedup, second.speedup] == pytest.approx([4.0, 8.0])
    assert len(result.unfinished) == 3


def ratio(result: EvalResult, number: int = 1) -> tuple[float, float, float]:
    (found,) = (each for each in ratios(result) if each.round == number)
    return found.ratio.mean, found.ratio.low, found.ratio.high


def test_intervals() -> None:
    """Paired by program: their speed-ups differ by a factor of 1000, their ratios do not at all."""
    gains = [2.0, 20.0, 200.0, 2000.0]
    items: Items = {f"p{g}": {"times": [[g]], "keet": [[1.2 * g]]} for g in gains}
    assert ratio(result_of(items, rounds=1)) == pytest.approx((1.2, 1.2, 1.2))
    items: Items = {
        name: {"times": [[2.0], [8.0]], "keet": [[4.0], [16.0]]} for name in ("a", "b", "c", "d")
    }
    mean, low, high = ratio(result_of(items, rounds=1))
    assert mean == pytest.approx(2.0)
    assert low < 1.5
    assert high > 2.7
    items: Items = {
        "flow": {"times": [[2.0]], "keet": [[4.0]]},
        "heat": {"times": [[50.0]], "keet": [[]]},
    }
    assert ratio(result_of(items, rounds=1)) == pytest.approx((2.0, 2.0, 2.0))


def test_saturation() -> None:
    items: Items = {
        "flow": {"times": [[4.0, 1.0]], "keet": [[3.9, 1.02]]},
        "heat": {"times": [[2.0, 4.9]], "keet": [[10.0, "slower"]]},
        "salt": {"times": [[2.0, "wrong"]], "keet": [[10.0, 1.1]]},
    }
    assert saturated(result_of(items)) == {"flow.naive": 1, "heat.naive": 2}
    assert saturated(result_of(items, flow=9.0)) == {"heat.naive": 2}
