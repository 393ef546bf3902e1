"""Writes the text of a sweep; every number in it is recorded in the fact book."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keet.corpus.insights import noise
from keet.corpus.insights.facts import be, in_table_words, joined, latency_explained_once, spoken
from keet.corpus.insights.metric_changes import differing_work, label_of
from keet.corpus.insights.points import Point
from keet.corpus.insights.slow_point_text import SlowPointWriter, SweepFacts, amounts, span_of
from keet.corpus.insights.sweeps import limiters, unchanged_work
from keet.documents.insights import InsightDocument, LimiterChangeDocument
from keet.evidence import Evidence, Sentence
from keet.findings import findings
from keet.formatting import capitalized


class SetAdditions:
    """Writes what a sweep with a best point adds over its best profile."""

    def __init__(self, facts: SweepFacts) -> None:
        self._facts = facts
        self._sweep = facts.sweep

    def text(self) -> Sentence:
        return Sentence(" ").join([self._alone(), self._together()])

    def _alone(self) -> Sentence:
        best = self._facts.best
        point = self._facts.points[best]
        lead = limiters(point.texts["limiter"])
        reached = self._facts.book.cell(point, "reached_pct")
        where = Sentence("The best profile alone ({value})", value=self._facts.value(best))
        if not lead or reached is None:
            return Sentence("{where} does not show its limiter.", where=where)
        share = self._sweep.points[best].units.get(lead[0])
        if lead[0] != "latency" and share is not None:
            reached = self._facts.book.share(point, lead[0], share)
        limiter = point.texts["limiter"] or ""
        if lead[0] == "latency":
            form = "{where} shows no unit above {reached:.0f} of peak{judged}."
        elif not point.texts["healthy"]:
            form = "{where} shows {lead} at {reached:.0f} of peak{judged}."
        elif limiter == lead[0]:
            form = "{where} shows the limiter {limiter} ({reached:.0f} of peak)."
        else:
            form = "{where} shows the limiter {limiter} ({unit} at {reached:.0f} of peak)."
        return Sentence(
            form,
            where=where,
            reached=reached,
            limiter=limiter,
            lead=spoken(lead[0]),
            unit=lead[0],
            judged=self._judged(point),
        )

    def _judged(self, point: Point) -> str:
        finding = findings().get(point.texts["top_finding"] or "")
        return f" and has the finding {finding.label}" if finding else " and has no finding"

    def _together(self) -> Sentence:
        parts = [*self._free_choice(), *self._costly_choice(), *self._other_limiter()]
        return Sentence("The set also shows {parts}.", parts=joined(parts))

    def _free_choice(self) -> Iterator[Sentence]:
        tied = [i for i, point in enumerate(self._sweep.points) if point.tied]
        if len(tied) > 1:
            values = joined([self._facts.value(i) for i in tied])
            yield Sentence("that {values} are equally fast within noise", values=values)

    def _costly_choice(self) -> Iterator[Sentence]:
        last, ratio = len(self._facts.points) - 1, self._facts.worth()
        inner = [i for run in self._facts.slow_runs() if run[0] > 0 and run[-1] < last for i in run]
        if self._facts.is_number and inner:
            verb = "are" if len(inner) > 1 else "is"
            values = joined([self._facts.value(i) for i in inner])
            yield Sentence("that {values} in between {verb} slower", values=values, verb=verb)
        forms = {
            "size": "that a unit of work takes {ratio:.2f} as long at {slow}",
            "version": "that it takes {ratio:.2f} with {slow} (what else changed is not known)",
        }
        form = forms.get(
            self._sweep.kind, "that the choice of {knob} makes a difference of {ratio:.2f}"
        )
        slow = self._facts.value(self._facts.slowest)
        yield Sentence(form, ratio=ratio, slow=slow, knob=self._sweep.knob)

    def _other_limiter(self) -> Iterator[Sentence]:
        """Limiters that the best profile does not show."""
        if not self._facts.is_number:
            if self._sweep.changes:
                yield Sentence("that a fix for one of them may not help the other")
            return
        if self._sweep.kind == "size":
            return
        slow = [i for run in self._facts.slow_runs() for i in run]
        starved = [self._facts.value(i) for i in slow if self._facts.judgement(i).starved]
        if starved:
            yield Sentence(
                "that at {starved} the limit is too few warps, not a unit", starved=joined(starved)
            )
        elif self._sweep.changes:
            yield self._first_limiter(self._sweep.changes[0])

    def _first_limiter(self, change: LimiterChangeDocument) -> Sentence:
        """At the values below the first change of the limiter."""
        names = [point.shown for point in self._sweep.points]
        number, at = names.index(change.after) + 1, self._facts.values()[change.after]
        named = {point.limiter for point in self._sweep.points[:number] if point.limiter}
        form = "that {where} {at} {limiter} is among the limiters"
        limiter = change.was
        if len(named) == 1:
            form = "that {where} {at} the limiter is {limiter}"
            limiter = named.pop()
        where = "up to" if number > 1 else "at"
        return Sentence(form, where=where, at=at, limiter=in_table_words(limiter))


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


class SweepWriter:
    """Writes the text of one sweep."""

    def __init__(self, facts: SweepFacts) -> None:
        self._facts = facts
        self._sweep = facts.sweep

    def insight(self) -> InsightDocument:
        sweep, adds = self._sweep, Sentence()
        text = list(self._set())
        if sweep.work == "unknown":
            in_short = Sentence("best value not known")
            text.append(self._unknown())
        elif sweep.only_noise or sweep.best is None:
            in_short = Sentence("all differences are within noise")
            text.append(self._noise())
            adds = self._no_matter()
        else:
            text += (self._best(), *self._limiter(), *self._slow_parts(), *self._end())
            added = SetAdditions(self._facts).text()
            *text, adds = latency_explained_once([*text, added])
            in_short = self._in_short()
        return self._facts.book.insight(self._title(in_short), text, adds, sweep=sweep)

    def _set(self) -> Iterator[Sentence]:
        """What the sweep consists of."""
        yield self._what()
        yield from self._fixed()
        yield from self._several_files()
        yield from self._left_out()

    def _title(self, what: Sentence) -> Sentence:
        fixed = self._facts.distinguishing[:_MOST_FIXED]
        given = Sentence(" (with {fixed})", fixed=_quoted(fixed)) if fixed else ""
        return Sentence(
            "{kernel} over {knob}{given}: {what}",
            kernel=self._sweep.kernel,
            knob=self._sweep.knob,
            given=given,
            what=what,
        )

    def _fixed(self) -> Iterator[Sentence]:
        fixed = [each for each in self._sweep.fixed if each not in self._facts.distinguishing]
        if fixed:
            yield Sentence("The same in all files: {fixed}.", fixed=_quoted(fixed[:_MOST_FIXED]))

    def _in_short(self) -> Sentence:
        best, word = self._facts.value(self._facts.best), "fastest"
        if self._sweep.work_unit:
            word = "cheapest per unit of work"
        if not self._facts.is_number or not self._sweep.changes:
            return Sentence("{word} at {best}", word=word, best=best)
        was, becomes = self._sweep.limiters_around(self._sweep.changes[0])
        form = "{word} at {best}; the limiter changes from {was} to {becomes}"
        return Sentence(form, word=word, best=best, was=was, becomes=becomes)

    def _what(self) -> Sentence:
        files = sum(point.files for point in self._sweep.points)
        count = self._facts.book.computed("files of the sweep", files, "")
        also, moves = self._sweep.moves_with, Sentence()
        if also:
            change = "change" if len(also) > 1 else "changes"
            moves = Sentence("; {also} {change} with it", also=joined(also), change=change)
        return Sentence(
            "{knob} varies {span} in {count:,.0f} files ({where}){moves}. {work}",
            knob=capitalized(self._sweep.knob),
            span=self._span(),
            count=count,
            where=_SOURCES[self._sweep.source],
            moves=moves,
            work=self._work(),
        )

    def _several_files(self) -> Iterator[Sentence]:
        """Which file is shown, and where they differ most."""
        times = self._facts.times_us
        counts = {len(each) for each in times}
        if not times or max(counts) < 2:
            return
        most = self._facts.book.computed("files per value", max(counts), "")
        i = max(range(len(times)), key=lambda i: max(times[i]) / min(times[i]))
        at = self._facts.value(i)
        low, high = (
            self._facts.book.computed(f"{word} time at {at}", pick(times[i]), "us")
            for word, pick in (("shortest", min), ("longest", max))
        )
        yield Sentence(
            "{up_to}{most:.0f} files per value; {which} is shown. Their times differ most at "
            "{at}: {low} to {high}.",
            up_to="" if len(counts) == 1 else "Up to ",
            most=most,
            which=_which_file(counts),
            at=at,
            low=low,
            high=high,
        )

    def _left_out(self) -> Iterator[Sentence]:
        left, knob = self._sweep.left_out, self._sweep.knob
        values = [self._facts.book.computed(knob, each.value, "") for each in left]
        said = [
            Sentence("{value:knob} ({why})", value=value, why=each.why)
            for value, each in zip(values[:_MOST_LEFT_OUT], left)
        ]
        said += [Sentence("others")] if len(left) > _MOST_LEFT_OUT else []
        if said:
            form = "Left out, because more than {knob} differs: {said}."
            yield Sentence(form, knob=knob, said=joined(said))

    def _span(self) -> Sentence:
        values = list(self._facts.values().values())
        if self._facts.is_number:
            return Sentence("from {span}", span=span_of(values))
        return Sentence("between {values}", values=joined(values))

    def _work(self) -> Sentence:
        if self._sweep.kind in ("gpu", "version"):
            return Sentence("The launches are the same.")
        if self._sweep.work == "same":
            return self._same_problem()
        if self._sweep.work_unit:
            form = "The work varies with it, so the time per {unit} is compared."
            return Sentence(form, unit=self._sweep.work_unit)
        return Sentence("The store has no counters of the work.")

    def _same_problem(self) -> Sentence:
        """Equal bytes or instructions show that; the work of single units may vary."""
        varying = differing_work(self._facts.points)
        if not varying:
            form = "The work is the same, so the times can be compared; {results}."
            return Sentence(form, results=_RESULTS)
        said = [self._work_span(*each) for each in varying[:3]]
        said += [Sentence("others")] if len(varying) > 3 else []
        return Sentence(
            "{same} are about the same at all values, so the times are compared; {results}. The "
            "work of the units differs: {said}.",
            same=joined(unchanged_work(self._facts.points)).capitalized(),
            results=_RESULTS,
            said=joined(said),
        )

    def _work_span(self, column: str, least: float, most: float) -> Sentence:
        points = {point.number(column): point for point in self._facts.points}
        ends = [self._facts.book.measured(points[value], column) for value in (least, most)]
        return Sentence("{label} ({ends})", label=label_of(column), ends=amounts(ends))

    def _unknown(self) -> Sentence:
        times = [self._facts.book.time(point) for point in self._facts.points]
        return Sentence(
            "The times are between {low} and {high}, but the counters do not show whether the "
            "work is the same: profile with instruction and DRAM counters (keet profile does).",
            low=min(times, key=_value),
            high=max(times, key=_value),
        )

    def _noise(self) -> Sentence:
        return Sentence(
            "All differences are within noise: {cost} is between {low} and {high}, and two "
            "captures of one kernel differ by {sd:.1f} (one standard deviation).",
            cost=self._facts.cost_name,
            low=self._facts.said(min(self._facts.costs, key=_value)),
            high=self._facts.said(max(self._facts.costs, key=_value)),
            sd=self._facts.sd(),
        )

    def _no_matter(self) -> Sentence:
        return Sentence(
            "The set shows that {knob} does not need tuning within this range; a single profile "
            "can't show that.",
            knob=self._sweep.knob,
        )

    def _best(self) -> Sentence:
        best, slow = self._facts.best, self._facts.slowest
        is_dear = bool(self._sweep.work_unit)
        return Sentence(
            "{fastest} at {best} ({best_cost}), {slowest} at {slow} ({slow_cost}, {worth:.2f})."
            "{ties}",
            fastest="Cheapest" if is_dear else "Fastest",
            best=self._facts.value(best),
            best_cost=self._facts.said(self._facts.costs[best]),
            slowest="most expensive" if is_dear else "slowest",
            slow=self._facts.value(slow),
            slow_cost=self._facts.said(self._facts.costs[slow]),
            worth=self._facts.worth(),
            ties=self._ties(),
        )

    def _ties(self) -> Sentence:
        """Begins with a space."""
        best = self._facts.best
        tied = [i for i, point in enumerate(self._sweep.points) if point.tied and i != best]
        if not tied:
            return Sentence()
        values, costs = [self._facts.value(i) for i in tied], self._facts.costs
        last = max(tied, key=lambda i: costs[i].value)
        ratio = 100 * (costs[last].value / costs[best].value - 1)
        slower = self._facts.book.computed(
            "slower within noise", ratio, "%", costs[last], costs[best]
        )
        verb, most = ("is", "") if len(values) == 1 else ("are", "up to ")
        return Sentence(
            " {values} {verb} as fast within noise: {most}{slower:.1f} slower, within two "
            "standard deviations of the noise ({limit:.1f}).",
            values=joined(values),
            verb=verb,
            most=most,
            slower=slower,
            limit=self._facts.tie_limit(),
        )

    def _limiter(self) -> Iterator[Sentence]:
        if not any(point.limiter for point in self._sweep.points):
            yield Sentence(
                "The limiters are not known: the reports do not have how busy the units were."
            )
        elif not self._sweep.changes:
            yield from self._same_limiter()
        elif self._facts.is_number:
            yield self._changes()
        else:
            yield self._limiter_of_each()

    def _same_limiter(self) -> Iterator[Sentence]:
        named = {point.limiter for point in self._sweep.points if point.limiter}
        if len(named) == 1:
            limiter = in_table_words(named.pop())
            yield Sentence("The limiter is the same at all values: {limiter}.", limiter=limiter)
            return
        first = limiters(self._sweep.points[0].limiter)[:1]
        if first and all(first[0] in limiters(each) for each in named):
            lead = capitalized(in_table_words(first[0]))
            yield Sentence("{lead} is among the limiters at all values.", lead=lead)

    def _changes(self) -> Sentence:
        known, said = self._facts.values(), []
        for change in self._sweep.changes:
            was, becomes = map(in_table_words, self._sweep.limiters_around(change))
            said.append(
                Sentence(
                    "from {was} to {becomes} between {after} and {until}",
                    was=was,
                    becomes=becomes,
                    after=known[change.after],
                    until=known[change.until],
                )
            )
        return Sentence("The limiter changes {said}.", said=joined(said))

    def _limiter_of_each(self) -> Sentence:
        said = [
            Sentence(
                "{limiter} with {value}",
                limiter=in_table_words(point.limiter),
                value=self._facts.value(i),
            )
            for i, point in enumerate(self._sweep.points)
            if point.limiter
        ]
        return Sentence("The limiter differs: {said}.", said=joined(said))

    def _slow_parts(self) -> Iterator[Sentence]:
        if self._sweep.kind == "size":
            yield from (self._dear_run(run) for run in self._facts.slow_runs())
        elif self._facts.is_number:
            yield from SlowPointWriter(self._facts).sentences()

    def _dear_run(self, run: Sequence[int]) -> Sentence:
        """Problem sizes at which a unit of work takes more time."""
        values = [self._facts.value(i) for i in run]
        worst = max(run, key=lambda i: self._facts.costs[i].value)
        at = values[run.index(worst)]
        costs = self._facts.costs[worst], self._facts.costs[self._facts.best]
        ratio = self._facts.book.times(f"more per unit at {at}", *costs)
        return Sentence(
            "At {where} a unit of work takes up to {ratio:.2f}{worst} the time of the best: {why}",
            where=joined(values) if len(run) < 4 else span_of(values),
            ratio=ratio,
            worst=Sentence(" (at {at})", at=at) if len(run) > 1 else "",
            why=self._why_dear(run),
        )

    def _why_dear(self, run: Sequence[int]) -> Sentence:
        filled, edge = self._facts.filled(run), self._facts.edges(run)[0]
        if filled is None:
            return Sentence(
                "waves and warps do not explain it; compare the profiles with keet diff."
            )
        points = [self._facts.points[i] for i in (run[0] if run[0] < edge else run[-1], edge)]
        ends = [self._facts.book.measured(point, filled.column) for point in points]
        return Sentence(
            "towards {value} it takes less time with more {label} ({ends}), as when a problem is "
            "too small to fill the GPU.",
            value=self._facts.value(edge),
            label=filled.label,
            ends=amounts(ends),
        )

    def _end(self) -> Iterator[Sentence]:
        best = self._facts.best
        lead = limiters(self._sweep.points[best].limiter)[:1]
        share = self._sweep.points[best].units.get(lead[0]) if lead else None
        if lead and share is not None and share >= _FULL:
            reached = self._facts.book.share(self._facts.points[best], lead[0], share)
            yield Sentence(
                "At the best value, {unit} {be} at {reached:.0f} of peak: only less work for it "
                "would gain more.",
                unit=spoken(lead[0]),
                be=be(lead[0]),
                reached=reached,
            )
        elif self._facts.is_number and self._is_open_end(best):
            yield Sentence(
                "The best value is at the end of the tried range, and better than the one next to "
                "it: try {other} ones.",
                other="larger" if best else "smaller",
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


def _quoted(values: Sequence[str]) -> Sentence:
    return joined([f"`{each}`" for each in values])


def _which_file(counts: set[int]) -> str:
    """As `representatives` chooses it, from the numbers of files per value."""
    if counts <= {1, 2}:
        return "the faster one"
    if all(count % 2 for count in counts):
        return "the one with the median time"
    return "the one with the median time (of the middle two, the faster one)"
