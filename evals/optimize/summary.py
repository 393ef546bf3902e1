"""Summarises the scores of all samples, by condition and by difficulty.

Attempts are averaged within a sample first, and samples have equal weight. Intervals draw whole
samples, because many attempts at one kernel are not many kernels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Protocol

from evals.bootstrap import Interval, alone
from evals.optimize.changed_lines import is_wrong_place
from evals.optimize.measured_file import STATUSES
from evals.optimize.metrics import (
    ENOUGH,
    expected_cost,
    expected_tries,
    fast_p,
    kept_speedup,
    mean_log2,
    pass_at_k,
    speedup_at_k,
)
from evals.optimize.problems import (
    DIFFICULTIES,
    Difficulty,
    best_known_speedup,
    best_known_us,
    difficulty_of,
    known_samples,
)
from evals.optimize.scoring import OptimizeScore
from evals.runs import CONDITIONS, Condition, Record
from keet.errors import UsageError
from kernels_samples.samples import Sample

THRESHOLDS = (1.0, 1.5, 2.0, 4.0)
"""Of fast_p."""
ALL = "all"
BINDING = 0.25
"""If a minimum time is below this share of the best known time, it says nothing about a program."""
_NOT_BUILT = ("COMPILE_ERROR", "CHEAT")
"""A refused program may not have been compiled."""


class Count(Record):
    """A number out of a total."""

    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}"


class ConditionSummary(Record):
    """One model under one condition, over a group of samples. If nothing was scored, means are
    None."""

    model: str
    condition: Condition
    group: str
    """A difficulty, or all."""
    samples: int
    scored: int
    unscored: int
    statuses: dict[str, int]
    cut_off: int
    """Failures whose answer ended before the program was complete, or is empty."""
    k: int
    """The highest number of scored attempts at a sample; @k uses the samples with that many."""
    k_samples: int
    pass_at_1: float | None
    pass_at_k: float | None
    build_at_1: float | None
    speedup_at_1: float | None
    speedup_at_k: float | None
    geomean: Interval | None
    """Failures count as 1x."""
    geomean_passed: float | None
    first_try: float | None
    """Geometric mean of attempt 1; failures count as 1x."""
    fast: dict[str, float | None]
    share_of_best: float | None
    """Geometric mean of the speed-up relative to the best known; failures count as 1x."""
    sol: float | None
    sol_samples: int
    """Passed programs whose minimum time is informative."""
    reached: Count
    """Samples on which an attempt reached 90 % of the best known."""
    reached_by_all: int
    """Samples on which every condition of the model did."""
    tries: float | None
    """Attempts to get there, over those samples only, so that all conditions are compared on the
    same samples."""
    tokens: float | None
    """The same for tokens; None if an answer does not state them."""
    wrong_place: Count
    kept_cause: Count
    """Passed attempts for which the changed lines can be told."""


Attempts = Sequence[OptimizeScore]


# --- what belongs together


class _Keyed(Protocol):
    """A score of either task."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...


def check_scores(scores: Sequence[_Keyed]) -> None:
    """Raises if an attempt is recorded twice, because it would count twice."""
    seen: set[tuple[str, str]] = set()
    for score in scores:
        if (key := (score.model, score.id)) in seen:
            raise UsageError(
                f"{score.id} of {score.model} is scored twice; name each run once, or score again"
            )
        seen.add(key)


def models_of(scores: Attempts) -> list[str]:
    return sorted({score.model for score in scores})


def conditions_of(scores: Attempts) -> list[Condition]:
    asked = {score.condition for score in scores}
    return [condition for condition in CONDITIONS if condition in asked]


def groups_of(scores: Attempts) -> list[str]:
    present = {group_of(score.sample) for score in scores}
    return [ALL, *(name for name in DIFFICULTIES if name in present)]


def group_of(sample: str) -> Difficulty:
    difficulty = difficulty_of(_known(sample).name)
    assert difficulty is not None, f"{sample} is known, and so is how hard it is"
    return difficulty


def _known(name: str) -> Sample:
    """For any other sample there is no baseline."""
    if (sample := known_samples().get(name)) is None:
        raise UsageError(
            f"{name} is no CUDA sample here; report its scores with the keet that made its prompts"
        )
    return sample


def in_group(scores: Attempts, group: str) -> list[OptimizeScore]:
    return [score for score in scores if group in (ALL, group_of(score.sample))]


def best_known(scores: Attempts) -> dict[str, float]:
    """Speed-up over `slow`: the best of the measured variants and of these scores."""
    best: dict[str, float] = {}
    for score in scores:
        measured = best_known_speedup(_known(score.sample))
        best[score.sample] = max(best.get(score.sample, measured), kept_speedup(score.speedup))
    return best


def by_sample(scores: Iterable[OptimizeScore]) -> dict[str, list[OptimizeScore]]:
    """The scored ones."""
    grouped: dict[str, list[OptimizeScore]] = {}
    for score in scores:
        if score.status is not None:
            grouped.setdefault(score.sample, []).append(score)
    return grouped


# --- one condition


def summarise(scores: Attempts) -> list[ConditionSummary]:
    return [summary for group in groups_of(scores) for summary in summaries_of(scores, group)]


def summaries_of(scores: Attempts, group: str) -> list[ConditionSummary]:
    """One per model and condition that was asked, scored or not."""
    best = best_known(scores)
    asked = {(score.model, score.condition) for score in in_group(scores, group)}
    return [
        _summary(scores, model, condition, group, best)
        for model in models_of(scores)
        for condition in conditions_of(scores)
        if (model, condition) in asked
    ]


def _summary(
    scores: Attempts, model: str, condition: Condition, group: str, best: Mapping[str, float]
) -> ConditionSummary:
    of_model = [score for score in scores if score.model == model]
    in_the_group = in_group(of_model, group)
    asked = [score for score in in_the_group if score.condition == condition]
    cells = by_sample(asked)
    done = [score for cell in cells.values() for score in cell]
    return ConditionSummary.model_validate(
        {
            "model": model,
            "condition": condition,
            "group": group,
            "samples": len(cells),
            "scored": len(done),
            "unscored": len(asked) - len(done),
            "statuses": {name: sum(s.status == name for s in done) for name in STATUSES},
            "cut_off": sum(s.cut_off for s in done),
            **_rates(cells),
            **_at_k(cells, _most_attempts(of_model)),
            **_speeds(cells),
            **_against_the_best(cells, best),
            **_effort(cells, best, _reached_by_all(in_the_group, best)),
            **_limits(done),
            **_places(done),
        }
    )


def _rates(cells: Mapping[str, Attempts]) -> dict[str, object]:
    return {
        "pass_at_1": _mean(cells, lambda cell: pass_rate(cell, 1)),
        "build_at_1": _mean(cells, _built),
        "speedup_at_1": _mean(cells, lambda cell: speedup_at_k(_speedups(cell), 1)),
        "fast": {f"{p:g}": _mean(cells, _faster_than(p)) for p in THRESHOLDS},
    }


def _most_attempts(of_model: Attempts) -> int:
    """The same k for all conditions: best of three cannot be compared with best of two."""
    counts = Counter((s.sample, s.condition) for s in of_model if s.status is not None)
    return max(counts.values(), default=0)


def _at_k(cells: Mapping[str, Attempts], k: int) -> dict[str, object]:
    enough = [cell for cell in cells.values() if len(cell) >= k]
    return {
        "k": k,
        "k_samples": len(enough),
        "pass_at_k": _mean_known(pass_rate(cell, k) for cell in enough),
        "speedup_at_k": _mean_known(speedup_at_k(_speedups(cell), k) for cell in enough),
    }


def _speeds(cells: Mapping[str, Attempts]) -> dict[str, object]:
    passed = [[x for x in _speedups(cell) if x is not None] for cell in cells.values()]
    firsts = [kept_speedup(s.speedup) for cell in cells.values() for s in cell if s.attempt == 1]
    mean_passed = _mean_known(mean_log2(values) if values else None for values in passed)
    return {
        "geomean": powers(alone([[level(cell)] for cell in cells.values()])) if cells else None,
        "geomean_passed": None if mean_passed is None else 2**mean_passed,
        "first_try": 2 ** mean_log2(firsts) if firsts else None,
    }


def _against_the_best(
    cells: Mapping[str, Attempts], best: Mapping[str, float]
) -> dict[str, object]:
    short = [level(cell) - math.log2(best[name]) for name, cell in cells.items()]
    reached = sum(any(_hits(cell, best)) for cell in cells.values())
    return {
        "share_of_best": 2 ** fmean(short) if short else None,
        "reached": Count(count=reached, of=len(cells)),
    }


def _effort(
    cells: Mapping[str, Attempts], best: Mapping[str, float], common: Sequence[str]
) -> dict[str, object]:
    own = [cells[name] for name in common if name in cells]
    spent = [_tokens(cell, _hits(cell, best)) for cell in own]
    return {
        "reached_by_all": len(common),
        "tries": _mean_known(expected_tries(_hits(cell, best)) for cell in own),
        "tokens": None if None in spent else _mean_known(spent),
    }


def _reached_by_all(of_model: Attempts, best: Mapping[str, float]) -> list[str]:
    """Reached by all conditions that have scores."""
    reached = [
        {name for name, cell in cells.items() if any(_hits(cell, best))}
        for condition in conditions_of(of_model)
        if (cells := by_sample(s for s in of_model if s.condition == condition))
    ]
    return sorted(set.intersection(*reached)) if reached else []


def _hits(cell: Attempts, best: Mapping[str, float]) -> list[bool]:
    return [_reaches(score, best[score.sample]) for score in cell]


def _limits(done: Attempts) -> dict[str, object]:
    shares: dict[str, list[float]] = {}
    for score in done:
        if score.sol is not None and score.floor_us is not None and _binds(score, score.floor_us):
            shares.setdefault(score.sample, []).append(score.sol)
    means = [fmean(values) for values in shares.values()]
    return {"sol": fmean(means) if means else None, "sol_samples": len(means)}


def _binds(score: OptimizeScore, floor_us: float) -> bool:
    return floor_us >= BINDING * best_known_us(_known(score.sample))


def _places(done: Attempts) -> dict[str, object]:
    told = [s for s in done if s.speedup is not None and s.kept_cause is not None]
    wrong = [s for s in told if is_wrong_place(s.speedup, kept_cause=s.kept_cause)]
    return {
        "wrong_place": Count(count=len(wrong), of=len(told)),
        "kept_cause": Count(count=sum(bool(s.kept_cause) for s in told), of=len(told)),
    }


def _speedups(cell: Attempts) -> list[float | None]:
    return [score.speedup for score in cell]


def level(cell: Attempts) -> float:
    """log2 of the speed-ups of a sample's attempts; failures count as 1x."""
    return mean_log2([kept_speedup(score.speedup) for score in cell])


def pass_rate(cell: Attempts, k: int) -> float:
    return pass_at_k(len(cell), sum(score.status == "PASSED" for score in cell), k)


def _built(cell: Attempts) -> float:
    return pass_at_k(len(cell), sum(score.status not in _NOT_BUILT for score in cell), 1)


def _faster_than(p: float) -> Callable[[Attempts], float]:
    return lambda cell: fast_p(_speedups(cell), p)


def _reaches(score: OptimizeScore, best: float) -> bool:
    return score.speedup is not None and score.speedup >= ENOUGH * best


def _tokens(cell: Attempts, hits: Sequence[bool]) -> float | None:
    """None if a count is missing: the sum would be too low."""
    spent = [
        score.input_tokens + score.output_tokens
        for score in cell
        if score.input_tokens is not None and score.output_tokens is not None
    ]
    return expected_cost(hits, spent) if len(spent) == len(cell) else None


def _mean(cells: Mapping[str, Attempts], value: Callable[[Attempts], float]) -> float | None:
    return _mean_known(map(value, cells.values()))


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def powers(log2: Interval) -> Interval:
    return Interval(2**log2.mean, 2**log2.low, 2**log2.high)
