"""Each estimator against the thing it stands for: all draws, or all orders, counted one by one."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.optimize.metrics import (
    best_of_k,
    expected_cost,
    expected_tries,
    fast_p,
    geometric_mean,
    mean_log2,
    pass_at_k,
    speedup_at_k,
)
from tests.rows import each_row

SPEEDUPS = st.lists(st.floats(0.1, 100), min_size=1, max_size=8)


def drawn(values: list[Fraction], k: int) -> list[tuple[Fraction, ...]]:
    return list(combinations(values, k))


@each_row("n", range(1, 8))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(n: int) -> None:
    for c in range(n + 1):
        outcomes = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            draws = list(combinations(outcomes, k))
            share = Fraction(sum(map(any, draws)), len(draws))
            assert pass_at_k(n, c, k) == pytest.approx(float(share), abs=1e-12)


@each_row("values", [[3], [2, 2], [1, 4, 2], [5, 1, 1, 7], [9, 2, 4, 4, 1, 8, 3]])
def test_best_of_k_is_the_mean_of_the_best_over_all_draws(values: list[int]) -> None:
    exact = [Fraction(value, 3) for value in values]
    for k in range(1, len(values) + 1):
        bests = [max(draw) for draw in drawn(exact, k)]
        assert best_of_k([float(v) for v in exact], k) == pytest.approx(
            float(sum(bests) / len(bests))
        )


def pareval_with_runtimes_ascending(baseline: float, runtimes: list[float], k: int) -> float:
    """sum over j of C(j-1, k-1) / C(N, k) * T* / T_j, with run times T_1 <= T_2 <= ... <= T_N.

    This is the form shown wrong here, written down from memory of ParEval's `speedup_n@k` (its paper
    leaves the order of the T_j to the reader; its script sorts the run times upwards). The weights
    grow with j, so the slowest run gets the most: it is the expected worst of k, not the best.
    """
    n = len(runtimes)
    ordered = sorted(runtimes)
    return sum(
        math.comb(j - 1, k - 1) / math.comb(n, k) * baseline / ordered[j - 1]
        for j in range(1, n + 1)
    )


def pareval_unsorted(baseline: float, runtimes: list[float], k: int) -> float:
    """The same sum over runs in the order in which they were drawn: not even a function of the set."""
    n = len(runtimes)
    return sum(
        math.comb(j, k - 1) / math.comb(n, k) * baseline / time for j, time in enumerate(runtimes)
    )


def test_the_published_sum_over_ascending_run_times_is_the_worst_of_k() -> None:
    baseline, runtimes = 12.0, [1.0, 2.0, 3.0, 4.0, 6.0]
    speedups = [baseline / time for time in runtimes]
    for k in range(1, 6):
        draws = list(combinations(speedups, k))
        best = statistics.mean(map(max, draws))
        worst = statistics.mean(map(min, draws))
        published = pareval_with_runtimes_ascending(baseline, runtimes, k)
        assert best_of_k(speedups, k) == pytest.approx(best)
        assert published == pytest.approx(worst)
        assert (published == pytest.approx(best)) == (k == 1)
    assert pareval_with_runtimes_ascending(baseline, runtimes, 5) == pytest.approx(2)  # best: 12


def test_without_sorting_it_depends_on_the_order_of_the_runs() -> None:
    up, down = [1.0, 2.0, 4.0], [4.0, 2.0, 1.0]
    assert pareval_unsorted(4, up, 1) == pytest.approx(pareval_unsorted(4, down, 1))
    assert pareval_unsorted(4, up, 2) != pytest.approx(pareval_unsorted(4, down, 2))
    assert best_of_k([4 / t for t in up], 2) == best_of_k([4 / t for t in down], 2)


def test_a_failure_keeps_the_old_code() -> None:
    assert speedup_at_k([None, 3.0], 1) == 2
    assert speedup_at_k([None, 3.0], 2) == 3
    assert speedup_at_k([None, None], 2) == 1
    assert speedup_at_k([None, 0.5], 1) == 0.75  # slower is not failed


def test_fast_p_wants_correct_and_faster() -> None:
    attempts = [None, 0.9, 1.0, 1.6, 4.0]
    assert [fast_p(attempts, p) for p in (0, 1, 1.5, 4)] == [0.8, 0.4, 0.4, 0]


def test_geometric_mean() -> None:
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert mean_log2([1, 4]) == 1
    assert geometric_mean([1, 1, 8]) == pytest.approx(2)


REACHED = [
    [True],
    [False, True],
    [True, True, False],
    [False, False, True, False, True],
    [True] * 4,
]


@each_row("reached", REACHED)
def test_tries_and_cost_are_means_over_all_orders(reached: list[bool]) -> None:
    costs = [7.0 * (i + 1) ** 2 for i in range(len(reached))]
    tries, spent = [], []
    for order in permutations(range(len(reached))):
        first = next(place for place, i in enumerate(order) if reached[i])
        tries.append(first + 1)
        spent.append(sum(costs[i] for i in order[: first + 1]))
    assert expected_tries(reached) == pytest.approx(statistics.mean(tries))
    assert expected_cost(reached, costs) == pytest.approx(statistics.mean(spent))


@each_row("reached", [[], [False], [False] * 3])
def test_attempts_to_the_goal_are_none_if_it_was_never_reached(reached: list[bool]) -> None:
    assert expected_tries(reached) is None
    assert expected_cost(reached, [1.0] * len(reached)) is None


@given(SPEEDUPS)
def test_at_1_is_the_mean_and_at_n_the_best(values: list[float]) -> None:
    assert best_of_k(values, 1) == pytest.approx(statistics.mean(values))
    assert best_of_k(values, len(values)) == pytest.approx(max(values))


@given(SPEEDUPS)
def test_more_draws_are_never_worse(values: list[float]) -> None:
    by_k = [best_of_k(values, k) for k in range(1, len(values) + 1)]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(by_k))


@given(SPEEDUPS, st.randoms(use_true_random=False), st.integers(1, 8))
def test_the_order_of_attempts_does_not_matter(values: list[float], random: object, k: int) -> None:
    k = min(k, len(values))
    shuffled = sorted(values, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert best_of_k(shuffled, k) == best_of_k(values, k)


@given(SPEEDUPS, st.floats(0.5, 2), st.integers(1, 8))
def test_best_of_k_scales_with_the_values(values: list[float], factor: float, k: int) -> None:
    k = min(k, len(values))
    assert best_of_k([v * factor for v in values], k) == pytest.approx(
        factor * best_of_k(values, k)
    )


@each_row("wrong", [math.nan, math.inf, -math.inf, -2.0, 0.0])
def test_invalid_speed_ups_are_refused(wrong: float) -> None:
    for function in (lambda: best_of_k([1.0, wrong], 1), lambda: geometric_mean([wrong, 2.0])):
        with pytest.raises(ValueError, match="is no speed-up"):
            function()


@each_row(("n", "c", "k"), [(0, 0, 1), (3, 1, 0), (3, 1, 4), (3, 4, 1), (3, -1, 1)])
def test_impossible_draws_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="cannot"):
        pass_at_k(n, c, k)


def test_means_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        geometric_mean([])
    with pytest.raises(ValueError, match="no attempts"):
        fast_p([], 1)
    with pytest.raises(ValueError, match="cannot"):
        best_of_k([], 1)
