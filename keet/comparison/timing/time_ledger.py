"""Enters numbers of both sides into a ledger: times, factors between them, launch counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.comparison.number_change import NumberChange
from keet.comparison.timing.pair_timing import Timing
from keet.evidence import MEASURED_SPEEDUPS, Evidence
from keet.units import Quantity


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
