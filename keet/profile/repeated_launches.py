"""Groups launches by kernel and shape, and picks one that represents a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from keet.profile.launch import Launch

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


def representative(group: Sequence[Launch]) -> Launch:
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


def sorted_by_duration(group: Sequence[Launch]) -> list[Launch]:
    """Shortest first."""
    return sorted(group, key=lambda launch: (launch.rank_time, -launch.id))


def median(values: Iterable[float]) -> float:
    """The same as `statistics.median`: importing `statistics` takes 10 ms."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
