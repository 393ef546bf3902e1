"""Launches of one kernel with one shape: programs repeat them, and one of them stands for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from keet.profile.launch import Launch


def by_kernel_and_shape(launches: Iterable[Launch]) -> list[list[Launch]]:
    """Launches of the same kernel with the same grid and block, in the order of the first."""
    groups: dict[tuple[object, ...], list[Launch]] = defaultdict(list)
    for launch in launches:
        key = (launch.workload, launch.name.full, launch.grid, launch.block, launch.device)
        groups[key].append(launch)
    return list(groups.values())


def representative(group: Sequence[Launch]) -> Launch:
    """The one with the median duration; of two the longer one."""
    return sorted_by_duration(group)[len(group) // 2]


def sorted_by_duration(group: Sequence[Launch]) -> list[Launch]:
    """The shortest first."""
    return sorted(group, key=lambda launch: (launch.rank_time, -launch.id))


def median(values: Iterable[float]) -> float:
    """As in `statistics`, which takes ten milliseconds to import."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
