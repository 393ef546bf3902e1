"""Forecasts that try to score without analysing the kernel, and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from evals.diagnosis.nvidia import Advice, speedups
from evals.forecast.scoring import Pair, Range, score_pairs


class AdversaryScore(NamedTuple):
    """Mean scores of an adversary over all pairs."""

    name: str
    error: float
    covered: float
    width: float
    range_score: float
    invalid: int


Trick = Callable[[Pair], Range | None]


def _always(low: float, likely: float, high: float) -> Trick:
    return lambda _: Range(low, likely, high)


def _whole_time(_: Pair) -> Range:
    """A rule that estimates 100 %, as some of ncu's rules do."""
    (said,) = speedups([Advice("CPIStall", 100.0)])
    return Range(said, said, said)


TRICKS: Mapping[str, Trick] = {
    "knows what was measured (not an attack)": lambda p: Range(p.measured, p.measured, p.measured),
    "nothing": lambda _: None,
    "2x, always": _always(2, 2, 2),
    "2x, from 1x to 1000x": _always(1, 2, 1000),
    "an estimate of 100 % of the time": _whole_time,
    "infinite": _always(1, math.inf, math.inf),
    "2x, up to infinity": _always(1, 2, math.inf),
    "not a number": _always(math.nan, math.nan, math.nan),
    "zero": _always(0, 0, 0),
    "negative": _always(-4, -2, -1),
    "likely outside its own range": _always(1, 50, 2),
}


def score_adversaries(pairs: Sequence[Pair]) -> list[AdversaryScore]:
    return [_score_adversary(name, trick, pairs) for name, trick in TRICKS.items()]


def _score_adversary(name: str, trick: Trick, pairs: Sequence[Pair]) -> AdversaryScore:
    rows = score_pairs([replace(pair, said=trick(pair)) for pair in pairs])
    scores = [row.keet for row in rows]
    return AdversaryScore(
        name,
        fmean(score.error for score in scores),
        fmean(score.covered for score in scores),
        fmean(score.width for score in scores),
        fmean(score.range_score for score in scores),
        sum(row.invalid is not None for row in rows),
    )
