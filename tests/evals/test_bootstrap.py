"""Intervals: of all draws, of whole clusters, both sides together."""

import math
from itertools import product

import pytest

from evals import bootstrap
from evals.bootstrap import alone, paired, share
from tests.rows import each_row

ITEMS = [[(1.0, 0.5)], [(0.0, 2.0), (4.0, 1.0)], [(3.0, 3.0)], [(8.0, 1.5)]]


def test_intervals_are_reproducible() -> None:
    assert paired(ITEMS) == paired(ITEMS)
    assert paired(ITEMS).keet == alone([[ours for ours, _ in cluster] for cluster in ITEMS])
    assert bootstrap.RESAMPLES >= 1000


def test_intervals_are_those_of_all_draws() -> None:
    """Four clusters can be drawn in 256 ways: the quantiles of all of them, as far as 4,000 tell."""
    draws = [[item for cluster in drawn for item in cluster] for drawn in product(ITEMS, repeat=4)]
    exact = sorted(sum(a - b for a, b in drawn) / len(drawn) for drawn in draws)
    found = paired(ITEMS).difference
    flat = [item for cluster in ITEMS for item in cluster]
    assert found.mean == pytest.approx(sum(a - b for a, b in flat) / len(flat))
    assert share_below(exact, found.low) == pytest.approx(0.025, abs=0.015)
    assert share_below(exact, found.high) == pytest.approx(0.975, abs=0.015)


def share_below(values: list[float], limit: float) -> float:
    """With half of those that are equal."""
    below = sum(value < limit and not math.isclose(value, limit) for value in values)
    return (below + sum(math.isclose(value, limit) for value in values) / 2) / len(values)


def test_what_is_drawn_together() -> None:
    always_one_more = [[(value + 1, value)] for value in (1.0, 5.0, 9.0, 30.0)]
    found = paired(always_one_more)
    assert (found.difference.low, found.difference.high) == pytest.approx((1, 1))
    assert found.keet.low < found.keet.high
    # Copies of an item within its cluster make nothing more certain.
    once = alone([[0.0], [1.0], [1.0], [5.0]])
    assert alone([[0.0] * 9, [1.0] * 9, [1.0] * 9, [5.0] * 9]) == once
    assert alone([[], [0.0], [1.0], [1.0], [5.0]]) == once


def test_shares() -> None:
    clusters = [[1.0], [1.0, 0.0], [1.0]]
    assert share(clusters) == alone(clusters)
    assert share([[1.0], []]) == share([[1.0]])
    with pytest.raises(ValueError, match="nothing"):
        alone([[]])


@each_row("clusters", [1, 3, 35])
def test_a_share_without_a_miss_has_an_interval_from_chance(clusters: int) -> None:
    """So many hits in a row are seen in one of twenty cases at the lowest share."""
    found = share([[1.0, 1.0]] * clusters)
    assert (found.mean, found.high) == (1, 1)
    assert found.low**clusters == pytest.approx(0.05)
    none = share([[0.0]] * clusters)
    assert (none.mean, none.low, none.high) == pytest.approx((0, 0, 1 - found.low))
