"""The answers of keet and of NVIDIA's rules for both sides of every case."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from evals.diagnosis.answers import Answer, NoAnswer, Truth, answer_of
from keet.errors import KeetError
from kernels_samples.casebook.cases import Case, load_cases


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a case, and the properties by which cases are grouped."""

    id: str
    family: str
    split: str
    finding: str
    severity: str
    lookalike: bool
    hidden: bool
    good_start: bool
    several: bool
    """Two or more causes at once."""
    archetype: str
    language: str
    speedup: float
    steps: tuple[tuple[str, float], ...]
    """Finding and speed-up of each fix alone, if there are several."""
    whole: bool = True
    """The scored launch takes at least half of the side's time before the fix. The measured gain is
    that of the side, the answers are about the launch."""
    start: str = ""
    """`PROBLEM/VARIANT` before the fix: cases with the same one start from the same code."""
    best: float = 1.0
    """Speed-up of the fastest measured variant of the problem over the code before the fix."""


class Fix(NamedTuple):
    finding: str
    speedup: float
    names: tuple[str, ...]
    """Findings that mean the same cause."""


@dataclass(frozen=True, slots=True)
class Read:
    """A case with its answers."""

    facts: Facts
    truth: Truth
    before: Answer | NoAnswer
    after: Answer | NoAnswer

    @property
    def fixes(self) -> list[Fix]:
        """With the gain of each alone."""
        facts, own = self.facts, self.truth.names
        return [
            Fix(finding, gain, own if finding == facts.finding else (finding,))
            for finding, gain in facts.steps or ((facts.finding, facts.speedup),)
        ]


def chosen_cases(split: str = "work") -> list[Case]:
    """Of the work families, the locked or the opened ones: see split.toml."""
    return [case for case in load_cases() if case.split == split]


def read_all(cases: Sequence[Case]) -> list[Read]:
    """Runs in parallel: reading the profiles takes most of the time."""
    with ProcessPoolExecutor(min(len(cases), os.cpu_count() or 1) or 1) as pool:
        return list(pool.map(read_case, cases, chunksize=8))


def read_case(case: Case) -> Read:
    before, after = (_answer(case, side) for side in (case.spec.before, case.spec.after))
    return Read(facts_of(case), truth_of(case), before, after)


def facts_of(case: Case) -> Facts:
    sides = case.measured.sides.items()
    own = [side for name, side in sides if name.partition("/")[0] == case.spec.problem]
    return Facts(
        case.id,
        case.family.name,
        case.split,
        case.spec.finding,
        case.severity,
        case.spec.lookalike,
        case.spec.hidden,
        case.good_start,
        bool(case.spec.step),
        case.family.archetype,
        case.family.language,
        case.speedup,
        tuple((step.finding, step.speedup) for step in case.steps),
        case.launch_share >= 0.5,
        f"{case.spec.problem}/{case.spec.before}",
        case.before.median_us / min(side.median_us for side in own),
    )


def truth_of(case: Case) -> Truth:
    spec = case.spec
    steps = [step.finding for step in spec.step]
    own = (spec.finding, *spec.accept)
    others = dict.fromkeys(name for name in (*spec.also, *steps) if name not in own)
    lines = tuple((case.family.source.name, line) for line in case.lines)
    fixed = tuple(dict.fromkeys([*own, *steps]))
    return Truth(case.id, spec.finding, spec.accept, tuple(others), lines, fixed)


def _answer(case: Case, variant: str) -> Answer | NoAnswer:
    try:
        profile = case.profile(variant)
    except KeetError as error:
        return NoAnswer(f"{type(error).__name__}: the profile cannot be read")
    return answer_of(case.launch(profile), profile.launches)
