"""The numbers of a sweep as facts, and the sentences about its slow points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from keet.corpus.insights import noise
from keet.corpus.insights.facts import FactBook, joined, spoken
from keet.corpus.insights.metric_changes import (
    SM_ACTIVE,
    CounterDifference,
    SlowPointJudgement,
    Tracked,
    judge_slow_point,
    label_of,
    value_of,
    what_fills,
)
from keet.corpus.insights.points import Point
from keet.corpus.insights.sweeps import MeasuredSweep
from keet.documents.insights import Fact, SweepDocument
from keet.evidence import Sentence


class SweepFacts:
    """Every number that it returns is recorded in the fact book."""

    def __init__(self, measured: MeasuredSweep, book: FactBook) -> None:
        self.sweep: SweepDocument = measured.sweep
        self.points: Sequence[Point] = measured.points
        self.shares: Sequence[Mapping[str, float]] = measured.shares
        """Share of peak by hardware unit, per point."""
        self.times_us: Sequence[Sequence[float]] = measured.times_us
        """Times of all files, per point."""
        self.distinguishing: Sequence[str] = measured.distinguishing
        self.book = book
        self._judged: dict[int, SlowPointJudgement] = {}
        self.costs = [self.cost(i) for i in range(len(measured.points))]

    @property
    def is_number(self) -> bool:
        return self.sweep.kind in ("parameter", "size")

    @property
    def best(self) -> int:
        """Only valid if the sweep has a best point."""
        return self.sweep.best or 0

    @property
    def slowest(self) -> int:
        return max(range(len(self.costs)), key=lambda i: self.costs[i].value)

    @property
    def cost_name(self) -> str:
        return f"the time per {self.sweep.work_unit}" if self.sweep.work_unit else "the time"

    def said(self, cost: Fact) -> Sentence:
        form = "{cost} per {unit}" if self.sweep.work_unit else "{cost}"
        return Sentence(form, cost=cost, unit=self.sweep.work_unit or "")

    def cost(self, i: int) -> Fact:
        time, cost = self.book.time(self.points[i]), self.sweep.points[i].cost
        if cost is None:
            return time
        return self.book.computed(f"time per {self.sweep.work_unit}", cost, "us", time)

    def value(self, i: int) -> Sentence:
        point = self.sweep.points[i]
        if isinstance(point.value, str):
            return Sentence("`{name}`", name=point.shown)  # even if it contains digits
        knob = self.book.knob(self.points[i], self.sweep.knob, point.value)
        return Sentence("{knob:knob}", knob=knob)

    def values(self) -> dict[str, Sentence]:
        """As printed in sentences, by how tables show them."""
        return {point.shown: self.value(i) for i, point in enumerate(self.sweep.points)}

    def sd(self) -> Fact:
        shortest = min(point.duration_us for point in self.points)
        return self.book.computed(
            "noise between captures", 100 * noise.between_sessions(shortest), "%"
        )

    def tie_limit(self) -> Fact:
        """How much slower, in per cent, a value may be that counts as fast as the best."""
        shortest = min(p.duration_us for p, c in zip(self.points, self.sweep.points) if c.tied)
        limit = 100 * math.expm1(noise.TIED * noise.between_sessions(shortest))
        return self.book.computed("two standard deviations of the noise", limit, "%")

    def worth(self) -> Fact:
        costs = self.costs[self.slowest], self.costs[self.best]
        return self.book.times("slowest to best", *costs)

    def slow_runs(self) -> list[list[int]]:
        marked = [(point.tied, i) for i, point in enumerate(self.sweep.points)]
        groups = groupby(marked, key=lambda mark: mark[0])
        return [[i for _, i in group] for tied, group in groups if not tied]

    def edges(self, run: Sequence[int]) -> list[int]:
        """The points next to the stretch, the later one first."""
        beside = (run[-1] + 1, run[0] - 1)
        return [i for i in beside if 0 <= i < len(self.points)]

    def beside(self, i: int) -> list[int]:
        """The nearest points on both sides that are as fast as the best, the nearer one first."""
        tied = [j for j, point in enumerate(self.sweep.points) if point.tied]
        sides = [max((j for j in tied if j < i), default=None)]
        sides.append(min((j for j in tied if j > i), default=None))
        return sorted((j for j in sides if j is not None), key=lambda j: abs(j - i))

    def judgement(self, i: int) -> SlowPointJudgement:
        """What explains the time of a slow point."""
        if i not in self._judged:
            plateau = [self.points[j] for j in self.beside(i)]
            best = self.points[self.best]
            self._judged[i] = judge_slow_point(self.points[i], plateau, best, self.shares[i])
        return self._judged[i]

    def counter(self, i: int, column: str) -> Fact:
        """The point must have the counter."""
        point = self.points[i]
        if column != SM_ACTIVE:
            return self.book.measured(point, column)
        names = ("sm_active_cycles", "elapsed_cycles")
        parts = [cell for name in names if (cell := self.book.cell(point, name))]
        return self.book.computed(label_of(column), value_of(point, column) or 0.0, "%", *parts)

    def filled(self, run: Sequence[int]) -> Tracked | None:
        """Over the stretch and its neighbours: a cause must hold for these too."""
        here = sorted({*run, *self.edges(run)})
        here = (
            here if len(here) > 2 else list(range(len(self.points)))
        )  # two points always correlate
        costs = [float(self.costs[i].value) for i in here]
        return what_fills([self.points[i] for i in here], costs)


_MOST_SENTENCES = 6
_MOST_COUNTERS = 3
_EXPLAINED = 1.02
"""Least change of a counter between two points that counts as following the time."""


class SlowPointWriter:
    """Writes sentences about slow points of a sweep with equal work and a numeric knob."""

    def __init__(self, facts: SweepFacts) -> None:
        self._facts = facts
        self._is_explained = False
        """Whether a sentence has said with what values slow points are compared."""

    def sentences(self) -> Iterator[Sentence]:
        """About the slowest points, in the order of the knob."""
        groups = [group for run in self._facts.slow_runs() for group in self._groups(run)]
        first = sorted(groups, key=lambda g: -max(self._cost(i) for i in g))[:_MOST_SENTENCES]
        for group in groups:
            if group in first:
                yield self._several(group) if len(group) > 1 else self._single(group[0])
        if len(groups) > len(first):
            yield Sentence("The table shows other slow points.")

    def _groups(self, run: Sequence[int]) -> list[list[int]]:
        """Neighbours share a sentence only if one counter follows the time of all."""
        groups: list[list[int]] = []
        for i in run:
            if groups and self._goes_on(groups[-1][-1], i):
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups

    def _goes_on(self, before: int, i: int) -> bool:
        one, other = self._facts.judgement(before), self._facts.judgement(i)
        if one.lead != other.lead or one.starved != other.starved:
            return False
        if one.lead is None:
            return one.compared == other.compared and self._beside(before) == self._beside(i)
        values = [value_of(self._facts.points[j], one.lead) or 0.0 for j in (before, i)]
        if min(values) <= 0 or max(values) / min(values) < _EXPLAINED:
            return False
        rises = (values[1] > values[0]) == (self._cost(i) > self._cost(before))
        kind = one.differences[0].kind
        return rises if kind == 0 else kind == 2 and not rises

    def _cost(self, i: int) -> float:
        return float(self._facts.costs[i].value)

    def _beside(self, i: int) -> tuple[int, ...]:
        return tuple(sorted(self._facts.beside(i)))

    def _single(self, i: int) -> Sentence:
        judgement = self._facts.judgement(i)
        form = "At {value} it takes {times:.2f} the time of the best{busy}. {why}"
        times, value = self._times(i), self._facts.value(i)
        busy = self._busy(i)
        explain = self._starved if judgement.starved else self._moved
        return Sentence(form, value=value, times=times, busy=busy, why=explain([i], judgement))

    def _several(self, group: Sequence[int]) -> Sentence:
        """With the numbers of both ends of the stretch."""
        first, last = group[0], group[-1]
        values = [self._facts.value(i) for i in group]
        times, last_times = self._times(first), self._times(last)
        judgement = self._facts.judgement(first)
        common = [d for d in judgement.differences if self._is_common(d, group)]
        return Sentence(
            "At {where} it takes {times:.2f} (at {value}) to {last_times:.2f} (at {last_value}) "
            "the time of the best. {why}",
            where=joined(values) if len(group) < 4 else span_of(values),
            times=times,
            value=values[0],
            last_times=last_times,
            last_value=values[-1],
            why=self._starved(group, judgement)
            if judgement.starved
            else self._moved(group, judgement._replace(differences=tuple(common))),
        )

    def _is_common(self, found: CounterDifference, group: Sequence[int]) -> bool:
        judgements = (self._facts.judgement(i) for i in group)
        return all(any(d.column == found.column for d in j.differences) for j in judgements)

    def _times(self, i: int) -> Fact:
        over, under = self._facts.costs[i], self._facts.costs[self._facts.best]
        return self._facts.book.times(f"slower at {self._facts.value(i)}", over, under)

    def _busy(self, i: int) -> Sentence:
        """The units that limit this point."""
        names = (self._facts.sweep.points[i].limiter or "").split("+")
        point, shares = self._facts.points[i], self._facts.shares[i]
        busy = {n: self._facts.book.share(point, n, shares[n]) for n in names if n in shares}
        said = [
            Sentence("{unit} at {share:.0f}", unit=spoken(name), share=share)
            for name, share in busy.items()
        ]
        return Sentence(", with {said} of peak", said=joined(said)) if said else Sentence()

    def _starved(self, group: Sequence[int], judgement: SlowPointJudgement) -> Sentence:
        busiest = max(
            (share, unit, i) for i in group for unit, share in self._facts.shares[i].items()
        )
        share, unit, i = busiest
        reached = self._facts.book.share(self._facts.points[i], unit, share)
        return Sentence(
            "The work is the same, no unit that was measured is above {reached:.0f} of its peak, "
            "and fewer warps are resident, {moved}{nearest}: there are too few warps to hide "
            "latency.",
            reached=reached,
            moved=self._counter(group, judgement.differences[0]),
            nearest=self._nearest(group),
        )

    def _moved(self, group: Sequence[int], judgement: SlowPointJudgement) -> Sentence:
        if not judgement.compared:
            return Sentence("The store has no counters to compare.")
        if not judgement.differences:
            return Sentence(
                "No counter of work, hit rate, clock or warps in the store differs from that at "
                "{values}; compare the profiles with keet diff.",
                values=joined([self._facts.value(i) for i in self._beside(group[0])]),
            )
        found = judgement.differences
        waiting = [each for each in found[_MOST_COUNTERS:] if each.kind == 2]
        shown = [*found[:_MOST_COUNTERS], *waiting]
        counters = Sentence("; ").join([self._counter(group, each) for each in shown])
        nearest = self._nearest(group)
        form = "What changed as well{nearest}: {counters}."
        return Sentence(form, nearest=nearest, counters=counters)

    def _nearest(self, group: Sequence[int]) -> Sentence:
        """Said once per sweep, where a point is not compared with the best one."""
        nearest = self._facts.beside(group[-1])[0]
        if self._is_explained or nearest == self._facts.best:
            return Sentence()
        self._is_explained = True
        return Sentence(
            " ({value} is the nearest value that is as fast as the best)",
            value=self._facts.value(nearest),
        )

    def _counter(self, group: Sequence[int], found: CounterDifference) -> Sentence:
        """`L2 Sectors, 42,119,000 compared with 25,475,000 at 128`"""
        nearest = self._facts.beside(group[-1])[0]
        there, value = self._facts.counter(nearest, found.column), self._facts.value(nearest)
        ends = dict.fromkeys((group[0], group[-1]))
        return Sentence(
            "{label}, {ends} compared with {there:amount} at {value}",
            label=label_of(found.column),
            ends=amounts([self._facts.counter(i, found.column) for i in ends]),
            there=there,
            value=value,
        )


def amounts(ends: Sequence[Fact]) -> Sentence:
    """`42,119,000 to 25,475,000`"""
    return Sentence(" to ").join([Sentence("{end:amount}", end=end) for end in ends])


def span_of(values: Sequence[Sentence]) -> Sentence:
    return Sentence("{first} to {last}", first=values[0], last=values[-1])
