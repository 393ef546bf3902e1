"""Ranges of forecasts from the residuals of the casebook's work families.

    python -m evals.analyst.ranges

For each class of gains (measured, assumed): the 10 % and 90 % quantiles of log2(measured / likely),
which are the distances from the likely gain to the ends of its range, and how often a range whose
ends were computed without a family holds for that family. Locked families are never read.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evals.analyst.fit import prepare
from evals.casebook.answers import chosen_cases
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import ranked_candidates

HOLDS = 0.8
"""Share of the cases that a range should contain."""


class Residual(NamedTuple):
    family: str
    basis: str
    off: float
    """log2(measured / likely)."""


def residuals() -> list[Residual]:
    """Of every fix with a candidate for its cause."""
    found = []
    for each in prepare([case for case in chosen_cases() if not case.spec.lookalike]):
        if each.is_good:
            continue
        case, ranked = each.case, ranked_candidates(each.view, TimeModel(each.view))
        names = (case.spec.finding, *case.spec.accept)
        own = next((one for one in ranked if one.candidate.id in names), None)
        if own is not None:
            alone = {step.finding: step.speedup for step in case.steps}
            gained = alone.get(case.spec.finding, case.speedup)
            off = math.log2(max(1.0, gained) / own.possible)
            found.append(Residual(case.family.name, own.candidate.basis, off))
    return found


def ends(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the range by split conformal prediction: of n residuals, those at the ranks
    (n + 1) * (1 -+ HOLDS) / 2."""
    ordered = sorted(values)
    outside = max(1, math.floor((len(ordered) + 1) * (1 - HOLDS) / 2))
    return ordered[outside - 1], ordered[-outside]


def held_out(some: Sequence[Residual]) -> float:
    """Share of the residuals within ends that were computed without their family."""
    held = 0
    for family in {each.family for each in some}:
        low, high = ends(each.off for each in some if each.family != family)
        held += sum(low <= each.off <= high for each in some if each.family == family)
    return held / len(some)


def main() -> int:
    by_basis = defaultdict(list)
    for each in residuals():
        by_basis[each.basis].append(each)
    for basis, some in sorted(by_basis.items()):
        low, high = ends(each.off for each in some)
        offs = [each.off for each in some]
        error, bias = sum(map(abs, offs)) / len(offs), -sum(offs) / len(offs)
        sys.stdout.write(
            f"{basis}: {len(some)} fixes of {len({each.family for each in some})} families; "
            f"mean |log2| {error:.2f}, bias {bias:+.2f}; "
            f"range from {low:+.2f} to {high:+.2f}; "
            f"holds for {100 * held_out(some):.0f} % of families left out\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
