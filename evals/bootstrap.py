"""Bootstrap intervals of means. Whole clusters are drawn, with both sides of a pair together.

A percentile interval shows what other draws of such samples would have given. For a score without a
miss it is a point, which says nothing about kernels that differ from the samples.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from statistics import fmean
from typing import TypeVar

SEED = 9
RESAMPLES = 4000
_OUTSIDE = 0.025
"""Share of the draws that is cut off at each end."""
_BY_CHANCE = 0.05

Pair = tuple[float, float]
Item = TypeVar("Item")
Value = TypeVar("Value")
_Drawn = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Two means over the same items, and their difference."""

    keet: Interval
    baseline: Interval
    difference: Interval
    """keet minus baseline."""


def clusters(
    items: Iterable[Item], cluster_of: Callable[[Item], str], value: Callable[[Item], Value]
) -> list[list[Value]]:
    """The values of the items by cluster, such as the sample that they are about."""
    by_cluster: defaultdict[str, list[Value]] = defaultdict(list)
    for item in items:
        by_cluster[cluster_of(item)].append(value(item))
    return list(by_cluster.values())


def paired(clusters: Sequence[Sequence[Pair]]) -> Paired:
    """Items of one cluster are drawn together, because variants of a sample are not independent."""
    sides = [tuple(zip(*cluster)) for cluster in clusters if cluster]
    if not sides:
        raise ValueError("there is nothing to take a mean of")
    counts = [len(ours) for ours, _ in sides]
    sums = [[sum(side[at]) for side in sides] for at in (0, 1)]

    def means(drawn: _Drawn) -> Pair:
        count = sum(drawn(counts))
        keet, baseline = (sum(drawn(side)) / count for side in sums)
        return keet, baseline

    keet, baseline = means(list)
    draws = [means(drawn) for drawn in _draws(len(sides), RESAMPLES)]
    return Paired(
        _interval(keet, (ours for ours, _ in draws)),
        _interval(baseline, (theirs for _, theirs in draws)),
        _interval(keet - baseline, (ours - theirs for ours, theirs in draws)),
    )


def alone(clusters: Sequence[Sequence[float]]) -> Interval:
    """The same without a baseline."""
    return paired([[(value, value) for value in cluster] for cluster in clusters]).keet


def attempts_apart(
    clusters: Sequence[Sequence[tuple[Sequence[float], Sequence[float]]]],
) -> Interval:
    """The mean difference between two sides. A cluster is a program, and its items are what both
    sides tried several times, each time anew. Whole clusters are drawn, with both sides together,
    then attempts within each side of each item."""
    draws = random.Random(SEED)

    def mean(values: Sequence[float]) -> float:
        return sum(draws.choices(values, k=len(values))) / len(values)

    def difference(chosen: Iterable[Sequence[tuple[Sequence[float], Sequence[float]]]]) -> float:
        return fmean(mean(ours) - mean(theirs) for cluster in chosen for ours, theirs in cluster)

    every = [fmean(ours) - fmean(theirs) for cluster in clusters for ours, theirs in cluster]
    drawn = (draws.choices(clusters, k=len(clusters)) for _ in range(RESAMPLES))
    return _interval(fmean(every), map(difference, drawn))


def share(clusters: Sequence[Sequence[float]]) -> Interval:
    """The share of items that are 1. If all are equal, draws give a point; the interval's open end
    is then the share at which so many clusters would agree by chance in one of twenty cases."""
    kept = [cluster for cluster in clusters if cluster]
    values = {value for cluster in kept for value in cluster}
    if values not in ({0.0}, {1.0}):
        return alone(kept)
    unseen = 1 - _BY_CHANCE ** (1 / len(kept))
    return Interval(1.0, 1 - unseen, 1.0) if values == {1.0} else Interval(0.0, 0.0, unseen)


@cache
def _draws(size: int, count: int) -> list[_Drawn]:
    """The clusters of each draw: the same for all means over as many clusters."""
    draws = random.Random(SEED)
    chosen = (draws.choices(range(size), k=size) for _ in range(count))
    return [itemgetter(*each) if size > 1 else list for each in chosen]


def _interval(mean: float, draws: Iterable[float]) -> Interval:
    ordered = sorted(draws)
    outside = int(_OUTSIDE * len(ordered))
    return Interval(mean, ordered[outside], ordered[-1 - outside])
