"""One sample's scores: what was said of it against what is known, and why a miss is a miss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evals import nvidia
from evals.nvidia import Advice

PLACES = 3
"""A reader looks at so many places of a finding."""
ALARM = 1.1
"""Times faster: a lower estimate of NVIDIA's for a healthy kernel is no alarm. keet's own limit."""

Spot = tuple[str, int]
"""File name and line."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding of keet's."""

    id: str
    low: float
    likely: float
    high: float
    confidence: str = "high"
    places: tuple[Spot, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of one variant."""

    claims: tuple[Claim, ...] = ()
    healthy: str | None = None
    advice: tuple[Advice, ...] = ()
    """NVIDIA's, by any estimate."""
    global_advice: tuple[Advice, ...] = ()
    """By estimates for the whole launch alone."""


Answers = Mapping[str, Answer]
"""By variant."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of a sample."""

    sample: str
    dominant: str
    accept: tuple[str, ...] = ()
    lines: tuple[Spot, ...] = ()
    """Where the dominant cause is in `slow`."""
    fixed: tuple[str, ...] = ()
    """What `fast` must not raise any more."""
    left: tuple[tuple[str, str], ...] = ()
    """Later variants, and what limits them."""
    speedup: float = 1.0
    """Time of `slow` over that of the next variant."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.dominant, *self.accept)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Times faster, said and measured. None: no forecast."""

    measured: float
    low: float | None
    likely: float | None
    high: float | None
    nvidia: float | None
    """The highest of NVIDIA's global estimates."""
    nvidia_nearest: float | None
    """The one nearest to what was measured; which one that is, only hindsight tells."""

    @property
    def covered(self) -> bool:
        low, high = self.low, self.high
        return low is not None and high is not None and low <= self.measured <= high


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of a sample with a planted cause."""

    sample: str
    dominant: str
    rank: int | None
    """Of the first finding that names the cause; None: it was not raised."""
    nvidia_rank: int | None
    nvidia_global_rank: int | None
    nvidia_first_means: int
    """How many findings NVIDIA's first rank can stand for."""
    located: bool
    places: int
    """Of those that a reader looks at."""
    forecast: Forecast
    still_raised: tuple[str, ...]
    """On `fast`, though fixed."""
    left_named: tuple[tuple[str, bool], ...]
    """Later variants whose limit is known, and whether it was named first."""
    misses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HealthyRow:
    """The scores of a variant that has nothing to fix."""

    sample: str
    variant: str
    raised: tuple[str, ...]
    named: bool
    """Whether the ceiling that it is at was named."""
    nvidia: float | None
    """The highest global estimate."""

    @property
    def nvidia_alarm(self) -> bool:
        return self.nvidia is not None and self.nvidia >= ALARM


def doublings(said: float | None, measured: float) -> float:
    """By how many factors of two a forecast is too high; who says nothing says 1x."""
    return math.log2((1.0 if said is None else said) / measured)


def off_by(said: float | None, measured: float) -> float:
    """The same, too high or too low alike."""
    return abs(doublings(said, measured))


def rank_in(claims: Sequence[Claim], names: Iterable[str]) -> int | None:
    wanted = set(names)
    return next((rank for rank, claim in enumerate(claims, 1) if claim.id in wanted), None)


def score(truth: Truth, answers: Answers) -> Row:
    slow = answers["slow"]
    rank = rank_in(slow.claims, truth.names)
    claim = slow.claims[rank - 1] if rank else None
    shown = claim.places[:PLACES] if claim else ()
    return Row(
        truth.sample,
        truth.dominant,
        rank,
        nvidia.rank_of(truth.names, slow.advice),
        nvidia.rank_of(truth.names, slow.global_advice),
        len(nvidia.first_meanings(slow.advice)),
        bool(set(shown) & set(truth.lines)),
        len(shown),
        forecast_of(truth, claim, slow.global_advice),
        tuple(one.id for one in answers["fast"].claims if one.id in truth.fixed),
        tuple((variant, _names_first(answers[variant], left)) for variant, left in truth.left),
        tuple(_misses(truth, answers)),
    )


def forecast_of(truth: Truth, claim: Claim | None, advice: Iterable[Advice]) -> Forecast:
    estimates = nvidia.speedups(advice)
    return Forecast(
        truth.speedup,
        claim.low if claim else None,
        claim.likely if claim else None,
        claim.high if claim else None,
        max(estimates, default=None),
        min(estimates, key=lambda said: off_by(said, truth.speedup), default=None),
    )


def score_healthy(truth: Truth, answers: Answers) -> list[HealthyRow]:
    return [
        HealthyRow(
            truth.sample,
            variant,
            tuple(claim.id for claim in answer.claims),
            answer.healthy == truth.dominant,
            max(nvidia.speedups(answer.global_advice), default=None),
        )
        for variant, answer in answers.items()
    ]


def _names_first(answer: Answer, limit: str) -> bool:
    return answer.healthy == limit or rank_in(answer.claims[:1], (limit,)) == 1


# --- why a miss is one


def _misses(truth: Truth, answers: Answers) -> Iterator[str]:
    slow = answers["slow"]
    rank = rank_in(slow.claims, truth.names)
    if rank != 1:
        yield f"cause: {_why_not_first(rank, slow)}"
    if rank:
        yield from _misses_of_claim(truth, slow.claims[rank - 1])
    for claim in answers["fast"].claims:
        if claim.id in truth.fixed:
            yield f"fast: still raises {_shown(claim)}"
    for variant, left in truth.left:
        if not _names_first(answers[variant], left):
            yield f"left: {variant} is limited by {left}; {_raised(answers[variant])}"


def _why_not_first(rank: int | None, answer: Answer) -> str:
    if rank is None:
        return f"not raised; {_raised(answer)}"
    mine, ahead = answer.claims[rank - 1], answer.claims[: rank - 1]
    return f"{_shown(mine)} comes after {', '.join(map(_shown, ahead))}"


def _misses_of_claim(truth: Truth, claim: Claim) -> Iterator[str]:
    shown = claim.places[:PLACES]
    if not set(shown) & set(truth.lines):
        found = f"places are {_spots(shown)}" if shown else f"{claim.id} has no places"
        yield f"location: {found}; the cause is at {_spots(truth.lines)}"
    if not claim.low <= truth.speedup <= claim.high:
        side = "above" if truth.speedup > claim.high else "below"
        said = f"{claim.low:.2f} to {claim.high:.2f}x, likely {claim.likely:.2f}x"
        yield f"forecast: measured {truth.speedup:.2f}x is {side} {said}"


def _raised(answer: Answer) -> str:
    if answer.claims:
        return f"raised: {', '.join(map(_shown, answer.claims))}"
    return f"nothing was raised: {answer.healthy}" if answer.healthy else "nothing was raised"


def _shown(claim: Claim) -> str:
    return f"{claim.id} {claim.likely:.2f}x ({claim.confidence})"


def _spots(spots: Iterable[Spot]) -> str:
    return ", ".join(f"{file}:{line}" for file, line in spots)
