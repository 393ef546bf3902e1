"""Writes what a sweep with a best point shows that its best profile alone does not."""

from __future__ import annotations

from collections.abc import Iterator

from keet.corpus.insights.points import Point
from keet.corpus.insights.records import LimiterChange
from keet.corpus.insights.slow_point_text import SweepFacts
from keet.corpus.insights.sweeps import limiters
from keet.corpus.insights.wording import in_table_words, joined, spoken
from keet.findings import findings


class SetAdditions:
    """Writes what a sweep with a best point adds over its best profile."""

    def __init__(self, facts: SweepFacts) -> None:
        self._facts = facts
        self._sweep = facts.sweep

    def text(self) -> str:
        return f"{self._alone()} {self._together()}"

    def _alone(self) -> str:
        best = self._facts.best
        point = self._facts.points[best]
        lead = limiters(point.texts["limiter"])
        reached = self._facts.book.cell(point, "reached_pct")
        where = f"The best profile alone ({self._facts.value(best)})"
        if not lead or reached is None:
            return f"{where} does not show its limiter."
        if lead[0] == "latency":
            said = f"shows no unit above {reached:.0f} of peak"
        else:
            share = self._sweep.points[best].units.get(lead[0])
            piece = reached if share is None else self._facts.book.share(point, lead[0], share)
            if point.texts["healthy"]:
                named = point.texts["limiter"] or ""
                which = f"{lead[0]} at " if named != lead[0] else ""
                return f"{where} shows the limiter {named} ({which}{piece:.0f} of peak)."
            said = f"shows {spoken(lead[0])} at {piece:.0f} of peak"
        return f"{where} {said}{self._judged(point)}."

    def _judged(self, point: Point) -> str:
        finding = findings().get(point.texts["top_finding"] or "")
        return f" and has the finding {finding.label}" if finding else " and has no finding"

    def _together(self) -> str:
        parts = [*self._free_choice(), *self._costly_choice(), *self._other_limiter()]
        return f"The set also shows {joined(parts)}."

    def _free_choice(self) -> Iterator[str]:
        tied = [i for i, point in enumerate(self._sweep.points) if point.tied]
        if len(tied) > 1:
            values = joined([self._facts.value(i) for i in tied])
            yield f"that {values} are equally fast within noise"

    def _costly_choice(self) -> Iterator[str]:
        last, ratio = len(self._facts.points) - 1, self._facts.worth()
        inner = [i for run in self._facts.slow_runs() if run[0] > 0 and run[-1] < last for i in run]
        if self._facts.is_number and inner:
            verb = "are" if len(inner) > 1 else "is"
            values = joined([self._facts.value(i) for i in inner])
            yield f"that {values} in between {verb} slower"
        slow = self._facts.value(self._facts.slowest)
        if self._sweep.kind == "size":
            yield f"that a unit of work takes {ratio.value:.2f}x as long at {slow}"
        elif self._sweep.kind == "version":
            yield f"that it takes {ratio.value:.2f}x with {slow} (what else changed is not known)"
        else:
            yield f"that the choice of {self._sweep.knob} makes a difference of {ratio.value:.2f}x"

    def _other_limiter(self) -> Iterator[str]:
        """Limiters that the best profile does not show."""
        if not self._facts.is_number:
            if self._sweep.changes:
                yield "that a fix for one of them may not help the other"
            return
        if self._sweep.kind == "size":
            return
        slow = [i for run in self._facts.slow_runs() for i in run]
        starved = [self._facts.value(i) for i in slow if self._facts.judgement(i).starved]
        if starved:
            yield f"that at {joined(starved)} the limit is too few warps, not a unit"
        elif self._sweep.changes:
            yield self._first_limiter(self._sweep.changes[0])

    def _first_limiter(self, change: LimiterChange) -> str:
        """At the values below the first change of the limiter."""
        names = [point.shown for point in self._sweep.points]
        number, at = names.index(change.after) + 1, self._facts.values()[change.after]
        named = {point.limiter for point in self._sweep.points[:number] if point.limiter}
        where = f"up to {at}" if number > 1 else f"at {at}"
        if len(named) == 1:
            return f"that {where} the limiter is {in_table_words(named.pop())}"
        return f"that {where} {in_table_words(change.was)} is among the limiters"
