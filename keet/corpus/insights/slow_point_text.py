"""The numbers of a sweep as facts, and the sentences about its slow points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from keet.corpus.insights.metric_changes import (
    SM_ACTIVE,
    CounterDifference,
    SlowPointJudgement,
    judge_slow_point,
    label_of,
    value_of,
)
from keet.corpus.insights.points import FactBook, Point, joined, spoken
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
        self.nearest_is_explained = False
        """Whether a sentence has said with what values slow points are compared."""
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

    def worth(self) -> Fact:
        costs = self.costs[self.slowest], self.costs[self.best]
        return self.book.times("slowest to best", *costs)

    def slow_runs(self) -> list[list[int]]:
        marked = [(point.tied, i) for i, point in enumerate(self.sweep.points)]
        groups = groupby(marked, key=lambda mark: mark[0])
        return [[i for _, i in group] for tied, group in groups if not tied]

    def beside(self, i: int) -> list[int]:
        """The nearest points on both sides that are as fast as the best, the nearer one first."""
        tied = [j for j, point in enumerate(self.sweep.points) if point.tied]
        sides = [*[j for j in tied if j < i][-1:], *[j for j in tied if j > i][:1]]
        return sorted(sides, key=lambda j: abs(j - i))

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


_MOST_SENTENCES = 6
_MOST_COUNTERS = 3
_EXPLAINED = 1.02
"""Least change of a counter between two points that counts as following the time."""


def slow_point_sentences(facts: SweepFacts) -> Iterator[Sentence]:
    """About the slowest points of a sweep with equal work and a numeric knob, in its order."""
    groups = [group for run in facts.slow_runs() for group in _groups(facts, run)]
    slowest = sorted(groups, key=lambda g: -max(facts.costs[i].value for i in g))[:_MOST_SENTENCES]
    for group in groups:
        if group in slowest:
            yield _several(facts, group) if len(group) > 1 else _single(facts, group[0])
    if len(groups) > len(slowest):
        yield Sentence("The table shows other slow points.")


def _groups(facts: SweepFacts, run: Sequence[int]) -> list[list[int]]:
    """Neighbours share a sentence only if one counter follows the time of all."""
    groups: list[list[int]] = []
    for i in run:
        if groups and _goes_on(facts, groups[-1][-1], i):
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _goes_on(facts: SweepFacts, before: int, i: int) -> bool:
    one, other = facts.judgement(before), facts.judgement(i)
    if one.lead != other.lead or one.starved != other.starved:
        return False
    if one.lead is None:
        are_beside = sorted(facts.beside(before)) == sorted(facts.beside(i))
        return one.compared == other.compared and are_beside
    was, now = (value_of(facts.points[j], one.lead) or 0.0 for j in (before, i))
    if min(was, now) <= 0 or max(was, now) / min(was, now) < _EXPLAINED:
        return False
    rises = (now > was) == (facts.costs[i].value > facts.costs[before].value)
    kind = one.differences[0].kind
    return rises if kind == 0 else kind == 2 and not rises


def _single(facts: SweepFacts, i: int) -> Sentence:
    return Sentence(
        "At {value} it takes {times:.2f} the time of the best{busy}. {why}",
        times=_times(facts, i),
        value=facts.value(i),
        busy=_busy(facts, i),
        why=_why(facts, [i], facts.judgement(i)),
    )


def _several(facts: SweepFacts, group: Sequence[int]) -> Sentence:
    """With the numbers of both ends of the stretch."""
    first, last = group[0], group[-1]
    values = [facts.value(i) for i in group]
    times, last_times = _times(facts, first), _times(facts, last)
    common = set.intersection(*({d.column for d in facts.judgement(i).differences} for i in group))
    judgement = facts.judgement(first)
    if not judgement.starved:
        shared = tuple(d for d in judgement.differences if d.column in common)
        judgement = judgement._replace(differences=shared)
    return Sentence(
        "At {where} it takes {times:.2f} (at {value}) to {last_times:.2f} (at {last_value}) "
        "the time of the best. {why}",
        where=stretch_of(values),
        times=times,
        value=values[0],
        last_times=last_times,
        last_value=values[-1],
        why=_why(facts, group, judgement),
    )


def _times(facts: SweepFacts, i: int) -> Fact:
    over, under = facts.costs[i], facts.costs[facts.best]
    return facts.book.times(f"slower at {facts.value(i)}", over, under)


def _busy(facts: SweepFacts, i: int) -> Sentence:
    """The units that limit this point."""
    names = (facts.sweep.points[i].limiter or "").split("+")
    shares = {name: facts.shares[i][name] for name in names if name in facts.shares[i]}
    said = []
    for name, value in shares.items():
        share = facts.book.share(facts.points[i], name, value)
        said.append(Sentence("{unit} at {share:.0f}", unit=spoken(name), share=share))
    return Sentence(", with {said} of peak", said=joined(said)) if said else Sentence()


def _why(facts: SweepFacts, group: Sequence[int], judgement: SlowPointJudgement) -> Sentence:
    differences = judgement.differences
    if judgement.starved:
        share, unit, i = max(
            (share, unit, i) for i in group for unit, share in facts.shares[i].items()
        )
        return Sentence(
            "The work is the same, no unit that was measured is above {reached:.0f} of its peak, "
            "and fewer warps are resident, {moved}{nearest}: there are too few warps to hide "
            "latency.",
            reached=facts.book.share(facts.points[i], unit, share),
            moved=_counter(facts, group, differences[0]),
            nearest=_nearest(facts, group),
        )
    if not judgement.compared:
        return Sentence("The store has no counters to compare.")
    if not differences:
        return Sentence(
            "No counter of work, hit rate, clock or warps in the store differs from that at "
            "{values}; compare the profiles with keet diff.",
            values=joined([facts.value(i) for i in sorted(facts.beside(group[0]))]),
        )
    waiting = [difference for difference in differences[_MOST_COUNTERS:] if difference.kind == 2]
    shown = [*differences[:_MOST_COUNTERS], *waiting]
    counters = Sentence("; ").join([_counter(facts, group, difference) for difference in shown])
    nearest = _nearest(facts, group)
    form = "What changed as well{nearest}: {counters}."
    return Sentence(form, nearest=nearest, counters=counters)


def _nearest(facts: SweepFacts, group: Sequence[int]) -> Sentence:
    """Said once per sweep, where a point is not compared with the best one."""
    nearest = facts.beside(group[-1])[0]
    if facts.nearest_is_explained or nearest == facts.best:
        return Sentence()
    facts.nearest_is_explained = True
    return Sentence(
        " ({value} is the nearest value that is as fast as the best)", value=facts.value(nearest)
    )


def _counter(facts: SweepFacts, group: Sequence[int], difference: CounterDifference) -> Sentence:
    """`L2 Sectors, 42,119,000 compared with 25,475,000 at 128`"""
    nearest, column = facts.beside(group[-1])[0], difference.column
    there, value = facts.counter(nearest, column), facts.value(nearest)
    ends = dict.fromkeys((group[0], group[-1]))
    return Sentence(
        "{label}, {ends} compared with {there:amount} at {value}",
        label=label_of(column),
        ends=amounts([facts.counter(i, column) for i in ends]),
        there=there,
        value=value,
    )


def amounts(ends: Sequence[Fact]) -> Sentence:
    """`42,119,000 to 25,475,000`"""
    return Sentence(" to ").join([Sentence("{end:amount}", end=end) for end in ends])


def stretch_of(values: Sequence[Sentence]) -> Sentence:
    """All of a few values, else the ends."""
    return joined(values) if len(values) < 4 else span_of(values)


def span_of(values: Sequence[Sentence]) -> Sentence:
    return Sentence("{first} to {last}", first=values[0], last=values[-1])
