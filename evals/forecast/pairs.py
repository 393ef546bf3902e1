"""Pairs of consecutive variants of a sample: the measured speed-up and the forecast for it.

The forecast is that of the finding which the next variant fixes: the planted cause of `slow`, and
what limits it for a later step. Only pairs with two measured times count. If a variant fixes more
than one cause, the forecast for one cause is too low, but is scored all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evals.diagnosis import nvidia
from evals.diagnosis.answers import (
    Answer,
    Claim,
    NoAnswer,
    Reading,
    Unscored,
    answers_of,
)
from evals.diagnosis.scoring import FINDINGS, rank_in
from evals.difficulty import difficulty_of
from kernels_samples.samples import Sample


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
    measured = _speedup(sample, before, after)
    causes = _causes(sample, before)
    if measured is None:
        return f"{before} or {after} was not measured"
    if not causes:
        return f"what {after} mends is not planted"
    return Pair(
        sample.name,
        before,
        after,
        causes[0],
        measured,
        _range(answer.claims[:FINDINGS], causes),
        nvidia.speedups(answer.global_advice),
        difficulty_of(sample.name),
    )


def _speedup(sample: Sample, before: str, after: str) -> float | None:
    times = sample.measured.variants if sample.measured else {}
    if before not in times or after not in times:
        return None
    return times[before].median_us / times[after].median_us


def _causes(sample: Sample, variant: str) -> tuple[str, ...]:
    truth = sample.truth
    if variant == "slow":
        return (truth.dominant, *truth.accept)
    return (truth.left[variant],) if variant in truth.left else ()


def _range(claims: Sequence[Claim], causes: Sequence[str]) -> Range | None:
    rank = rank_in(claims, causes)
    if rank is None:
        return None
    claim = claims[rank - 1]
    return Range(claim.low, claim.likely, claim.high)
