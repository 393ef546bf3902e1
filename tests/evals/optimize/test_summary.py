"""Summaries and differences against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from evals.bootstrap import Interval
from evals.optimize.compare_conditions import Difference, Saturation, differences, saturations
from evals.optimize.problems import best_known_speedup, known_samples, load_problems
from evals.optimize.summary import (
    ALL,
    ConditionSummary,
    Count,
    best_known,
    check_scores,
    conditions_of,
    groups_of,
    summarise,
)
from evals.runs import Condition
from keet.errors import UsageError
from tests.evals.report.synthetic import Outcomes, score, scores

TWO: Outcomes = {
    "matrix_flip": {"none": [2.0, "INCORRECT"], "keet": [8.0, 4.0]},
    "key_count": {"none": ["COMPILE_ERROR", None], "keet": [16.0, 1.0]},
}
VISIBLE = sorted(name for name, facts in load_problems().items() if facts.difficulty == "visible")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to tell an interval, and ten times as quick."""
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 400)


def summary(
    outcomes: Outcomes, condition: Condition, group: str = ALL, **more: object
) -> ConditionSummary:
    found = summarise(scores(outcomes, **more))
    return next(s for s in found if (s.condition, s.group) == (condition, group))


def difference(outcomes: Outcomes, group: str = ALL) -> Difference:
    return next(d for d in differences(scores(outcomes)) if d.group == group)


def said(outcomes: Outcomes, group: str = ALL) -> Saturation:
    found = scores(outcomes)
    return next(s for s in saturations(summarise(found), differences(found)) if s.group == group)


def test_a_condition_that_always_passes() -> None:
    keet = summary(TWO, "keet")
    assert (keet.samples, keet.scored, keet.unscored, keet.k, keet.k_samples) == (2, 4, 0, 2, 2)
    assert (keet.pass_at_1, keet.pass_at_k, keet.build_at_1) == (1, 1, 1)
    assert keet.speedup_at_1 == pytest.approx((6 + 8.5) / 2)
    assert keet.speedup_at_k == pytest.approx((8 + 16) / 2)
    assert keet.geomean.mean == pytest.approx(2 ** ((2.5 + 2) / 2))
    assert (keet.geomean.low, keet.geomean.high) == pytest.approx((2**2, 2**2.5))
    assert keet.geomean_passed == pytest.approx(keet.geomean.mean)
    assert keet.first_try == pytest.approx(2**3.5)
    assert keet.fast == {"1": 0.75, "1.5": 0.75, "2": 0.75, "4": 0.5}


def test_failures_count_as_1x_and_unscored_not_at_all() -> None:
    none = summary(TWO, "none")
    assert (none.scored, none.unscored, none.k, none.k_samples) == (3, 1, 2, 1)
    assert none.statuses == {
        "PASSED": 1,
        "COMPILE_ERROR": 1,
        "RUNTIME_ERROR": 0,
        "INCORRECT": 1,
        "TIMEOUT": 0,
        "CHEAT": 0,
    }
    assert (none.pass_at_1, none.build_at_1, none.pass_at_k) == (0.25, 0.5, 1)
    assert none.geomean.mean == pytest.approx(2**0.25)
    assert none.geomean_passed == pytest.approx(2)
    assert none.speedup_at_1 == pytest.approx((1.5 + 1) / 2)
    assert none.speedup_at_k == pytest.approx(2)
    assert none.first_try == pytest.approx(math.sqrt(2))


def test_a_cheat_is_not_built() -> None:
    cheats = summary({"matrix_flip": {"none": ["CHEAT", 2.0]}}, "none")
    assert (cheats.build_at_1, cheats.pass_at_1) == (0.5, 0.5)


@pytest.mark.parametrize("name", ["nowhere", "softmax_rows"])
def test_a_sample_that_is_not_known_here_is_named(name: str) -> None:
    """It has no best known speed-up: 1x is not to count as having reached it."""
    found = scores({name: {"none": [1.0]}})
    for read in (best_known, summarise):
        with pytest.raises(UsageError, match=rf"{name} is no CUDA sample here; report"):
            read(found)


def test_a_record_becomes_the_best_known() -> None:
    best = best_known(scores(TWO))
    assert best == {"matrix_flip": 8, "key_count": best_known_speedup(known_samples()["key_count"])}
    keet = summary(TWO, "keet")
    shares = [2.5 - 3, 2 - math.log2(best["key_count"])]
    assert keet.share_of_best == pytest.approx(2 ** (sum(shares) / 2))


def test_attempts_and_tokens_to_the_best_known_or_none() -> None:
    alone: Outcomes = {name: {"keet": each["keet"]} for name, each in TWO.items()}
    keet = summary(alone, "keet", input_tokens=100, output_tokens=20)
    assert keet.reached == Count(count=1, of=2)
    assert (keet.reached_by_all, keet.tries, keet.tokens) == (1, 1.5, 180)
    none = summary(TWO, "none", input_tokens=100, output_tokens=20)
    assert (none.reached, none.tries, none.tokens) == (Count(count=0, of=2), None, None)


def test_tries_and_tokens_are_over_the_samples_that_all_conditions_reached() -> None:
    """keet solves a hard one besides, which is not to make it look dear."""
    outcomes: Outcomes = {
        "matrix_flip": {"none": [9.0], "raw": [None], "keet": [9.0]},
        "key_count": {"none": [1.0, 1.0], "raw": [None], "keet": ["TIMEOUT", 200.0]},
    }
    found = summarise(scores(outcomes, input_tokens=100, output_tokens=20))
    none, keet = (s for s in found if s.group == ALL and s.condition != "raw")
    assert (none.reached.count, keet.reached.count) == (1, 2)
    assert (none.reached_by_all, none.tries, none.tokens) == (1, 1, 120)
    assert (keet.reached_by_all, keet.tries, keet.tokens) == (1, 1, 120)


def test_tokens_unknown_for_one_of_those_samples_are_unknown() -> None:
    found = [
        score("matrix_flip", "keet", 9.0, input_tokens=100, output_tokens=20),
        score("key_count", "keet", 200.0),
    ]
    assert (summarise(found)[0].tries, summarise(found)[0].tokens) == (1, None)


def test_answers_that_were_cut_off_are_counted_apart() -> None:
    found = [
        score("matrix_flip", "keet", "COMPILE_ERROR", 1, cut_off=True),
        score("matrix_flip", "keet", "COMPILE_ERROR", 2),
    ]
    told = summarise(found)[0]
    assert (told.statuses["COMPILE_ERROR"], told.cut_off) == (2, 1)


def test_tokens_that_were_not_said_are_not_zero() -> None:
    assert summary(TWO, "keet", input_tokens=100).tokens is None


def test_a_token_count_that_is_missing_for_one_attempt_is_missing() -> None:
    found = [
        score("matrix_flip", "keet", 8.0, 1, input_tokens=100, output_tokens=20),
        score("matrix_flip", "keet", 8.0, 2, input_tokens=100),
    ]
    assert summarise(found)[0].tokens is None
    assert summarise(found[:1])[0].tokens == 120


def test_nine_tenths_of_the_best_known_are_enough() -> None:
    best = best_known_speedup(known_samples()["matrix_flip"])
    assert summary({"matrix_flip": {"keet": [0.91 * best]}}, "keet").reached.count == 1
    assert summary({"matrix_flip": {"keet": [0.89 * best]}}, "keet").reached.count == 0


def test_sol_is_given_only_where_the_minimum_is_informative() -> None:
    """matrix_flip has a floor near its best time, key_count one far below it."""
    given = scores(TWO, floor_us=100.0, sol=0.5)
    keet = next(s for s in summarise(given) if (s.condition, s.group) == ("keet", ALL))
    assert (keet.sol, keet.sol_samples) == (0.5, 2)
    low = scores(TWO, floor_us=1.0, sol=0.5)
    assert summarise(low)[1].sol is None


def test_wrong_places_are_counted_among_those_that_tell() -> None:
    found = [
        score("matrix_flip", "none", 1.0, 1, kept_cause=True),
        score("matrix_flip", "none", 1.05, 2, kept_cause=True),
        score("matrix_flip", "none", 3.0, 3, kept_cause=True),
        score("matrix_flip", "none", 1.0, 4, kept_cause=False),
        score("matrix_flip", "none", 1.0, 5, kept_cause=None),
        score("matrix_flip", "none", "INCORRECT", 6, kept_cause=True),
    ]
    told = summarise(found)[0]
    assert (str(told.wrong_place), str(told.kept_cause)) == ("2 of 4", "3 of 4")


def test_groups_are_those_of_the_samples() -> None:
    assert groups_of(scores(TWO)) == [ALL, "visible", "hidden"]
    assert summary(TWO, "keet", "visible").geomean.mean == pytest.approx(2**2.5)
    assert summary(TWO, "keet", "hidden").samples == 1


def test_a_condition_without_scores_has_its_row() -> None:
    outcomes: Outcomes = {"matrix_flip": {"none": [None, None], "keet": [2.0, None]}}
    none, keet = (summary(outcomes, condition) for condition in ("none", "keet"))
    assert (none.samples, none.scored, none.unscored, keet.unscored) == (0, 0, 2, 1)
    assert (none.pass_at_1, none.geomean, none.share_of_best, none.fast["2"]) == (None,) * 4
    assert [s.scored for s in summarise(scores({"matrix_flip": {"none": [None]}}))] == [0, 0]
    assert summarise([]) == []


def test_conditions_come_in_their_own_order() -> None:
    assert conditions_of(
        scores({"matrix_flip": {"agent": [1.0], "none": [1.0], "raw": [1.0]}})
    ) == [
        "none",
        "raw",
        "agent",
    ]


def test_models_are_kept_apart() -> None:
    both = [*scores(TWO), *scores({"matrix_flip": {"keet": [2.0]}}, model="b:b")]
    found = {(s.model, s.condition): s for s in summarise(both) if s.group == ALL}
    assert found["b:b", "keet"].geomean.mean == pytest.approx(2)
    assert found["b:b", "keet"].k == 1
    assert found["test:model", "keet"].scored == 4


def test_two_records_of_one_attempt_are_refused() -> None:
    check_scores(scores(TWO))
    with pytest.raises(UsageError, match="is scored twice; name each run once"):
        check_scores([*scores(TWO), score("key_count", "keet", 2.0)])


# --- differences


def test_a_difference_is_over_pairs_of_samples() -> None:
    found = difference(TWO)
    assert (found.condition, found.than, found.samples) == ("keet", "none", 2)
    assert found.log2 == Interval(2, 2, 2)
    assert found.ratio.mean == 4
    assert found.passed == pytest.approx(0.75)
    assert (found.better, found.worse) == (2, 0)


def test_failures_do_not_count_where_both_passed() -> None:
    found = difference(TWO)  # key_count has no program that passed without context
    assert found.samples_passed == 1
    assert found.where_both_passed is not None
    assert found.where_both_passed.mean == pytest.approx((3 + 2) / 2 - 1)
    failed = difference({"matrix_flip": {"none": ["TIMEOUT"], "keet": [2.0]}})
    assert (failed.samples_passed, failed.where_both_passed) == (0, None)


def test_samples_without_a_partner_are_left_out() -> None:
    found = difference({**TWO, "row_norms": {"keet": [64.0], "none": [None]}})
    assert (found.samples, found.log2.mean) == (2, 2)


def test_no_common_sample_no_difference() -> None:
    assert differences(scores({"matrix_flip": {"none": [2.0]}, "key_count": {"keet": [2.0]}})) == []


def test_small_gaps_are_ties() -> None:
    found = difference({"matrix_flip": {"none": [2.0], "keet": [2.05]}})
    assert (found.better, found.worse) == (0, 0)
    found = difference({"matrix_flip": {"none": [2.05], "keet": [2.0]}})
    assert (found.better, found.worse) == (0, 0)
    found = difference({"matrix_flip": {"none": [4.0], "keet": [2.0]}})
    assert (found.better, found.worse) == (0, 1)


def test_all_pairs_of_conditions() -> None:
    outcomes: Outcomes = {
        "matrix_flip": {"none": [1.0], "raw": [2.0], "keet": [4.0], "agent": [8.0]}
    }
    found = [
        (d.condition, d.than, d.log2.mean) for d in differences(scores(outcomes)) if d.group == ALL
    ]
    assert found == [
        ("raw", "none", 1),
        ("keet", "none", 2),
        ("agent", "none", 3),
        ("keet", "raw", 1),
        ("agent", "raw", 2),
        ("agent", "keet", 1),
    ]


# --- what can be shown


def over(names: list[str], none: float | str, keet: float | str) -> Outcomes:
    return {name: {"none": [none], "keet": [keet]} for name in names}


def test_a_group_that_the_source_alone_solves_is_saturated(wording) -> None:
    best = {name: best_known_speedup(known_samples()[name]) for name in VISIBLE}
    solved: Outcomes = {name: {"none": [0.95 * b], "keet": [1.0 * b]} for name, b in best.items()}
    found = said(solved, "visible")
    assert found.saturated
    wording(found.words)
    short: Outcomes = {name: {"none": [0.85 * b], "keet": [1.0 * b]} for name, b in best.items()}
    assert not said(short, "visible").saturated


def test_failures_keep_a_group_from_being_saturated() -> None:
    """A tenth fails, though what passes is as fast as can be."""
    solved: Outcomes = {
        name: {"none": [best_known_speedup(known_samples()[name])] * 9 + ["INCORRECT"]}
        for name in VISIBLE[:3]
    }
    assert not said(solved).saturated


def test_a_low_pass_rate_is_not_saturated_even_at_the_best_speed() -> None:
    """A healthy sample has 1x for its best, which a failure is counted as."""
    assert said({"field_axpy": {"none": [1.0] * 19 + ["INCORRECT"]}}).saturated
    assert not said({"field_axpy": {"none": [1.0] * 18 + ["INCORRECT"]}}).saturated


def test_a_difference_is_shown_when_its_interval_leaves_out_zero(wording) -> None:
    found = said(over(VISIBLE[:6], 1.2, 2.4), "visible")
    wording(found.words, said(over(VISIBLE[:6], 2.4, 1.2), "visible").words)


def test_a_difference_caused_only_by_failures_is_not_reported_as_speed(wording) -> None:
    """keet's programs are no faster, but none's fail every second time."""
    outcomes: Outcomes = {
        name: {"none": [4.0, "INCORRECT"], "keet": [4.0, 4.0]} for name in VISIBLE[:6]
    }
    assert not difference(outcomes).shown
    assert difference(outcomes).apart
    wording(said(outcomes).words)


def test_a_condition_slower_where_both_passed_is_not_called_faster(wording) -> None:
    outcomes: Outcomes = {
        name: {"none": [4.0, "INCORRECT"], "keet": [3.0, 3.0]} for name in VISIBLE[:6]
    }
    wording(said(outcomes).words)


def test_too_few_common_passes_show_no_difference(wording) -> None:
    outcomes = over(VISIBLE[:6], "INCORRECT", 4.0)
    assert not difference(outcomes).shown
    wording(said(outcomes).words)


def test_no_comparison_while_more_than_a_tenth_is_unscored(wording) -> None:
    whole = over(VISIBLE[:6], 1.2, 2.4)
    some: Outcomes = {
        **whole,
        VISIBLE[0]: {"none": [1.2, None], "keet": [2.4]},
    }
    wording(said(some).words)
    more: Outcomes = {**some, VISIBLE[1]: {"none": [1.2], "keet": [2.4, None]}}
    found = said(more)
    wording(found.words)
    assert not found.saturated


def test_an_interval_with_zero_shows_no_difference(wording) -> None:
    """Of six draws from +1 and -1, all alike come 1 time in 64, five or more alike 7 times."""
    mixed = {**over(VISIBLE[:3], 1.0, 2.0), **over(VISIBLE[3:6], 2.0, 1.0)}
    wording(said(mixed).words)


def test_few_samples_show_nothing_however_they_agree(wording) -> None:
    assert not difference(over(VISIBLE[:4], 1.0, 8.0)).shown
    assert difference(over(VISIBLE[:5], 1.0, 8.0)).shown
    wording(said(over(VISIBLE[:4], 1.0, 8.0)).words)


def test_one_condition_has_nothing_to_be_compared_with(wording) -> None:
    wording(said({"matrix_flip": {"keet": [2.0]}}).words)
