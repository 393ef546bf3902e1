"""Which launches are printed, and in how much detail, so that a large report fits on a page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import Literal

Detail = Literal["full", "middle", "brief"]
"""`full`: everything. `middle`: the first two findings, others by name. `brief`: the first finding
only."""
MOST_LINES = 60
"""Maximum number of lines of an explanation that leaves launches out."""
FINDINGS: dict[Detail, int] = {"full": sys.maxsize, "middle": 2, "brief": 1}
"""Number of findings that are printed with text, places and advice."""
PLACES: dict[Detail, int] = {"full": 3, "middle": 2, "brief": 1}
"""Number of source lines per finding."""
NAMED = 3
"""Number of findings that are printed by name only."""


def details_that_fit(
    launches: int, lines: Callable[[int, Detail], int], room: int
) -> tuple[Detail, ...]:
    """The level of detail of each launch, the most important launch first.

    `lines`: number of lines of the launch at this position. Launches are only left out if they do
    not fit in brief; one launch is always printed.
    """
    counted = cache(lines)
    plans = (plan for count in range(launches, 0, -1) for plan in plans_of(count))
    for plan in plans:
        totals = accumulate(counted(place, detail) for place, detail in enumerate(plan))
        if all(total <= room for total in totals):  # stops counting when the limit is reached
            return plan
    return ("brief",)


def plans_of(count: int) -> Iterator[tuple[Detail, ...]]:
    """Possible details of so many launches, the most detailed first."""
    full: Detail = "full"
    brief: Detail = "brief"
    others = [brief] * (count - 1)
    yield tuple([full] * count)
    yield (full, *others)
    yield ("middle", *others)
    yield (brief, *others)
