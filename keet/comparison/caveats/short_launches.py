"""Caveat for short launches: ncu adds about 1 us to each, which matters if launch counts differ."""

from __future__ import annotations

import math

from keet.comparison.caveats.caveat import Caveat, weakens
from keet.comparison.pairing.pairs import Pairing
from keet.comparison.timing.time_ledger import Numbers
from keet.evidence import Sentence, constant

_ADDED_NS = 1200.0
"""Added by ncu for starting and ending a launch: 0.4 to 1.4 us were measured on an H200 against
CUPTI (docs/profiling.md), 1.2 us for a kernel of 1.2 us."""
_SHORT_NS = 10_000.0
"""Below this duration, ncu adds more than a tenth."""


def short_launches(
    pairing: Pairing, before: float, after: float, numbers: Numbers
) -> Caveat | None:
    """`before`, `after`: numbers of launches that the times cover. With equal numbers, ncu adds the
    same to both sides, which does not change the sign."""
    one, other = (_one_launch(pairing, which) for which in (0, 1))
    if one is None or other is None or math.isclose(before, after) or min(one, other) >= _SHORT_NS:
        return None
    doubt = abs(_added(one) - _added(other))
    word, shortest, wrong = ("before", one, "high") if one < other else ("after", other, "low")
    text = Sentence(
        "{kernel}: ncu adds about {added} to each launch, which takes {shortest} {word} including "
        "that: the speed-up may be {factor:.1f}x too {wrong}",
        kernel=pairing.kernel,
        added=constant(_ADDED_NS, "ns", "time that ncu adds to a launch"),
        shortest=numbers(f"average launch under ncu {word}", shortest, "ns"),
        word=word,
        factor=numbers("speed-up error from what ncu adds", math.exp(doubt), ""),
        wrong=wrong,
    )
    return weakens("short_launches", text, doubt)


def _one_launch(pairing: Pairing, which: int) -> float | None:
    """Average time of a launch under ncu; None if a launch has none."""
    times = [group.times for group in pairing.sides[which]]
    known = [ns for each in times if each for ns in each]
    return sum(known) / len(known) if known and all(times) else None


def _added(ns: float) -> float:
    """The logarithm of the measured time over the time without what ncu adds."""
    return -math.log1p(-min(_ADDED_NS / ns, 0.5))
