"""What to fix next: after, the finding that costs most time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from keet.analysis.findings import Finding
from keet.analysis.ledger import Book
from keet.comparison.account import Part
from keet.evidence import Evidence
from keet.explanation.analyst import forecast_text
from keet.units import Quantity

_LEAST = 0.01
"""Share of the whole below which no number is said."""


class NextStep(NamedTuple):
    """The costliest thing that is left."""

    part: Part
    finding: Finding
    saved: float
    """Nanoseconds that it would save, by its forecast."""
    whole: float | None
    """Nanoseconds of everything; None: not known."""
    share: Evidence | None = None
    """`saved` of `whole` in per cent, where both are of the run."""

    @property
    def text(self) -> str:
        said = (
            f"{self.part.told.launch.kernel}: {self.finding.title.lower()}"
            f"{self.finding.here}, {forecast_text(self.finding)}"
        )
        return f"{said}{self.of_whole}"

    @property
    def of_whole(self) -> str:
        """What that is of everything."""
        if self.part.replay_differs:
            return " of the replay only; what it saves in the run is not known"
        if self.whole is None:
            return ""
        share = self.saved / self.whole if self.whole else 0.0
        if share < _LEAST:
            return "; that is less than 1% of the whole"
        gain = f"{self.share:.0f}" if self.share else f"{share:.0%}"
        return f"; that is {gain} of the whole"


def find_next(parts: Iterable[Part], whole: float | None) -> NextStep | None:
    """`parts`: launches after that were looked into. Forecasts of a launch whose replay is not what
    happened in the run come last: what they save is not known."""
    left = [
        NextStep(part, finding, _cost(part, finding), whole)
        for part in parts
        for finding in part.told.findings
    ]
    return max(left, key=lambda step: (not step.part.replay_differs, step.saved), default=None)


def in_run(step: NextStep, book: Book) -> NextStep:
    """With evidence of its share of the run, where one is said."""
    if step.part.replay_differs or not step.whole or step.saved / step.whole < _LEAST:
        return step
    share = Quantity(100 * step.saved / step.whole, "%")
    label = "of the time after, saved by the next step (estimated)"
    return step._replace(share=book.derived("share of the next step", share, label))


def _cost(part: Part, finding: Finding) -> float:
    return part.weight * part.told.launch.rank_time * (1 - 1 / finding.forecast.likely)
