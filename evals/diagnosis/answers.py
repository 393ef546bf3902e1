"""The planted cause of a sample, and the answers of keet and of NVIDIA's rules for each variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evals.diagnosis import nvidia
from evals.diagnosis.nvidia import Advice
from evals.difficulty import difficulty_of
from evals.task_command import Unscored
from keet.diagnosis.diagnosis import diagnose
from keet.errors import KeetError
from keet.profile import Launch
from keet.report import read_profile
from kernels_samples.samples import Sample

FINDINGS = 5
"""Number of findings that `keet explain` shows; further ones are not read, so that listing all
findings does not help."""
Spot = tuple[str, int]
"""File name and line."""


class Claim(NamedTuple):
    """One of keet's findings."""

    id: str
    low: float
    likely: float
    high: float
    confidence: str = "high"
    places: tuple[Spot, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one variant."""

    claims: tuple[Claim, ...] = ()
    healthy: str | None = None
    advice: tuple[Advice, ...] = ()
    """NVIDIA's rules, by any estimate."""
    global_advice: tuple[Advice, ...] = ()
    """Only by estimates for the whole launch."""
    kernel: str | None = None
    """The kernel that the answer is about."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why nothing can be scored; not a fault of the answer."""

    why: str


Answers = Mapping[str, Answer]
"""By variant."""
Reading = Mapping[str, Answer | NoAnswer]


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known about a sample."""

    sample: str
    dominant: str
    accept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Other planted causes: raising them is not a mistake."""
    lines: tuple[Spot, ...] = ()
    """Lines of the dominant cause in `slow`."""
    fixed: tuple[str, ...] = ()
    """Findings that `fast` must not have."""
    left: tuple[tuple[str, str], ...] = ()
    """Later variants and what limits them."""
    kernel: str | None = None
    difficulty: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.dominant, *self.accept)


def truth_of(sample: Sample) -> Truth:
    truth = sample.truth
    causes = {truth.dominant, *truth.accept, *truth.others}
    places = [cause for cause in truth.cause if cause.finding == truth.dominant]
    return Truth(
        sample.name,
        truth.dominant,
        truth.accept,
        truth.others,
        tuple((sample.source("slow").name, p.line) for p in places if p.variant == "slow"),
        tuple(sorted(causes - {truth.left.get("fast")})),
        tuple((each, truth.left[each]) for each in sample.variants if each in truth.left),
        sample.kernel,
        difficulty_of(sample.name),
    )


def answers_of(sample: Sample) -> dict[str, Answer | NoAnswer]:
    return {variant: _answer(sample, variant) for variant in sample.variants}


def unscored(sample: str, answers: Reading) -> list[Unscored]:
    return [
        Unscored(sample, variant, answer.why)
        for variant, answer in answers.items()
        if isinstance(answer, NoAnswer)
    ]


def whole(answers: Reading) -> dict[str, Answer]:
    return {name: answer for name, answer in answers.items() if isinstance(answer, Answer)}


def _answer(sample: Sample, variant: str) -> Answer | NoAnswer:
    try:
        launches = read_profile(sample.report(variant)).launches
    except KeetError as error:
        return NoAnswer(f"{type(error).__name__}: the report cannot be read")
    launch = next((one for one in launches if one.name.function == sample.kernel), None)
    if launch is None:
        return NoAnswer(f"the report has no launch of {sample.kernel}")
    return answer_of(launch, launches)


def answer_of(launch: Launch, launches: Sequence[Launch]) -> Answer:
    """`launches`: all of its report."""
    diagnosis = diagnose(launch, [one for one in launches if one is not launch])
    claims = (
        Claim(
            finding.id,
            finding.forecast.low,
            finding.forecast.likely,
            finding.forecast.high,
            finding.confidence,
            tuple((Path(place.file).name, place.line) for place in finding.locations),
        )
        for finding in diagnosis.findings
    )
    return Answer(
        tuple(claims),
        diagnosis.healthy,
        nvidia.ranked(launch.rules),
        nvidia.ranked(launch.rules, only_global=True),
        launch.name.function,
    )


def rank_in(claims: Sequence[Claim], names: Iterable[str]) -> int | None:
    wanted = set(names)
    return next((rank for rank, claim in enumerate(claims, 1) if claim.id in wanted), None)


def claim_for(answer: Answer, names: Iterable[str]) -> Claim | None:
    """The first of the findings that are read which has one of these names."""
    rank = rank_in(answer.claims[:FINDINGS], names)
    return None if rank is None else answer.claims[rank - 1]


def is_within(rank: int | None, most: int) -> bool:
    return rank is not None and rank <= most
