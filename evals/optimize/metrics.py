"""Metrics over several attempts at a problem: pure functions, each compared with brute force by a
test.

`@k` is the mean result of k of n attempts, drawn without order and without replacement. A failed
attempt counts as 1x, because the engineer keeps the old code; a correct but slower program counts
as what it is, below 1x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ENOUGH = 0.9
"""Share of the best known speed-up from which a problem counts as solved."""


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """The probability that at least one of k drawn attempts passed: 1 - C(n-c, k) / C(n, k).
    build@k is the same for those that compiled."""
    _check_draw(attempts, k)
    if not 0 <= passed <= attempts:
        raise ValueError(f"{passed} of {attempts} attempts cannot have passed")
    return 1 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def best_of_k(values: Sequence[float], k: int) -> float:
    """The expected best of k drawn values. The i-th smallest is the best of the C(i-1, k-1) draws
    that contain it and k-1 smaller ones."""
    _check_draw(len(values), k)
    _check_values(values)
    draws = math.comb(len(values), k)
    ordered = enumerate(sorted(values))
    return math.fsum(value * (math.comb(below, k - 1) / draws) for below, value in ordered)


def kept_speedup(speedup: float | None) -> float:
    """None: it failed."""
    return 1.0 if speedup is None else speedup


def speedup_at_k(speedups: Sequence[float | None], k: int) -> float:
    """Best of k; failures count as 1x."""
    return best_of_k([kept_speedup(each) for each in speedups], k)


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """The share that is correct and more than p times as fast."""
    if not speedups:
        raise ValueError("there are no attempts")
    return sum(each is not None and each > p for each in speedups) / len(speedups)


def geometric_mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("there is nothing to take a mean of")
    return 2 ** mean_log2(values)


def mean_log2(values: Sequence[float]) -> float:
    _check_values(values)
    return math.fsum(map(math.log2, values)) / len(values)


def expected_tries(reached: Sequence[bool]) -> float | None:
    """Expected number of attempts, in random order, until one reaches the goal: (n+1) / (c+1).
    None: none did, so that it takes more than n."""
    count = sum(reached)
    return (len(reached) + 1) / (count + 1) if count else None


def expected_cost(reached: Sequence[bool], costs: Sequence[float]) -> float | None:
    """Expected cost until then, including that attempt. Each attempt that misses the goal comes
    before all c that reach it with probability 1 / (c+1); exactly one of the c is paid for."""
    count = sum(reached)
    if not count:
        return None
    wins = math.fsum(cost for cost, hit in zip(costs, reached, strict=True) if hit)
    return wins / count + (math.fsum(costs) - wins) / (count + 1)


def _check_draw(attempts: int, k: int) -> None:
    if not 1 <= k <= attempts:
        raise ValueError(f"{k} of {attempts} attempts cannot be drawn")


def _check_values(values: Sequence[float]) -> None:
    """A speed-up that is not a positive number would make every mean worthless."""
    if wrong := [value for value in values if not (math.isfinite(value) and value > 0)]:
        raise ValueError(f"{wrong[0]} is no speed-up")
