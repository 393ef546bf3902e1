"""The values of a run table: of the run, of each kernel and of each profiled launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from keet.evidence import Evidence
from keet.explanation.whole_run import KernelRow, WholeRun, launch_evidence, whole_run
from keet.profile import KernelRun, Profile
from keet.units import Quantity
from keet.verification.values.report_values import ReportValue

RunValueKind = Literal[
    "total", "single", "launches", "kernels", "faults", "share", "factor", "bytes"
]
"""`total`: time of all launches together; `single`: time of one launch."""

_OF_LAUNCH: dict[str, RunValueKind] = {
    "run_launches": "launches",
    "run_launches_of_shape": "launches",
    "run_share": "share",
    "run_shape_share": "share",
    "run_alike_share": "share",
    "run_busy_time": "total",
    "run_duration": "single",
    "run_mean": "single",
    "run_shortest": "single",
    "run_longest": "single",
    "replay_factor": "factor",
}

_OF_RUN: dict[str, RunValueKind] = {
    "run_busy_time": "total",
    "run_span": "total",
    "run_total_time": "total",
    "run_launches": "launches",
    "run_kernels": "kernels",
    "run_covered": "share",
    "run_idle": "share",
}


class RunValue(NamedTuple):
    kind: RunValueKind
    report_value: ReportValue


class RunSubject(NamedTuple):
    """A run, kernel or launch that a sentence may be about; the most specific values come first."""

    names: tuple[str, ...]
    launch: int | None
    """Launch number in the report; None: a kernel, or the run."""
    facts: tuple[RunValue, ...]

    def of(self, *kinds: RunValueKind) -> list[ReportValue]:
        return [fact.report_value for fact in self.facts if fact.kind in kinds]


class RunSubjects(NamedTuple):
    run: RunSubject
    parts: tuple[RunSubject, ...]
    """Kernels and launches."""


def run_subjects(profile: Profile) -> RunSubjects | None:
    """None if there is no run table."""
    run, positions = whole_run(profile), profile.in_run
    if run is None or positions is None:
        return None
    launches: dict[int, list[RunValue]] = {}
    for number, piece in launch_evidence(profile, positions):
        if piece.metric in _OF_LAUNCH:
            found = RunValue(_OF_LAUNCH[piece.metric], _reading(piece, number))
            launches.setdefault(number, []).append(found)
    parts = [
        RunSubject((), number, tuple(sorted(facts, key=lambda fact: fact.kind != "single")))
        for number, facts in launches.items()
    ]
    parts += [_kernel(row, positions.table.kernels, profile, launches) for row in run.kernels]
    return RunSubjects(RunSubject((), None, tuple(_of_run(run))), tuple(parts))


def _reading(piece: Evidence, launch: int | None = None) -> ReportValue:
    return ReportValue(piece.label, Quantity(piece.value, piece.unit), None, launch)


def _of_run(run: WholeRun) -> Iterator[RunValue]:
    pieces = run.book.by_slug()
    yield from (
        RunValue(kind, _reading(pieces[name])) for name, kind in _OF_RUN.items() if name in pieces
    )
    if run.wall_seconds is not None:
        yield _fact("total", "time of the whole program", run.wall_seconds * 1e9, "ns")
    yield from _of_memory(run)


def _of_memory(run: WholeRun) -> Iterator[RunValue]:
    moved, managed = run.migrations, run.managed_bytes
    if moved is not None:
        yield _fact("faults", "groups of GPU page faults in the run", moved.fault_groups, "")
        yield _fact("bytes", "managed memory moved to the GPU", moved.to_gpu_bytes, "byte")
        yield _fact("bytes", "managed memory moved to the host", moved.to_host_bytes, "byte")
    if managed is not None:
        yield _fact("bytes", "managed memory allocated", managed, "byte")


def _kernel(
    row: KernelRow,
    kernels: Sequence[KernelRun],
    profile: Profile,
    launches: dict[int, list[RunValue]],
) -> RunSubject:
    shapes = [kernel for kernel in kernels if (kernel.full or kernel.short) == row.kernel_full]
    named = [profile.launches[number].name for number in row.profiled]
    names = {row.kernel, *(n for each in named for n in (each.short, each.full, each.function))}
    facts = [
        *_of_kernel(row, shapes),
        *(
            fact
            for number in row.profiled
            for fact in launches.get(number, ())
            # What one of several launches represents is not the value of the kernel.
            if fact.kind == "single" or len(row.profiled) == 1
        ),
        *_of_single_launches(row, shapes),
    ]
    return RunSubject(tuple(filter(None, names)), None, tuple(facts))


def _of_kernel(row: KernelRow, shapes: Sequence[KernelRun]) -> Iterator[RunValue]:
    share, launches, busy, *_ = row.evidence
    yield RunValue("total", _reading(busy))
    yield RunValue("launches", _reading(launches))
    yield RunValue("share", _reading(share))
    total = sum(kernel.total_ns for kernel in shapes)
    yield _fact("total", f"sum of durations of {row.kernel}", total, "ns")


def _of_single_launches(row: KernelRow, shapes: Sequence[KernelRun]) -> Iterator[RunValue]:
    total, launches = sum(k.total_ns for k in shapes), sum(k.launches for k in shapes)
    if launches:
        yield _fact("single", f"average duration of {row.kernel}", total / launches, "ns")
    yield from (RunValue("single", _reading(end)) for end in row.evidence[3:])
    for kernel in shapes:
        if kernel.median_ns is not None:
            yield _fact("single", f"median duration of {row.kernel}", kernel.median_ns, "ns")


def _fact(kind: RunValueKind, label: str, value: float, unit: str) -> RunValue:
    return RunValue(kind, ReportValue(label, Quantity(value, unit), None, None))
