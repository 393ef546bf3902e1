"""Runs ncu: reports progress, stops a launch that never ends, explains failures.

Also times launches with ncu, one at a time, where neither CUPTI nor nsys can record the run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, NamedTuple

from keet.collect.plain_run import (
    PlainRun,
    Progress,
    exit_code,
    programs_below,
    recorded_run,
    stderr_file,
    stop,
)
from keet.errors import IngestError, NotAvailable, ProgramFailed
from keet.formatting import count_noun, listed
from keet.profile import Launch
from keet.profile.run_table import Record, RunTable
from keet.report import read_profile


class NcuError(NamedTuple):
    """Why there is no report, and what to do."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


NO_GPU = NcuError(
    "there is no GPU that ncu can profile",
    "see: nvidia-smi; a report from another machine is read without one: keet show REPORT",
)
_KNOWN = {
    r"ERR_NVGPUCTRPERM": NcuError(
        "the driver does not allow this user to read GPU counters (ERR_NVGPUCTRPERM)",
        "run as root (in a container: with CAP_SYS_ADMIN), or have an administrator load the "
        "driver with NVreg_RestrictProfilingToAdminUsers=0",
    ),
    r"(?i)no supported GPU|no CUDA-capable device|no devices? found|CUDA_ERROR_NO_DEVICE": NO_GPU,
    r"(?i)LibraryNotLoaded|failed to initialize the profiler|DriverNotLoaded": NcuError(
        "ncu can't reach the driver's profiler",
        "it needs the GPU's own driver: some sandboxes and WSL 1 have none; see: nvidia-smi",
    ),
    r"(?i)already (being )?(profiled|in use)|InsufficientResources|ResourceUnavailable|"
    r"instance of another": NcuError(
        "another profiler uses the GPU's counters (DCGM, nsys or a second ncu)",
        "stop it, e.g. dcgmi profiling --pause, and try again",
    ),
    r"(?i)GPU.*not supported|unsupported GPU|Device not supported": NcuError(
        "this version of ncu does not support this GPU",
        "ncu profiles GPUs from Volta on; a new GPU needs a recent version of ncu",
    ),
    r"(?i)unrecognised option|unknown option|could not be interpreted|invalid value": NcuError(
        "ncu does not accept an option",
        "see the command: keet profile --dry-run; --ncu-options is passed to ncu unchanged",
    ),
}


def recognise(log: str) -> NcuError | None:
    """The first known error in ncu's messages."""
    complaints = "\n".join(line for line in log.splitlines() if line.startswith("=="))
    for pattern, problem in _KNOWN.items():
        if re.search(pattern, complaints):
            return problem
    return None


def first_error(log: str) -> str | None:
    """The first error message of ncu; a failed program is not an error of ncu."""
    errors = re.findall(r"^==ERROR==\s*(.+)$", log, re.MULTILINE)
    error = next((words for words in errors if not _RETURNED.search(words)), None)
    return error.strip().rstrip(".") if error else None


_NAMES_SHOWN = 8


def nothing_profiled(log: str) -> NcuError | None:
    """The program ran, but none of its launches was selected."""
    if "No kernels were profiled" not in log:
        return None
    listing = _KERNELS.search(log)
    names = _NAMES.findall(listing["names"]) if listing else []
    if not names:
        return NcuError("the program launched no kernel", "check that it runs on the GPU here")
    return NcuError(
        f"--kernel, --launch-skip and --launch-count select no launch; the program launches "
        f"{listed(names, _NAMES_SHOWN)}",
        "choose one of these, or leave the options out",
    )


_KERNELS = re.compile(r"Available Kernels:\s*\n(?P<names>(?:\s*\d+\..*\n?)+)")
"""What ncu lists when none matched."""
_NAMES = re.compile(r"^\s*\d+\.\s*(.+?)\s*$", re.MULTILINE)


_RETURNED = re.compile(r"application returned an error code \((-?\d+)\)")


def program_status(log: str) -> int | None:
    """The exit code of the program, where it failed."""
    match = _RETURNED.search(log)
    return int(match[1]) if match else None


# --- a run

_POLL_SECONDS = 0.1
_END_SECONDS = 60
"""How long ncu may take to write its report after its program was ended."""
_TAIL_LINES = 20

LaunchTimeout = Callable[[str], float]
"""By kernel name: seconds that ncu may spend on one launch without progress."""


class RunLimits(NamedTuple):
    """When a run of ncu is ended."""

    launch_timeout: LaunchTimeout | None = None
    deadline: float | None = None
    """By time.monotonic()."""
    idle: float | None = None
    """Seconds that may pass between two launches, and after the last one."""


class NcuRun(NamedTuple):
    """How a run of ncu ended."""

    status: int
    log: str
    stuck: str | None = None
    """The kernel that ncu could not finish, as ncu names it."""
    ended: bool = False
    """keet ended the program, because a launch did not finish or the time was up."""
    output_tail: tuple[str, ...] = ()
    """The last lines that the program printed."""


def run(
    command: Sequence[str],
    log: Path,
    progress: Progress,
    limits: RunLimits = RunLimits(),  # noqa: B008 - it can't be changed
    *,
    quiet: bool = False,
) -> NcuRun:
    """Run ncu to its end, and report each kernel that it finishes.

    `quiet`: do not print the program's output again, because the user saw it in the plain run; the
    last lines are in the result.
    """
    sys.stderr.flush()
    target = subprocess.PIPE if quiet else stderr_file()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=target, stderr=subprocess.STDOUT
    )
    tail = _Tail(process.stdout)
    try:
        watch = _LogWatch(log, progress, limits)
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            if watch.is_over():
                _end_program(process)
                break
        watch.look()
    except KeyboardInterrupt:
        stop(process)
        raise
    return NcuRun(
        exit_code(process.returncode), text_of(log), watch.stuck, watch.over, tail.lines()
    )


class _Tail:
    """Reads all output of a program and keeps the last lines."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._last: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes] | None) -> None:
        with stream or nullcontext():
            while stream and (line := stream.readline(4096)):
                self._last.append(line)

    def lines(self) -> tuple[str, ...]:
        self._thread.join(1.0)  # a child of the program may hold the pipe open for longer
        last = tuple(self._last)  # the thread may still add to it
        return tuple(line.decode("utf-8", errors="replace").rstrip() for line in last)


# With --kernel-id a name stands between its context and stream and its invocation: "1:7:gemm:1".
_STARTED = re.compile(r'^==PROF== Profiling "(?:\d+:\d+:)?(.+?)(?::\d+)?"', re.MULTILINE)
_FINISHED = re.compile(r"- (\d+) pass(?:es)?\s*$", re.MULTILINE)
"""Warnings of ncu may come between the start line of a launch and this one."""


class _LogWatch:
    """Follows ncu's log."""

    def __init__(self, log: Path, progress: Progress, limits: RunLimits) -> None:
        self._log, self._progress, self._limits = log, progress, limits
        self._size, self._changed = -1, time.monotonic()
        self._told = 0
        self._current: str | None = None
        self.stuck: str | None = None
        self.over = False

    def look(self) -> None:
        """Report the kernels that are finished since the last look."""
        size = -1
        with suppress(OSError):
            size = self._log.stat().st_size
        if size == self._size:
            return
        self._size, self._changed = size, time.monotonic()
        launches = text_of(self._log).split("==PROF== Profiling ")[1:]
        passes = [_FINISHED.search(launch) for launch in launches]
        done = [(each, int(n[1])) for each, n in zip(launches, passes, strict=True) if n]
        for each, count in done[self._told :]:
            self._progress(f"profiled {_name_in(each)} in {count_noun(count, 'pass')}")
        self._told = len(done)
        self._current = _name_in(launches[-1]) if launches and passes[-1] is None else None

    def is_over(self) -> bool:
        """A launch shows no progress for too long, or the time is up."""
        self.look()
        now, (timeout, deadline, idle) = time.monotonic(), self._limits
        quiet = now - self._changed
        if self._current and timeout and quiet > timeout(self._current):
            self.stuck = self._current
        late = deadline is not None and now > deadline
        began = self._size > 0  # before, ncu itself is starting
        asleep = idle is not None and began and not self._current and quiet > idle
        self.over = self.stuck is not None or late or asleep
        return self.over


def _name_in(text: str) -> str:
    match = _STARTED.search(f"==PROF== Profiling {text}")
    return match[1] if match else "?"


def _end_program(process: subprocess.Popen[bytes]) -> None:
    """Kill the processes that ncu runs and those that they start, so that ncu writes its report;
    stop ncu itself if it does not."""
    deadline = time.monotonic() + _END_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for number in programs_below(process.pid):
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    if process.poll() is None:
        stop(process)


def text_of(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def count_launches(report: Path) -> int:
    """Launches in the report; 0 if there is no report or it is incomplete."""
    try:
        return len(read_profile(report).launches)
    except IngestError:
        return 0


def ncu_error_text(log: str, status: int) -> str | None:
    """The error of ncu itself; None if only the program failed, whose exit code ncu returns."""
    error = first_error(log)
    if error is None and status and program_status(log) is None:
        return f"exit code {status} and no message"
    return error


def failure(program: Sequence[str], attempt: NcuRun) -> NotAvailable | ProgramFailed:
    """Why there is no report: keet's message for known errors, else ncu's own."""
    log = attempt.log
    if problem := recognise(log):
        return NotAvailable(str(problem))
    code = program_status(log)
    if code is not None:
        return ProgramFailed(
            f"{program[0]} failed with exit code {code} before a kernel was profiled; "
            "run it alone first: it has to succeed without ncu",
            code,
        )
    if problem := nothing_profiled(log):
        return NotAvailable(str(problem))
    tail = attempt.output_tail
    last = f"; its last output: {tail[-1][:200]}" if tail else " and no message"
    error = first_error(log) or f"it ended with exit code {attempt.status}{last}"
    return NotAvailable(f"ncu wrote no report: {error}; see: keet doctor")


# --- times of launches

MOST_LAUNCHES = 1_000
"""Launches that are timed: each costs some milliseconds of the program's time."""
_ALONE = (
    "each launch was timed alone under ncu: the times do not include overlap, or page migrations "
    "caused by the host"
)


def record_with_ncu(
    program: Sequence[str], ncu: str, folder: Path, clock_control: str, limits: RunLimits
) -> PlainRun:
    """Raises NotAvailable or ProgramFailed if no launch could be timed."""
    report, log = folder / "durations.ncu-rep", folder / "durations.log"
    began = time.monotonic()
    command = [
        ncu,
        *("--metrics", "gpu__time_duration.sum"),
        *("--cache-control", "none", "--clock-control", clock_control),
        *("--target-processes", "all", "--launch-count", str(MOST_LAUNCHES)),
        *("--log-file", str(log), "--force-overwrite", "--export", str(report)),
        *program,
    ]
    done = run(command, log, lambda _: None, limits)
    if not count_launches(report):
        raise failure(program, done)
    launches = read_profile(report).launches
    notes = [_ALONE]
    if len(launches) >= MOST_LAUNCHES:
        notes.append(f"only the first {MOST_LAUNCHES:,} launches were timed")
    if done.ended:
        notes.append(
            "the program made no progress under ncu and was ended: later launches are missing"
        )
    about = RunTable(
        (),
        "ncu",
        wall_s=time.monotonic() - began,
        exit_code=0 if done.ended else program_status(done.log) or 0,
        complete=len(notes) == 1,
        notes=tuple(notes),
    )
    recorded = recorded_run(_records(launches), about)
    # ncu serializes launches, so overlap, span and GPUs are unknown.
    kernels = tuple(kernel._replace(overlapped_ns=None) for kernel in recorded.table.kernels)
    table = recorded.table._replace(kernels=kernels, span_ns=None, gpus=None)
    return recorded._replace(table=table)


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
