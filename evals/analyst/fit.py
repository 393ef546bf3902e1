"""Fits the analyst's parameters on the casebook's work families, with cross-validation over
families.

    python -m evals.analyst.fit [--steps N] [--folds K]

A coordinate search over the parameters that are marked `fit` and change forecasts. The score of a
set of values combines how clearly the cause of each case comes first, the error of its forecast,
and the forecasts for look-alikes and for variants that no measured one beats. `--folds`: the same
search without one part of the families at a time, scored on that part. Nothing is written: values
are entered in the code by hand, rounded. Locked families are never read.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

from evals.analyst.parameter_values import parameters, set_value
from evals.casebook.answers import chosen_cases
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import cross_launch_findings, ranked_candidates
from kernels_samples.casebook.cases import GAINS, Case

SEARCHED: dict[str, tuple[float, float]] = {
    "sharpness": (1.5, 3.0),
    "partial_wave": (0.3, 1.0),
    "more_in_flight": (1.5, 3.5),
    "most_occupancy": (2.0, 6.0),
    "coalesced_waits": (0.6, 1.2),
    "gathered": (0.4, 1.0),
    "unrelated_waits": (0.2, 0.9),
    "narrow_instructions": (0.6, 1.0),
    "barrier_waits": (0.5, 1.0),
    "converged": (0.4, 1.0),
    "per_double": (1.2, 3.0),
    "overhead_base": (0.1, 0.5),
    "overhead_removed": (0.4, 1.0),
    "per_division": (5.0, 20.0),
    "special_functions": (0.1, 0.5),
    "tensor_work": (0.04, 0.2),
    "reuse": (0.2, 1.0),
    "pipe_work": (0.35, 0.8),
    "doubtful": (1.15, 1.6),
}
"""Parameters that the search may change, and their bounds."""
_PROMISE = 1.15
_LEAD = 0.1
"""Natural logarithm of a lead that counts as clear."""


class Prepared(NamedTuple):
    """One side of a case whose report was read once."""

    case: Case
    view: LaunchView
    is_good: bool
    """A side that no measured variant beats; not the side before the fix."""


class Score(NamedTuple):
    first: float
    """Share of the cases whose cause comes first."""
    error: float
    """Mean |log2(forecast / measured)|."""
    promised: float
    """Share of the look-alikes that get a finding with 1.15x or more."""
    good: float
    """The same for variants that no measured one beats."""
    value: float
    """What the search maximises."""


def prepare(cases: Sequence[Case]) -> list[Prepared]:
    good = {(each.family.name, side): each for each in cases for side in _unbeaten(each)}
    return [_read(case, case.spec.before, is_good=False) for case in cases] + [
        _read(case, side.rpartition("/")[2], is_good=True) for (_, side), case in good.items()
    ]


def _read(case: Case, variant: str, *, is_good: bool) -> Prepared:
    profile = case.profile(variant)
    view = LaunchView(case.launch(profile), reads_code=True)
    together = cross_launch_findings(profile.launches, view.ledger)
    view.shared_traffic = together.shared.get(view.launch.id)
    return Prepared(case, view, is_good)


def _unbeaten(case: Case) -> list[str]:
    """Sides of the case's fix that no measured variant of the problem beats by 10 %."""
    own = {f"{case.spec.problem}/{name}" for name in (case.spec.before, case.spec.after)}
    times = {
        side: measured.median_us
        for side, measured in case.measured.sides.items()
        if side.startswith(f"{case.spec.problem}/")
    }
    return [side for side in own if times[side] < GAINS * min(times.values())]


def score(prepared: Sequence[Prepared]) -> Score:
    leads, firsts, errors = [], [], []
    promised: list[float] = []
    good: list[float] = []
    for each in prepared:
        gains = _gains(each)
        if each.is_good or each.case.spec.lookalike:
            (good if each.is_good else promised).append(max(gains.values(), default=1.0))
            continue
        names = (each.case.spec.finding, *each.case.spec.accept)
        own = max((gain for name, gain in gains.items() if name in names), default=1.0)
        other = max((gain for name, gain in gains.items() if name not in names), default=1.0)
        firsts.append(own > other)
        leads.append(1 / (1 + math.exp(-math.log(own / other) / _LEAD)))
        errors.append(
            abs(math.log2(gains.get(each.case.spec.finding, 1.0) / measured_gain(each.case)))
        )
    value = _mean(leads) - 0.6 * _mean([min(2.0, e) for e in errors])
    value -= 0.25 * (_mean(_softly(promised)) + _mean(_softly(good)))
    told = [_mean([gain >= _PROMISE for gain in gains]) for gains in (promised, good)]
    return Score(_mean(firsts), _mean(errors), told[0], told[1], value)


def _softly(gains: Sequence[float]) -> list[float]:
    """From 0 for a forecast of 1.1x to 1 for 1.2x, so that the search sees small steps."""
    return [min(1.0, max(0.0, (gain - 1.1) / 0.1)) for gain in gains]


def _gains(each: Prepared) -> dict[str, float]:
    model = TimeModel(each.view)
    ranked = ranked_candidates(each.view, model)
    worth = parameters()["worth"]
    return {entry.candidate.id: entry.gain for entry in ranked if entry.possible >= worth}


def measured_gain(case: Case) -> float:
    """Of the fix of its cause alone."""
    alone = {step.finding: step.speedup for step in case.steps}
    return max(1.0, alone.get(case.spec.finding, case.speedup))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def search(prepared: Sequence[Prepared], steps: int, seed: int = 18) -> Score:
    """Changes one value at a time and keeps what scores better. The values stay set."""
    chance = random.Random(seed)
    best = score(prepared)
    for _ in range(steps):
        name = chance.choice(list(SEARCHED))
        low, high = SEARCHED[name]
        old = float(parameters()[name])
        set_value(name, min(high, max(low, old + chance.gauss(0, 0.15 * (high - low)))))
        found = score(prepared)
        if found.value > best.value:
            best = found
        else:
            set_value(name, old)
    return best


def folds(prepared: Sequence[Prepared], count: int, steps: int) -> list[tuple[Score, Score]]:
    """Scores on the left-out families: with the current values, and with values fitted on the other
    families."""
    families = sorted({each.case.family.name for each in prepared})
    random.Random(18).shuffle(families)
    start = {name: float(parameters()[name]) for name in SEARCHED}
    found = []
    for number in range(count):
        out: Collection[str] = set(families[number::count])
        theirs = [each for each in prepared if each.case.family.name in out]
        before = score(theirs)
        search([each for each in prepared if each.case.family.name not in out], steps)
        found.append((before, score(theirs)))
        for name, value in start.items():
            set_value(name, value)
    return found


def report(steps: int, parts: int) -> str:
    prepared = prepare(chosen_cases())
    lines = [f"today: {score(prepared)}"]
    for number, (before, after) in enumerate(folds(prepared, parts, steps) if parts else (), 1):
        lines.append(f"fold {number}: today {before}; after a search on the others {after}")
    if steps and not parts:
        lines.append(f"after a search on all: {search(prepared, steps)}")
        lines += [f"  {name} = {float(parameters()[name]):.2f}" for name in SEARCHED]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m evals.analyst.fit", description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="values that are tried")
    parser.add_argument("--folds", type=int, default=0, help="parts of the families; 0: none")
    given = parser.parse_args()
    sys.stdout.write(report(given.steps, given.folds))
