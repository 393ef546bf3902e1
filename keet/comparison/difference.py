"""What changed from one side to the other, pair by pair and in total."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from keet.analysis.ledger import Book
from keet.comparison.account import Account, Change, Part
from keet.comparison.attribution import Attribution, attribute
from keet.comparison.causes import Outcome, outcome
from keet.comparison.comparability import (
    Reason,
    all_captured,
    compare_captures,
    compare_launches,
    doubt_of,
)
from keet.comparison.pairing import How, Pairing, pair_groups
from keet.comparison.sides import Group, Run, Side, duration_of, groups_of
from keet.comparison.timing import Timing, time_pair, total
from keet.evidence import MEASURED_SPEEDUPS, Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation, explain
from keet.profile import Launch
from keet.units import Quantity

_LOOKED_INTO = 12
"""Pairs that are explained, those with most time; the others have their times."""
_FINDINGS = 5
_NO_TIMES = Reason(
    "no_times",
    "forbids",
    "a launch has no duration: profile it with: ncu --section SpeedOfLight, or "
    "--metrics gpu__time_duration.sum",
)
_ABOUT_TIMES = ("work_per_launch", "launch_counts")
_NOTHING = Outcome((), (), (), ())


class Speedup(NamedTuple):
    """Time before over time after, and the factor as people say it: never below 1."""

    ratio: Evidence
    factor: Evidence


class PairDifference(NamedTuple):
    """Kernels that do the same work, before and after."""

    pairing: Pairing
    timing: Timing
    time: Change | None
    """Evidence of the times of both sides, all launches together."""
    speedup: Speedup | None
    reasons: tuple[Reason, ...]
    attribution: tuple[Attribution, ...]
    outcome: Outcome
    parts: tuple[tuple[Part, ...], tuple[Part, ...]] = ((), ())
    """The launches of both sides that were looked into."""
    limiters: tuple[str, str] | None = None

    @property
    def kernel(self) -> str:
        return self.pairing.kernel

    @property
    def how(self) -> How:
        return self.pairing.how

    @property
    def evidence(self) -> Iterator[Evidence]:
        """Of its own sentences; the launches have more."""
        changes = [self.time] if self.time else []
        yield from (piece for change in changes for piece in (change.before, change.after))
        yield from self.speedup or ()
        for each in self.attribution:
            yield from each.evidence
            if each.share:
                yield each.share


class Difference(NamedTuple):
    """Everything that is said of two sides."""

    before: Side
    after: Side
    reasons: tuple[Reason, ...]
    pairs: tuple[PairDifference, ...]
    timing: Timing
    time: Change | None
    speedup: Speedup | None
    noise: Evidence
    evidence: tuple[Evidence, ...]

    @property
    def forbidden(self) -> tuple[Reason, ...]:
        """Why the two can't be compared, where they can't."""
        return tuple(reason for reason in self.all_reasons if reason.severity == "forbids")

    @property
    def all_reasons(self) -> tuple[Reason, ...]:
        return (*self.reasons, *(r for pair in self.pairs for r in pair.reasons))

    @property
    def worst(self) -> tuple[PairDifference, ...]:
        """Pairs that got slower, the costliest first."""
        slower = [pair for pair in self.pairs if pair.timing.word == "slower"]
        return tuple(sorted(slower, key=lambda pair: pair.timing.saved))


Explained = Callable[[Launch], LaunchExplanation | None]
"""An explanation that is there already, of a launch."""


def compare(
    before: Side,
    after: Side,
    *,
    guess: bool = False,
    numbers: Iterator[int] | None = None,
    explained: Explained = lambda _: None,
) -> Difference:
    """`guess`: pair what is alone in its place, even where nothing else speaks for it; what was
    paired so is told."""
    comparer = _Comparer(before, after, numbers or count(1), explained)
    return comparer.run(guess=guess)


def compare_explanations(
    before: Explanation,
    after: Explanation,
    numbers: Iterator[int] | None = None,
    *,
    guess: bool = False,
) -> Difference:
    """Of reports that are explained already: their evidence keeps its ids."""
    known = {id(each.launch): each for told in (before, after) for each in told.launches}
    sides = (
        Side((Run(told.profile, tuple(each.launch for each in told.launches)),))
        for told in (before, after)
    )
    return compare(
        *sides, guess=guess, numbers=numbers, explained=lambda launch: known.get(id(launch))
    )


class _Comparer:
    def __init__(
        self, before: Side, after: Side, numbers: Iterator[int], explained: Explained
    ) -> None:
        self._before, self._after = before, after
        self._numbers = numbers
        self._explained = explained
        self._book = Book(numbers)
        self._ledgers: list[Book] = [self._book]
        self._told: dict[int, LaunchExplanation] = {}
        """Launches that are looked into, by their identity."""

    def run(self, *, guess: bool) -> Difference:
        captures = compare_captures(self._before, self._after)
        groups = [groups_of(side.first.launches) for side in self._sides]
        pairings = pair_groups(*groups, guess=guess)
        sure = pair_groups(*groups) if guess else pairings
        reasons = [*captures, *_unpaired(pairings), *_guessed(pairings, sure)]
        doubt = doubt_of(captures)
        timed = [
            (each, found, time_pair(each, *self._sides, doubt + doubt_of(found)))
            for each in pairings
            for found in [self._reasons(each)]
        ]
        whole = _same_or(total([timing for *_, timing in timed]), captures)
        if whole.unmeasured:
            reasons.append(_NO_TIMES)
        lone = self._lone([(each, timing) for each, _, timing in timed], whole)
        if lone:
            reasons.append(lone)
            whole = whole._replace(doubt=whole.doubt + lone.doubt)
        looked_into = _longest([(each, timing) for each, _, timing in timed])
        self._explain([timed[number][0] for number in sorted(looked_into)])
        pairs = tuple(
            self._pair(number, each, found, _same_or(timing, captures), deep=number in looked_into)
            for number, (each, found, timing) in enumerate(timed)
        )
        return self._difference(tuple(reasons), pairs, whole)

    def _lone(self, timed: Sequence[tuple[Pairing, Timing]], whole: Timing) -> Reason | None:
        """Kernels of one side count in the total, unless they may just not have been captured."""
        lone = [each for each, _ in timed if not (each.before and each.after)]
        paired = total([timing for each, timing in timed if each.before and each.after])
        if not lone or paired.speedup is None or whole.speedup is None:
            return None
        names = ", ".join(
            f"{each.kernel} (only {'before' if each.before else 'after'})" for each in lone[:3]
        )
        more = f" and {len(lone) - 3} more" if len(lone) > 3 else ""
        if all(all_captured(side.first.profile) for side in self._sides):
            return Reason("one_sided", "note", f"{names}{more}: the total counts that")
        text = f"{names}{more}: gone or new, or just not captured on the other side"
        doubt = abs(math.log(whole.speedup / paired.speedup))
        return Reason("one_sided", "weakens", text, doubt)

    def _reasons(self, pairing: Pairing) -> tuple[Reason, ...]:
        found = compare_launches(pairing, *(side.first.profile for side in self._sides))
        if self._before.times == self._after.times == 1:
            return found
        # Who says how often each is launched has answered that question.
        return tuple(reason for reason in found if reason.id not in _ABOUT_TIMES)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self._before, self._after

    def _difference(
        self, reasons: tuple[Reason, ...], pairs: tuple[PairDifference, ...], whole: Timing
    ) -> Difference:
        time = self._times("all kernels", whole, ())
        speedup = self._speedup("all kernels", whole, time)
        noise = Quantity(100 * whole.noise, "%")
        said = self._book.derived("noise of the total", noise, "what chance may change")
        evidence = [each for ledger in self._ledgers for each in ledger]
        evidence.sort(key=lambda each: int(each.id[1:]))
        return Difference(
            self._before, self._after, reasons, pairs, whole, time, speedup, said, tuple(evidence)
        )

    def _pair(
        self,
        number: int,
        pairing: Pairing,
        reasons: tuple[Reason, ...],
        timing: Timing,
        *,
        deep: bool,
    ) -> PairDifference:
        name = f"pair {number}"
        parts = self._parts(pairing) if deep else ((), ())
        durations = [p.duration for side in parts for p in side if p.duration]
        time = self._times(name, timing, durations)
        speedup = self._speedup(name, timing, time)
        if not (parts[0] and parts[1]):
            return PairDifference(pairing, timing, time, speedup, reasons, (), _NOTHING, parts)
        account = Account(*parts, self._book, name)
        return PairDifference(
            pairing,
            timing,
            time,
            speedup,
            reasons,
            tuple(attribute(account, timing, pairing.how)),
            outcome(account),
            parts,
            (_limiter(parts[0]), _limiter(parts[1])),
        )

    def _parts(self, pairing: Pairing) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        every = zip(self._sides, (pairing.before, pairing.after), pairing.typical, strict=True)
        before, after = (
            tuple(self._part(side, *each) for each in zip(groups, typical, strict=True))
            for side, groups, typical in every
        )
        return before, after

    def _explain(self, pairings: Sequence[Pairing]) -> None:
        """A side at once: what its report lacks is looked up a single time."""
        for which, side in enumerate(self._sides):
            launches = [launch for pairing in pairings for launch in pairing.typical[which]]
            unknown = [launch for launch in launches if self._explained(launch) is None]
            fresh = explain(side.first.profile, unknown, _FINDINGS, self._numbers).launches
            self._told |= {id(told.launch): told for told in fresh}
            for launch in launches:
                told = self._explained(launch) or self._told[id(launch)]
                self._told[id(launch)] = told
                self._ledgers.append(told.view.ledger)

    def _part(self, side: Side, group: Group, launch: Launch) -> Part:
        told = self._told[id(launch)]
        own, times = duration_of(launch), group.times
        weight = side.times * (sum(times) / own if own and times else len(group.launches))
        return Part(told, weight)

    # --- evidence of times

    def _times(self, name: str, timing: Timing, durations: Sequence[Evidence]) -> Change | None:
        if timing.unmeasured or (timing.before is None and timing.after is None):
            return None
        sides = [
            self._book.derived(
                f"{name}: time {word}", Quantity(ns or 0.0, "ns"), f"time {word}", *durations
            )
            for word, ns in (("before", timing.before), ("after", timing.after))
        ]
        return Change("time", *sides)

    def _speedup(self, name: str, timing: Timing, time: Change | None) -> Speedup | None:
        if timing.speedup is None or time is None:
            return None
        label, backwards = MEASURED_SPEEDUPS
        ratio = self._factor(f"{name}: speedup", label, time, 1)
        if timing.speedup >= 1:
            return Speedup(ratio, ratio)
        slowdown = self._factor(f"{name}: slowdown", backwards, time, -1)
        return Speedup(ratio, slowdown)

    def _factor(self, name: str, label: str, time: Change, power: int) -> Evidence:
        ratio = (float(time.before.value) / float(time.after.value)) ** power
        return self._book.derived(name, Quantity(ratio, "x"), label, time.before, time.after)


def _unpaired(pairings: Sequence[Pairing]) -> Iterator[Reason]:
    if not any(each.before and each.after for each in pairings):
        text = (
            "no kernel is on both sides, by name, source or place; name two launches of one "
            "report with --launch A:B, or go on with --force"
        )
        yield Reason("no_pair", "forbids", text)


def _guessed(pairings: Sequence[Pairing], sure: Sequence[Pairing]) -> Iterator[Reason]:
    for each in pairings:
        if each not in sure and each.before and each.after:
            text = f"{each.kernel}: nothing but its place says that these are the same kernel"
            yield Reason("guessed", "note", text)


def _same_or(timing: Timing, captures: Sequence[Reason]) -> Timing:
    """One report against itself has no noise."""
    same = any(reason.id == "same_file" for reason in captures)
    if same and timing.before == timing.after:
        return timing._replace(noise=0.0, doubt=0.0)
    return timing


def _longest(timed: Sequence[tuple[Pairing, Timing]]) -> set[int]:
    """By time, then by names that do not depend on which side comes first."""

    def rank(number: int) -> tuple[float, list[str]]:
        pairing, timing = timed[number]
        names = sorted(group.key.name for group in (*pairing.before, *pairing.after))
        return -((timing.before or 0) + (timing.after or 0)), names

    return set(sorted(range(len(timed)), key=rank)[:_LOOKED_INTO])


def _limiter(parts: Sequence[Part]) -> str:
    """Of the kernel that takes longest."""
    longest = max(parts, key=lambda part: part.weight * part.told.launch.rank_time)
    return longest.told.verdict.limiter
