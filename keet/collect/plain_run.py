"""Runs the program once without replay and records the time of every launch.

CUPTI in the program's own process is the first choice: it sees every launch and its overlap with
others, and costs about a microsecond per launch. If it is not available: Nsight Systems. If that is
not available either: ncu, which times a limited number of launches one at a time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from keet.collect.recorder import NoRecorder, Recording, build_recorder, read_recording
from keet.errors import UsageError, reason_of
from keet.profile.run_table import Record, RunTable, busy_parts, in_order, table_of

_OF_NCU = ("ncu", "TreeLauncherSub")
"""Names of the processes that ncu itself consists of, as the kernel cuts them."""


def programs_below(ncu: int) -> list[int]:
    """What ncu started for the program, the program's own children among them."""
    names = {number: name for number, (name, _) in _processes().items()}
    inner = {
        number: [number, *chain[: chain.index(ncu)]]
        for number, chain in _chains().items()
        if ncu in chain
    }
    return [n for n, some in inner.items() if any(names.get(each) not in _OF_NCU for each in some)]


def _chains() -> dict[int, list[int]]:
    """Of each process its parent, the parent's parent, and so on; empty if the system has no
    /proc."""
    parents = {number: parent for number, (_, parent) in _processes().items()}
    chains: dict[int, list[int]] = {}
    for number in parents:
        chain: list[int] = []
        while (parent := parents.get(chain[-1] if chain else number)) and parent not in chain:
            chain.append(parent)
        chains[number] = chain
    return chains


def _processes() -> dict[int, tuple[str, int]]:
    """Name and parent of each, from /proc."""
    processes: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            head, _, rest = entry.read_text(errors="replace").rpartition(")")
            number, _, name = head.partition(" (")
            processes[int(number)] = (name, int(rest.split()[1]))
    return processes


_KERNELS = """
SELECT names.value, readable.value, gridX, gridY, gridZ, blockX, blockY, blockZ, start, end,
    deviceId, globalPid, correlationId
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
LEFT JOIN StringIds AS names ON names.id = coalesce(kernel.mangledName, kernel.demangledName)
LEFT JOIN StringIds AS readable ON readable.id = kernel.demangledName
"""


def read_export(database: Path) -> list[Record]:
    """The launches of an export; none where it has no table of kernels."""
    import sqlite3

    address = f"{database.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            rows = connection.execute(_KERNELS).fetchall()
    except sqlite3.Error as problem:
        if "no such table" in str(problem):
            return []
        raise NoRecorder(f"the export of nsys can't be read ({problem})") from None
    records = []
    for name, full, *numbers in rows:
        gx, gy, gz, bx, by, bz, *others = map(int, numbers)
        names = str(name or full or "?"), str(full or name or "?")
        records.append(Record(*names, (gx, gy, gz), (bx, by, bz), *others))
    return records


_MOMENT_SECONDS = 1
"""How long a program may take to end after Ctrl-C in its terminal, before keet sends the signal."""
_GRACE_SECONDS = 20
"""How long it may take after that."""
INJECTION = "CUDA_INJECTION64_PATH"

Progress = Callable[[str], None]


class PlainRun(NamedTuple):
    """A recorded run of the program."""

    records: tuple[Record, ...]
    """In the order in which the host launched them."""
    busy: Sequence[float]
    """Of each launch, its part of the busy time."""
    table: RunTable
    status: int
    """The program's exit code; 128 plus the signal's number if a signal ended it."""
    seconds: float


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C during the plain run; has what was recorded until then."""

    def __init__(self, run: PlainRun) -> None:
        super().__init__()
        self.run = run


def record_plain_run(
    program: Sequence[str], folder: Path, progress: Progress, otherwise: Callable[[], PlainRun]
) -> PlainRun:
    """`folder`: for temporary files. `otherwise`: the fallback, which times launches with ncu."""
    reasons: list[str] = []
    for name, record in {"CUPTI": _with_cupti, "nsys": _with_nsys}.items():
        try:
            run = record(program, folder)
        except NoRecorder as reason:
            reasons.append(str(reason))
            continue
        if run.records:
            return run
        reasons.append(f"{name} saw no kernel launch")
    progress(f"{'; '.join(reasons)}; running the program again under ncu to time each launch")
    return otherwise()


# --- CUPTI


def _with_cupti(program: Sequence[str], folder: Path) -> PlainRun:
    if os.environ.get(INJECTION):
        raise NoRecorder(f"{INJECTION} is set already")
    library = build_recorder(folder)
    records = folder.resolve() / "records"
    records.mkdir()
    own = {INJECTION: str(library), "KEET_RECORD_DIR": str(records)}
    try:
        status, seconds = run_program(program, own)
    except KeyboardInterrupt:
        recording = read_recording(records)._replace(complete=False)
        raise InterruptedRun(_recorded_by_cupti(recording, 130, None)) from None
    recording = read_recording(records)
    if not recording.records and recording.failures and not status:
        raise NoRecorder(f"CUPTI refused to record (error {recording.failures[0]})")
    return _recorded_by_cupti(recording, status, seconds)


def _recorded_by_cupti(recording: Recording, status: int, seconds: float | None) -> PlainRun:
    lost = recording.unfinished or recording.dropped or recording.failures or not recording.complete
    about = RunTable(
        (),
        "cupti",
        wall_s=seconds,
        exit_code=status,
        complete=not lost,
        managed_bytes=recording.managed_bytes,
        migrations=recording.migrations,
        notes=_notes(recording),
    )
    return recorded_run(recording.records, about)


def _notes(recording: Recording) -> tuple[str, ...]:
    notes = []
    if recording.unfinished:
        notes.append(
            f"{recording.unfinished:,} launches had not finished when the program ended: "
            "not counted"
        )
    if recording.dropped:
        notes.append(f"CUPTI lost {recording.dropped:,} launches: not counted")
    if recording.failures:
        notes.append(
            f"CUPTI refused to record {len(recording.failures)} of {recording.processes} processes "
            f"(error {recording.failures[0]}): their launches are not counted"
        )
    if not recording.complete:
        notes.append(
            "a process did not finish its record (it crashed, was killed, called _exit, still "
            "runs, or the disk is full): its last launches may be missing"
        )
    if recording.processes > 1:
        notes.append(f"{recording.processes} processes used the GPU; their launches are added up")
    return tuple(notes)


def recorded_run(records: Sequence[Record], about: RunTable) -> PlainRun:
    """The launches in order, and their run table. `about`: the other fields of the table."""
    ordered = tuple(in_order(records))
    parts = busy_parts(ordered)
    run_table = table_of(ordered, parts, about.recorder)
    table = about._replace(
        kernels=run_table.kernels,
        launches=run_table.launches,
        span_ns=run_table.span_ns,
        gpus=run_table.gpus,
    )
    return PlainRun(ordered, parts.busy, table, about.exit_code or 0, about.wall_s or 0.0)


# --- Nsight Systems


def _with_nsys(program: Sequence[str], folder: Path) -> PlainRun:
    nsys = shutil.which("nsys")
    if nsys is None:
        raise NoRecorder("nsys is not installed")
    report, database = folder / "run.nsys-rep", folder / "run.sqlite"
    # CUDA alone: sampling and other traces would slow the program down.
    options = ("--trace", "cuda", "--sample", "none", "--cpuctxsw", "none")
    output = ("--force-overwrite", "true", "--output")
    status, seconds = run_program([nsys, "profile", *options, *output, str(report), *program], {})
    if report.exists():
        command = [nsys, "export", "--type", "sqlite", *output, str(database), str(report)]
        subprocess.run(command, capture_output=True, check=False)
    if not database.exists():
        raise NoRecorder("nsys wrote no report")
    about = RunTable((), "nsys", wall_s=seconds, exit_code=status, complete=not status)
    return recorded_run(read_export(database), about)


# --- running


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, float]:
    """Exit code and wall time in seconds. The program's output goes to stderr: stdout is for keet's
    result."""
    sys.stderr.flush()
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stderr_file(),
            stderr=stderr_file(),
            env={**os.environ, **environment},
        )
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{command[0]} can't be run ({reason}); try it alone first") from None
    try:
        code = process.wait()
    except KeyboardInterrupt:
        stop(process)
        raise
    return exit_code(code), time.monotonic() - began


def exit_code(returned: int) -> int:
    """As in a shell: 128 plus the signal's number for a program that a signal ended."""
    return 128 - returned if returned < 0 else returned


def status_text(status: int) -> str:
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
    """Wait for the child, which the terminal interrupted too and which may write its results; then
    send the signal, then kill it and all processes that it started."""
    for seconds in (_MOMENT_SECONDS, _GRACE_SECONDS):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                process.send_signal(signal.SIGINT)
        except KeyboardInterrupt:
            break
        else:
            return
    below = [number for number, chain in _chains().items() if process.pid in chain]
    for number in [*below, process.pid]:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
    process.wait()
