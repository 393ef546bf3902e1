"""A number before and after, with the evidence of both."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.evidence import Evidence
from keet.units import Quantity

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
    def numbers(self) -> str:
        """`81,943,825 → 17,192,797`: without the unit if the label names it."""
        one, other = (_written(each, self.label) for each in self.evidence)
        return f"{one} → {other}"

    def __str__(self) -> str:
        """`L2 sectors 81,943,825 → 17,192,797`"""
        return f"{self.label} {self.numbers}"


def _written(evidence: Evidence, label: str) -> str:
    if _counts(evidence.unit, label):
        return Quantity(evidence.value, evidence.unit).parts()[0]
    return f"{evidence:.1f}" if evidence.unit == "%" else str(evidence)


def _counts(unit: str, label: str) -> bool:
    """Whether the label names what is counted."""
    word = _COUNTED.get(unit)
    return word is not None and word in label.lower()


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

    def __str__(self) -> str:
        """`400 launches of 1.15 us → 1 of 53.44 us`"""
        one, other = (count_text(each) for each in (self.counted.before, self.counted.after))
        noun = "launch" if one == "1" else "launches"
        return f"{one} {noun} of {self.each.before} → {other} of {self.each.after}"


def count_text(number: Evidence) -> str:
    """Fractions occur if several profiled launches represent launches that the run table does not
    distinguish."""
    value = float(number.value)
    digits = 0 if abs(value - round(value)) < 0.05 or value >= 100 else 1
    return f"{value:,.{digits}f}"
