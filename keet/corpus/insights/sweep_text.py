"""Writes the text of a sweep; every number in it is recorded in the fact book."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.corpus.insights import noise
from keet.corpus.insights.metric_changes import differing_work, label_of
from keet.corpus.insights.records import LimiterChange
from keet.corpus.insights.set_additions import SetAdditions
from keet.corpus.insights.slow_point_text import SlowPointWriter, SweepFacts
from keet.corpus.insights.sweeps import limiters
from keet.corpus.insights.wording import (
    amount,
    be,
    in_table_words,
    joined,
    latency_explained_once,
    spoken,
)
from keet.corpus.insights.work import unchanged_work
from keet.evidence import Evidence
from keet.formatting import capitalized

_FULL = 85.0
"""Share of its peak, in per cent, from which a unit can't do much more."""
_MOST_LEFT_OUT = 5
_MOST_FIXED = 3
_RESULTS = "keet can't see whether the results are the same"
_MOST_THREADS = 1024
"""The largest block."""
_SOURCES = {
    "file name": "taken from the file names",
    "command line": "taken from the command lines",
    "kernel name": "taken from the kernel name",
    "launch": "taken from the launches; no name contains it",
    "report": "taken from the reports",
}


class SweepText(NamedTuple):
    title: str
    text: tuple[str, ...]
    adds: str


class SweepWriter:
    """Writes the text of one sweep."""

    def __init__(self, facts: SweepFacts) -> None:
        self._facts = facts
        self._sweep = facts.sweep

    def told(self) -> SweepText:
        sweep = self._sweep
        if sweep.work == "unknown":
            return SweepText(
                self._title("best value not known"),
                (*self._set(), self._unknown()),
                "",
            )
        if sweep.only_noise or sweep.best is None:
            return SweepText(
                self._title("all differences are within noise"),
                (*self._set(), self._noise()),
                self._no_matter(),
            )
        text = (
            *self._set(),
            self._best(),
            *self._limiter(),
            *self._slow_parts(),
            *self._end(),
        )
        *once, adds = latency_explained_once([*text, SetAdditions(self._facts).text()])
        return SweepText(self._title(self._in_short()), tuple(once), adds)

    def _set(self) -> Iterator[str]:
        """What the sweep consists of."""
        yield self._what()
        yield from self._fixed()
        yield from self._several_files()
        yield from self._left_out()

    def _title(self, what: str) -> str:
        return f"{self._sweep.kernel} over {self._sweep.knob}{self._given()}: {what}"

    def _given(self) -> str:
        fixed = self._facts.distinguishing[:_MOST_FIXED]
        return f" (with {_quoted(fixed)})" if fixed else ""

    def _fixed(self) -> Iterator[str]:
        fixed = [each for each in self._sweep.fixed if each not in self._facts.distinguishing]
        if fixed:
            yield f"The same in all files: {_quoted(fixed[:_MOST_FIXED])}."

    def _in_short(self) -> str:
        best, word = self._facts.value(self._facts.best), "fastest"
        if self._sweep.work_unit:
            word = "cheapest per unit of work"
        if not self._facts.is_number or not self._sweep.changes:
            return f"{word} at {best}"
        was, becomes = self._around(self._sweep.changes[0])
        return f"{word} at {best}; the limiter changes from {was} to {becomes}"

    def _what(self) -> str:
        files = sum(point.files for point in self._sweep.points)
        count = self._facts.book.computed("files of the sweep", files, "")
        where = _SOURCES[self._sweep.source]
        said = f"{self._sweep.knob} varies {self._span()} in {count.value:,.0f} files ({where})"
        also = self._sweep.moves_with
        moves = (
            f"; {joined(also)} {'change' if len(also) > 1 else 'changes'} with it" if also else ""
        )
        return f"{capitalized(said)}{moves}. {self._work()}"

    def _several_files(self) -> Iterator[str]:
        """Which file is shown, and where they differ most."""
        times = self._facts.times_us
        counts = {len(each) for each in times}
        if not times or max(counts) < 2:
            return
        most = self._facts.book.computed("files per value", max(counts), "")
        number = f"{most.value:.0f}" if len(counts) == 1 else f"Up to {most.value:.0f}"
        i = max(range(len(times)), key=lambda i: max(times[i]) / min(times[i]))
        at = self._facts.value(i)
        low, high = (
            self._facts.book.computed(f"{word} time at {at}", pick(times[i]), "us")
            for word, pick in (("shortest", min), ("longest", max))
        )
        yield (
            f"{number} files per value; {_which_file(counts)} is shown. Their times differ most "
            f"at {at}: {low} to {high}."
        )

    def _left_out(self) -> Iterator[str]:
        left = self._sweep.left_out
        if not left:
            return
        for each in left:
            self._facts.book.computed(self._sweep.knob, each.value, "")
        said = [f"{each.shown} ({each.why})" for each in left[:_MOST_LEFT_OUT]]
        said += ["others"] if len(left) > _MOST_LEFT_OUT else []
        yield f"Left out, because more than {self._sweep.knob} differs: {joined(said)}."

    def _span(self) -> str:
        values = list(self._facts.values().values())
        if self._facts.is_number:
            return f"from {values[0]} to {values[-1]}"
        return f"between {joined(values)}"

    def _work(self) -> str:
        if self._sweep.kind in ("gpu", "version"):
            return "The launches are the same."
        if self._sweep.work == "same":
            return self._same_problem()
        if self._sweep.work_unit:
            return f"The work varies with it, so the time per {self._sweep.work_unit} is compared."
        return "The store has no counters of the work."

    def _same_problem(self) -> str:
        """Equal bytes or instructions show that; the work of single units may vary."""
        varying = differing_work(self._facts.points)
        if not varying:
            return f"The work is the same, so the times can be compared; {_RESULTS}."
        said = [self._work_span(*each) for each in varying[:3]]
        said += ["others"] if len(varying) > 3 else []
        same = capitalized(joined(unchanged_work(self._facts.points)))
        return (
            f"{same} are about the same at all values, so the times are compared; {_RESULTS}. The "
            f"work of the units differs: {joined(said)}."
        )

    def _work_span(self, column: str, least: float, most: float) -> str:
        points = {point.number(column): point for point in self._facts.points}
        ends = [self._facts.book.cell(points[value], column) for value in (least, most)]
        return f"{label_of(column)} ({' to '.join(amount(end) for end in ends if end)})"

    def _unknown(self) -> str:
        times = [self._facts.book.time(point) for point in self._facts.points]
        low, high = min(times, key=_value), max(times, key=_value)
        return (
            f"The times are between {low} and {high}, but the counters do not show whether the "
            "work is the same: profile with instruction and DRAM counters (keet profile does)."
        )

    def _noise(self) -> str:
        low, high = min(self._facts.costs, key=_value), max(self._facts.costs, key=_value)
        span = f"between {self._facts.said(low)} and {self._facts.said(high)}"
        return (
            f"All differences are within noise: {self._facts.cost_name} is {span}, and two "
            f"captures of one kernel differ by {self._facts.sd():.1f} (one standard deviation)."
        )

    def _no_matter(self) -> str:
        return (
            f"The set shows that {self._sweep.knob} does not need tuning within this range; a "
            "single profile can't show that."
        )

    def _best(self) -> str:
        words = ("Cheapest", "most expensive") if self._sweep.work_unit else ("Fastest", "slowest")
        best, slow = (
            f"{word} at {self._facts.value(i)} ({self._facts.said(self._facts.costs[i])}"
            for word, i in zip(words, (self._facts.best, self._facts.slowest))
        )
        return f"{best}), {slow}, {self._facts.worth().value:.2f}x). {self._ties()}".strip()

    def _ties(self) -> str:
        best = self._facts.best
        tied = [i for i, point in enumerate(self._sweep.points) if point.tied and i != best]
        if not tied:
            return ""
        values, costs = [self._facts.value(i) for i in tied], self._facts.costs
        last = max(tied, key=lambda i: costs[i].value)
        ratio = 100 * (costs[last].value / costs[best].value - 1)
        slower = self._facts.book.computed(
            "slower within noise", ratio, "%", costs[last], costs[best]
        )
        verb, most = ("is", "") if len(values) == 1 else ("are", "up to ")
        return (
            f"{joined(values)} {verb} as fast within noise: {most}{slower:.1f} slower, within two "
            f"standard deviations of the noise ({self._facts.tie_limit():.1f})."
        )

    def _limiter(self) -> Iterator[str]:
        if not any(point.limiter for point in self._sweep.points):
            yield "The limiters are not known: the reports do not have how busy the units were."
        elif not self._sweep.changes:
            yield from self._same_limiter()
        elif self._facts.is_number:
            yield self._changes()
        else:
            yield self._limiter_of_each()

    def _same_limiter(self) -> Iterator[str]:
        named = {point.limiter for point in self._sweep.points if point.limiter}
        if len(named) == 1:
            yield f"The limiter is the same at all values: {in_table_words(named.pop())}."
            return
        first = limiters(self._sweep.points[0].limiter)[:1]
        if first and all(first[0] in limiters(each) for each in named):
            lead = capitalized(in_table_words(first[0]))
            yield f"{lead} is among the limiters at all values."

    def _changes(self) -> str:
        known, said = self._facts.values(), []
        for change in self._sweep.changes:
            was, becomes = map(in_table_words, self._around(change))
            between = f"between {known[change.after]} and {known[change.until]}"
            said.append(f"from {was} to {becomes} {between}")
        return f"The limiter changes {joined(said)}."

    def _around(self, change: LimiterChange) -> tuple[str, str]:
        """The limiters before and after a change, in the words of the table."""
        named = {point.shown: point.limiter or "" for point in self._sweep.points}
        return named[change.after], named[change.until]

    def _limiter_of_each(self) -> str:
        said = [
            f"{in_table_words(point.limiter)} with {self._facts.value(i)}"
            for i, point in enumerate(self._sweep.points)
            if point.limiter
        ]
        return f"The limiter differs: {joined(said)}."

    def _slow_parts(self) -> Iterator[str]:
        if self._sweep.kind == "size":
            yield from (self._dear_run(run) for run in self._facts.slow_runs())
        elif self._facts.is_number:
            yield from SlowPointWriter(self._facts).sentences()

    def _dear_run(self, run: Sequence[int]) -> str:
        """Problem sizes at which a unit of work takes more time."""
        values = [self._facts.value(i) for i in run]
        where = joined(values) if len(run) < 4 else f"{values[0]} to {values[-1]}"
        worst = max(run, key=lambda i: self._facts.costs[i].value)
        at = values[run.index(worst)]
        costs = self._facts.costs[worst], self._facts.costs[self._facts.best]
        ratio = self._facts.book.times(f"more per unit at {at}", *costs)
        most = f"{ratio.value:.2f}x" + (f" (at {at})" if len(run) > 1 else "")
        said = f"At {where} a unit of work takes up to {most} the time of the best"
        return f"{said}: {self._why_dear(run)}"

    def _why_dear(self, run: Sequence[int]) -> str:
        filled, edge = self._facts.filled(run), self._facts.edges(run)[0]
        if filled is None:
            return "waves and warps do not explain it; compare the profiles with keet diff."
        ends = [self._facts.points[i] for i in (run[0] if run[0] < edge else run[-1], edge)]
        amounts = [amount(e) for p in ends if (e := self._facts.book.cell(p, filled.column))]
        return (
            f"towards {self._facts.value(edge)} it takes less time with more {filled.label} "
            f"({' to '.join(amounts)}), as when a problem is too small to fill the GPU."
        )

    def _end(self) -> Iterator[str]:
        best = self._facts.best
        lead = limiters(self._sweep.points[best].limiter)[:1]
        share = self._sweep.points[best].units.get(lead[0]) if lead else None
        if lead and share is not None and share >= _FULL:
            reached = self._facts.book.share(self._facts.points[best], lead[0], share)
            busy = f"{spoken(lead[0])} {be(lead[0])} at {reached:.0f} of peak"
            yield f"At the best value, {busy}: only less work for it would gain more."
        elif self._facts.is_number and self._is_open_end(best):
            yield (
                "The best value is at the end of the tried range, and better than the one next to "
                f"it: try {'larger' if best else 'smaller'} ones."
            )

    def _is_open_end(self, best: int) -> bool:
        """The time still falls there by more than noise, and no value beyond was tried."""
        points = self._facts.points
        last = len(points) - 1
        if best not in (0, last) or (best == last and self._is_largest_block()):
            return False
        if best == 0 and float(self._sweep.points[0].value) <= 1:
            return False
        times = [float(self._facts.costs[i].value) for i in (1 if best == 0 else best - 1, best)]
        sd = noise.between_sessions(min(point.duration_us for point in points))
        end = self._sweep.points[best].value
        beyond = [e.value for e in self._sweep.left_out if (e.value > float(end)) == bool(best)]
        return not beyond and math.log(times[0] / times[1]) > noise.BEYOND * sd

    def _is_largest_block(self) -> bool:
        sizes = [math.prod(size or 1 for size in point.block) for point in self._facts.points]
        return sizes[-1] >= _MOST_THREADS and sizes[0] < sizes[-1]


def _value(piece: Evidence) -> float:
    return float(piece.value)


def _quoted(values: Sequence[str]) -> str:
    return joined([f"`{each}`" for each in values])


def _which_file(counts: set[int]) -> str:
    """As `representatives` chooses it, from the numbers of files per value."""
    if counts <= {1, 2}:
        return "the faster one"
    if all(count % 2 for count in counts):
        return "the one with the median time"
    return "the one with the median time (of the middle two, the faster one)"
