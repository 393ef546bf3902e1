"""Sequences of launches: the longest first, groups of the same kernel and shape, and one after the
other without keeping all of them decoded in memory.

"Longest" means the same in all commands. Ties keep the order of the report. A launch without a
known duration counts as 0; of two such launches, the one with more GPU cycles comes first. With a
run table, `Profile.by_run_time` sorts by the time in the run instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from keet.profile.launch import Launch
from keet.progress import counted


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
