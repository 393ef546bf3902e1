"""Which launches of a run the launches of a report stand for.

Each launch of the run is counted for one profiled launch of the same kernel: one with the same
shape where there is one, else the one whose time in the run is nearest. So the parts add up to the
run, whatever was profiled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from keet.profile.launch import Launch
from keet.profile.run_table import KernelRun, KnownBy, Position, RunPositions, RunTable


class _Share(NamedTuple):
    """Launches of one `KernelRun` that one profiled launch stands for."""

    kernel: KernelRun
    part: float
    """Of the kernel's launches, 0 to 1."""
    times: Sequence[float]
    """Of these launches, one by one; empty where only totals are known."""

    @property
    def weight(self) -> float:
        """Of the kernel's time, 0 to 1."""
        if not self.times or not self.kernel.total_ns:
            return self.part
        return sum(self.times) / self.kernel.total_ns


def place_in_run(launches: Iterable[Launch], table: RunTable) -> RunPositions:
    """Where the launches of a report stand in the run."""
    linker = _Linker(table)
    known = _Names(table.kernels)
    members: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        if (name := known.name_of(launch)) is not None:
            members[name].append(launch)
    found: dict[int, Position] = {}
    for name, group in members.items():
        found |= linker.positions(known.kernels[name], group)
    unprofiled = tuple(kernel for kernel in table.kernels if kernel.name not in members)
    return RunPositions(table, found, unprofiled)


class _Names:
    """Finds the name that a table has for a kernel. A form that two names share finds neither."""

    def __init__(self, kernels: Sequence[KernelRun]) -> None:
        self.kernels: dict[str, list[KernelRun]] = defaultdict(list)
        forms: dict[str, set[str]] = defaultdict(set)
        for kernel in kernels:
            self.kernels[kernel.name].append(kernel)
            for form in (kernel.name, kernel.full, _spaceless(kernel.full), kernel.short):
                forms[form].add(kernel.name)
        self._forms = {form: next(iter(names)) for form, names in forms.items() if len(names) == 1}

    def name_of(self, launch: Launch) -> str | None:
        """By the surest form first: functions share a short name, templates a function's."""
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

    def positions(
        self, kernels: Sequence[KernelRun], members: Sequence[Launch]
    ) -> Mapping[int, Position]:
        """Of the profiled launches of one kernel, which is in the run in several shapes."""
        shares: dict[int, list[_Share]] = {launch.id: [] for launch in members}
        for kernel in kernels:
            same = [launch for launch in members if _same_shape(launch, kernel)]
            for launch, share in self._divided(kernel, same or members):
                shares[launch.id].append(share)
        return {each.id: self._position(each, kernels, shares[each.id]) for each in members}

    def _divided(
        self, kernel: KernelRun, members: Sequence[Launch]
    ) -> Iterable[tuple[Launch, _Share]]:
        times = self._times.get(_key(kernel), [])
        if len(members) == 1:
            return [(members[0], _Share(kernel, 1.0, times))]
        logs = [math.log(max(self._own_time(launch), 1.0)) for launch in members]
        if not times or len(set(logs)) == 1:
            # Nothing tells which launch stands for which: each for as many.
            return [(launch, _Share(kernel, 1 / len(members), ())) for launch in members]
        nearest: list[list[float]] = [[] for _ in members]
        for time in times:
            nearest[_nearest(math.log(max(time, 1.0)), logs)].append(time)
        return [
            (launch, _Share(kernel, len(own) / len(times), own))
            for launch, own in zip(members, nearest, strict=True)
            if own
        ]

    def _own_time(self, launch: Launch) -> float:
        """In the run, where it is known which launch of the run it is; else under replay."""
        return self._exact.get(launch.id) or launch.rank_time

    def _position(
        self, launch: Launch, kernels: Sequence[KernelRun], shares: Sequence[_Share]
    ) -> Position:
        overlaps = [share.kernel.overlapped_ns for share in shares]
        known = [each for each in overlaps if each is not None]
        plain, known_by = self._plain_time(launch, kernels)
        return Position(
            launches=sum(share.part * share.kernel.launches for share in shares),
            total_ns=sum(share.weight * share.kernel.total_ns for share in shares),
            busy_ns=sum(share.weight * share.kernel.busy_ns for share in shares),
            shapes=len({share.kernel[2:4] for share in shares}),
            overlapped_ns=(
                sum(s.weight * each for s, each in zip(shares, known, strict=True))
                if len(known) == len(shares)
                else None
            ),
            shortest_ns=_extreme(min, shares, lambda kernel: kernel.shortest_ns),
            longest_ns=_extreme(max, shares, lambda kernel: kernel.longest_ns),
            plain_ns=plain,
            known_by=known_by,
        )

    def _plain_time(
        self, launch: Launch, kernels: Sequence[KernelRun]
    ) -> tuple[float | None, KnownBy | None]:
        if launch.id in self._exact:
            return self._exact[launch.id], "launch"
        for kernel in kernels:
            if kernel.median_ns is not None and _same_shape(launch, kernel):
                return kernel.median_ns, "shape"
        launches = sum(kernel.launches for kernel in kernels)
        total = sum(kernel.total_ns for kernel in kernels)
        return (total / launches, "kernel") if launches and total else (None, None)


def _key(kernel: KernelRun) -> tuple[object, ...]:
    return kernel.name, kernel.grid, kernel.block


def _same_shape(launch: Launch, kernel: KernelRun) -> bool:
    """A table without shapes does not tell them apart."""
    return kernel.grid is None or (launch.grid, launch.block) == (kernel.grid, kernel.block)


def _nearest(log: float, logs: Sequence[float]) -> int:
    """By ratio of the times; of equals the first."""
    return min(range(len(logs)), key=lambda at: abs(log - logs[at]))


def _extreme(
    pick: Callable[[Iterable[float]], float],
    shares: Sequence[_Share],
    of_kernel: Callable[[KernelRun], float | None],
) -> float | None:
    """The shortest or longest launch; None where only totals are known of one kernel."""
    found = [pick(share.times) if share.times else of_kernel(share.kernel) for share in shares]
    known = [each for each in found if each is not None]
    return pick(known) if known and len(known) == len(found) else None
