"""How often each launch of a report counts, and whether there is a total.

- `reports` (`Weighting`): each launch counts as often as the reports have it, or as `--times` says.
- `per_launch` (`PerLaunchWeighting`): it is not known how often the program launches each kernel,
  and something suggests that this changed. Kernels are compared per launch; there is no total.
- `run` (`RunWeighting`): run tables say how many launches each profiled launch represents. Each
  launch of a run is represented by one profiled launch or by none. So the times of the pairs and of
  the kernels that were not profiled add up to the busy time of the run.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.analysis.replay_gap import REPLAY_DIFFERS, ReplayGap, both_times, replay_gap
from keet.comparison.comparability import (
    BEFORE_TABLE,
    COUNTS,
    OTHER_WORK,
    Caveat,
    listed,
    log_growth,
    note,
    weakens,
    work_of_many_caveat,
)
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import Pairing
from keet.comparison.same_kernel import (
    KernelGroup,
    LaunchKey,
    Side,
    SideCapture,
    duration_of,
    key_of,
)
from keet.comparison.timing.pair_timing import (
    Timing,
    Weights,
    measured_runs,
    time_pair,
    time_runs,
    total_timing,
)
from keet.documents.diff import Basis
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.profile.run_link import KernelNames
from keet.profile.run_table import KernelRun, Position, Recorder, RunPositions

_ADDED_NS = 1200.0
"""Added by ncu for starting and ending a launch: 0.4 to 1.4 us were measured on an H200 against
CUPTI (docs/profiling.md), 1.2 us for a kernel of 1.2 us."""
_SHORT_NS = 10_000.0
"""Below this duration, ncu adds more than a tenth."""


def short_launches(pairing: Pairing, weights: Weights, numbers: Numbers) -> Caveat | None:
    """`weights`: of the groups of each side. If the times cover as many launches on both sides, ncu
    adds the same to both, which does not change the sign."""
    before, after = map(_launch_count, pairing.sides, weights)
    one, other = map(_one_launch, pairing.sides, weights)
    if one is None or other is None or math.isclose(before, after) or min(one, other) >= _SHORT_NS:
        return None
    doubt = abs(_added(one) - _added(other))
    word, shortest, wrong = ("before", one, "high") if one < other else ("after", other, "low")
    text = Sentence(
        "{kernel}: ncu adds about {added} to each launch, which takes {shortest} {word} including "
        "that: the speed-up may be {factor:.1f}x too {wrong}",
        kernel=pairing.kernel,
        added=constant(_ADDED_NS, "ns", "time that ncu adds to a launch"),
        shortest=numbers(f"average launch under ncu {word}", shortest, "ns"),
        word=word,
        factor=numbers("speed-up error from what ncu adds", math.exp(doubt), ""),
        wrong=wrong,
    )
    return weakens("short_launches", text, doubt)


def _launch_count(groups: Sequence[KernelGroup], weights: Sequence[float]) -> float:
    """Launches that the time of a side covers."""
    return sum(w * len(group.launches) for w, group in zip(weights, groups, strict=True))


def _one_launch(groups: Sequence[KernelGroup], weights: Sequence[float]) -> float | None:
    """Average time under ncu of the launches that the time of a side covers; None if a launch has
    none."""
    times = [group.times for group in groups]
    known = [w * sum(each) for w, each in zip(weights, times, strict=True) if each]
    return sum(known) / _launch_count(groups, weights) if known and all(times) else None


def _added(ns: float) -> float:
    """The logarithm of the measured time over the time without what ncu adds."""
    return -math.log1p(-min(_ADDED_NS / ns, 0.5))


_SIZE_CHANGED = ("work_per_launch", "launch_size", "launch_work", "problem_size")
_ABOUT_TIMES = ("work_per_launch", "launch_counts")

RunDoubt = Literal["replay", "unlike", "mixed"]
"""Why a launch does not show what its kernel would save in the run. `replay`: its replay took much
longer or shorter than in the run; `unlike`: most time is in launches of other lengths; `mixed`: the
run table does not distinguish its launches from others."""


class LaunchWeight(NamedTuple):
    """How many launches an analysed launch represents."""

    time: float
    """Time of its kernel over the time of this launch under replay."""
    volume: float | None
    """Work of its kernel over the work of this launch; None: not known."""
    alike: float | None = None
    """See `WeightedLaunch.alike`."""


class NoTotal(NamedTuple):
    """Why there is no total."""

    cause: str
    """`the number of launches changed`"""
    kernels: tuple[str, ...]
    why: str = "the reports do not contain all launches"
    remedy: Sentence = Sentence(
        "profile both with keet profile, which records the whole run, add the run tables of both "
        "with {before} FILE --run-table FILE, or give the launch counts with {counts}",
        before=BEFORE_TABLE,
        counts=COUNTS,
    )
    gated: str = "kernels are gated per launch"
    """What is gated instead of the total."""

    @property
    def caveat(self) -> Caveat:
        text = Sentence("{cause}: {kernels}", cause=self.cause, kernels=listed(self.kernels))
        return note("no_total", text)


class Weighting:
    """Each launch counts as often as the reports have it."""

    basis: Basis = "reports"
    no_total: NoTotal | None = None

    def __init__(self, before: Side, after: Side) -> None:
        self.sides = (before, after)

    def applicable(self, caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
        """The caveats that apply to this weighting, with their effect on it."""
        known = [r.as_note if r.id == "work_per_launch" else r for r in caveats]
        if self.sides[0].scale == self.sides[1].scale == 1:
            return tuple(known)
        # `--times` says how often each is launched.
        return tuple(caveat for caveat in known if caveat.id not in _ABOUT_TIMES)

    def caveats_of_pair(
        self, pairing: Pairing, caveats: Sequence[Caveat], numbers: Numbers
    ) -> tuple[Caveat, ...]:
        applicable = self.applicable(caveats)
        more = short_launches(pairing, self._weights(pairing), numbers)
        return (*applicable, more) if more else applicable

    def timing(self, pairing: Pairing, doubt: float) -> Timing:
        return time_pair(pairing, *self.sides, doubt, self._weights(pairing))

    def _weights(self, pairing: Pairing) -> Weights:
        one, other = (
            [float(side.scale)] * len(groups)
            for side, groups in zip(self.sides, pairing.sides, strict=True)
        )
        return one, other

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        del pairings
        return total_timing(timings)

    def launch_weight(
        self, which: int, pairing: Pairing, group: KernelGroup, launch: Launch
    ) -> LaunchWeight:
        """`which`: 0 before, 1 after."""
        weight = self._weights(pairing)[which][pairing.sides[which].index(group)]
        own, times = duration_of(launch), group.times
        counted = weight * (sum(times) / own if own and times else len(group.launches))
        return LaunchWeight(counted, counted)

    def launches(self, which: int, pairing: Pairing) -> float | None:
        """Launches that the time of the pair covers; None: not known."""
        return self.sides[which].scale * pairing.counts[which]


class PerLaunchWeighting(Weighting):
    """One launch is compared with one launch: the average launch of a kernel; of fused kernels, one
    launch of each."""

    basis: Basis = "per_launch"

    def __init__(self, before: Side, after: Side, why: NoTotal) -> None:
        super().__init__(before, after)
        self.no_total = why

    def applicable(self, caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
        """Launch counts do not affect the time of one launch."""
        return tuple(replace(r, doubt=0.0) if r.id == "launch_counts" else r for r in caveats)

    def _weights(self, pairing: Pairing) -> Weights:
        """Times of different kernels that together do the work of the other side add up. Of one
        kernel, it is not known which of its shapes became which, so they are not added."""
        one, other = (
            [1 / (len(group.launches) if pairing.has_parts else count) for group in groups]
            for groups, count in zip(pairing.sides, pairing.counts, strict=True)
        )
        return one, other

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        del pairings
        return total_timing(timings)._replace(before=None, after=None)

    def launches(self, which: int, pairing: Pairing) -> float | None:
        return float(pairing.counts[which])


# --- whether there is a total


def weighting_without_tables(
    before: Side, after: Side, pairings: Sequence[Pairing], caveats: Sequence[Sequence[Caveat]]
) -> Weighting:
    if before.times is not None or after.times is not None:
        return Weighting(before, after)
    paired = zip(pairings, caveats, strict=True)
    open_pairs = [(p, timing) for p, timing in paired if not _is_whole(p, before, after)]
    why = next(_changes(open_pairs), None)
    return PerLaunchWeighting(before, after, why) if why else Weighting(before, after)


def with_suspected_work(
    pairing: Pairing, caveats: Sequence[Caveat], before: Side, after: Side, numbers: Numbers
) -> tuple[Caveat, ...]:
    """The caveats of a pair, and one if a launch may do the work of several. This does not matter
    if the reports contain all launches or the launch counts are given."""
    counts_given = before.times is not None or after.times is not None
    sized = any(caveat.id in _SIZE_CHANGED for caveat in caveats)
    alone = not (pairing.before and pairing.after)
    if counts_given or sized or alone or _is_whole(pairing, before, after):
        return tuple(caveats)
    more = work_of_many_caveat(pairing, numbers)
    return (*caveats, more) if more else tuple(caveats)


def _is_whole(pairing: Pairing, before: Side, after: Side) -> bool:
    """The reports contain every launch of these kernels. A kernel that is missing on one side is
    missing in its whole report, and not just among the chosen launches."""
    names = {group.key.name for group in (*pairing.before, *pairing.after)}
    return all(side.first.has_all_launches_of(names) for side in (before, after))


def _changes(pairs: Sequence[tuple[Pairing, Sequence[Caveat]]]) -> Iterator[NoTotal]:
    sized = [p for p, caveats in pairs if any(caveat.id in _SIZE_CHANGED for caveat in caveats)]
    single = [p for p, _ in pairs if p.before and p.after and not p.has_parts]
    counted = [p for p in single if p.counts[0] != p.counts[1]]
    for cause, pairings in (
        ("the number of launches changed", counted),
        ("kernels were fused or split", [p for p, _ in pairs if p.has_parts]),
        ("the work per launch may have changed", sized),
        ("some kernels are in one report only", [p for p, _ in pairs if not all(p.sides)]),
    ):
        if pairings:
            yield NoTotal(cause, tuple(pairing.kernel for pairing in pairings))


class TimeSum(NamedTuple):
    """Times of several launches of a run, summed. In nanoseconds."""

    busy_ns: float = 0.0
    total_ns: float = 0.0
    launches: float = 0.0
    overlapped_ns: float = 0.0
    """Part of `total_ns` in which other launches ran too; 0 if the table does not record it."""

    def plus(self, other: Position | KernelRun | TimeSum) -> TimeSum:
        return TimeSum(
            self.busy_ns + other.busy_ns,
            self.total_ns + other.total_ns,
            self.launches + other.launches,
            self.overlapped_ns + (other.overlapped_ns or 0.0),
        )

    @property
    def concurrency(self) -> float:
        """Average number of kernels that ran at the same time: 1 if none overlap."""
        return self.total_ns / self.busy_ns if self.busy_ns else 1.0


class PairRunTimes:
    """Time of each pair in each run of a side."""

    def __init__(self, side: Side, which: int, pairings: Sequence[Pairing]) -> None:
        self._pairings, self._which = pairings, which
        self._by_key = {g.key: n for n, p in enumerate(pairings) for g in p.sides[which]}
        self._by_name: dict[str, int] = {}
        for key, number in self._by_key.items():
            self._by_name.setdefault(key.name, number)
        self.unknown: set[int] = set()
        """Pairs with a launch that is not in the table."""
        self.pairs = [self._of_pairs(run) for run in side.captures]
        self.whole = [_whole(run) for run in side.captures]
        self.rest = [_rest(w, pairs) for w, pairs in zip(self.whole, self.pairs, strict=True)]

    def _of_pairs(self, run: SideCapture) -> list[TimeSum]:
        spent = [TimeSum() for _ in self._pairings]
        positions = run_positions(run)
        for launch in run.launches:
            number = self._by_key.get(key_of(launch), self._by_name.get(launch.name.full))
            position = positions.of(launch.id)
            if number is not None and position is not None:
                spent[number] = spent[number].plus(position)
            elif number is not None:
                self.unknown.add(number)
        for number, kernel in self._unprofiled(positions):
            spent[number] = spent[number].plus(kernel)
        return spent

    def _unprofiled(self, positions: RunPositions) -> Iterator[tuple[int, KernelRun]]:
        """Kernels that are in this run and in another report, but not in its own report."""
        names = KernelNames(positions.unprofiled)
        candidates: dict[str, list[tuple[int, LaunchKey]]] = defaultdict(list)
        for number, pairing in enumerate(self._pairings):
            for group in pairing.sides[self._which] or pairing.sides[1 - self._which]:
                if (name := names.name_of(group.launches[0])) is not None:
                    candidates[name].append((number, group.key))
        for name, known in candidates.items():
            for kernel in names.kernels[name]:
                alike = (n for n, key in known if key[1:] == (kernel.grid, kernel.block))
                yield next(alike, known[0][0]), kernel


def run_positions(run: SideCapture) -> RunPositions:
    positions = run.profile.in_run
    if positions is None:
        raise ValueError("the run of this report is not known")
    return positions


def _whole(run: SideCapture) -> TimeSum:
    table = run_positions(run).table
    overlapped = sum(kernel.overlapped_ns or 0.0 for kernel in table.kernels)
    return TimeSum(table.busy_ns, table.total_ns, float(table.launch_count), overlapped)


def _rest(whole: TimeSum, pairs: Sequence[TimeSum]) -> TimeSum:
    """The run minus all pairs; rounding errors count as zero."""
    taken = TimeSum()
    for pair in pairs:
        taken = taken.plus(pair)
    left = [(w, w - t) for w, t in zip(whole, taken, strict=True)]
    return TimeSum(*(part if part > 1e-9 * w else 0.0 for w, part in left))


def mean_of(runs: Sequence[TimeSum]) -> TimeSum:
    return TimeSum(*(statistics.fmean(values) for values in zip(*runs, strict=True)))


_ANSWERED = ("launch_counts", "work_per_launch", "launch_size", "launch_work", "other_launches")
"""Caveats that do not apply if run tables are known."""
_OVERLAPS = 1.01
"""Sum of durations over busy time from which kernels count as running at the same time."""
_OTHERS = 0.01
"""Overlapped time of other kernels that is negligible, as a share of the busy time of a pair."""
ALIKE = 0.5
"""Share of a kernel's time that must be in launches about as long as the profiled ones, for their
counters to explain it. `keet explain` uses the same limit."""
SIDES = ("before", "after")


class RunWeighting(Weighting):
    """Each profiled launch is weighted by the launches of the run that it represents."""

    basis: Basis = "run"

    def __init__(self, before: Side, after: Side, pairings: Sequence[Pairing]) -> None:
        super().__init__(before, after)
        self._number = {id(pairing): number for number, pairing in enumerate(pairings)}
        self._spent = tuple(PairRunTimes(side, n, pairings) for n, side in enumerate(self.sides))
        self._partial = [any(run.partial for run in side.captures) for side in self.sides]
        self.chosen_only = any(self._partial)
        """The total covers the chosen launches, not the run."""
        self.by_durations = not all(self.overlap_known(which) for which in (0, 1))
        """A table does not record which kernels ran at the same time. Then sums of durations are
        compared on both sides, never a sum with the busy time of the other side."""
        self.no_total = self._no_total(pairings)

    def _no_total(self, pairings: Sequence[Pairing]) -> NoTotal | None:
        for which, word in enumerate(SIDES):
            missing = [pairings[n] for n in self.missing(which)]
            lacking = tuple(pairing.kernel for pairing in missing if self.counts(pairing))
            if lacking:
                return NoTotal(
                    Sentence(
                        "the {side} run table does not have {kernels}",
                        side=word.upper(),
                        kernels=listed(lacking, "kernels"),
                    ),
                    lacking,
                    "the time of this run is not known",
                    Sentence("give the run table of the run that was profiled"),
                    "each kernel is gated on its own",
                )
        return None

    def applicable(self, caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
        """Clocks and caches under the profiler do not affect a run without it."""
        return tuple(caveat.as_note for caveat in caveats if caveat.id not in _ANSWERED)

    def caveats_of_pair(
        self, pairing: Pairing, caveats: Sequence[Caveat], numbers: Numbers
    ) -> tuple[Caveat, ...]:
        del numbers
        applicable = self.applicable(caveats)
        if not self._same_problem(pairing):
            return applicable
        return tuple(caveat for caveat in applicable if caveat.id != "problem_size")

    def _same_problem(self, pairing: Pairing) -> bool:
        """Launches changed in number and in size, but the total work stayed about the same."""
        work = log_growth(pairing, "inst_executed_total")
        one, other = (self.launches(which, pairing) for which in (0, 1))
        if work is None or not one or not other or one == other:
            return False
        return abs(work + math.log(other / one)) <= OTHER_WORK

    # --- times

    def timing(self, pairing: Pairing, doubt: float) -> Timing:
        number = self._number[id(pairing)]
        spent = [[run[number] for run in side.pairs] for side in self._spent]
        unknown = [number in side.unknown for side in self._spent]
        if any(unknown):
            before, after = (
                None if lacks else self._mean_ns(runs)
                for lacks, runs in zip(unknown, spent, strict=True)
            )
            return Timing(before, after, 0.0, doubt, unmeasured=True)
        return self._timing(spent, doubt)

    def _timing(self, spent: Sequence[Sequence[TimeSum]], doubt: float = 0.0) -> Timing:
        one, other = (
            measured_runs(side, [self._ns(run) for run in runs])
            for side, runs in zip(self.sides, spent, strict=True)
        )
        before, after = map(self._mean_ns, spent)
        return time_runs(one, other, *self.sides, doubt)._replace(before=before, after=after)

    def _ns(self, spent: TimeSum | Position) -> float:
        return spent.total_ns if self.by_durations else spent.busy_ns

    def _mean_ns(self, runs: Sequence[TimeSum]) -> float | None:
        return self._ns(mean_of(runs)) or None

    @property
    def rest(self) -> Timing | None:
        """Of the kernels that no launch of either report represents; None: there are none, or only
        some launches were chosen."""
        if self.chosen_only:
            return None
        timing = self._timing([side.rest for side in self._spent])
        return timing if timing.before or timing.after else None

    @property
    def named(self) -> str:
        """What the total is a sum of, in words."""
        if self.chosen_only:
            return "the time of the chosen launches"
        return "the summed durations" if self.by_durations else "the GPU time"

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        counted = [t for p, t in zip(pairings, timings, strict=True) if self.counts(p)]
        rest = self.rest
        known = total_timing([*counted, *([rest] if rest else [])])
        if self.no_total:
            return known._replace(before=None, after=None, unmeasured=False)
        if self.chosen_only:
            return known
        before, after = (self._mean_ns(side.whole) for side in self._spent)
        return known._replace(before=before, after=after, unmeasured=False)

    def counts(self, pairing: Pairing) -> bool:
        """Whether the pair is part of the total. If launches were chosen on one side only, a kernel
        that this side lacks may just not have been chosen."""
        if self._partial[0] == self._partial[1]:
            return True
        return all(self.launches(n, pairing) or not self._partial[n] for n in (0, 1))

    # --- launches

    def launches(self, which: int, pairing: Pairing) -> float | None:
        side, number = self._spent[which], self._number[id(pairing)]
        return None if number in side.unknown else mean_of([r[number] for r in side.pairs]).launches

    def all_launches(self, pairings: Sequence[Pairing]) -> tuple[float, float]:
        """Launches that the total covers."""
        if not self.chosen_only:
            one, other = (mean_of(side.whole).launches for side in self._spent)
            return one, other
        counted = [pairing for pairing in pairings if self.counts(pairing)]
        one, other = (sum(self.launches(n, p) or 0.0 for p in counted) for n in (0, 1))
        return one, other

    # --- how many launches an analysed launch represents

    def launch_weight(
        self, which: int, pairing: Pairing, group: KernelGroup, launch: Launch
    ) -> LaunchWeight:
        del pairing
        positions = [self._position(which, each) for each in group.launches]
        known = [position for position in positions if position is not None]
        own = duration_of(launch)
        count = sum(each.launches for each in known)
        volume = count if all(each.shapes <= 1 for each in known) else None
        weight = sum(map(self._ns, known)) / own if own else count
        return LaunchWeight(weight, volume, _alike(known))

    def doubt(
        self, which: int, pairing: Pairing, launch: Launch, alike: float | None
    ) -> RunDoubt | None:
        """`alike`: see `WeightedLaunch.alike`."""
        if self.replay_gap(which, launch):
            return "replay"
        if alike is not None and alike < ALIKE:
            return "unlike"
        return "mixed" if self._mixed(which, [pairing]) else None

    def small_similar_share(self, which: int, pairing: Pairing) -> float | None:
        """Share of the time of a pair, 0 to 1, in launches about as long as the profiled ones; None
        if it is half or more."""
        positions = [self._position(which, launch) for launch in pairing.launches(which)]
        alike = _alike([position for position in positions if position is not None])
        return alike if alike is not None and alike < ALIKE else None

    def mixed(self, pairings: Sequence[Pairing]) -> bool:
        """The table does not distinguish launches of these pairs from launches of other pairs."""
        return any(self._mixed(which, pairings) for which in (0, 1))

    def _mixed(self, which: int, pairings: Sequence[Pairing]) -> bool:
        positions = run_positions(self.sides[which].first)
        own = {launch.id for pairing in pairings for launch in pairing.launches(which)}
        assumed = {n for n in own if (position := positions.of(n)) and position.assumed}
        return any(
            not assumed.isdisjoint(sharing) and not own.issuperset(sharing)
            for sharing in positions.profiled.values()
        )

    def _position(self, which: int, launch: Launch) -> Position | None:
        return run_positions(self.sides[which].first).of(launch.id)

    def replay_gap(self, which: int, launch: Launch) -> ReplayGap | None:
        """Set if the replay does not show what happened in the run."""
        return replay_gap(launch, self._position(which, launch))

    def average_times(self, which: int, launch: Launch, gap: ReplayGap) -> ReplayGap | None:
        """Averages over all profiled launches of the kernel and over all its launches in the run,
        if the table has one time for all of them and several were profiled."""
        position = self._position(which, launch)
        if position is None or position.known_by != "kernel" or not position.profiled_ns:
            return None
        average = gap._replace(replay_ns=position.profiled_ns)
        return average if position.profiled_ns != duration_of(launch) else None

    def replay_ratio(self, which: int, launch: Launch) -> ReplayGap | None:
        """Both times if one is much longer, however short the launch is: then the replay does not
        show what the run was busy with."""
        position = self._position(which, launch)
        times = both_times(launch, position)
        times = times and (self.average_times(which, launch, times) or times)
        return times if times and times.factor > REPLAY_DIFFERS else None

    # --- properties of the run tables

    def missing(self, which: int) -> Iterator[int]:
        """Indices of the pairs with a kernel that is not in the run table of the side."""
        yield from sorted(self._spent[which].unknown)

    def reports_not_in_table(self, which: int) -> Iterator[SideCapture]:
        """Reports of which no launch is in their run table."""
        for run in self.sides[which].captures:
            launches = run.profile.launches
            if launches and not any(run_positions(run).of(launch.id) for launch in launches):
                yield run

    def has_time(self, which: int) -> bool:
        return all(each.total_ns > 0 for each in self._spent[which].whole)

    def overlap_known(self, which: int) -> bool:
        """The tables of the side record which kernels ran at the same time."""
        return all(run_positions(run).table.overlap_known for run in self.sides[which].captures)

    def concurrency(self, which: int, pairing: Pairing | None) -> float | None:
        """Of the kernels of a pair, or of all; None: not known."""
        if not self.overlap_known(which):
            return None
        concurrency = self._spent_on(which, pairing).concurrency
        return concurrency if concurrency > _OVERLAPS else 1.0

    def overlaps_others(self, which: int, pairing: Pairing) -> bool:
        """Kernels outside the pair overlapped others. If they did not, the busy time of the pair is
        exact, however much its launches overlap each other."""
        own = self._spent_on(which, pairing)
        others = mean_of(self._spent[which].whole).overlapped_ns - own.overlapped_ns
        return others > _OTHERS * own.busy_ns

    def same_tables(self) -> bool:
        """Both sides have equal run tables."""
        one, other = (
            [run.profile.run and run.profile.run._replace(path=None) for run in side.captures]
            for side in self.sides
        )
        return one == other

    def spans(self) -> tuple[float, float] | None:
        """Nanoseconds from the first to the last kernel; None if a table does not record it."""
        run_spans = [
            [run_positions(run).table.span_ns for run in side.captures] for side in self.sides
        ]
        known = [[span for span in spans if span] for spans in run_spans]
        if any(len(a) != len(b) for a, b in zip(known, run_spans, strict=True)):
            return None
        one, other = map(statistics.fmean, known)
        return one, other

    def idle(self, which: int) -> float:
        """Share of the time from the first to the last kernel in which the GPUs ran no kernel, 0 to
        1; 0 if a table does not record it."""
        tables = [run_positions(run).table for run in self.sides[which].captures]
        spans = sum((t.span_ns or 0.0) * (t.gpus or 1) for t in tables)
        busy = sum(table.busy_ns for table in tables)
        known = spans and self.overlap_known(which)
        return max(0.0, 1 - busy / spans) if known else 0.0

    def migrates(self, which: int) -> bool:
        """Managed memory moved while the kernels ran."""
        moved = run_positions(self.sides[which].first).table.migrations
        return moved is not None and moved.fault_groups > 0

    def recorder(self, which: int) -> Recorder:
        return run_positions(self.sides[which].first).table.recorder

    def durations(self, pairing: Pairing | None) -> tuple[float, float]:
        """The sum of the launches' durations, of a pair or of the runs."""
        one, other = (self._spent_on(which, pairing).total_ns for which in (0, 1))
        return one, other

    def _spent_on(self, which: int, pairing: Pairing | None) -> TimeSum:
        side = self._spent[which]
        if pairing is None:
            return mean_of(side.whole)
        return mean_of([run[self._number[id(pairing)]] for run in side.pairs])


def _alike(positions: Sequence[Position]) -> float | None:
    """Share of their time in launches about as long; None if the table does not record it."""
    known = [position.alike_ns for position in positions if position.alike_ns is not None]
    busy = sum(position.busy_ns for position in positions)
    if len(known) != len(positions) or not busy:
        return None
    return min(1.0, sum(known) / busy)
