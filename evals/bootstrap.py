"""Intervals of means by resampling whole clusters, with both sides of a pair drawn together.

A percentile interval says what other draws of such samples would have given. Of a score without a
miss it is a point: it then says nothing about kernels that are not like the samples.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SEED = 9
RESAMPLES = 4000
_OUTSIDE = 0.025
"""Of the draws, at each end."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the 95 % interval around it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Two means over the same items, and their difference."""

    keet: Interval
    baseline: Interval
    difference: Interval
    """keet less baseline."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What the mean needs of it."""

    count: int
    keet: float
    baseline: float


def paired(clusters: Sequence[Sequence[Pair]]) -> Paired:
    """Items of one cluster come and go together: variants of a sample are no two witnesses."""
    kept = [_summed(cluster) for cluster in clusters if cluster]
    if not kept:
        raise ValueError("there is nothing to take a mean of")
    draws = random.Random(SEED)
    seen = [_means(draws.choices(kept, k=len(kept))) for _ in range(RESAMPLES)]
    keet, baseline = _means(kept)
    return Paired(
        _interval(keet, (ours for ours, _ in seen)),
        _interval(baseline, (theirs for _, theirs in seen)),
        _interval(keet - baseline, (ours - theirs for ours, theirs in seen)),
    )


def alone(clusters: Sequence[Sequence[float]]) -> Interval:
    """The same without a baseline."""
    return paired([[(value, value) for value in cluster] for cluster in clusters]).keet


def _summed(cluster: Sequence[Pair]) -> _Cluster:
    keet, baseline = zip(*cluster)
    return _Cluster(len(cluster), sum(keet), sum(baseline))


def _means(clusters: Sequence[_Cluster]) -> Pair:
    count = sum(cluster.count for cluster in clusters)
    keet = sum(cluster.keet for cluster in clusters)
    return keet / count, sum(cluster.baseline for cluster in clusters) / count


def _interval(mean: float, draws: Iterable[float]) -> Interval:
    ordered = sorted(draws)
    outside = int(_OUTSIDE * len(ordered))
    return Interval(mean, ordered[outside], ordered[-1 - outside])
