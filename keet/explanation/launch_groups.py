"""Groups of launches with the same kernel and shape: their time, what their first finding would
save, which groups matter, and which launches of a large report are explained.

A view prints the kernels by time and a few launches. It needs the explanation of one launch per
kernel and shape, and a few more to compare it with. Explaining 10,000 launches takes a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from keet.analysis.archetype import is_debug_build
from keet.analysis.parameters import NOTABLE_PART, SAVED_PART, SEVERAL, SIMILAR, Parameter
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.finding import Forecast
from keet.explanation.explanation_types import LaunchExplanation
from keet.findings import findings
from keet.profile import Launch, RunPositions
from keet.profile.run_link import MAX_DECODED

LIKELY = 1
"""Position of the likely gain in a forecast."""
MOST_SHOWN = 3
"""Launches that are printed in full unless --all is given."""
SHOWN_TIME = Parameter(0.8, "share of the time that the shown launches should cover", "judgement")


class LaunchResult(NamedTuple):
    """The first finding of an explained launch. Small, because 100,000 of them are kept."""

    launch: Launch
    id: str
    """Of the first finding, or of the roofline that was reached; empty if there is neither."""
    label: str
    """The same in words."""
    without_code: bool
    """Whether its machine code was left out."""


class LaunchGroup:
    """Launches of one kernel with one grid and block."""

    def __init__(
        self,
        launches: Sequence[Launch],
        first: LaunchExplanation,
        members: Sequence[LaunchResult],
        positions: RunPositions | None = None,
    ) -> None:
        self.launches = tuple(launches)
        self.first = first
        """The representative of the group."""
        self.members = tuple(members)
        """The explained launches: all of them, except in views of large reports."""
        self._positions = positions
        """Positions in the run, if it is known."""

    @property
    def is_sample(self) -> bool:
        """Whether some of the launches are not explained."""
        return len(self.members) < len(self.launches)

    @cached_property
    def time_ns(self) -> float:
        """Total time: in the run if it is known (0 if the run has no such launch), else in the
        report."""
        if self._positions:
            return sum(self._positions.busy_ns(launch.id) for launch in self.launches)
        return self.report_ns

    @cached_property
    def report_ns(self) -> float:
        return sum(launch.rank_time for launch in self.launches)

    @cached_property
    def cycles(self) -> float:
        """Total GPU cycles of launches without a duration; 0 if they are not known."""
        return sum(launch.rank_cycles for launch in self.launches)

    @cached_property
    def durations(self) -> tuple[float, float]:
        """Nanoseconds of the shortest and the longest launch; zeros if the report has no
        durations."""
        times = [launch.rank_time for launch in self.launches]
        return min(times), max(times)

    @property
    def slowest(self) -> LaunchResult:
        return max(self.members, key=lambda each: each.launch.rank_time)

    @property
    def is_uneven(self) -> bool:
        """Whether durations differ much: launches of one shape may do different amounts of work."""
        shortest, longest = self.durations
        return longest > SIMILAR * shortest > 0

    @property
    def rank_text(self) -> str:
        """How long its representative takes."""
        if len(self.launches) == 2:
            return "the longer"
        own, times = self.first.launch.rank_time, [launch.rank_time for launch in self.launches]
        if own <= sorted(times)[len(times) // 2]:
            return "the median"
        return "the longest" if own == max(times) else "one of the longer"

    @property
    def stands_for(self) -> float:
        """How many launches of the run, or of the report, the group represents."""
        if self._positions is None:
            return len(self.launches)
        places = (self._positions.of(launch.id) for launch in self.launches)
        return sum(place.launches for place in places if place)

    @property
    def finding(self) -> Finding | None:
        return self.first.findings[0] if self.first.findings else None

    @property
    def is_only_possible(self) -> bool:
        """Whether the report does not show that the cause of the first finding is there."""
        return self.finding is not None and self.finding.cause_certainty == "possible"

    def saved_ns(self, bound: int, *, every: bool = False) -> float:
        """Time that the first finding would save, in nanoseconds; `bound`: 0, 1, 2 for low, likely,
        high. `every`: that all findings would save.

        0 if the replay differs from the run: the gain of the replay does not hold there. Short
        launches are merged into one, which remains. What launches may share is saved once, not by
        each of them.
        """
        finding, every_fixed = self.finding, self.first.all_fixed if every else None
        if finding is None or finding.has_open_gain or self.first.replay:
            return 0.0
        if not finding.forecast.is_known or (
            finding.variant in BETWEEN_LAUNCHES and not every_fixed
        ):
            return 0.0
        forecast = every_fixed or finding.forecast
        part: float = 1 - 1 / max(1.0, [*forecast][bound])
        if finding.does_more_work and self.stands_for:
            part *= 1 - 1 / max(1.0, self.stands_for)
        return self.time_ns * part

    def is_all(self, total_ns: float) -> bool:
        """Whether this group is the whole time, so that the gain of its first finding is that of
        the total."""
        finding = self.finding
        is_own = finding is not None and not finding.does_more_work and not finding.has_open_gain
        return is_own and self.time_ns == total_ns

    @cached_property
    def different(self) -> tuple[LaunchResult, ...]:
        """Members whose first finding differs from that of the representative, which tables show.
        Machine code changes findings, so only members that are explained as the representative is,
        with it or without it, are compared."""
        shown = answer_of(self.first)
        compared = [member for member in self.members if member.without_code == shown.without_code]
        if len(compared) < SEVERAL:
            return ()
        return tuple(each for each in compared if each.id != shown.id)


def answer_of(each: LaunchExplanation) -> LaunchResult:
    off = each.view.code_state == "off"
    return LaunchResult(each.launch, first_answer(each), answer_label(each), off)


def first_answer(each: LaunchExplanation) -> str:
    """Id of the first finding, or of the roofline that was reached; empty where there is none."""
    return each.findings[0].id if each.findings else each.verdict.healthy or ""


def answer_label(each: LaunchExplanation) -> str:
    """The first finding in words, or why there is none."""
    if is_debug_build(each.view):
        return "debug build"
    if each.verdict.not_judged and not each.launch.rank_time:
        return "not measured"
    if each.findings:
        return each.findings[0].label
    return findings()[each.verdict.healthy].label if each.verdict.healthy else "no finding"


def gain_of(
    groups: Sequence[LaunchGroup], total_ns: float, *, every: bool = False
) -> Forecast | None:
    """Times faster, if the first finding of each group were fixed and all else stayed; `every`: if
    all findings were."""
    saved = [sum(group.saved_ns(bound, every=every) for group in groups) for bound in range(3)]
    if not total_ns or not saved[LIKELY]:
        return None
    if not every and len(groups) == 1 and groups[0].is_all(total_ns):
        low, likely, high = groups[0].first.findings[0].forecast  # exactly that of the finding
    else:
        low, likely, high = (total_ns / max(total_ns - each, total_ns * 1e-3) for each in saved)
    return Forecast(low=low, likely=likely, high=high)


def notable_saving(saved: float, total: float) -> float:
    """0 if it is too small to move a kernel before those that take more time."""
    return saved if saved >= SAVED_PART * total else 0.0


def launches_that_matter(groups: Sequence[LaunchGroup]) -> tuple[LaunchExplanation, ...]:
    """Representatives of the groups that matter: the largest savings, then the longest times."""
    # Ranges of several kernels are not in the run table: their time in the report is used.
    in_run = any(group.time_ns for group in groups)
    took = {group: group.time_ns if in_run else group.report_ns for group in groups}
    total = sum(took.values())
    chosen = dict.fromkeys(groups[:1])  # they are sorted by savings
    for group in groups:
        if notable_saving(group.saved_ns(LIKELY), total):
            chosen[group] = None
    covered = sum(took[each] for each in chosen)
    for group in sorted(groups, key=lambda each: -took[each]):
        missing = covered < SHOWN_TIME * total
        if missing and took[group] >= NOTABLE_PART * total and group not in chosen:
            chosen[group] = None
            covered += took[group]
    most = set(list(chosen)[:MOST_SHOWN])
    return tuple(group.first for group in groups if group in most)


MOST_EXPLAINED = MAX_DECODED
"""Launches that a view explains at most. Smaller reports are explained completely."""
