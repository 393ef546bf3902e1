"""The thresholds of the tasks without a model, with reasons: `keet eval TASK --check` checks them.

A threshold protects against regressions. For gradual scores it is one or two samples below the
score at the time it was set, so that a single sample does not block a good change. For mistakes (a
false alarm, an accepted false number) it is the score itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from evals.pages import Table

Task = Literal["diagnosis", "forecast", "grounding"]


class Threshold(NamedTuple):
    """A limit for one score."""

    value: str
    side: Literal["at least", "at most"]
    limit: float
    why: str


THRESHOLDS: dict[Task, tuple[Threshold, ...]] = {
    "diagnosis": (
        Threshold("top-1", "at least", 0.93, "30 of 31 are right; two more misses are a step back"),
        Threshold(
            "top-3", "at least", 0.97, "all are right; a miss is a cause that is not reported"
        ),
        Threshold(
            "top-1 less NVIDIA's", "at least", 0.2, "else the rules in the report would be enough"
        ),
        Threshold("located", "at least", 0.92, "29 of 31 with the machine code; 26 without it"),
        Threshold("false alarms", "at most", 0.0, "keet calls a healthy kernel healthy"),
        Threshold(
            "still raised on fast", "at most", 4.0, "a fixed cause that stays is a false alarm"
        ),
        Threshold("unscored", "at most", 0.0, "every sample has its reports in the repository"),
    ),
    "forecast": (
        Threshold(
            "first steps' error over NVIDIA's", "at most", 0.5, "half of the report's own estimates"
        ),
        Threshold(
            "error over NVIDIA's", "at most", 0.6, "second steps lack two forecasts: 0.49 so far"
        ),
        Threshold("error over naive", "at most", 0.7, "a forecast must beat the average gain"),
        Threshold("error", "at most", 0.8, "0.75 so far; more than a factor of 1.7 is not useful"),
        Threshold("covered", "at least", 0.6, "two of three ranges are right; fewer would mislead"),
        Threshold(
            "range score over naive", "at most", 0.95, "0.91 so far: ranges are fitted elsewhere"
        ),
        Threshold("invalid", "at most", 0.0, "a forecast is a finite number above zero"),
        Threshold("unscored", "at most", 0.0, "every pair of the samples was measured"),
    ),
    "grounding": (
        Threshold(
            "keet's numbers refuted by verify",
            "at most",
            0.0,
            "no false alarm is left on the samples",
        ),
        Threshold(
            "verify: caught",
            "at least",
            0.99,
            "all except roundings to the value of a similar metric",
        ),
        Threshold(
            "verify: true sentences let pass",
            "at least",
            0.9,
            "a check that refuses everything is useless",
        ),
        Threshold("mutants", "at least", 1000, "fewer would say little about each kind"),
        Threshold("unscored", "at most", 0.0, "every sample has its reports in the repository"),
    ),
}


class Reached(NamedTuple):
    """A threshold, and the score that was reached."""

    threshold: Threshold
    value: float

    @property
    def met(self) -> bool:
        if self.threshold.side == "at least":
            return self.value >= self.threshold.limit
        return self.value <= self.threshold.limit


def check_thresholds(task: Task, values: Mapping[str, float]) -> list[Reached]:
    return [Reached(each, values[each.value]) for each in THRESHOLDS[task]]


def threshold_table(reached: Iterable[Reached]) -> Table:
    head = ("score", "reached", "required", "met", "why")
    return Table([head, *(_cells(each) for each in reached)])


def _cells(reached: Reached) -> tuple[str, ...]:
    required = reached.threshold
    met = "yes" if reached.met else "NO"
    limit = f"{required.side} {required.limit:g}"
    return required.value, f"{reached.value:.3f}", limit, met, required.why
