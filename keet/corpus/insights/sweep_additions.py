"""What a sweep adds over its best profile, in a sentence or two."""

from __future__ import annotations

from collections.abc import Iterator

from keet.catalog import findings
from keet.corpus.insights.describe import joined, spoken
from keet.corpus.insights.points import Point
from keet.corpus.insights.sweep_facts import SweepFacts
from keet.corpus.insights.sweeps import limiters


class SetAdditions:
    """Of one sweep that has a best point."""

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
            return f"{where} says nothing of its limiter."
        if lead[0] == "latency":
            said = f"shows no unit above {reached:.0f} of peak"
        else:
            share = self._sweep.points[best].units.get(lead[0])
            piece = reached if share is None else self._facts.book.share(point, lead[0], share)
            said = f"shows {spoken(lead[0])} at {piece:.0f} of peak"
        return f"{where} {said}{self._judged(point)}."

    def _judged(self, point: Point) -> str:
        if point.texts["healthy"]:
            return " and says that only less work helps"
        finding = findings().get(point.texts["top_finding"] or "")
        return f" and names {finding.label}" if finding else " and names no cause"

    def _together(self) -> str:
        parts = [*self._free_choice(), *self._costly_choice(), *self._other_limiter()]
        return f"The set adds {joined(parts)}."

    def _free_choice(self) -> Iterator[str]:
        tied = [i for i, point in enumerate(self._sweep.points) if point.tied]
        if len(tied) > 1:
            yield f"that {joined([self._facts.value(i) for i in tied])} serve equally"

    def _costly_choice(self) -> Iterator[str]:
        last, ratio = len(self._facts.points) - 1, self._facts.worth()
        inner = [i for run in self._facts.slow_runs() if run[0] > 0 and run[-1] < last for i in run]
        if self._facts.is_number and inner:
            verb = "are" if len(inner) > 1 else "is"
            values = joined([self._facts.value(i) for i in inner])
            yield f"that {values} in between {verb} slower, against the trend"
        slow = self._facts.value(self._facts.slowest)
        if self._sweep.kind == "size":
            yield f"that a unit of work costs {ratio.value:.2f}x as much at {slow}"
        elif self._sweep.kind == "version":
            yield f"that it takes {ratio.value:.2f}x with {slow} (what else changed is not told)"
        else:
            yield f"that the choice of {self._sweep.knob} is worth {ratio.value:.2f}x"

    def _other_limiter(self) -> Iterator[str]:
        """What a profile of the slow part would not say, or the best would not."""
        if not self._facts.is_number:
            if self._sweep.changes:
                yield "that a remedy for the one is none for the other"
            return
        if self._sweep.kind == "size":
            return
        slow = [i for run in self._facts.slow_runs() for i in run]
        starved = [self._facts.value(i) for i in slow if self._facts.judgement(i).starved]
        if starved:
            yield f"that at {joined(starved)} what is in flight is the limit, not a unit"
        elif self._sweep.changes:
            change = self._sweep.changes[0]
            known = self._facts.values()
            yield f"that up to {known[change.after]} another limit holds, {spoken(change.was)}"
