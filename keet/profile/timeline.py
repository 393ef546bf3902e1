"""Builds a run table from launches with start and end times."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keet.profile.launch import Dim3
from keet.profile.run_table import KernelRun, Recorder, RunLaunch, RunTable

KEPT_LAUNCHES = 50_000
"""Most launches that a table lists one by one: about 1 MB of text. Else totals only."""


class Record(NamedTuple):
    """One recorded launch. Times are in nanoseconds of one clock."""

    name: str
    full: str
    grid: Dim3
    block: Dim3
    start: int
    end: int
    device: int = 0
    process: int = 0
    order: int = 0
    """Sort key within a process; equal for the kernels of one graph launch."""


def in_order(records: Iterable[Record]) -> list[Record]:
    """In the order of launching; processes one after the other, by their first start."""
    listed = list(records)
    began: dict[int, int] = {}
    for record in listed:
        began[record.process] = min(record.start, began.get(record.process, record.start))
    return sorted(listed, key=lambda r: (began[r.process], r.process, r.order, r.start))


def tabulate(
    records: Iterable[Record], recorder: Recorder, *, keep: int = KEPT_LAUNCHES
) -> RunTable:
    """The table of these launches. Their numbers are their positions `in_order`."""
    ordered = in_order(records)
    return table_of(ordered, busy_parts(ordered), recorder, keep=keep)


def table_of(
    ordered: Sequence[Record], parts: BusyParts, recorder: Recorder, *, keep: int = KEPT_LAUNCHES
) -> RunTable:
    """The table of launches that are `in_order` already, with their `busy_parts`."""
    if not ordered:
        return RunTable((), recorder)
    groups: dict[tuple[str, Dim3, Dim3], list[int]] = {}
    for number, record in enumerate(ordered):
        groups.setdefault((record.name, record.grid, record.block), []).append(number)
    single = len(ordered) <= keep
    kernels = tuple(_kernel(ordered, numbers, parts, single=single) for numbers in groups.values())
    first = min(record.start for record in ordered)
    index = {n: at for at, numbers in enumerate(groups.values()) for n in numbers}
    launches = (
        RunLaunch(index[n], record.start - first, record.end - record.start)
        for n, record in enumerate(ordered)
    )
    return RunTable(
        kernels,
        recorder,
        tuple(launches) if single else (),
        span_ns=float(max(record.end for record in ordered) - first),
        gpus=len({record.device for record in ordered}),
    )


def _kernel(
    ordered: Sequence[Record], numbers: Sequence[int], parts: BusyParts, *, single: bool
) -> KernelRun:
    times = [ordered[n].end - ordered[n].start for n in numbers]
    one = ordered[numbers[0]]
    return KernelRun(
        one.name,
        one.full,
        one.grid,
        one.block,
        len(numbers),
        float(sum(times)),
        sum(parts.busy[n] for n in numbers),
        sum(parts.overlapped[n] for n in numbers),
        float(min(times)),
        float(statistics.median(times)),
        float(max(times)),
        numbers[0],
        () if single else _counted(times),
    )


_PER_OCTAVE = 64
"""Bins of `KernelRun.times` per factor of 2: each is 1 % wide."""


def _counted(times: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """A histogram: (average duration, number of launches) per bin."""
    steps: dict[int, list[int]] = defaultdict(list)
    for time in times:
        steps[round(_PER_OCTAVE * math.log2(max(time, 1)))].append(time)
    return tuple((round(statistics.fmean(some)), len(some)) for _, some in sorted(steps.items()))


class BusyParts(NamedTuple):
    """Per launch of a run, in nanoseconds."""

    busy: Sequence[float]
    """The launch's part of the busy time."""
    overlapped: Sequence[float]
    """Time during which other kernels ran on the same GPU."""


def busy_parts(records: Sequence[Record]) -> BusyParts:
    busy, overlapped = [0.0] * len(records), [0.0] * len(records)
    by_device: dict[int, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        if record.end > record.start:
            by_device[record.device].append(number)
    for numbers in by_device.values():
        _share_device(records, numbers, busy, overlapped)
    return BusyParts(busy, overlapped)


def _share_device(
    records: Sequence[Record],
    numbers: Sequence[int],
    busy: list[float],
    overlapped: list[float],
) -> None:
    """One sweep over starts and ends. A launch's part is the integral of 1/n over its time (n: the
    kernels that run), computed as the difference of a running sum at its end and at its start."""
    events = sorted(
        [(records[n].start, 1, n) for n in numbers] + [(records[n].end, 0, n) for n in numbers]
    )
    running, last = 0, events[0][0]
    part, shared = 0.0, 0.0
    at_start: dict[int, tuple[float, float]] = {}
    for time, starts, number in events:
        if running:
            part += (time - last) / running
        if running > 1:
            shared += time - last
        last = time
        if starts:
            at_start[number] = (part, shared)
            running += 1
        else:
            began = at_start.pop(number)
            busy[number], overlapped[number] = part - began[0], shared - began[1]
            running -= 1
