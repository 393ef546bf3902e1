"""Launches of one kernel by shape and by duration: in the run if its table is known, else in the
report.

Durations that fall into clearly separate clusters belong to separate sets: a kernel that trains and
validates in turn has two, and only one of them takes the time.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.parameters import NEGLIGIBLE, NOTABLE_PART, Parameter
from keet.profile import Launch, Profile, RunPositions, RunTable
from keet.profile.launch import Dim3
from keet.profile.run_link import by_kernel_and_shape, median, representative

APART = Parameter(2.0, "ratio of neighbouring durations that separates two clusters", "judgement")
MOST_CLUSTERS = 4
"""Of one kernel and shape: the widest gaps between durations separate them."""
_Timed = tuple[float, int]
"""A duration in nanoseconds, and the number of its launch."""


class LaunchSet(NamedTuple):
    """Launches of one kernel with one shape and about one duration. Times in nanoseconds."""

    kernel: str
    grid: Dim3 | None
    block: Dim3 | None
    launches: int
    of_kernel: int
    """Launches of the kernel, in all sets."""
    busy_ns: float
    """Their part of the GPU time."""
    median_ns: float | None
    profiled: tuple[int, ...]
    """Launches of the report that belong to it."""
    is_kernel_profiled: bool
    """Whether the report has any launch of the kernel."""
    row: int
    """Of the kernel and shape, in the order of the table or of the report: equal for the clusters
    of one shape."""
    gap_ns: float | None = None
    """Median time without a kernel before each launch; None: not known."""


class LaunchSets(NamedTuple):
    """All launches that are known of."""

    sets: tuple[LaunchSet, ...]
    """The most time first."""
    busy_ns: float
    gaps_ns: float | None
    """All times without a kernel that are no longer than `LONGEST_GAP_NS`; None: not known."""
    order: tuple[int, ...]
    """The rows of the launches, in their order; empty: not known."""
    in_run: bool
    """Whether they are those of the run; else of the report."""

    def share(self, some: Sequence[LaunchSet]) -> float:
        """Per cent of the time."""
        busy_ns = sum(launch_set.busy_ns for launch_set in some)
        return 100 * busy_ns / self.busy_ns if self.busy_ns else 0.0


LONGEST_GAP_NS = Parameter(
    20_000.0, "nanoseconds without a kernel up to which launching is the reason", "judgement"
)


def launch_sets(profile: Profile) -> LaunchSets:
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return _of_report(profile.launches)
    return _of_run(profile, positions)


# --- of the run


def _of_run(profile: Profile, positions: RunPositions) -> LaunchSets:
    table = positions.table
    numbers: dict[int, list[int]] = defaultdict(list)
    for number, launch in enumerate(table.launches):
        numbers[launch.kernel].append(number)
    gaps = _gaps(table)
    exact = {profiled.launch: profiled.ns for profiled in table.profiled}
    of_kernel = Counter[str]()
    for kernel in table.kernels:
        of_kernel[kernel.name] += kernel.launches
    sets: list[LaunchSet] = []
    for at, kernel in enumerate(table.kernels):
        ids = positions.profiled.get(kernel.name, ())
        launches = [profile.launches[number] for number in ids]
        if kernel.grid:
            shape = (kernel.grid, kernel.block)
            launches = [launch for launch in launches if (launch.grid, launch.block) == shape]

        times = {launch.id: exact.get(launch.id) or launch.rank_time for launch in launches}
        launch_set = LaunchSet(
            kernel.short,
            kernel.grid,
            kernel.block,
            kernel.launches,
            of_kernel[kernel.name],
            kernel.busy_ns,
            kernel.median_ns or (kernel.mean_ns if kernel.launches == 1 else None),
            tuple(times),
            bool(ids),
            at,
        )
        durations = [(float(table.launches[n].ns), n) for n in numbers[at]]
        counted = ((float(ns), -1) for ns, count in kernel.times for _ in range(count))
        sets += _divided(launch_set, durations or [*counted], times, gaps)
    short = [gap for gap in gaps.values() if gap <= LONGEST_GAP_NS]
    return LaunchSets(
        tuple(sorted(sets, key=lambda launch_set: -launch_set.busy_ns)),
        table.busy_ns,
        sum(short) if gaps else None,
        tuple(launch.kernel for launch in table.launches),
        in_run=True,
    )


def _gaps(table: RunTable) -> Mapping[int, float]:
    """Time without a kernel before each launch, by its number. Empty for several GPUs, whose
    launches the table does not tell apart."""
    if table.gpus != 1 or not table.overlap_known:
        return {}
    gaps: dict[int, float] = {}
    end: int | None = None
    launches = table.launches
    for number in sorted(range(len(launches)), key=lambda n: launches[n].start_ns):
        launch = launches[number]
        if end is not None:
            gaps[number] = float(max(0, launch.start_ns - end))
        end = max(end or 0, launch.start_ns + launch.ns)
    return gaps


def _divided(
    launch_set: LaunchSet,
    durations: Sequence[_Timed],
    profiled: Mapping[int, float],
    gaps: Mapping[int, float],
) -> Iterator[LaunchSet]:
    """The launches of a kernel and shape, by clusters of their durations. `profiled`: the time of
    each profiled launch in the run."""
    clusters = _clusters(sorted(durations))
    whole = sum(ns for ns, _ in durations)
    if not clusters or not whole:
        yield launch_set
        return
    typical = [median(ns for ns, _ in cluster) for cluster in clusters]
    of: dict[int, list[int]] = defaultdict(list)
    for launch, ns in profiled.items():
        off = [abs(math.log(max(middle, 1.0) / max(ns, 1.0))) for middle in typical]
        of[off.index(min(off))].append(launch)

    for at, cluster in enumerate(clusters):
        idle = [gaps[number] for _, number in cluster if number in gaps]
        yield launch_set._replace(
            launches=len(cluster),
            busy_ns=launch_set.busy_ns * sum(ns for ns, _ in cluster) / whole,
            median_ns=typical[at],
            profiled=tuple(of[at]),
            gap_ns=median(idle) if idle else None,
        )


def _clusters(durations: Sequence[_Timed]) -> list[Sequence[_Timed]]:
    """Of sorted durations. A few launches that take hardly any of the time are no cluster."""
    steps = (
        (later[0] / max(earlier[0], 1.0), at)
        for at, (earlier, later) in enumerate(pairwise(durations), 1)
    )
    widest = sorted(step for step in steps if step[0] >= APART)[-(MOST_CLUSTERS - 1) :]
    edges = (0, *sorted(at for _, at in widest), len(durations))
    whole = sum(ns for ns, _ in durations)

    def is_small(some: Sequence[_Timed]) -> bool:
        takes = sum(ns for ns, _ in some) / whole if whole else 0.0
        return takes < NEGLIGIBLE and len(some) < NOTABLE_PART * len(durations)

    clusters: list[Sequence[_Timed]] = []
    for start, end in pairwise(edges):
        some = durations[start:end]
        if clusters and (is_small(some) or is_small(clusters[-1])):
            clusters[-1] = (*clusters[-1], *some)
        elif some:
            clusters.append(some)
    return clusters


# --- of the report


def _of_report(launches: Sequence[Launch]) -> LaunchSets:
    groups = by_kernel_and_shape(launches)
    row_of = {launch.id: row for row, group in enumerate(groups) for launch in group}
    of_kernel = Counter(launch.name.full for launch in launches)
    sets: list[LaunchSet] = []
    for row, group in enumerate(groups):
        first = representative(group)
        timed: list[_Timed] = [(launch.rank_time, launch.id) for launch in group]
        is_known = all(ns for ns, _ in timed)
        for cluster in _clusters(sorted(timed)) if is_known else [timed]:
            usual = median(ns for ns, _ in cluster) if is_known else None
            busy_ns, ids = sum(ns for ns, _ in cluster), tuple(sorted(id_ for _, id_ in cluster))
            shape, of_all = (first.kernel, first.grid, first.block), of_kernel[first.name.full]
            sets.append(LaunchSet(*shape, len(cluster), of_all, busy_ns, usual, ids, True, row))
    return LaunchSets(
        tuple(sorted(sets, key=lambda launch_set: -launch_set.busy_ns)),
        sum(launch_set.busy_ns for launch_set in sets),
        None,
        tuple(row_of[launch.id] for launch in launches),
        in_run=False,
    )


# --- in turn

_MOST_ROWS = 10
"""Kernels and shapes that are compared with each other: those with the most time."""
_MOST_LAUNCHES = 5_000
"""Launches whose order is looked at."""


def taking_turns(sets: LaunchSets, many: int) -> Iterator[tuple[LaunchSet, ...]]:
    """Kernels of one loop: between two launches of one there is one of the other. Kernels of two
    phases, one after the other, take no turns. Those that were not profiled count if they take
    time. `many`: launches of each at least."""
    rows: dict[int, LaunchSet] = {}
    for launch_set in sets.sets:
        matters = launch_set.profiled or sets.share([launch_set]) >= 100 * NEGLIGIBLE
        if matters and launch_set.launches >= many:
            rows.setdefault(launch_set.row, launch_set)
    chosen = list(rows)[:_MOST_ROWS]
    order = [row for row in sets.order[:_MOST_LAUNCHES] if row in chosen]
    loops: list[set[int]] = []
    for at, row in enumerate(chosen):
        near = {row, *(other for other in chosen[:at] if _take_turns(order, row, other))}
        apart = [loop for loop in loops if not loop & near]
        loops = [*apart, near.union(*(loop for loop in loops if loop & near))]
    for loop in loops:
        if len(loop) > 1:
            # In the order in which they are launched first.
            yield tuple(rows[row] for row in dict.fromkeys(order) if row in loop)


def _take_turns(order: Sequence[int], first: int, second: int) -> bool:
    turns_of_both = [row for row in order if row in (first, second)]
    turns = sum(a != b for a, b in pairwise(turns_of_both))
    return turns >= min(turns_of_both.count(first), turns_of_both.count(second)) > 1
