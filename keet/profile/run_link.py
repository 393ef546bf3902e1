"""Sequences of launches: those of a run, each assigned to the profiled launch that represents it;
the longest first; groups of the same kernel and shape; and one after the other without keeping all
of them decoded in memory.

Each launch of a run is assigned to one profiled launch of the same kernel: one with the same shape
if there is one, else the one whose time in the run is nearest. So the parts always add up to the
run.

"Longest" means the same in all commands. Ties keep the order of the report. A launch without a
known duration counts as 0; of two such launches, the one with more GPU cycles comes first. With a
run table, `Profile.by_run_time` sorts by the time in the run instead.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from keet.profile.launch import Launch
from keet.profile.run_table import KernelRun, KnownBy, Position, RunPositions, RunTable
from keet.progress import counted


class _Share(NamedTuple):
    """The launches of one `KernelRun` that one profiled launch represents."""

    kernel: KernelRun
    part: float
    """Share of the kernel's launches, 0 to 1."""
    times: Sequence[float]
    """Times of these launches; empty if only totals are known."""
    assumed: float | None = None
    """Assumed share of the kernel's time, 0 to 1; None if `times` give it."""

    @property
    def weight(self) -> float:
        """Share of the kernel's time, 0 to 1."""
        if self.times and self.kernel.total_ns:
            return sum(self.times) / self.kernel.total_ns
        return self.part if self.assumed is None else self.assumed

    def alike(self, time: float | None) -> float | None:
        """Share of the kernel's time in launches that took between half and twice `time`."""
        if not time:
            return None
        if self.times and self.kernel.total_ns:
            near = sum(each for each in self.times if _are_alike(each, time))
            return near / self.kernel.total_ns
        typical = self.kernel.median_ns
        if typical is None or self.kernel.grid is None:
            return None
        return self.weight if _are_alike(typical, time) else 0.0


LIKE = 2.0
"""Launches of one kernel are alike if their times differ by at most this factor."""


def _are_alike(one: float, other: float) -> bool:
    return one <= LIKE * other and other <= LIKE * one


def place_in_run(launches: Iterable[Launch], table: RunTable) -> RunPositions:
    """What the launches of a report represent in the run."""
    linker = _Linker(table)
    known = KernelNames(table.kernels)
    members: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        if (name := known.name_of(launch)) is not None:
            members[name].append(launch)
    positions: dict[int, Position] = {}
    for name, group in members.items():
        positions |= linker.positions(known.kernels[name], group)
    unprofiled = tuple(kernel for kernel in table.kernels if kernel.name not in members)
    profiled = {name: tuple(launch.id for launch in group) for name, group in members.items()}
    return RunPositions(table, positions, unprofiled, profiled)


class KernelNames:
    """Finds a launch's kernel in a run table. A form that two kernels share finds neither."""

    def __init__(self, kernels: Sequence[KernelRun]) -> None:
        self.kernels: dict[str, list[KernelRun]] = defaultdict(list)
        forms: dict[str, set[str]] = defaultdict(set)
        for kernel in kernels:
            self.kernels[kernel.name].append(kernel)
            for form in (kernel.name, kernel.full, _spaceless(kernel.full), kernel.short):
                forms[form].add(kernel.name)
        self._forms = {form: next(iter(names)) for form, names in forms.items() if len(names) == 1}

    def name_of(self, launch: Launch) -> str | None:
        """The table's name of the launch's kernel. Tries the most specific form first."""
        name = launch.name
        forms = (name.mangled, name.full, _spaceless(name.full), name.short, name.function)
        return next((self._forms[form] for form in forms if form and form in self._forms), None)


def _spaceless(name: str) -> str:
    """`f(float *)` and `f(float*)` are one name."""
    return name.replace(" ", "")


class _Linker:
    def __init__(self, table: RunTable) -> None:
        self._exact = {each.launch: each.ns for each in table.profiled}
        self._times: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for launch in table.launches:
            self._times[_key(table.kernels[launch.kernel])].append(float(launch.ns))
        for kernel in () if table.launches else table.kernels:
            for ns, count in kernel.times:
                self._times[_key(kernel)] += [float(ns)] * count

    def positions(
        self, kernels: Sequence[KernelRun], members: Sequence[Launch]
    ) -> Mapping[int, Position]:
        """Positions of the profiled launches of one kernel; `kernels` are its shapes in the run."""
        shares: dict[int, list[_Share]] = {launch.id: [] for launch in members}
        every = self._ranked(members)
        by_shape: dict[object, list[Launch]] = defaultdict(list)
        for launch in members:
            by_shape[launch.grid, launch.block].append(launch)
        same = {shape: self._ranked(some) for shape, some in by_shape.items()}
        for kernel in kernels:
            # Without shapes in the table, all profiled launches of the kernel are candidates.
            ranked = same.get((kernel.grid, kernel.block), every) if kernel.grid else every
            for launch, share in self._divided(kernel, ranked):
                shares[launch.id].append(share)
        times = _PlainTimes(kernels, members, self._exact)
        return {member.id: _position(member, times, shares[member.id]) for member in members}

    def _ranked(self, members: Sequence[Launch]) -> _Ranked:
        """By the time in the run if a launch is identified there; else by that under replay."""
        return _Ranked(
            members, [self._exact.get(member.id) or member.rank_time for member in members]
        )

    def _divided(self, kernel: KernelRun, ranked: _Ranked) -> Iterable[tuple[Launch, _Share]]:
        members, times = ranked.launches, self._times.get(_key(kernel), [])
        if len(members) == 1:
            return [(members[0], _Share(kernel, 1.0, times))]
        if not times or ranked.is_flat:
            # Launches of the run can't be assigned one by one: each profiled launch represents
            # equally many of them, and for time in proportion to its own time.
            even, times_of = 1 / len(members), ranked.shares
            return [(x, _Share(kernel, even, (), times_of[at])) for at, x in enumerate(members)]
        nearest: dict[int, list[float]] = defaultdict(list)
        for time in times:
            nearest[ranked.nearest(time)].append(time)
        return [
            (members[at], _Share(kernel, len(own) / len(times), own)) for at, own in nearest.items()
        ]


class _Ranked:
    """Profiled launches sorted by time, to find the nearest one by binary search: a run may have
    thousands of profiled and tens of thousands of other launches."""

    def __init__(self, launches: Sequence[Launch], times: Iterable[float]) -> None:
        self.launches = launches
        self._times = list(times)
        first: dict[float, int] = {}
        for at, time in enumerate(self._times):
            first.setdefault(_log(time), at)
        self._logs = sorted(first)
        self._at = [first[log] for log in self._logs]

    @property
    def shares(self) -> list[float]:
        """Share of each launch in the time of all; equal shares if one was not measured."""
        whole = sum(self._times)
        if not all(self._times):
            return [1 / len(self._times)] * len(self._times)
        return [time / whole for time in self._times]

    @property
    def is_flat(self) -> bool:
        """Whether all of them took equally long."""
        return len(self._logs) == 1

    def nearest(self, time: float) -> int:
        """Index in `launches` of the nearest one by the ratio of times; of equals the first."""
        log = _log(time)
        right = bisect_left(self._logs, log)
        beside = range(max(right - 1, 0), min(right + 1, len(self._logs)))
        return self._at[min(beside, key=lambda i: (abs(log - self._logs[i]), self._at[i]))]


def _log(time: float) -> float:
    return math.log(max(time, 1.0))


class _PlainTimes:
    """Times of the launches of one kernel in the run."""

    def __init__(
        self, kernels: Sequence[KernelRun], members: Sequence[Launch], exact: Mapping[int, float]
    ) -> None:
        self._exact = exact
        self._by_shape: dict[object, float] = {}
        for kernel in kernels:
            if kernel.grid and (typical := kernel.median_ns or kernel.mean_ns):
                self._by_shape.setdefault((kernel.grid, kernel.block), typical)
        # The median where one row has it, else the average; 0: the table has no time.
        launches = sum(kernel.launches for kernel in kernels)
        self._typical = sum(kernel.total_ns for kernel in kernels) / launches if launches else 0.0
        if len(kernels) == 1:
            self._typical = kernels[0].median_ns or self._typical
        self.profiled_ns = sum(launch.rank_time for launch in members) / len(members)
        """Average of the profiled launches under replay."""

    def of(self, launch: Launch) -> tuple[float | None, KnownBy | None]:
        if launch.id in self._exact:
            return self._exact[launch.id], "launch"
        if (launch.grid, launch.block) in self._by_shape:
            return self._by_shape[launch.grid, launch.block], "shape"
        return (self._typical, "kernel") if self._typical else (None, None)


def _position(launch: Launch, times: _PlainTimes, shares: Sequence[_Share]) -> Position:
    plain, known_by = times.of(launch)
    overlapped = ((s.weight, s.kernel.overlapped_ns) for s in shares)
    alike = ((s.kernel.busy_ns, s.alike(plain)) for s in shares)
    return Position(
        launches=sum(share.part * share.kernel.launches for share in shares),
        total_ns=sum(share.weight * share.kernel.total_ns for share in shares),
        busy_ns=sum(share.weight * share.kernel.busy_ns for share in shares),
        shapes=len({share.kernel[2:4] for share in shares}),
        overlapped_ns=_sum_if_known(overlapped),
        shortest_ns=_extreme(min, shares, lambda kernel: kernel.shortest_ns),
        longest_ns=_extreme(max, shares, lambda kernel: kernel.longest_ns),
        plain_ns=plain,
        known_by=known_by,
        profiled_ns=times.profiled_ns or None,
        # Busy time in launches that took about as long.
        alike_ns=_sum_if_known(alike) if shares else None,
        assumed=any(share.assumed is not None for share in shares),
    )


def _sum_if_known(products: Iterable[tuple[float, float | None]]) -> float | None:
    """Of the products; None if a factor is not known."""
    total = 0.0
    for one, other in products:
        if other is None:
            return None
        total += one * other
    return total


def _key(kernel: KernelRun) -> tuple[object, ...]:
    return kernel.name, kernel.grid, kernel.block


def _extreme(
    pick: Callable[[Iterable[float]], float],
    shares: Sequence[_Share],
    of_kernel: Callable[[KernelRun], float | None],
) -> float | None:
    """Time of the shortest or longest launch; None if only totals are known for a kernel."""
    times = [pick(share.times) if share.times else of_kernel(share.kernel) for share in shares]
    known = [each for each in times if each is not None]
    return pick(known) if known and len(known) == len(times) else None


# --- the longest, and the one that represents others


def longest_first(launches: Iterable[Launch]) -> list[Launch]:
    return sorted(launches, key=_descending_time)


def longest(launches: Iterable[Launch]) -> Launch:
    """The launch that takes the most time; the first one if no time is known."""
    return min(launches, key=_descending_time)


def _descending_time(launch: Launch) -> tuple[float, float]:
    return -launch.rank_time, -launch.rank_cycles


CONCENTRATED = 2
"""Longest over median duration of launches of one shape: above it, the time decides which launch
represents them."""


def by_kernel_and_shape(launches: Iterable[Launch]) -> list[list[Launch]]:
    """Groups of launches with the same kernel, grid, block and GPU, in the order of the first."""
    groups: dict[tuple[object, ...], list[Launch]] = defaultdict(list)
    for launch in launches:
        key = (launch.workload, launch.name.full, launch.grid, launch.block, launch.device)
        groups[key].append(launch)
    return list(groups.values())


class Timed(Protocol):
    """A `Launch`, or a launch as a store has it."""

    @property
    def id(self) -> int: ...
    @property
    def rank_time(self) -> float: ...
    @property
    def rank_cycles(self) -> float: ...


_T = TypeVar("_T", bound=Timed)


def representative(group: Sequence[_T]) -> _T:
    """The launch with the median duration; of two, the longer one.

    If the longest takes more than `CONCENTRATED` times as long, most of the time may be in few
    launches: then the one up to which, shortest first, half of the group's time is spent.
    """
    ranked = sorted_by_duration(group)
    typical = ranked[len(ranked) // 2]
    if ranked[-1].rank_time <= CONCENTRATED * typical.rank_time:
        return typical
    half, spent = sum(launch.rank_time for launch in ranked) / 2, 0.0
    for launch in ranked:
        spent += launch.rank_time
        if spent >= half:
            return launch
    return ranked[-1]


def sorted_by_duration(group: Sequence[_T]) -> list[_T]:
    """Shortest first."""
    return sorted(group, key=lambda launch: (launch.rank_time, launch.rank_cycles, -launch.id))


def median(values: Iterable[float]) -> float:
    """The same as `statistics.median`: importing `statistics` takes 10 ms."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2


def chosen_launches(groups: Sequence[Sequence[Launch]], most: int) -> list[Launch]:
    """At most `most` launches of these groups.

    `groups`: identical launches, the group that takes the most time first. The representative of
    each group comes first; the rest is shared among the groups, for launches of all durations.
    """
    groups = groups[:most]
    counts = fair_shares([len(group) for group in groups], most)
    return [
        launch
        for group, count in zip(groups, counts, strict=True)
        for launch in _of_all_durations(group, count)
    ]


def fair_shares(sizes: Sequence[int], most: int) -> list[int]:
    """How many launches of each group: the same number each; what small groups leave goes to larger
    ones. There are at most `most` groups, so each has at least one."""
    shares, left = [0] * len(sizes), most
    smallest_first = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for done, at in enumerate(smallest_first):
        shares[at] = min(sizes[at], left // (len(sizes) - done))
        left -= shares[at]
    return shares


def _of_all_durations(group: Sequence[Launch], count: int) -> list[Launch]:
    """The representative, the longest, the shortest, and others between them."""
    ranked = sorted_by_duration(group)
    last, steps = len(ranked) - 1, max(count - 2, 1)
    spread = [round(last * step / steps) for step in range(steps)]
    # Some of these may be the same launch: others fill up.
    places = dict.fromkeys(
        [ranked.index(representative(group)), last, *spread, *range(len(ranked))]
    )
    return [ranked[place] for place in islice(places, count)]


MAX_DECODED = 400
"""Launches that may stay decoded, about 60 kB each. Of a longer sequence, each is released after
use. Few reports have more."""


def iterate_launches(launches: Sequence[Launch], what: str) -> Iterator[Launch]:
    """Each launch in turn; in a long sequence, each is released before the next one.

    `what`: text for the progress line, such as "reading launches".
    """
    many = len(launches) > MAX_DECODED
    for launch in counted(launches, what):
        yield launch
        if many:
            launch.keep_summary()
            launch.release()
