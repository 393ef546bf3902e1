"""Times of the whole run, before and after: what the profiled launches stand for.

Each launch of a run counts for one profiled launch, or for none; so the times of the pairs and of
the kernels that were not profiled add up to the busy time of the run.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.replay import DIFFERS, ReplayGap, both_times, replay_gap
from keet.comparison.pairing import Pairing
from keet.comparison.reasons import Reason
from keet.comparison.sides import Group, Key, Run, Side, duration_of, key_of
from keet.comparison.timing import Timing, measured_runs, time_runs, total
from keet.comparison.weighing import Basis, NoTotal, PartWeight, Weighing
from keet.comparison.work import OTHER_WORK, grown
from keet.profile import Launch
from keet.profile.run_link import KernelNames
from keet.profile.run_table import KernelRun, Position, Recorder, RunPositions

_ANSWERED = ("launch_counts", "work_per_launch", "launch_size", "launch_work", "other_launches")
"""Reasons for doubt that a table of the run settles."""
_OVERLAPS = 1.01
"""Sum of durations over busy time from which kernels count as running at the same time."""
SIDES = ("before", "after")


class Spent(NamedTuple):
    """What launches of a run took together. Times in nanoseconds."""

    busy_ns: float = 0.0
    total_ns: float = 0.0
    launches: float = 0.0

    def plus(self, other: Position | KernelRun | Spent) -> Spent:
        return Spent(
            self.busy_ns + other.busy_ns,
            self.total_ns + other.total_ns,
            self.launches + other.launches,
        )

    @property
    def concurrency(self) -> float:
        """Kernels that ran at the same time, on average: 1 where none overlap."""
        return self.total_ns / self.busy_ns if self.busy_ns else 1.0


class WholeRun(Weighing):
    """Each profiled launch counts for the launches of the run that it stands for."""

    basis: Basis = "run"

    def __init__(self, before: Side, after: Side, pairings: Sequence[Pairing]) -> None:
        super().__init__(before, after)
        self._number = {id(pairing): number for number, pairing in enumerate(pairings)}
        self._spent = tuple(_SideTimes(side, n, pairings) for n, side in enumerate(self.sides))
        self._partial = [any(run.partial for run in side.runs) for side in self.sides]
        self.chosen_only = any(self._partial)
        """The total is of the launches that were chosen, not of the run."""
        self.by_durations = not all(self.overlap_known(which) for which in (0, 1))
        """A table does not tell which kernels ran at the same time: then sums of durations are
        compared on both sides, and never with the busy time of the other side."""
        self.no_total = self._no_total(pairings)

    def _no_total(self, pairings: Sequence[Pairing]) -> NoTotal | None:
        for which, word in enumerate(SIDES):
            found = [pairings[n] for n in self.missing(which)]
            lacking = tuple(pairing.kernel for pairing in found if self.counts(pairing))
            if lacking:
                return NoTotal(
                    f"the table of the run {word} does not have {_named(lacking)}",
                    lacking,
                    "what the run took is not known",
                    "name the table of the run that was profiled",
                    "kernels are gated by themselves",
                )
        return None

    def applying(self, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
        """Clocks and caches of the profiler have no part in a run without it."""
        return tuple(reason.noted for reason in reasons if reason.id not in _ANSWERED)

    def of_pair(self, pairing: Pairing, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
        found = self.applying(reasons)
        if not self._same_problem(pairing):
            return found
        return tuple(reason for reason in found if reason.id != "problem_size")

    def _same_problem(self, pairing: Pairing) -> bool:
        """The launches changed in number and in size so that the work stayed about the same."""
        work = grown(pairing, "inst_executed_total")
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

    def _timing(self, spent: Sequence[Sequence[Spent]], doubt: float = 0.0) -> Timing:
        one, other = (
            measured_runs(side, [self._ns(each) for each in runs])
            for side, runs in zip(self.sides, spent, strict=True)
        )
        before, after = map(self._mean_ns, spent)
        return time_runs(one, other, *self.sides, doubt)._replace(before=before, after=after)

    def _ns(self, spent: Spent | Position) -> float:
        return spent.total_ns if self.by_durations else spent.busy_ns

    def _mean_ns(self, runs: Sequence[Spent]) -> float | None:
        return self._ns(_mean(runs)) or None

    @property
    def rest(self) -> Timing | None:
        """Of the kernels that no launch of either report stands for; None: not asked for."""
        if self.chosen_only:
            return None
        found = self._timing([side.rest for side in self._spent])
        return found if found.before or found.after else None

    def total(self, pairings: Sequence[Pairing], timings: Sequence[Timing]) -> Timing:
        counted = [t for p, t in zip(pairings, timings, strict=True) if self.counts(p)]
        rest = self.rest
        known = total([*counted, *([rest] if rest else [])])
        if self.no_total:
            return known._replace(before=None, after=None, unmeasured=False)
        if self.chosen_only:
            return known
        before, after = (self._mean_ns(side.whole) for side in self._spent)
        return known._replace(before=before, after=after, unmeasured=False)

    def counts(self, pairing: Pairing) -> bool:
        """It is a part of the total. Where launches of one side only were chosen, what this side
        lacks may just not have been chosen."""
        if self._partial[0] == self._partial[1]:
            return True
        return all(self.launches(n, pairing) or not self._partial[n] for n in (0, 1))

    # --- launches

    def launches(self, which: int, pairing: Pairing) -> float | None:
        side, number = self._spent[which], self._number[id(pairing)]
        return None if number in side.unknown else _mean([r[number] for r in side.pairs]).launches

    def all_launches(self, pairings: Sequence[Pairing]) -> tuple[float, float]:
        """Of what the total is of."""
        if not self.chosen_only:
            one, other = (_mean(side.whole).launches for side in self._spent)
            return one, other
        counted = [pairing for pairing in pairings if self.counts(pairing)]
        one, other = (sum(self.launches(n, p) or 0.0 for p in counted) for n in (0, 1))
        return one, other

    # --- what a launch that is looked into stands for

    def part(self, which: int, pairing: Pairing, group: Group, launch: Launch) -> PartWeight:
        del pairing
        positions = [self._position(which, each) for each in group.launches]
        known = [each for each in positions if each is not None]
        own = duration_of(launch)
        volume = sum(_repetitions(each) for each in known)
        return PartWeight(sum(map(self._ns, known)) / own if own else volume, volume)

    def _position(self, which: int, launch: Launch) -> Position | None:
        return _in_run(self.sides[which].first).of(launch.id)

    def replay_gap(self, which: int, launch: Launch) -> ReplayGap | None:
        """Where the replay does not show what happened in the run."""
        return replay_gap(launch, self._position(which, launch))

    def replay_ratio(self, which: int, launch: Launch) -> ReplayGap | None:
        """Both times where one is much longer, however short the launch is: what the replay was
        busy with is then not what the run was busy with."""
        position = self._position(which, launch)
        times = both_times(launch, position)
        if times and position and position.known_by == "kernel" and position.profiled_ns:
            times = times._replace(replay_ns=position.profiled_ns)
        return times if times and times.factor > DIFFERS else None

    # --- what must be known besides

    def missing(self, which: int) -> Iterator[int]:
        """Numbers of the pairs with a kernel that the table of the side does not have."""
        yield from sorted(self._spent[which].unknown)

    def strange(self, which: int) -> Iterator[Run]:
        """Reports without any launch that is in the table of their run."""
        for run in self.sides[which].runs:
            launches = run.profile.launches
            if launches and not any(_in_run(run).of(launch.id) for launch in launches):
                yield run

    def has_time(self, which: int) -> bool:
        return all(each.total_ns > 0 for each in self._spent[which].whole)

    def overlap_known(self, which: int) -> bool:
        """The tables of the side tell which kernels ran at the same time."""
        return all(_in_run(run).table.overlap_known for run in self.sides[which].runs)

    def concurrency(self, which: int, pairing: Pairing | None) -> float | None:
        """Of the kernels of a pair, or of all; None: not known."""
        if not self.overlap_known(which):
            return None
        found = self._spent_on(which, pairing).concurrency
        return found if found > _OVERLAPS else 1.0

    def spans(self) -> tuple[float, float] | None:
        """Nanoseconds from the first to the last kernel; None where a table does not tell."""
        found = [[_in_run(run).table.span_ns for run in side.runs] for side in self.sides]
        known = [[span for span in spans if span] for spans in found]
        if any(len(a) != len(b) for a, b in zip(known, found, strict=True)):
            return None
        one, other = map(statistics.fmean, known)
        return one, other

    def idle(self, which: int) -> float:
        """Part of the time from first to last kernel in which the GPUs ran none, 0 to 1; 0 where a
        table does not tell."""
        tables = [_in_run(run).table for run in self.sides[which].runs]
        spans = sum((t.span_ns or 0.0) * (t.gpus or 1) for t in tables)
        busy = sum(table.busy_ns for table in tables)
        known = spans and self.overlap_known(which)
        return max(0.0, 1 - busy / spans) if known else 0.0

    def migrates(self, which: int) -> bool:
        """Managed memory moved while the kernels ran."""
        moved = _in_run(self.sides[which].first).table.migrations
        return moved is not None and moved.fault_groups > 0

    def recorder(self, which: int) -> Recorder:
        return _in_run(self.sides[which].first).table.recorder

    def durations(self, pairing: Pairing | None) -> tuple[float, float]:
        """The sum of the launches' durations, of a pair or of the runs."""
        one, other = (self._spent_on(which, pairing).total_ns for which in (0, 1))
        return one, other

    def _spent_on(self, which: int, pairing: Pairing | None) -> Spent:
        side = self._spent[which]
        if pairing is None:
            return _mean(side.whole)
        return _mean([run[self._number[id(pairing)]] for run in side.pairs])


class _SideTimes:
    """What each pair took in each run of a side."""

    def __init__(self, side: Side, which: int, pairings: Sequence[Pairing]) -> None:
        self._pairings, self._which = pairings, which
        self._by_key = {g.key: n for n, p in enumerate(pairings) for g in p.sides[which]}
        self._by_name: dict[str, int] = {}
        for key, number in self._by_key.items():
            self._by_name.setdefault(key.name, number)
        self.unknown: set[int] = set()
        """Pairs with a launch that the table does not have."""
        self.pairs = [self._of_pairs(run) for run in side.runs]
        self.whole = [_whole(run) for run in side.runs]
        self.rest = [_rest(w, pairs) for w, pairs in zip(self.whole, self.pairs, strict=True)]

    def _of_pairs(self, run: Run) -> list[Spent]:
        spent = [Spent() for _ in self._pairings]
        positions = _in_run(run)
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
        """Kernels that this run has and its report lacks, and another report has."""
        names = KernelNames(positions.unprofiled)
        candidates: dict[str, list[tuple[int, Key]]] = defaultdict(list)
        for number, pairing in enumerate(self._pairings):
            for group in pairing.sides[self._which] or pairing.sides[1 - self._which]:
                if (name := names.name_of(group.launches[0])) is not None:
                    candidates[name].append((number, group.key))
        for name, known in candidates.items():
            for kernel in names.kernels[name]:
                alike = (n for n, key in known if key[1:] == (kernel.grid, kernel.block))
                yield next(alike, known[0][0]), kernel


def _in_run(run: Run) -> RunPositions:
    positions = run.profile.in_run
    if positions is None:
        raise ValueError("the run of this report is not known")
    return positions


def _whole(run: Run) -> Spent:
    table = _in_run(run).table
    return Spent(table.busy_ns, table.total_ns, float(table.launch_count))


def _rest(whole: Spent, pairs: Sequence[Spent]) -> Spent:
    """What is left of the run; crumbs of sums of floats are none."""
    taken = Spent()
    for pair in pairs:
        taken = taken.plus(pair)
    left = [(w, w - t) for w, t in zip(whole, taken, strict=True)]
    return Spent(*(part if part > 1e-9 * w else 0.0 for w, part in left))


def _mean(runs: Sequence[Spent]) -> Spent:
    return Spent(*(statistics.fmean(values) for values in zip(*runs, strict=True)))


def _repetitions(position: Position) -> float:
    """Launches as large as this one that do the work which it stands for. Of one shape, each does
    as much; of several, their time tells how much."""
    if position.shapes > 1 and position.plain_ns and position.total_ns:
        return position.total_ns / position.plain_ns
    return position.launches


def _named(kernels: Sequence[str]) -> str:
    more = f" and {len(kernels) - 3} more kernels" if len(kernels) > 3 else ""
    return f"{', '.join(kernels[:3])}{more}"
