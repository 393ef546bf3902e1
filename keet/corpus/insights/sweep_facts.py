"""The numbers of one sweep, as its sentences say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from keet.corpus.insights import noise
from keet.corpus.insights.book import FactBook
from keet.corpus.insights.points import Point
from keet.corpus.insights.records import Sweep
from keet.corpus.insights.slow_points import (
    SM_ACTIVE,
    SlowPointJudgement,
    judged,
    label_of,
    value_of,
)
from keet.corpus.insights.sweeps import MeasuredSweep
from keet.corpus.insights.tracking import Tracked, what_fills
from keet.evidence import Evidence


class SweepFacts:
    """Whatever is asked of it is entered in the book of facts."""

    def __init__(self, measured: MeasuredSweep, book: FactBook) -> None:
        self.sweep: Sweep = measured.sweep
        self.points: Sequence[Point] = measured.points
        self.shares: Sequence[Mapping[str, float]] = measured.shares
        """Of peak, of every unit that a report has; by point."""
        self.book = book
        self._judged: dict[int, SlowPointJudgement] = {}
        self.costs = [self.cost(i) for i in range(len(measured.points))]

    @property
    def is_number(self) -> bool:
        return self.sweep.kind in ("parameter", "size")

    @property
    def best(self) -> int:
        """Only where there is one."""
        return self.sweep.best or 0

    @property
    def slowest(self) -> int:
        return max(range(len(self.costs)), key=lambda i: self.costs[i].value)

    @property
    def cost_name(self) -> str:
        return f"the time per {self.sweep.work_unit}" if self.sweep.work_unit else "the time"

    def said(self, cost: Evidence) -> str:
        return f"{cost} per {self.sweep.work_unit}" if self.sweep.work_unit else str(cost)

    def cost(self, i: int) -> Evidence:
        time, cost = self.book.time(self.points[i]), self.sweep.points[i].cost
        if cost is None:
            return time
        return self.book.computed(f"time per {self.sweep.work_unit}", cost, "us", time)

    def value(self, i: int) -> str:
        point = self.sweep.points[i]
        if isinstance(point.value, str):
            return f"`{point.shown}`"  # a name, whatever digits it has
        self.book.knob(self.points[i], self.sweep.knob, point.value)
        return point.shown

    def values(self) -> dict[str, str]:
        """As said, by how they are shown."""
        return {point.shown: self.value(i) for i, point in enumerate(self.sweep.points)}

    def sd(self) -> Evidence:
        shortest = min(point.duration_us for point in self.points)
        return self.book.computed(
            "noise between captures", 100 * noise.between_sessions(shortest), "%"
        )

    def worth(self) -> Evidence:
        costs = self.costs[self.slowest], self.costs[self.best]
        return self.book.times("slowest to best", *costs)

    def slow_runs(self) -> list[list[int]]:
        marked = [(point.tied, i) for i, point in enumerate(self.sweep.points)]
        groups = groupby(marked, key=lambda mark: mark[0])
        return [[i for _, i in group] for tied, group in groups if not tied]

    def edges(self, run: Sequence[int]) -> list[int]:
        """Points of the plateau next to the stretch, the later one first."""
        beside = (run[-1] + 1, run[0] - 1)
        return [i for i in beside if 0 <= i < len(self.points)]

    def beside(self, i: int) -> list[int]:
        """The plateau on both sides of a slow point, the nearer one first; else the best."""
        tied = [j for j, point in enumerate(self.sweep.points) if point.tied]
        sides = [max((j for j in tied if j < i), default=None)]
        sides.append(min((j for j in tied if j > i), default=None))
        return sorted((j for j in sides if j is not None), key=lambda j: abs(j - i))

    def judgement(self, i: int) -> SlowPointJudgement:
        """Of a slow point, by itself."""
        if i not in self._judged:
            plateau = [self.points[j] for j in self.beside(i)]
            best = self.points[self.best]
            self._judged[i] = judged(self.points[i], plateau, best, self.shares[i])
        return self._judged[i]

    def counter(self, i: int, column: str) -> Evidence:
        """Only of what the point has."""
        point = self.points[i]
        if column != SM_ACTIVE:
            cell = self.book.cell(point, column)
            assert cell is not None
            return cell
        names = ("sm_active_cycles", "elapsed_cycles")
        parts = [cell for name in names if (cell := self.book.cell(point, name))]
        return self.book.computed(label_of(column), value_of(point, column) or 0.0, "%", *parts)

    def filled(self, run: Sequence[int]) -> Tracked | None:
        """Over the stretch and the plateau on both sides: a cause has to hold for these too."""
        here = sorted({*run, *self.edges(run)})
        here = here if len(here) > 2 else list(range(len(self.points)))  # two points always agree
        costs = [float(self.costs[i].value) for i in here]
        return what_fills([self.points[i] for i in here], costs)
