"""What changed from one side to the other, pair by pair and in total."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from keet.analysis.ledger import Book
from keet.comparison.account import Account, Change, Part
from keet.comparison.attribution import Attribution, attribute
from keet.comparison.basis import choose_weighing, one_sided, pair_reasons, run_notes
from keet.comparison.causes import Outcome, outcome
from keet.comparison.comparability import compare_captures
from keet.comparison.pairing import How, Pairing, pair_groups
from keet.comparison.reasons import Reason, doubt_of
from keet.comparison.run_reasons import overlap, replay_differs
from keet.comparison.sides import Group, Run, Side, groups_of
from keet.comparison.time_evidence import Speedup, TimeEvidence
from keet.comparison.timing import Timing
from keet.comparison.weighing import Basis, NoTotal
from keet.comparison.whole_run import WholeRun
from keet.evidence import Evidence
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
_NOTHING = Outcome((), (), (), ())


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
    basis: Basis = "reports"
    launches: tuple[float | None, float | None] = (None, None)
    """What the times are of: see `Basis`; of `per_launch`, the launches of the reports."""
    counted: Change | None = None
    """Evidence of `launches`, where they are those of the runs."""

    @property
    def on_both(self) -> bool:
        """Nothing was gone or new: each side has it, in its report or in its run."""
        timing = self.timing
        both = timing.before is not None and timing.after is not None
        return both or bool(self.pairing.before and self.pairing.after)

    @property
    def kernel(self) -> str:
        return self.pairing.kernel

    @property
    def how(self) -> How:
        return self.pairing.how

    @property
    def evidence(self) -> Iterator[Evidence]:
        """Of its own sentences; the launches have more."""
        changes = [each for each in (self.time, self.counted) if each]
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
    basis: Basis = "reports"
    no_total: NoTotal | None = None
    chosen_only: bool = False
    """Of whole runs: the total is of launches that were chosen."""
    launches: Change | None = None
    """Launches of the runs; None: times are not of whole runs."""
    not_profiled: Change | None = None
    """Time of the kernels that no launch of either report stands for, in the runs."""

    @property
    def rows(self) -> int:
        """What the total is made of."""
        return len(self.pairs) + (self.not_profiled is not None)

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
        self._evidence = TimeEvidence(self._book)
        self._ledgers: list[Book] = [self._book]
        self._told: dict[int, LaunchExplanation] = {}
        """Launches that are looked into, by their identity."""

    def run(self, *, guess: bool) -> Difference:
        groups = [groups_of(side.first.launches) for side in self._sides]
        pairings = pair_groups(*groups, guess=guess)
        sure = pair_groups(*groups) if guess else pairings
        found = [pair_reasons(each, *self._sides) for each in pairings]
        self._weighing = choose_weighing(pairings, found, *self._sides)
        captures = self._weighing.applying(compare_captures(*self._sides))
        reasons = [*captures, *_unpaired(pairings), *_guessed(pairings, sure)]
        reasons += run_notes(self._weighing, pairings)
        doubt = doubt_of(reasons)
        timed = [
            (each, reason, self._weighing.timing(each, doubt + doubt_of(reason)))
            for each, told in zip(pairings, found, strict=True)
            for reason in [self._weighing.of_pair(each, told)]
        ]
        timings = [timing for *_, timing in timed]
        whole = _same_or(self._weighing.total(pairings, timings), captures)
        if whole.unmeasured:
            reasons.append(_NO_TIMES)
        lone = one_sided(self._weighing, pairings, timings, whole)
        if lone:
            reasons.append(lone)
            whole = whole._replace(doubt=whole.doubt + lone.doubt)
        looked_into = _longest([(each, timing) for each, _, timing in timed])
        self._explain([timed[number][0] for number in sorted(looked_into)])
        pairs = tuple(
            self._pair(number, each, reason, _same_or(timing, captures), deep=number in looked_into)
            for number, (each, reason, timing) in enumerate(timed)
        )
        return self._difference(tuple(reasons), pairs, whole)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self._before, self._after

    def _difference(
        self, reasons: tuple[Reason, ...], pairs: tuple[PairDifference, ...], whole: Timing
    ) -> Difference:
        name = "all kernels"
        time = self._evidence.times(name, whole, ())
        speedup = self._evidence.speedup(name, whole, time)
        noise = Quantity(100 * whole.noise, "%")
        said = self._book.derived("noise of the total", noise, "what chance may change")
        found = Difference(
            self._before,
            self._after,
            reasons,
            pairs,
            whole,
            time,
            speedup,
            said,
            (),
            self._weighing.basis,
            self._weighing.no_total,
        )
        if isinstance(self._weighing, WholeRun):
            found = self._of_runs(self._weighing, found)
        return found._replace(evidence=self._all_evidence())

    def _of_runs(self, runs: WholeRun, found: Difference) -> Difference:
        """With what is known of whole runs only."""
        launches = runs.all_launches([pair.pairing for pair in found.pairs])
        rest = runs.rest
        more = () if runs.chosen_only else overlap(runs, None, found.timing)
        return found._replace(
            reasons=(*found.reasons, *more),
            chosen_only=runs.chosen_only,
            launches=self._evidence.pair_of("all kernels", "launches", "launch", launches),
            not_profiled=self._evidence.times("kernels not profiled", rest, ()) if rest else None,
        )

    def _all_evidence(self) -> tuple[Evidence, ...]:
        evidence = [each for ledger in self._ledgers for each in ledger]
        return tuple(sorted(evidence, key=lambda each: int(each.id[1:])))

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
        runs = self._weighing if isinstance(self._weighing, WholeRun) else None
        time = self._evidence.times(name, timing, () if runs else durations)
        speedup = self._evidence.speedup(name, timing, time)
        before, after = (self._weighing.launches(which, pairing) for which in (0, 1))
        pair = PairDifference(
            pairing,
            timing,
            time,
            speedup,
            reasons,
            (),
            _NOTHING,
            parts,
            basis=self._weighing.basis,
            launches=(before, after),
        )
        if parts[0] and parts[1]:
            explains = not runs or not (timing.unmeasured or any(replay_differs(runs, parts)))
            pair = self._accounted(pair, name, explains=explains)
        return self._pair_of_runs(runs, pair, name) if runs else pair

    def _accounted(self, pair: PairDifference, name: str, *, explains: bool) -> PairDifference:
        """With what changed; `explains`: the replays show what happened in the runs."""
        parts = pair.parts
        in_run = self._weighing.basis == "run"
        account = Account(*parts, self._book, name, whole_run=in_run)
        told = attribute(account, pair.timing, pair.how) if explains else ()
        return pair._replace(
            attribution=tuple(told),
            outcome=outcome(account),
            limiters=(_limiter(parts[0]), _limiter(parts[1])),
        )

    def _pair_of_runs(self, runs: WholeRun, pair: PairDifference, name: str) -> PairDifference:
        known = [each for each in pair.launches if each is not None]
        launches = (
            self._evidence.pair_of(name, "launches", "launch", known) if len(known) == 2 else None
        )
        more = [*replay_differs(runs, pair.parts), *overlap(runs, pair.pairing, pair.timing)]
        return pair._replace(counted=launches, reasons=(*pair.reasons, *more))

    def _parts(self, pairing: Pairing) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        before, after = (
            tuple(
                self._part(which, pairing, *each)
                for each in zip(pairing.sides[which], pairing.typical[which], strict=True)
            )
            for which in (0, 1)
        )
        return before, after

    def _part(self, which: int, pairing: Pairing, group: Group, launch: Launch) -> Part:
        weight = self._weighing.part(which, pairing, group, launch)
        return Part(self._told[id(launch)], weight.time, weight.volume)

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
