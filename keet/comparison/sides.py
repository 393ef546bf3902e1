"""The two sides of a comparison: their reports, and launches grouped by kernel and shape."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from keet.profile import Launch, Profile
from keet.profile.launch import Dim3

_SELECTING = re.compile(
    r"(?<!\S)(-k|-s|--kernel-name|--kernel-id|--launch-skip|--nvtx-include|--nvtx-exclude"
    r"|--launch-skip-before-match|--graph-profiling|--range-filter|--profile-from-start"
    r"|--devices)[\s=]"
)
"""Options of ncu that select launches."""


class _SideCapture(NamedTuple):
    profile: Profile
    launches: tuple[Launch, ...]


class SideCapture(_SideCapture):
    """One report, and the launches of it that are compared."""

    # No `__slots__`: cached properties need `__dict__`, and they are read once per kernel.

    @property
    def partial(self) -> bool:
        """Only some launches of the report were chosen."""
        return len(self.launches) != len(self.profile.launches)

    @cached_property
    def groups(self) -> Mapping[LaunchKey, KernelGroup]:
        """In the order in which they are first launched."""
        return {group.key: group for group in groups_of(self.launches)}

    @cached_property
    def is_captured(self) -> bool:
        return all_captured(self.profile)

    @cached_property
    def _left_out(self) -> frozenset[str]:
        """Kernels with launches that were not chosen."""
        chosen = {launch.id for launch in self.launches}
        return frozenset(
            launch.name.full for launch in self.profile.launches if launch.id not in chosen
        )

    def has_all_launches_of(self, names: Collection[str]) -> bool:
        """Whether every launch that the program made of these kernels is compared."""
        if not self.partial or not self.is_captured:
            return self.is_captured
        return self._left_out.isdisjoint(names)


def all_captured(profile: Profile) -> bool:
    """Whether the report has every launch of the program, by ncu's command line: no option selected
    launches, or the program made fewer than the limit."""
    line = profile.provenance.command_line
    if line is None or _SELECTING.search(line):
        return False
    limit = re.search(r"(?<!\S)(?:--launch-count|-c)(?:\s+|=)(\d+)", line)
    return limit is None or len(profile.launches) < int(limit[1])


def distinct_captures(runs: Sequence[SideCapture]) -> tuple[SideCapture, ...]:
    """Each report once: a copy of a report would make the noise look smaller."""
    return tuple({run.profile.provenance.sha256: run for run in reversed(runs)}.values())[::-1]


class Side(NamedTuple):
    """Before, or after: the same program, profiled once or several times."""

    captures: tuple[SideCapture, ...]
    times: int | None = None
    """Launches of the program per launch in the report (`--times`); None: not given."""

    @property
    def scale(self) -> int:
        return self.times or 1

    @property
    def has_tables(self) -> bool:
        """Each report has a complete run table. A table that lacks launches does not give the time
        of the run."""
        return all(
            run.profile.run is not None and run.profile.run.complete for run in self.captures
        )

    @property
    def cut_short(self) -> bool:
        """A report has a run table, but the table lacks launches of the run."""
        return any(run.profile.run and not run.profile.run.complete for run in self.captures)

    @property
    def knows_run(self) -> bool:
        """There is a run table, or the reports contain every launch of the run."""
        return self.has_tables or all(all_captured(run.profile) for run in self.captures)

    @property
    def first(self) -> SideCapture:
        """The capture that is analysed; the others only show how much times vary."""
        return self.captures[0]


class LaunchKey(NamedTuple):
    """Launches with equal keys are repetitions of each other."""

    name: str
    grid: Dim3 | None
    block: Dim3 | None


def key_of(launch: Launch) -> LaunchKey:
    return LaunchKey(launch.name.full, launch.grid, launch.block)


class _KernelGroup(NamedTuple):
    launches: tuple[Launch, ...]


class KernelGroup(_KernelGroup):
    """Launches of one kernel with one shape, in the order of the report."""

    @cached_property
    def key(self) -> LaunchKey:
        return key_of(self.launches[0])

    @property
    def kernel(self) -> str:
        return self.launches[0].kernel

    @cached_property
    def typical(self) -> Launch:
        """The launch that represents the others: the one with the median time."""
        ranked = sorted(self.launches, key=lambda launch: (launch.rank_time, launch.id))
        return ranked[(len(ranked) - 1) // 2]

    @cached_property
    def times(self) -> list[float] | None:
        """Nanoseconds of each launch; `None` where one was not measured."""
        durations = [duration_of(launch) for launch in self.launches]
        known = [time for time in durations if time is not None]
        return known if len(known) == len(durations) else None


def duration_of(launch: Launch) -> float | None:
    """Nanoseconds, where they were measured."""
    duration = launch.get("duration")
    return float(duration.value) if duration else None


def threads_of(group: KernelGroup) -> int:
    """Threads of one launch; 1 where its shape is not known."""
    return math.prod(size for dim in group.key[1:] for size in dim or ())


def groups_of(launches: Sequence[Launch]) -> tuple[KernelGroup, ...]:
    """In the order in which they are first launched."""
    by_key: dict[LaunchKey, list[Launch]] = {}
    for launch in launches:
        by_key.setdefault(key_of(launch), []).append(launch)
    return tuple(KernelGroup(tuple(members)) for members in by_key.values())


def time_in(run: SideCapture, groups: Sequence[KernelGroup]) -> float | None:
    """Nanoseconds of all launches of these groups in a capture; `None` if one is missing."""
    total = 0.0
    for group in groups:
        same = run.groups.get(group.key)
        times = same.times if same else None
        if times is None or len(times) != len(group.launches):
            return None
        total += sum(times)
    return total
