"""Numbers before and after, with their evidence, and the ledger that they are entered into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.comparison.timing.pair_timing import Timing
from keet.evidence import MEASURED_SPEEDUPS, Evidence, Sentence
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


class Speedup(NamedTuple):
    """Time before over time after, and the factor that is printed: never below 1."""

    ratio: Evidence
    factor: Evidence


class Numbers(NamedTuple):
    """The numbers of a pair (`pair 3`) or of all kernels."""

    book: Ledger
    name: str

    def __call__(self, what: str, value: float, unit: str, *sources: Evidence) -> Evidence:
        return self.book.derived(f"{self.name}: {what}", Quantity(value, unit), what, *sources)

    def times(self, timing: Timing, durations: Sequence[Evidence] = ()) -> NumberChange | None:
        if timing.unmeasured or (timing.before is None and timing.after is None):
            return None
        before = self("time before", timing.before or 0.0, "ns", *durations)
        after = self("time after", timing.after or 0.0, "ns", *durations)
        return NumberChange("time", before, after)

    def speedup(self, timing: Timing, time: NumberChange | None) -> Speedup | None:
        if timing.speedup is None or time is None:
            return None
        label, backwards = MEASURED_SPEEDUPS
        ratio = self._factor("speedup", label, time, 1)
        if timing.speedup >= 1:
            return Speedup(ratio, ratio)
        return Speedup(ratio, self._factor("slowdown", backwards, time, -1))

    def _factor(self, what: str, label: str, time: NumberChange, power: int) -> Evidence:
        ratio = Quantity((float(time.before.value) / float(time.after.value)) ** power, "x")
        return self.book.derived(f"{self.name}: {what}", ratio, label, *time.evidence)

    def one_side(self, timing: Timing) -> Evidence | None:
        """Time of the only side where it is known."""
        for word, ns in (("before", timing.before), ("after", timing.after)):
            if ns is not None:
                return self(f"time {word}", ns, "ns")
        return None

    def longer(self, what: str, time: NumberChange) -> Evidence:
        """How many times as long the longer side is."""
        low, high = sorted(time.evidence, key=lambda each: each.value)
        return self(f"{what} ratio", float(high.value) / float(low.value), "x", high, low)

    def share(self, what: str, part: Evidence, whole: Evidence) -> Evidence:
        return self(what, 100 * float(part.value) / float(whole.value), "%", part, whole)

    def both(self, what: str, unit: str, values: Sequence[float]) -> NumberChange:
        """The same number before and after."""
        before, after = values
        return NumberChange(
            what, self(f"{what} before", before, unit), self(f"{what} after", after, unit)
        )
