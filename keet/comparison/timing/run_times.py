"""Times of each pair in the whole runs of a side, from the run tables."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.comparison.pairing.pairs import Pairing
from keet.comparison.pairing.sides import LaunchKey, Side, SideCapture, key_of
from keet.profile.run_link import KernelNames
from keet.profile.run_table import KernelRun, Position, RunPositions


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
