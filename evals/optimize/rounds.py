"""What the chains of an evaluation gave, and the scores by condition and round.

The speed-up of a chain after a round is that of the program that was kept by then: a round that
fails or is slower keeps the program before it. A chain counts in a round when it has done it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple

from evals.bootstrap import Interval, attempts_apart
from evals.optimize.conditions import ConditionName
from evals.runs import Record
from keet.documents.optimize import RoundOutcome

SATURATED = 0.95
"""Share of the best known speed-up."""
FAILURES: dict[str, tuple[RoundOutcome, ...]] = {
    "not built": ("no_build",),
    "wrong": ("wrong", "failed", "too_long"),
    "slower": ("slower",),
    "no gain": ("no_gain", "no_change"),
    "other": ("refused", "no_proposal", "not_measured"),
}


class RoundResult(Record):
    outcome: RoundOutcome
    reason: str
    gain: float
    """Speed-up over the program before this round; 1 if the change was not kept."""
    prompt_tokens: int
    answer_tokens: int
    estimated: bool
    """The tokens are estimated from the texts of the prompt and the patch: nobody counted them."""


class ChainResult(Record):
    program: str
    start: str
    condition: ConditionName
    attempt: int
    original_us: float | None
    rounds: tuple[RoundResult, ...]

    @property
    def item(self) -> str:
        """What is optimized."""
        return f"{self.program}.{self.start}"

    def speedup(self, number: int) -> float:
        """Over the original, after so many rounds."""
        return math.prod(each.gain for each in self.rounds[:number])


class EvalResult(Record):
    """The file of `--result`."""

    schema_version: Literal[1] = 1
    task: Literal["optimize_rounds"] = "optimize_rounds"
    keet: str
    date: str
    proposer: str
    gpus: tuple[str, ...]
    rounds: int
    repeats: int
    attempts: int
    conditions: tuple[ConditionName, ...]
    best_known: dict[str, float]
    """Speed-ups by program and start that were reached outside of this evaluation."""
    chains: tuple[ChainResult, ...]

    def done(self, condition: ConditionName, number: int) -> list[ChainResult]:
        """The chains of a condition that have done this round."""
        own = (each for each in self.chains if each.condition == condition)
        return [each for each in own if len(each.rounds) >= number]

    @property
    def unfinished(self) -> list[ChainResult]:
        return [each for each in self.chains if len(each.rounds) < self.rounds]

    @property
    def best(self) -> dict[str, float]:
        """The best known speed-up of each program and start."""
        found = {each.item: self.best_known.get(each.item, 1.0) for each in self.chains}
        for chain in self.chains:
            found[chain.item] = max(found[chain.item], chain.speedup(self.rounds))
        return found


# --- by condition and round


class Score(NamedTuple):
    """One condition after one round."""

    condition: ConditionName
    round: int
    chains: int
    missing: int
    """Chains that have not done it yet; they are left out."""
    speedup: float
    """Geometric mean over programs and starts, of whose attempts it is the geometric mean."""
    gain: float
    """The same of this round alone."""
    share: float
    """The same of the share of the best known speed-up."""
    failures: dict[str, int]
    """Rounds that were not kept, by kind."""
    repaired: int
    """Failures of the round before that were followed by a kept change in this one."""
    prompt_tokens: float
    answer_tokens: float


def scores(result: EvalResult) -> Iterator[Score]:
    """Without rounds that no chain has done."""
    for condition in result.conditions:
        for number in range(1, result.rounds + 1):
            if done := result.done(condition, number):
                every = sum(chain.condition == condition for chain in result.chains)
                yield _score(done, result.best, number)._replace(missing=every - len(done))


def _score(done: Sequence[ChainResult], best: Mapping[str, float], number: int) -> Score:
    rounds = [chain.rounds[number - 1] for chain in done]
    counts = Counter(each.outcome for each in rounds)
    return Score(
        done[0].condition,
        number,
        chains=len(done),
        missing=0,
        speedup=_mean(done, lambda chain: chain.speedup(number)),
        gain=_mean(done, lambda chain: chain.rounds[number - 1].gain),
        share=_mean(done, lambda chain: chain.speedup(number) / best[chain.item]),
        failures={kind: sum(counts[name] for name in names) for kind, names in FAILURES.items()},
        repaired=sum(_is_repaired(chain, number) for chain in done),
        prompt_tokens=fmean(each.prompt_tokens for each in rounds),
        answer_tokens=fmean(each.answer_tokens for each in rounds),
    )


def _is_repaired(chain: ChainResult, number: int) -> bool:
    before, now = ([None, *chain.rounds][number - 1], chain.rounds[number - 1])
    return before is not None and before.outcome != "kept" and now.outcome == "kept"


def _mean(chains: Sequence[ChainResult], value: Callable[[ChainResult], float]) -> float:
    """Geometric, over attempts first."""
    logs: dict[str, list[float]] = {}
    for chain in chains:
        logs.setdefault(chain.item, []).append(math.log(value(chain)))
    return math.exp(fmean(map(fmean, logs.values())))


# --- conditions against each other


class Ratio(NamedTuple):
    """Speed-ups of one condition over those of another, over what both have done."""

    condition: ConditionName
    than: ConditionName
    first: int
    """Earlier rounds do not count: the speed-up is over the program after them."""
    round: int
    items: int
    """Programs and starts."""
    ratio: Interval


def ratios(result: EvalResult) -> Iterator[Ratio]:
    for than, condition in combinations(result.conditions, 2):
        spans = [(1, number) for number in range(1, result.rounds + 1)]
        for first, number in [*spans, *([(2, result.rounds)] if result.rounds > 1 else [])]:
            ours, theirs = (
                _logs(result.done(name, number), first, number) for name in (condition, than)
            )
            both = sorted(ours.keys() & theirs.keys())
            if both:
                clusters: dict[str, list[tuple[list[float], list[float]]]] = {}
                for program, start in both:
                    pair = (ours[program, start], theirs[program, start])
                    clusters.setdefault(program, []).append(pair)
                found = attempts_apart([*clusters.values()])
                powers = (math.exp(each) for each in (found.mean, found.low, found.high))
                yield Ratio(condition, than, first, number, len(both), Interval(*powers))


def _logs(
    chains: Sequence[ChainResult], first: int, number: int
) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for chain in chains:
        own = found.setdefault((chain.program, chain.start), [])
        own.append(math.log(chain.speedup(number) / chain.speedup(first - 1)))
    return found


# --- saturation


def saturated(result: EvalResult) -> dict[str, int]:
    """Programs and starts where all conditions come within 5 % of the best known speed-up, with the
    first such round."""
    found: dict[str, int] = {}
    for number in range(1, result.rounds + 1):
        for item, best in result.best.items():
            if item not in found and _lowest(result, item, number) >= SATURATED * best:
                found[item] = number
    return found


def _lowest(result: EvalResult, item: str, number: int) -> float:
    """The speed-up of the condition with the smallest one; 0 if a condition has none."""
    by_condition = (
        [c for c in result.done(n, number) if c.item == item] for n in result.conditions
    )
    return min(_mean(own, lambda c: c.speedup(number)) if own else 0.0 for own in by_condition)
