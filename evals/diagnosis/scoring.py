"""Scores one sample: the answer compared with the planted cause, with the reason of each score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evals.diagnosis import nvidia
from evals.diagnosis.answers import FINDINGS, Answer, Answers, Claim, Spot, Truth, rank_in

PLACES = 3
"""Number of places per finding that a reader looks at."""
ALARM = 1.1
"""A lower estimate of NVIDIA's rules for a healthy kernel is not a false alarm; the same limit as
keet's."""


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of a sample with a planted cause."""

    sample: str
    dominant: str
    rank: int | None
    """Rank of the first finding that names the cause; None: it was not raised."""
    nvidia_rank: int | None
    nvidia_global_rank: int | None
    nvidia_first_means: int
    """Number of findings that NVIDIA's first rank can mean."""
    located: bool
    places: int
    """Whether a cause line is among the places that a reader looks at."""
    beside: int
    """Findings on `slow` that were not planted."""
    still_raised: tuple[str, ...]
    """The fixed cause is still raised on `fast`."""
    left_named: tuple[tuple[str, bool], ...]
    """Later variants whose limit is known, and whether it was named first."""
    why: tuple[str, ...]
    """The scores that are right, with the reason."""
    misses: tuple[str, ...]
    difficulty: str | None = None


@dataclass(frozen=True, slots=True)
class HealthyRow:
    """The scores of a variant that has nothing to fix."""

    sample: str
    variant: str
    raised: tuple[str, ...]
    named: bool
    """Whether the ceiling that it reaches was named."""
    nvidia: float | None
    """The highest global estimate."""
    why: str = ""

    @property
    def nvidia_alarm(self) -> bool:
        return self.nvidia is not None and self.nvidia >= ALARM


def claims_of(truth: Truth, answer: Answer) -> tuple[Claim, ...]:
    """The scored part of an answer: the first five findings, about the requested kernel."""
    return () if _is_of_another(truth, answer) else answer.claims[:FINDINGS]


def _is_of_another(truth: Truth, answer: Answer) -> bool:
    return None not in (truth.kernel, answer.kernel) and truth.kernel != answer.kernel


def score(truth: Truth, answers: Answers) -> Row:
    slow = answers["slow"]
    claims = claims_of(truth, slow)
    rank = rank_in(claims, truth.names)
    if not claims and slow.healthy in truth.names and not _is_of_another(truth, slow):
        rank = 1  # "only less work helps" is among the accepted answers
    shown = claims[rank - 1].places[:PLACES] if rank and claims else ()
    planted = {*truth.names, *truth.others}
    return Row(
        truth.sample,
        truth.dominant,
        rank,
        nvidia.rank_of(truth.names, slow.advice),
        nvidia.rank_of(truth.names, slow.global_advice),
        len(nvidia.first_meanings(slow.advice)),
        bool(set(shown) & set(truth.lines)),
        len(shown),
        len({claim.id for claim in claims} - planted),
        tuple(one.id for one in claims_of(truth, answers["fast"]) if one.id in truth.fixed),
        tuple(
            (variant, _names_first(truth, answers[variant], left)) for variant, left in truth.left
        ),
        tuple(_reasons(truth, answers)),
        tuple(_misses(truth, answers)),
        truth.difficulty,
    )


def score_healthy(truth: Truth, answers: Answers) -> list[HealthyRow]:
    return [
        HealthyRow(
            truth.sample,
            variant,
            tuple(claim.id for claim in answer.claims[:FINDINGS]),
            answer.healthy == truth.dominant and not _is_of_another(truth, answer),
            max(nvidia.speedups(answer.global_advice), default=None),
            f"{_raised(answer.claims, answer)}; its ceiling is {truth.dominant}",
        )
        for variant, answer in answers.items()
    ]


def _names_first(truth: Truth, answer: Answer, limit: str) -> bool:
    if _is_of_another(truth, answer):
        return False
    return answer.healthy == limit or rank_in(answer.claims[:1], (limit,)) == 1


# --- why a hit is one, and a miss


def _reasons(truth: Truth, answers: Answers) -> Iterator[str]:
    claims = claims_of(truth, answers["slow"])
    if rank := rank_in(claims, truth.names):
        yield f"cause: finding {rank} of {len(claims)} is {_shown(claims[rank - 1])}"
        hit = [spot for spot in claims[rank - 1].places[:PLACES] if spot in truth.lines]
        yield from (f"location: {_spots([spot])} is a line of the cause" for spot in hit[:1])
    for variant, left in truth.left:
        if _names_first(truth, answers[variant], left):
            yield f"left: {variant} is limited by {left}, which comes first"


def _misses(truth: Truth, answers: Answers) -> Iterator[str]:
    slow, claims = answers["slow"], claims_of(truth, answers["slow"])
    rank = rank_in(claims, truth.names)
    if _is_of_another(truth, slow):
        yield f"cause: the answer is about {slow.kernel}, not {truth.kernel}"
    elif rank is None:
        yield f"cause: not raised; {_raised(claims, slow)}"
    else:
        named, before = claims[rank - 1], ", ".join(map(_shown, claims[: rank - 1]))
        if before:
            yield f"cause: {_shown(named)} comes after {before}"
        places = named.places[:PLACES]
        if not set(places) & set(truth.lines):
            told = f"places are {_spots(places)}" if places else f"{named.id} has no places"
            yield f"location: {told}; the cause is at {_spots(truth.lines)}"
    for claim in claims_of(truth, answers["fast"]):
        if claim.id in truth.fixed:
            yield f"fast: still raises {_shown(claim)}"
    for variant, left in truth.left:
        answer = answers[variant]
        if not _names_first(truth, answer, left):
            yield f"left: {variant} is limited by {left}; {_raised(answer.claims, answer)}"


def _raised(claims: Sequence[Claim], answer: Answer) -> str:
    if claims:
        return f"raised: {', '.join(map(_shown, claims))}"
    return f"nothing was raised: {answer.healthy}" if answer.healthy else "nothing was raised"


def _shown(claim: Claim) -> str:
    return f"{claim.id} {claim.likely:.2f}x ({claim.confidence})"


def _spots(spots: Iterable[Spot]) -> str:
    return ", ".join(f"{file}:{line}" for file, line in spots)
