"""A number before and after, with the evidence of both."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.evidence import Evidence, Sentence

_COUNTED = {
    "sector": "sector",
    "inst": "instruction",
    "request": "request",
    "wavefront": "wavefront",
    "register/thread": "registers per thread",
    "block": "grid size",
    "thread": "active threads",
}
"""Units that are not printed if the label contains this word."""


class NumberChange(NamedTuple):
    """One number before and after, with evidence for both."""

    label: str
    before: Evidence
    after: Evidence

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (self.before, self.after)

    @property
    def fell(self) -> float:
        return float(self.before.value) - float(self.after.value)

    @property
    def moved(self) -> float:
        """Difference relative to the larger one: 0 if they are equal, 1 if one is zero."""
        most = max(abs(self.before.value), abs(self.after.value))
        return abs(self.fell) / most if most else 0.0

    @property
    def numbers(self) -> Sentence:
        """`81,943,825 → 17,192,797`: without the unit if the label names it."""
        one, other = (_written(each, self.label) for each in self.evidence)
        return Sentence("{one} → {other}", one=one, other=other)

    @property
    def text(self) -> Sentence:
        """`L2 sectors 81,943,825 → 17,192,797`"""
        return Sentence("{label} {numbers}", label=self.label, numbers=self.numbers)


def _written(evidence: Evidence, label: str) -> Sentence:
    word = _COUNTED.get(evidence.unit)
    if word is not None and word in label.lower():
        return Sentence("{it:number}", it=evidence)
    return Sentence("{it:.1f}" if evidence.unit == "%" else "{it}", it=evidence)


class LaunchTimes(NamedTuple):
    """Launches that the times of a pair cover, and the average time of one."""

    counted: NumberChange
    each: NumberChange

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        counted, each = self.counted, self.each
        return (counted.before, each.before, counted.after, each.after)

    @property
    def as_many(self) -> bool:
        return math.isclose(self.counted.before.value, self.counted.after.value)

    @property
    def text(self) -> Sentence:
        """`400 launches of 1.15 us → 1 of 53.44 us`"""
        return Sentence(
            "{counted} of {each} → {other:count} of {other_each}",
            counted=launch_count(self.counted.before),
            each=self.each.before,
            other=self.counted.after,
            other_each=self.each.after,
        )


def launch_count(number: Evidence) -> Sentence:
    """`1 launch`, `400 launches`."""
    one = f"{number:count}" == "1"
    return Sentence("{n:count} launch" if one else "{n:count} launches", n=number)
