"""The run table: the GPU time of every kernel of a program that ran without a profiler.

A report has launches that ncu replayed one by one. The run table has the whole run, and shows how
much of it each profiled launch represents. `tabulate` makes one from launches with start and end
times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from keet.profile.launch import Dim3, short_name


def _is_utc_time(text: str) -> bool:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo == UTC and moment.isoformat()[:19] == text[:19]


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


UtcTime = Annotated[str, _is_utc_time, "a time in UTC like 2026-11-15T08:50:00+00:00"]
"""Such times can be compared with each other."""
Sha256 = Annotated[str, _is_sha256, "a SHA-256 (64 hexadecimal digits)"]


Recorder = Literal["cupti", "nsys", "ncu", "file"]
"""What measured the times: CUPTI or Nsight Systems in a plain run, ncu one launch at a time without
replay, or unknown (a file that the user made)."""

RECORDER_NAMES: Mapping[Recorder, str] = {
    "cupti": "recorded with CUPTI in a run without a profiler",
    "nsys": "recorded by Nsight Systems",
    "ncu": "measured by ncu, one launch at a time and nothing else on the GPU",
    "file": "from a table that was given",
}

USE_ANYWAY = "; to use it anyway: "
"""In `Profile.run_problem`, precedes the option that makes keet use the table. `diff` replaces the
option by that of a side."""


class KernelRun(NamedTuple):
    """One kernel in one launch shape, over the whole run. Times in nanoseconds."""

    name: str
    """Mangled if the recorder knows that form; else as in the file."""
    full: str
    """Demangled, if that is known."""
    grid: Dim3 | None
    """None: the table does not distinguish shapes."""
    block: Dim3 | None
    launches: int
    total_ns: float
    """The sum of the launches' durations."""
    busy_ns: float
    """Its part of the time in which the GPU ran kernels: while n kernels run at once, each counts
    for 1/n. The parts of all kernels add up to the busy time."""
    overlapped_ns: float | None = None
    """Part of `total_ns` during which another kernel ran on the same GPU. None: not known."""
    shortest_ns: float | None = None
    median_ns: float | None = None
    longest_ns: float | None = None
    """Of single launches; None: only the total is known."""
    first: int | None = None
    """Number of its first launch in the run, from 0."""
    times: tuple[tuple[int, int], ...] = ()
    """Histogram of durations (duration, launches) with bins of 1 %, for tables that do not list
    every launch."""

    @property
    def short(self) -> str:
        return short_name(self.full)

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.launches if self.launches else 0.0


class RunLaunch(NamedTuple):
    """One launch of the run; its index in `RunTable.launches` is its number."""

    kernel: int
    """Index into `RunTable.kernels`."""
    start_ns: int
    """Since the first launch began."""
    ns: int


class ProfiledLaunch(NamedTuple):
    """A launch of the report, and the launch of the run that it repeats."""

    launch: int
    """Number in the report."""
    number: int
    """Number in the run."""
    ns: float
    """Its time in the run."""


class SkippedKernel(NamedTuple):
    """A kernel that could not be profiled."""

    kernel: str
    reason: str
    remedy: str


class Migrations(NamedTuple):
    """Managed memory that migrated between host and GPU over the whole run."""

    to_gpu_bytes: int
    to_host_bytes: int
    fault_groups: int
    """Groups of page faults that kernels caused."""


class _RunTable(NamedTuple):
    """The fields of a run table."""

    kernels: tuple[KernelRun, ...]
    """In the order of their first launches, if that is known."""
    recorder: Recorder
    launches: tuple[RunLaunch, ...] = ()
    """Each launch in order; empty if there are too many, or if only totals are known."""
    profiled: tuple[ProfiledLaunch, ...] = ()
    command: tuple[str, ...] = ()
    created: UtcTime | None = None
    wall_s: float | None = None
    """Wall time of the program in that run."""
    exit_code: int | None = None
    """Of the program in that run; None: not known."""
    complete: bool = True
    """Whether it has every launch. False if the run was interrupted, a process did not end
    normally, or launches were lost or not counted; times are then lower bounds."""
    span_ns: float | None = None
    """From the start of the first kernel to the end of the last one."""
    gpus: int | None = None
    """Number of GPUs that ran kernels; None: not known."""
    managed_bytes: int | None = None
    """Managed memory that the program allocated; None: not known."""
    migrations: Migrations | None = None
    skipped: tuple[SkippedKernel, ...] = ()
    notes: tuple[str, ...] = ()
    """Warnings about the times for the user."""
    report_created: UtcTime | None = None
    """`Provenance.created` of the report that the table belongs to."""
    path: str | None = None
    """Where it was read from."""


class RunTable(_RunTable):
    """A whole run of the program."""

    # No `__slots__`: sums over thousands of kernels are needed once per launch, and are cached.

    @cached_property
    def launch_count(self) -> int:
        return sum(kernel.launches for kernel in self.kernels)

    @cached_property
    def overlap_known(self) -> bool:
        """Whether it is known which kernels ran at the same time. If not, `busy_ns` is the sum of
        the durations."""
        return all(kernel.overlapped_ns is not None for kernel in self.kernels)

    @cached_property
    def busy_ns(self) -> float:
        """Time in which the GPU ran at least one kernel, over all GPUs; see `overlap_known`."""
        return sum(kernel.busy_ns for kernel in self.kernels)

    @cached_property
    def total_ns(self) -> float:
        """The sum of all launches' durations: more than `busy_ns` where kernels overlap."""
        return sum(kernel.total_ns for kernel in self.kernels)


KnownBy = Literal["launch", "shape", "kernel"]
"""Where the time of a profiled launch in the run is from: from exactly that launch, or the median
(else the average) of launches with the same kernel and shape, or of all launches of the kernel."""


class Position(NamedTuple):
    """What one profiled launch represents in the run. Times in nanoseconds."""

    launches: float
    """Launches of the run, including this one. A fraction if several profiled launches share
    launches that the table does not distinguish."""
    total_ns: float
    busy_ns: float
    shapes: int
    """Launch shapes among them."""
    overlapped_ns: float | None
    shortest_ns: float | None
    longest_ns: float | None
    plain_ns: float | None
    """Time of this launch in the run: see `known_by`. None: the table has no time for it."""
    known_by: KnownBy | None
    profiled_ns: float | None = None
    """Under replay, the average of the profiled launches of the kernel; None: not measured."""
    alike_ns: float | None = None
    """Part of `busy_ns` in launches that took between half and twice as long as this one. None: not
    known."""

    assumed: bool = False
    """Whether `launches` and the times are assumed: several profiled launches share launches that
    the table does not distinguish, in proportion to their own times."""

    @property
    def alike(self) -> float | None:
        """`alike_ns` as a share of `busy_ns`, 0 to 1."""
        if self.alike_ns is None or not self.busy_ns:
            return None
        return min(1.0, self.alike_ns / self.busy_ns)


class RunPositions:
    """What each launch of a report represents in the run, and which kernels were not profiled."""

    def __init__(
        self,
        table: RunTable,
        positions: Mapping[int, Position],
        unprofiled: tuple[KernelRun, ...],
        profiled: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.table = table
        self.positions = positions
        self.unprofiled = unprofiled
        self.profiled = profiled or {}
        """Numbers of the report's launches of each kernel, by `KernelRun.name`."""

    def of(self, launch: int) -> Position | None:
        """By the launch's number in the report; None: the run has no such kernel."""
        return self.positions.get(launch)

    def busy_ns(self, launch: int) -> float:
        """Busy time of the launches that it represents; 0: the run has no such kernel."""
        position = self.of(launch)
        return position.busy_ns if position else 0.0

    @cached_property
    def unprofiled_ns(self) -> float:
        """Busy time of the kernels that no launch of the report represents."""
        return sum(kernel.busy_ns for kernel in self.unprofiled)


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
    from statistics import median  # takes 10 ms, and few programs are looked at with a run table

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
        float(median(times)),
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
    return tuple((round(sum(some) / len(some)), len(some)) for _, some in sorted(steps.items()))


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
