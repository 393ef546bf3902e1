"""Ranges of forecasts from the residuals of the casebook's work families.

    python -m evals.analyst.ranges

Prints the 10 % and 90 % quantiles of log2(measured / likely) per 1 + log2(likely), times `UNSEEN`:
the distances from the likely gain to the ends of its range. Also how often a range whose ends were
computed without a family holds for that family: as it is, and with residuals that are larger by
`UNSEEN`. Locked families are never read.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evals.analyst.fit import measured_gain, prepare
from evals.casebook.answers import chosen_cases
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import is_worth, ranked_candidates

HOLDS = 0.8
"""Share of the cases that a range should contain."""


UNSEEN = 1.6
"""Mean |log2| of families that were locked when they were scored (0.60) over that of the work
families at the time (0.37): parameters and rules were chosen on the latter."""


class Residual(NamedTuple):
    family: str
    basis: str
    off: float
    """log2(measured / likely)."""
    size: float
    """1 + log2(likely): what residuals grow with."""

    @property
    def relative(self) -> float:
        return self.off / self.size


def residuals() -> list[Residual]:
    """Of every fix whose cause is reported."""
    found = []
    for each in prepare([case for case in chosen_cases() if not case.spec.lookalike]):
        if each.is_good:
            continue
        case, ranked = each.case, ranked_candidates(each.view, TimeModel(each.view))
        names = (case.spec.finding, *case.spec.accept)
        own = next((one for one in ranked if one.candidate.id in names), None)
        if own is not None and is_worth(own):
            off = math.log2(measured_gain(case) / own.possible)
            size = 1 + math.log2(own.possible)
            found.append(Residual(case.family.name, own.candidate.basis, off, size))
    return found


def ends(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the range by split conformal prediction: of n residuals, those at the ranks
    (n + 1) * (1 -+ HOLDS) / 2."""
    ordered = sorted(values)
    outside = max(1, math.floor((len(ordered) + 1) * (1 - HOLDS) / 2))
    return ordered[outside - 1], ordered[-outside]


def held_out(some: Sequence[Residual], scale: float = 1.0) -> float:
    """Share of the residuals, times `scale`, within ends that were computed without their
    family."""
    held = 0
    for family in {each.family for each in some}:
        low, high = (
            UNSEEN * end for end in ends(each.relative for each in some if each.family != family)
        )
        ours = [scale * each.relative for each in some if each.family == family]
        held += sum(low <= value <= high for value in ours)
    return held / len(some)


def main() -> int:
    every = residuals()
    low, high = (UNSEEN * end for end in ends(each.relative for each in every))
    held, unseen = 100 * held_out(every), 100 * held_out(every, UNSEEN)
    sys.stdout.write(
        f"range from {low:+.2f} to {high:+.2f} per 1 + log2(likely gain); holds for {held:.0f} % "
        f"of families left out, for {unseen:.0f} % with residuals {UNSEEN} times as large\n"
    )
    by_basis = defaultdict(list)
    for each in every:
        by_basis[each.basis].append(each)
    for basis, some in sorted(by_basis.items()):
        offs = [each.off for each in some]
        error, bias = sum(map(abs, offs)) / len(offs), -sum(offs) / len(offs)
        held = 100 * sum(low <= each.relative <= high for each in some) / len(some)
        sys.stdout.write(
            f"{basis}: {len(some)} fixes of {len({each.family for each in some})} families; "
            f"mean |log2| {error:.2f}, bias {bias:+.2f}; holds for {held:.0f} %\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
