"""Compares two sides: runs all steps and builds the `Difference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from keet.analysis.coverage import report_document
from keet.analysis.ledger import LaunchLedger, Ledger
from keet.comparison.causes.account_changes import account_changes
from keet.comparison.causes.attribution import attribute
from keet.comparison.causes.explained_pair import ExplainedPair, WeightedLaunch, longest_launch
from keet.comparison.causes.finding_changes import find_next_step, outcome
from keet.comparison.comparability import NO_TIMES, Caveat, compare_captures, doubt_of
from keet.comparison.numbers import LaunchTimes, NumberChange, Numbers
from keet.comparison.pairs import Pairing, pair_groups
from keet.comparison.result import Difference, PairDifference, TimeChange
from keet.comparison.same_kernel import Side, SideCapture, groups_of
from keet.comparison.sentences import name_keet_diff_options, pair_headline, with_sentences
from keet.comparison.timing.basis_choice import (
    choose_weighting,
    few_like_profiled,
    guessed_pair_caveats,
    mixed_launches_caveat,
    no_pair_caveat,
    one_sided_caveat,
    opposite_durations_caveat,
    pair_caveats,
    pair_overlap_caveat,
    replay_differs,
    replay_not_scaled,
    table_caveats,
    total_overlap_caveat,
)
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.weighting import RunWeighting
from keet.documents.diff import (
    ChangeVerdictDocument,
    ComparabilityDocument,
    LaunchCountsDocument,
    Measure,
    SideDocument,
)
from keet.documents.explain import GroundingDocument
from keet.documents.shared_types import DeviceDocument
from keet.evidence import Evidence
from keet.explanation.analyst import OnLaunch, explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.profile import Launch
from keet.units import Quantity

__all__ = ["Difference", "PairDifference", "compare", "compare_explanations"]

_MOST_EXPLAINED = 12
"""Pairs that are explained, the longest first; the others have times only."""
_FINDINGS = 5
_IDLE = 0.2
"""Share of idle time from which the length of the run is printed too."""
_MOST_UNPROFILED = 0.5
"""Share of the time in unprofiled kernels from which it is printed with the next step."""
_LATER = ComparabilityDocument(ok=False, notes=())
_NO_NUMBERS = GroundingDocument(numbers=0, verified=0, unchecked=[])
"""Until all texts are made: see `with_sentences`."""
_SIDES = ("before", "after")
"""Scopes of evidence ids."""

Explained = Callable[[Launch], LaunchExplanation | None]
"""Returns the explanation of a launch if it already exists."""


def compare(  # noqa: PLR0913 - options
    before: Side,
    after: Side,
    *,
    guess: bool = False,
    scope: str = "diff",
    explained: Explained = lambda _: None,
    on_launch: OnLaunch = lambda *_: None,
) -> Difference:
    """`guess`: also pair kernels by position alone; a note names them. `scope`: of the ids of
    evidence that is computed from both sides."""
    return _Comparer(before, after, scope, explained, on_launch).run(guess=guess)


def compare_explanations(
    before: Explanation, after: Explanation, *, scope: str = "diff", guess: bool = False
) -> Difference:
    """Compare explained reports; their evidence keeps its ids."""
    if before.report_scope == after.report_scope and before.profile is not after.profile:
        raise ValueError("evidence of two reports needs different ids: explain with report_scope")
    known = {id(each.launch): each for side in (before, after) for each in side.launches}
    sides = (Side((SideCapture(each.profile, each.asked),)) for each in (before, after))
    difference = compare(
        *sides, guess=guess, scope=scope, explained=lambda launch: known.get(id(launch))
    )
    return name_keet_diff_options(difference)


class _Comparer:
    def __init__(
        self, before: Side, after: Side, scope: str, explained: Explained, on_launch: OnLaunch
    ) -> None:
        self._sides = (before, after)
        self._explained = explained
        self._analyst = partial(explain, top=_FINDINGS, on_launch=on_launch)
        self._book = Ledger(scope)
        self._ledgers: list[LaunchLedger] = []
        self._explanations: dict[int, LaunchExplanation] = {}
        """Explanations of the analysed launches, by `id(launch)`."""

    def run(self, *, guess: bool) -> Difference:
        groups = [groups_of(side.first.launches) for side in self._sides]
        pairings = pair_groups(*groups, guess=guess)
        sure = pair_groups(*groups) if guess else pairings
        numbers = [Numbers(self._book, f"pair {n}") for n in range(len(pairings))]
        caveats_of_pairs = [
            pair_caveats(each, *self._sides, own)
            for each, own in zip(pairings, numbers, strict=True)
        ]
        self._weighting = choose_weighting(pairings, caveats_of_pairs, *self._sides)
        captures = self._weighting.applicable(compare_captures(*self._sides))
        caveats = [*captures, *no_pair_caveat(pairings), *guessed_pair_caveats(pairings, sure)]
        caveats += table_caveats(self._weighting, pairings)
        doubt = doubt_of(caveats)
        timed = [
            self._timed(each, own, doubt, captures, cited)
            for each, own, cited in zip(pairings, caveats_of_pairs, numbers, strict=True)
        ]
        timings = [timing for *_, timing in timed]
        whole = self._without_noise_if_same(self._weighting.total(pairings, timings), captures)
        if whole.unmeasured:
            caveats.append(NO_TIMES)
        if undecided := self._undecided_total_caveat(timed, whole):
            caveats.append(undecided)
            whole = whole._replace(undecided=True)
        lone = one_sided_caveat(self._weighting, pairings, timings, whole)
        if lone:
            caveats.append(lone)
            whole = whole._replace(doubt=whole.doubt + lone.doubt)
        explained_pairs = _longest([(each, timing) for each, _, timing in timed])
        self._explain([timed[number][0] for number in sorted(explained_pairs)])
        pairs = tuple(
            self._pair(number, each, caveat, timing, deep=number in explained_pairs)
            for number, (each, caveat, timing) in enumerate(timed)
        )
        return self._difference(tuple(caveats), pairs, whole)

    @property
    def _runs(self) -> RunWeighting | None:
        """None: the times are not those of whole runs."""
        return self._weighting if isinstance(self._weighting, RunWeighting) else None

    def _timed(
        self,
        pairing: Pairing,
        caveats: tuple[Caveat, ...],
        doubt: float,
        captures: Sequence[Caveat],
        numbers: Numbers,
    ) -> tuple[Pairing, tuple[Caveat, ...], Timing]:
        caveats = self._weighting.caveats_of_pair(pairing, caveats, numbers)
        timing = self._weighting.timing(pairing, doubt + doubt_of(caveats))
        timing, runs = self._without_noise_if_same(timing, captures), self._runs
        if runs is None or self._is_same(timing, captures):
            return pairing, caveats, timing
        both = (
            pair_overlap_caveat(runs, pairing, timing, numbers),
            mixed_launches_caveat(runs, pairing, of=pairing.kernel),
        )
        undecided = tuple(caveat for caveat in both if caveat)
        return pairing, (*caveats, *undecided), timing._replace(undecided=bool(undecided))

    def _undecided_total_caveat(
        self, timed: Sequence[tuple[Pairing, tuple[Caveat, ...], Timing]], whole: Timing
    ) -> Caveat | None:
        runs = self._runs
        if runs is None:
            return None
        overlapping = [(p, t) for p, reasons, t in timed if any(r.id == "overlap" for r in reasons)]
        counted = [pairing for pairing, *_ in timed if runs.counts(pairing)]
        mixed = mixed_launches_caveat(runs, *counted, of="the total")
        return total_overlap_caveat(runs, overlapping, whole) or mixed

    def _is_same(self, timing: Timing, captures: Sequence[Caveat]) -> bool:
        """A report is compared with itself, with equal run tables."""
        same = any(caveat.id == "same_file" for caveat in captures)
        same = same and (self._runs is None or self._runs.same_tables())
        return same and timing.before == timing.after

    def _without_noise_if_same(self, timing: Timing, captures: Sequence[Caveat]) -> Timing:
        """Without noise if a report is compared with itself."""
        if self._is_same(timing, captures):
            return timing._replace(noise=0.0, doubt=0.0)
        return timing

    def _difference(
        self, caveats: tuple[Caveat, ...], pairs: tuple[PairDifference, ...], whole: Timing
    ) -> Difference:
        numbers = Numbers(self._book, "all kernels")
        time = numbers.times(whole)
        speedup = numbers.speedup(whole, time)
        noise = Quantity(100 * whole.noise, "%")
        said = self._book.derived("noise of the total", noise, "what chance may change")
        difference = Difference(
            before=_side_document(self._sides[0]),
            after=_side_document(self._sides[1]),
            comparability=_LATER,
            verdict=self._verdict(whole),
            pairs=pairs,
            grounding=_NO_NUMBERS,
            evidence={},
            sides=self._sides,
            caveats=caveats,
            timing=whole,
            time=time,
            measured=speedup,
            noise=said,
            no_total=self._weighting.no_total,
            book=self._book,
        )
        if self._runs:
            difference = self._with_run_facts(self._runs, difference, numbers)
        whole_ns = None if difference.no_total or difference.run_unknown else whole.after or 0.0
        left = (each for pair in pairs for each in pair.weighted[1])
        of = self._runs.named if self._runs else "the total time"
        step = find_next_step(left, whole_ns, of, self._book)
        # Evidence that several launches share is in the ledger of each.
        evidence = {each.id: each for book in (*self._ledgers, self._book) for each in book}
        return with_sentences(replace(difference, next=step, evidence=evidence))

    def _verdict(self, timing: Timing) -> ChangeVerdictDocument:
        """Its headline follows: it is made from the whole result."""
        measure: Measure | None = None
        if self._runs:
            measure = "durations" if self._runs.by_durations else "busy"
        return ChangeVerdictDocument(
            word=timing.word,
            speedup=timing.speedup,
            noise=timing.noise,
            headline="",
            basis=self._weighting.basis,
            measure=measure,
            before=_microseconds(timing.before),
            after=_microseconds(timing.after),
        )

    def _with_run_facts(
        self, runs: RunWeighting, difference: Difference, numbers: Numbers
    ) -> Difference:
        """Adds what is known for whole runs only."""
        launches = runs.all_launches([pair.pairing for pair in difference.pairs])
        unprofiled = Numbers(self._book, "kernels not profiled")
        rest = unprofiled.times(runs.rest) if runs.rest else None
        caveats = difference.caveats
        if not (runs.chosen_only or runs.no_total):
            caveats = (*caveats, *opposite_durations_caveat(runs, difference.timing, numbers))
        return replace(
            difference,
            caveats=caveats,
            chosen_only=runs.chosen_only,
            launches=numbers.both("launches", "launch", launches),
            not_profiled=_time_change(rest) if rest else None,
            shared=any((runs.concurrency(which, None) or 1.0) > 1 for which in (0, 1)),
            span=_span(runs, numbers),
            unprofiled_share=_unprofiled_share(rest, difference.time, numbers),
        )

    def _pair(
        self,
        number: int,
        pairing: Pairing,
        caveats: tuple[Caveat, ...],
        timing: Timing,
        *,
        deep: bool,
    ) -> PairDifference:
        numbers = Numbers(self._book, f"pair {number}")
        weighted = self._weighted_launches(pairing) if deep else ((), ())
        durations = [each.duration for side in weighted for each in side if each.duration]
        time = numbers.times(timing, () if self._runs else durations)
        before, after = (_count(self._weighting.launches(which, pairing)) for which in (0, 1))
        pair = PairDifference(
            before=sorted(launch.id for launch in pairing.launches(0)),
            after=sorted(launch.id for launch in pairing.launches(1)),
            kernel=pairing.kernel,
            how=pairing.how,
            verdict=self._verdict(timing),
            speedup=timing.speedup,
            launches=LaunchCountsDocument(before=before, after=after),
            limiter=None,
            fixed=[],
            new=[],
            remaining=[],
            unknown=[],
            pairing=pairing,
            timing=timing,
            time=time,
            measured=numbers.speedup(timing, time),
            caveats=caveats,
            weighted=weighted,
        )
        if self._runs:
            pair = self._pair_of_runs(self._runs, pair, numbers)
        elif all(weighted):
            # The time that ncu adds to a short launch is not time of units or warps.
            short = any(caveat.id == "short_launches" for caveat in caveats)
            pair = self._accounted(pair, numbers, splits=not short)
        return replace(pair, verdict=replace(pair.verdict, headline=pair_headline(pair)))

    def _accounted(
        self, pair: PairDifference, numbers: Numbers, *, explains: bool = True, splits: bool = True
    ) -> PairDifference:
        """Adds attribution, account and outcome. `explains`: the replays show what happened in the
        runs; `splits`: the split of the time under replay also applies to the runs."""
        weighted, timing = pair.weighted, pair.timing
        of_run = self._weighting.basis == "run"
        launches = self._launch_times(pair, numbers)
        sides = ExplainedPair(*weighted, *numbers, whole_run=of_run, launches=launches)
        changed = timing.word in ("faster", "slower")
        split = explains and splits
        account = account_changes(sides, timing, changed=changed) if split else ()
        attribution = attribute(sides, timing, pair.how, account, splits=splits) if explains else ()
        became = outcome(sides)
        return replace(
            pair,
            attribution=tuple(attribution),
            account=account,
            limiter=[
                longest_launch(each).explanation.verdict.limiter or "unknown" for each in weighted
            ],
            fixed=became["fixed"],
            new=became["new"],
            remaining=became["remaining"],
            unknown=became["unknown"],
        )

    def _launch_times(self, pair: PairDifference, numbers: Numbers) -> LaunchTimes | None:
        """None if one launch is compared with one launch."""
        runs = self._runs
        times = runs.durations(pair.pairing) if runs else (pair.timing.before, pair.timing.after)
        known = [n for n in (pair.launches.before, pair.launches.after) if n]
        if len(known) < 2 or None in times or self._weighting.basis == "per_launch":
            return None
        if not runs and known[0] == known[1]:
            return None
        each = [(ns or 0.0) / n for ns, n in zip(times, known, strict=True)]
        return LaunchTimes(
            numbers.both("launches", "launch", known), numbers.both("time of a launch", "ns", each)
        )

    def _pair_of_runs(
        self, runs: RunWeighting, pair: PairDifference, numbers: Numbers
    ) -> PairDifference:
        of = (runs, pair.pairing, numbers)
        gaps = [*replay_differs(*of), *few_like_profiled(*of)]
        unknown = pair.timing.unmeasured or pair.timing.undecided
        unscaled = [] if gaps or unknown else list(replay_not_scaled(*of))
        if all(pair.weighted):
            explains = not (gaps or unknown)
            pair = self._accounted(pair, numbers, explains=explains, splits=not unscaled)
        counts = (pair.launches.before, pair.launches.after)
        known = [count for count in counts if count is not None]
        launches = numbers.both("launches", "launch", known) if len(known) == 2 else None
        return replace(
            pair,
            counted=launches,
            caveats=(*pair.caveats, *gaps, *unscaled),
            known_time=numbers.one_side(pair.timing) if pair.timing.unmeasured else None,
        )

    def _weighted_launches(
        self, pairing: Pairing
    ) -> tuple[tuple[WeightedLaunch, ...], tuple[WeightedLaunch, ...]]:
        sides: tuple[list[WeightedLaunch], list[WeightedLaunch]] = [], []
        for which, side in enumerate(sides):
            for group, launch in zip(pairing.sides[which], pairing.typical[which], strict=True):
                weight = self._weighting.launch_weight(which, pairing, group, launch)
                runs = self._runs
                doubt = runs.doubt(which, pairing, launch, weight.alike) if runs else None
                side.append(WeightedLaunch(self._explanations[id(launch)], *weight, doubt))
        return tuple(sides[0]), tuple(sides[1])

    def _explain(self, pairings: Sequence[Pairing]) -> None:
        """Explain all launches of a side at once: what its report lacks is looked up once."""
        for which, side in enumerate(self._sides):
            launches = [launch for pairing in pairings for launch in pairing.typical[which]]
            unknown = [launch for launch in launches if self._explained(launch) is None]
            fresh = self._analyst(side.first.profile, unknown, report_scope=_SIDES[which])
            self._explanations |= {id(each.launch): each for each in fresh.launches}
            for launch in launches:
                explanation = self._explained(launch) or self._explanations[id(launch)]
                self._explanations[id(launch)] = explanation
                self._ledgers.append(explanation.view.ledger)


def _longest(timed: Sequence[tuple[Pairing, Timing]]) -> set[int]:
    """Indices of the longest pairs; ties are broken by name, independent of the side."""

    def rank(number: int) -> tuple[float, list[str]]:
        pairing, timing = timed[number]
        names = sorted(group.key.name for group in (*pairing.before, *pairing.after))
        return -((timing.before or 0) + (timing.after or 0)), names

    return set(sorted(range(len(timed)), key=rank)[:_MOST_EXPLAINED])


def _span(runs: RunWeighting, numbers: Numbers) -> TimeChange | None:
    spans = runs.spans()
    if spans is None or runs.chosen_only or max(runs.idle(0), runs.idle(1)) <= _IDLE:
        return None
    what = "from the first to the last kernel"
    time = numbers.both(what, "ns", spans)
    return _time_change(time, numbers.longer(what, time))


def _unprofiled_share(
    rest: NumberChange | None, time: NumberChange | None, numbers: Numbers
) -> Evidence | None:
    if rest is None or time is None or rest.after.value <= _MOST_UNPROFILED * time.after.value:
        return None
    what = "share of the kernels that were not profiled after"
    return numbers.share(what, rest.after, time.after)


def _side_document(side: Side) -> SideDocument:
    first, *others = (report_document(run.profile) for run in side.captures)
    return SideDocument(
        **vars(first),
        devices=[DeviceDocument.taken_from(device) for device in side.first.profile.devices],
        further_runs=others,
        times=side.scale,
    )


def _microseconds(ns: float | None) -> Quantity | None:
    return None if ns is None else Quantity(ns, "ns").to("us")


def _time_change(time: NumberChange, factor: Evidence | None = None) -> TimeChange:
    before, after = (Quantity(each.value, each.unit).to("us") for each in time.evidence)
    return TimeChange(before=before, after=after, time=time, factor=factor)


def _count(launches: float | None) -> float | None:
    return int(launches) if launches is not None and launches == int(launches) else launches
