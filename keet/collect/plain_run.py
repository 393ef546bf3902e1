"""Runs the program once without replay and records what every launch took.

CUPTI in the program's own process is the first choice: it sees every launch with its overlaps, at
about a microsecond per launch. Where it can't be had, Nsight Systems; else ncu with the duration
alone, which runs launches one at a time and is bounded.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from keet.collect.record_file import Recording, read_recording
from keet.collect.recorder import NoRecorder, build_recorder
from keet.profile.run_table import Recorder, RunTable
from keet.profile.timeline import Record, in_order, tabulate

_GRACE_SECONDS = 20
"""How long the program may take to end after Ctrl-C."""
INJECTION = "CUDA_INJECTION64_PATH"

Progress = Callable[[str], None]


class PlainRun(NamedTuple):
    """A recorded run of the program."""

    records: tuple[Record, ...]
    """In the order in which the host made them."""
    table: RunTable
    status: int
    """The program's exit code; 128 and the signal's number where one ended it."""
    seconds: float


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C while the program ran plainly; what was recorded until then."""

    def __init__(self, run: PlainRun) -> None:
        super().__init__()
        self.run = run


def record_plain_run(
    program: Sequence[str], ncu: str, folder: Path, clock_control: str, progress: Progress
) -> PlainRun:
    """`folder`: for files that are needed meanwhile. The run may have recorded nothing."""
    reasons: list[str] = []
    for record in (_with_cupti, _with_nsys):
        try:
            found = record(program, folder)
        except NoRecorder as reason:
            reasons.append(str(reason))
            continue
        if found.records:
            return found
        reasons.append("no launch was recorded")
    from keet.collect.durations import record_with_ncu

    progress(f"{'; '.join(reasons)}: timing the launches with ncu instead, one at a time")
    return record_with_ncu(program, ncu, folder, clock_control, progress)


# --- CUPTI


def _with_cupti(program: Sequence[str], folder: Path) -> PlainRun:
    if os.environ.get(INJECTION):
        raise NoRecorder(f"{INJECTION} is set already")
    library = build_recorder()
    records = folder / "records"
    records.mkdir()
    own = {INJECTION: str(library), "KEET_RECORD_DIR": str(records)}
    try:
        status, seconds = run_program(program, own)
    except KeyboardInterrupt:
        raise InterruptedRun(_recorded_by_cupti(read_recording(records), 130, 0.0)) from None
    found = read_recording(records)
    if not found.records and found.failures and not status:
        raise NoRecorder(f"CUPTI refused to record (error {found.failures[0]})")
    return _recorded_by_cupti(found, status, seconds)


def _recorded_by_cupti(found: Recording, status: int, seconds: float) -> PlainRun:
    return recorded_run(
        found.records,
        "cupti",
        status,
        seconds,
        notes=_notes(found),
        managed_bytes=found.managed_bytes,
        migrations=found.migrations,
    )


def _notes(found: Recording) -> tuple[str, ...]:
    notes = []
    if found.unfinished:
        notes.append(
            f"{found.unfinished:,} launches had not finished when the program ended: not counted"
        )
    if found.dropped:
        notes.append(f"CUPTI lost {found.dropped:,} launches: not counted")
    if not found.complete:
        notes.append(
            "a process ended without its exit handlers (a crash, a signal or _exit): launches of "
            "its last 0.2 s may be missing"
        )
    if found.processes > 1:
        notes.append(f"{found.processes} processes used the GPU; their launches are added up")
    return tuple(notes)


def recorded_run(
    records: Sequence[Record],
    recorder: Recorder,
    status: int,
    seconds: float,
    *,
    notes: tuple[str, ...] = (),
    **known: object,
) -> PlainRun:
    """The launches in order, and their table. `known`: further fields of the table."""
    ordered = tuple(in_order(records))
    table = tabulate(ordered, recorder)._replace(wall_s=seconds, notes=notes, **known)  # type: ignore[arg-type]
    return PlainRun(ordered, table, status, seconds)


# --- Nsight Systems


def _with_nsys(program: Sequence[str], folder: Path) -> PlainRun:
    from keet.collect.nsys import export_command, profile_command, read_export

    report, database = folder / "run.nsys-rep", folder / "run.sqlite"
    status, seconds = run_program(profile_command(program, report), {})
    if report.exists():
        subprocess.run(export_command(report, database), capture_output=True, check=False)
    if not database.exists():
        raise NoRecorder("nsys wrote no report")
    return recorded_run(read_export(database), "nsys", status, seconds)


# --- running


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, float]:
    """Exit code and wall time. What the program prints goes to stderr: stdout is keet's result."""
    sys.stderr.flush()
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stderr_file(),
        stderr=stderr_file(),
        env={**os.environ, **environment},
    )
    try:
        code = process.wait()
    except KeyboardInterrupt:
        stop(process)
        raise
    return exit_code(code), time.monotonic() - began


def exit_code(returned: int) -> int:
    """As a shell has it: 128 and the signal's number for a program that a signal ended."""
    return 128 - returned if returned < 0 else returned


def described(status: int) -> str:
    """`exit code 7`, or `signal SIGSEGV (exit code 139)`."""
    if status > 128:
        with suppress(ValueError):
            return f"signal {signal.Signals(status - 128).name} (exit code {status})"
    return f"exit code {status}"


def stderr_file() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):  # no real file: under a test, or closed
        return subprocess.DEVNULL


def stop(process: subprocess.Popen[bytes]) -> None:
    """A terminal has interrupted the child too, and it may write what it has; a lone keet passes
    the signal on."""
    with suppress(OSError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_GRACE_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
