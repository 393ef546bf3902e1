"""Launches of one kernel and shape: what they take, what their first finding would save, which of
them matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from keet.analysis.findings import Finding, Forecast
from keet.catalog import findings
from keet.explanation.analyst import LaunchExplanation
from keet.profile.identical import representative

MOST_SHOWN = 3
"""Launches that are explained in full unless all are asked for."""
_MOST_OF_IT = 0.8
"""Of the time: launches that together take so much are shown."""
_NOTABLE_TIME = 0.1
"""Of the time: launches that take less are not shown for that."""
_NOTABLE_SAVING = 0.05
"""Of the time: launches that would save less are not shown for that."""
_LEAST_COMPARED = 3
"""Launches without machine code that are needed to tell the usual answer from another."""
_SPREAD = 1.2
"""Longest launch over shortest from which they are not called alike."""


class Group:
    """Explained launches of one kernel with one grid and block."""

    def __init__(self, members: Sequence[LaunchExplanation], *, in_run: bool) -> None:
        self.members = tuple(members)
        median_one = representative([each.launch for each in members])
        self.first = next(each for each in members if each.launch is median_one)
        """The launch that stands for all of them."""
        self._in_run = in_run

    @cached_property
    def time_ns(self) -> float:
        """What they take; in the run where that is known, and 0 where it does not have them."""
        if self._in_run:
            return sum(float(e.in_run.busy.value) for e in self.members if e.in_run)
        return self.report_ns

    @property
    def report_ns(self) -> float:
        return sum(each.launch.rank_time for each in self.members)

    @property
    def durations(self) -> tuple[float, float]:
        """Nanoseconds of the shortest and the longest; zeros where the report has none."""
        times = [each.launch.rank_time for each in self.members]
        return min(times), max(times)

    @property
    def slowest(self) -> LaunchExplanation:
        return max(self.members, key=lambda each: each.launch.rank_time)

    @property
    def is_uneven(self) -> bool:
        """Launches of one shape may differ in their work: it is said where they do in time."""
        shortest, longest = self.durations
        return longest > _SPREAD * shortest > 0

    @property
    def launches(self) -> float:
        """How many they stand for."""
        if self._in_run:
            return sum(float(e.in_run.launches.value) for e in self.members if e.in_run)
        return len(self.members)

    @property
    def finding(self) -> Finding | None:
        return self.first.findings[0] if self.first.findings else None

    def saved_ns(self, bound: int) -> float:
        """Time that the first finding would save; `bound`: 0, 1, 2 for low, likely, high.

        Of a launch that is too short to matter, the remedy is to merge it with others: one of them
        stays. What a replay would gain says nothing of the run.
        """
        found = self.finding
        if found is None or self.first.replay or not all(map(math.isfinite, found.forecast)):
            return 0.0
        part = 1 - 1 / max(1.0, found.forecast[bound])
        if found.id == "launch_bound" and self.launches:
            part *= 1 - 1 / max(1.0, self.launches)
        return self.time_ns * part

    def is_all(self, total_ns: float) -> bool:
        """Whether the gain of its first finding is that of a total: all of it is this group."""
        found = self.finding
        return found is not None and found.id != "launch_bound" and self.time_ns == total_ns

    @cached_property
    def different(self) -> tuple[LaunchExplanation, ...]:
        """Members with another first answer than most. Machine code changes answers, so only those
        that were explained without it are compared."""
        compared = [each for each in self.members if each.view.code_state == "off"]
        compared = compared or list(self.members)
        if len(compared) < _LEAST_COMPARED:
            return ()
        usual = Counter(map(first_answer, compared)).most_common(1)[0][0]
        return tuple(each for each in compared if first_answer(each) != usual)


def first_answer(each: LaunchExplanation) -> str:
    """Id of the first finding, or of the roofline that was reached; empty where there is none."""
    return each.findings[0].id if each.findings else each.verdict.healthy or ""


def answer_label(each: LaunchExplanation) -> str:
    """The first answer in words."""
    if each.findings:
        return each.findings[0].label
    return findings()[each.verdict.healthy].label if each.verdict.healthy else "no finding"


def gain_of(groups: Sequence[Group], total_ns: float) -> Forecast | None:
    """Times faster, if the first finding of each group were fixed and all else stayed."""
    saved = [sum(group.saved_ns(bound) for group in groups) for bound in range(3)]
    if not total_ns or not saved[1]:
        return None
    if len(groups) == 1 and groups[0].is_all(total_ns):
        return groups[0].first.findings[0].forecast  # what the finding says, to the last digit
    return Forecast(*(total_ns / max(total_ns - each, total_ns * 1e-3) for each in saved))


def launches_that_matter(groups: Sequence[Group]) -> tuple[LaunchExplanation, ...]:
    """The launches that matter: what could save most, then what takes most."""
    # Ranges of several kernels are not in the table of a run: their own time has to do.
    in_run = any(group.time_ns for group in groups)
    took = {group: group.time_ns if in_run else group.report_ns for group in groups}
    total = sum(took.values())
    chosen = list(groups[:1])
    for group in sorted(groups, key=lambda each: -each.saved_ns(1)):
        if group.saved_ns(1) >= _NOTABLE_SAVING * total > 0 and group not in chosen:
            chosen.append(group)
    for group in groups:
        missing = sum(took[each] for each in chosen) < _MOST_OF_IT * total
        if missing and took[group] >= _NOTABLE_TIME * total and group not in chosen:
            chosen.append(group)
    chosen = chosen[:MOST_SHOWN]
    return tuple(group.first for group in groups if group in chosen)
