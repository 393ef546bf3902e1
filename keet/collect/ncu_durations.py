"""Times launches with ncu, one at a time, where neither CUPTI nor nsys can record the run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from keet.collect.ncu_errors import program_status
from keet.collect.ncu_run import NcuRun, RunLimits, count_launches, failure, run
from keet.collect.plain_run import PlainRun, recorded_run
from keet.ingest import read_profile
from keet.profile import Launch
from keet.profile.run_table import RunTable
from keet.profile.timeline import Record

MOST_LAUNCHES = 1_000
"""Launches that are timed: each costs some milliseconds of the program's time."""
_ALONE = (
    "each launch was timed alone under ncu: the times do not include overlap, or page migrations "
    "caused by the host"
)


def duration_command(
    program: Sequence[str], ncu: str, report: Path, log: Path, clock_control: str
) -> list[str]:
    return [
        ncu,
        *("--metrics", "gpu__time_duration.sum"),
        *("--cache-control", "none", "--clock-control", clock_control),
        *("--target-processes", "all", "--launch-count", str(MOST_LAUNCHES)),
        *("--log-file", str(log), "--force-overwrite", "--export", str(report)),
        *program,
    ]


def record_with_ncu(
    program: Sequence[str], ncu: str, folder: Path, clock_control: str, limits: RunLimits
) -> PlainRun:
    """Raises NotAvailable or ProgramFailed if no launch could be timed."""
    report, log = folder / "durations.ncu-rep", folder / "durations.log"
    began = time.monotonic()
    command = duration_command(program, ncu, report, log, clock_control)
    done = run(command, log, lambda _: None, limits)
    if not count_launches(report):
        raise failure(program, done)
    launches = read_profile(report).launches
    about = RunTable(
        (),
        "ncu",
        wall_s=time.monotonic() - began,
        exit_code=0 if done.ended else program_status(done.log) or 0,
        complete=len(launches) < MOST_LAUNCHES and not done.ended,
        notes=tuple(_notes(len(launches), done)),
    )
    found = recorded_run(_records(launches), about)
    return found._replace(table=_without_overlap(found.table))


def _notes(launches: int, done: NcuRun) -> Iterator[str]:
    yield _ALONE
    if launches >= MOST_LAUNCHES:
        yield f"only the first {MOST_LAUNCHES:,} launches were timed"
    if done.ended:
        yield "the program made no progress under ncu and was ended: later launches are missing"


def _records(launches: Sequence[Launch]) -> list[Record]:
    """One after the other, because start times are not known."""
    records, clock = [], 0
    processes: dict[str | None, int] = {}
    for launch in launches:
        ns = int(launch.rank_time)
        process = processes.setdefault(launch.process, len(processes))
        name, full = launch.name.mangled or launch.name.full, launch.name.full
        shape = (launch.grid or (0, 0, 0), launch.block or (0, 0, 0))
        records.append(Record(name, full, *shape, clock, clock + ns, 0, process, launch.id))
        clock += ns
    return records


def _without_overlap(table: RunTable) -> RunTable:
    """ncu serializes launches, so overlap, span and GPUs are unknown."""
    kernels = tuple(kernel._replace(overlapped_ns=None) for kernel in table.kernels)
    return table._replace(kernels=kernels, span_ns=None, gpus=None)
