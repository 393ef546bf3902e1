"""Writes what a sweep with a best point shows that its best profile alone does not."""

from __future__ import annotations

from collections.abc import Iterator

from keet.corpus.insights.points import Point
from keet.corpus.insights.slow_point_text import SweepFacts
from keet.corpus.insights.sweeps import limiters
from keet.corpus.insights.wording import in_table_words, joined, spoken
from keet.documents.insights import LimiterChangeDocument
from keet.evidence import Sentence
from keet.findings import findings


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
