"""Scores forecasts of speed-ups against the measured ones, in factors of two (log2).

A pair is two consecutive variants of a sample. The forecast is that of the finding which the next
variant fixes: the planted cause of `slow`, and what limits it for a later step. Only pairs with two
measured times count. If a variant fixes more than one cause, the forecast for one cause is too low,
but is scored all the same.

No forecast, or an invalid one, counts as 1x. The score of a range includes its width, so that a
very wide range does not win.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, quantiles

from evals.diagnosis import nvidia
from evals.diagnosis.answers import Answer, NoAnswer, Reading, answers_of, claim_for
from evals.difficulty import difficulty_of
from evals.task_command import Unscored
from kernels_samples.samples import Sample

_OUTSIDE = 0.2
"""Share of measurements that may be outside a range: the level at which ranges are scored."""


@dataclass(frozen=True, slots=True)
class Range:
    """A forecast, as speed-ups."""

    low: float
    likely: float
    high: float

    @property
    def problem(self) -> str | None:
        """Why it is not a valid forecast."""
        values = (self.low, self.likely, self.high)
        if not all(math.isfinite(value) for value in values):
            return "it is not finite"
        if min(values) <= 0:
            return "nothing is zero or fewer times faster"
        if not self.low <= self.likely <= self.high:
            return "low, likely and high are not in order"
        return None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two variants of a sample."""

    sample: str
    before: str
    after: str
    cause: str
    measured: float
    """Time before divided by time after."""
    said: Range | None
    """None: the cause was not raised, so there is no forecast."""
    estimates: tuple[float, ...] = ()
    """NVIDIA's estimates for the whole launch, highest first."""
    difficulty: str | None = None

    @property
    def name(self) -> str:
        return self.sample if self.before == "slow" else f"{self.sample}, {self.before}"


Pairs = tuple[list[Pair], list[Unscored]]


def range_of(answer: Answer, names: Sequence[str]) -> Range | None:
    """keet's forecast for a cause with one of these names."""
    claim = claim_for(answer, names)
    return None if claim is None else Range(claim.low, claim.likely, claim.high)


def pairs_of_samples(samples: Sequence[Sample]) -> Pairs:
    flawed = [sample for sample in samples if not sample.healthy]
    found = [each for sample in flawed for each in pairs_of(sample, answers_of(sample))]
    pairs = [each for each in found if isinstance(each, Pair)]
    return pairs, [each for each in found if isinstance(each, Unscored)]


def pairs_of(sample: Sample, answers: Reading) -> Iterator[Pair | Unscored]:
    for before, after in pairwise(sample.variants):
        found = _pair(sample, before, after, answers[before])
        yield Unscored(sample.name, before, found) if isinstance(found, str) else found


def _pair(sample: Sample, before: str, after: str, answer: Answer | NoAnswer) -> Pair | str:
    """A pair, or why there is none."""
    if isinstance(answer, NoAnswer):
        return answer.why
    times = sample.measured.variants if sample.measured else {}
    if before not in times or after not in times:
        return f"{before} or {after} was not measured"
    truth = sample.truth
    causes = (truth.dominant, *truth.accept) if before == "slow" else (truth.left.get(before),)
    if causes[0] is None:
        return f"what {after} mends is not planted"
    names = tuple(filter(None, causes))
    return Pair(
        sample.name,
        before,
        after,
        names[0],
        times[before].median_us / times[after].median_us,
        range_of(answer, names),
        nvidia.speedups(answer.global_advice),
        difficulty_of(sample.name),
    )


# --- scores


_NOTHING = Range(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one range."""

    error: float
    """|log2(forecast / measured)|"""
    bias: float
    """The same with its sign: below zero is too low."""
    covered: bool
    width: float
    """log2(high / low)"""
    range_score: float
    """Winkler's interval score at 80 %: the width, plus ten times the distance of a measurement
    outside. Lower is better."""


@dataclass(frozen=True, slots=True)
class Row:
    """A scored pair: keet and its baselines."""

    pair: Pair
    keet: Score
    naive: Score
    """Of the mean of the other samples, which does not look at this kernel."""
    naive_range: Range
    nvidia: float | None
    """The highest of NVIDIA's estimates, which ncu lists first."""
    nvidia_nearest: float | None
    """The estimate nearest to the measurement, which is known only afterwards."""
    nvidia_error: float
    nvidia_nearest_error: float
    silent_error: float
    """Of a forecast of 1x for everything."""
    invalid: str | None
    """Why keet's forecast is invalid, if it is."""
    why: str


def doublings(said: float | None, measured: float) -> float:
    """By how many factors of two a forecast is too high; no forecast counts as 1x."""
    return math.log2((1.0 if said is None else said) / measured)


def off_by(said: float | None, measured: float) -> float:
    """The same without its sign."""
    return abs(doublings(said, measured))


def score_range(said: Range | None, measured: float) -> Score:
    valid = said is not None and said.problem is None
    used = said if said is not None and valid else _NOTHING
    below = max(0.0, math.log2(used.low / measured))
    above = max(0.0, math.log2(measured / used.high))
    width = math.log2(used.high / used.low)
    return Score(
        off_by(used.likely, measured),
        doublings(used.likely, measured),
        valid and below == above == 0,
        width,
        width + 2 / _OUTSIDE * (below + above),
    )


def naive_range(pair: Pair, pairs: Sequence[Pair]) -> Range:
    """The geometric mean of the gains of other samples, and the middle 80 % of them."""
    others = [math.log2(each.measured) for each in pairs if each.sample != pair.sample]
    if not others:
        return _NOTHING
    tenths = quantiles(others, n=10, method="inclusive") if len(others) > 1 else others * 9
    likely = fmean(others)
    return Range(2 ** min(tenths[0], likely), 2**likely, 2 ** max(tenths[-1], likely))


def score_pairs(pairs: Sequence[Pair]) -> list[Row]:
    return [score_pair(pair, pairs) for pair in pairs]


def score_pair(pair: Pair, pairs: Sequence[Pair]) -> Row:
    estimates = [each for each in pair.estimates if math.isfinite(each) and each > 0]
    largest = max(estimates, default=None)
    nearest = min(estimates, key=lambda said: off_by(said, pair.measured), default=None)
    keet, naive = score_range(pair.said, pair.measured), naive_range(pair, pairs)
    invalid = pair.said.problem if pair.said else None
    return Row(
        pair,
        keet,
        score_range(naive, pair.measured),
        naive,
        largest,
        nearest,
        off_by(largest, pair.measured),
        off_by(nearest, pair.measured),
        off_by(None, pair.measured),
        invalid,
        _why(pair, keet, invalid),
    )


def _why(pair: Pair, score: Score, invalid: str | None) -> str:
    measured = f"measured {pair.measured:.2f}x"
    if pair.said is None:
        return f"{measured}; {pair.cause} was not raised, which is scored as 1x"
    said = f"{pair.said.low:.2f} to {pair.said.high:.2f}x, likely {pair.said.likely:.2f}x"
    if invalid:
        return f"{measured}; {said}: {invalid}, which is scored as 1x"
    if score.covered:
        return f"{measured} is within {said}"
    side = "above" if pair.measured > pair.said.high else "below"
    return f"{measured} is {side} {said}"
