"""What each task without a model must reach, with the reason: `keet eval TASK --check` holds them.

A bar is a floor against getting worse. Where a miss is a matter of degree it lies one or two
samples below what was reached when it was set, so that an honest change is not stopped by one;
where a miss is a mistake (a false alarm, a false number let through) it is what was reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from evals.pages import Table

Task = Literal["diagnosis", "forecast", "grounding"]


class Bar(NamedTuple):
    """A limit of one value."""

    value: str
    side: Literal["at least", "at most"]
    limit: float
    why: str


BARS: dict[Task, tuple[Bar, ...]] = {
    "diagnosis": (
        Bar("top-1", "at least", 0.93, "30 of 31 are right; two more misses are a step back"),
        Bar("top-3", "at least", 0.97, "all are right; one miss is a cause nobody is told of"),
        Bar("top-1 less NVIDIA's", "at least", 0.2, "else the rules in the report would do"),
        Bar("located", "at least", 0.92, "29 of 31 with the machine code; 26 without it"),
        Bar("false alarms", "at most", 0.0, "keet says that a healthy kernel is healthy"),
        Bar("still raised on fast", "at most", 4.0, "a fixed cause that stays is a false alarm"),
        Bar("unscored", "at most", 0.0, "every sample has reports of its own in the repository"),
    ),
    "forecast": (
        Bar(
            "first steps' error over NVIDIA's", "at most", 0.5, "half of the report's own estimates"
        ),
        Bar("error over NVIDIA's", "at most", 0.6, "second steps lack two forecasts: 0.49 so far"),
        Bar("error over naive", "at most", 0.7, "a forecast must know more than the average"),
        Bar("error", "at most", 0.8, "0.75 so far; a factor of 1.7 is the least that is of use"),
        Bar("covered", "at least", 0.6, "two of three ranges hold; fewer would mislead"),
        Bar("range score over naive", "at most", 0.95, "0.91 so far: ranges are fitted elsewhere"),
        Bar("invalid", "at most", 0.0, "a forecast is a finite number above zero"),
        Bar("unscored", "at most", 0.0, "every pair of the samples was measured"),
    ),
    "grounding": (
        Bar("own numbers verified", "at least", 1.0, "keet prints no number without evidence"),
        Bar(
            "keet's numbers refuted by verify",
            "at most",
            0.0,
            "no false alarm is left on the samples",
        ),
        Bar("verify: caught", "at least", 0.99, "all but roundings of a metric much like it"),
        Bar("verify: true sentences let pass", "at least", 0.9, "to refuse all is no check"),
        Bar("mutants", "at least", 1000, "fewer would say little of each kind"),
        Bar("unscored", "at most", 0.0, "every sample has reports of its own in the repository"),
    ),
}


class Held(NamedTuple):
    """A bar, and what was reached."""

    bar: Bar
    value: float

    @property
    def met(self) -> bool:
        if self.bar.side == "at least":
            return self.value >= self.bar.limit
        return self.value <= self.bar.limit


def hold(task: Task, values: Mapping[str, float]) -> list[Held]:
    return [Held(bar, values[bar.value]) for bar in BARS[task]]


def bar_table(held: Iterable[Held]) -> Table:
    head = ("bar", "reached", "must be", "met", "why")
    return Table([head, *(_cells(each) for each in held)])


def _cells(held: Held) -> tuple[str, ...]:
    bar = held.bar
    met = "yes" if held.met else "NO"
    return bar.value, f"{held.value:.3f}", f"{bar.side} {bar.limit:g}", met, bar.why
