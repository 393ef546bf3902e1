"""The evidence of times, of the factors between them, and of launch counts (`TimeLedger`)."""

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


class TimeLedger:
    """Enters the numbers of a pair (`pair 3`) or of all kernels into a ledger."""

    def __init__(self, book: Ledger) -> None:
        self._book = book

    def times(
        self, name: str, timing: Timing, durations: Sequence[Evidence]
    ) -> NumberChange | None:
        if timing.unmeasured or (timing.before is None and timing.after is None):
            return None
        sides = [
            self._book.derived(
                f"{name}: time {word}", Quantity(ns or 0.0, "ns"), f"time {word}", *durations
            )
            for word, ns in (("before", timing.before), ("after", timing.after))
        ]
        return NumberChange("time", *sides)

    def speedup(self, name: str, timing: Timing, time: NumberChange | None) -> Speedup | None:
        if timing.speedup is None or time is None:
            return None
        label, backwards = MEASURED_SPEEDUPS
        ratio = self._factor(f"{name}: speedup", label, time, 1)
        if timing.speedup >= 1:
            return Speedup(ratio, ratio)
        slowdown = self._factor(f"{name}: slowdown", backwards, time, -1)
        return Speedup(ratio, slowdown)

    def _factor(self, name: str, label: str, time: NumberChange, power: int) -> Evidence:
        ratio = (float(time.before.value) / float(time.after.value)) ** power
        return self._book.derived(name, Quantity(ratio, "x"), label, time.before, time.after)

    def one_side(self, name: str, timing: Timing) -> Evidence | None:
        """Time of the only side where it is known."""
        for word, ns in (("before", timing.before), ("after", timing.after)):
            if ns is not None:
                label = f"time {word}"
                return self._book.derived(f"{name}: {label}", Quantity(ns, "ns"), label)
        return None

    def longer(self, name: str, what: str, time: NumberChange) -> Evidence:
        """How many times as long the longer side is."""
        low, high = sorted((time.before, time.after), key=lambda each: each.value)
        ratio = Quantity(float(high.value) / float(low.value), "x")
        return self._book.derived(f"{name}: {what} ratio", ratio, f"{what} ratio", high, low)

    def share(self, name: str, what: str, part: Evidence, whole: Evidence) -> Evidence:
        percent = Quantity(100 * float(part.value) / float(whole.value), "%")
        return self._book.derived(f"{name}: {what}", percent, what, part, whole)

    def pair_of(self, name: str, what: str, unit: str, values: Sequence[float]) -> NumberChange:
        """The same number before and after."""
        before, after = (
            self._book.derived(f"{name}: {what} {word}", Quantity(value, unit), f"{what} {word}")
            for word, value in zip(("before", "after"), values, strict=True)
        )
        return NumberChange(what, before, after)
