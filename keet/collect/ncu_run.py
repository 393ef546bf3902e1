"""Runs ncu once: reports progress, stops a launch that never ends, explains failures."""

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

from keet.collect.ncu_errors import (
    first_error,
    nothing_profiled,
    program_status,
    recognise,
)
from keet.collect.plain_run import Progress, exit_code, stderr_file, stop
from keet.collect.processes import programs_below
from keet.errors import IngestError, NotAvailable, ProgramFailed
from keet.ingest import read_profile

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
                end_program(process)
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
        size = _size_of(self._log)
        if size == self._size:
            return
        self._size, self._changed = size, time.monotonic()
        launches = text_of(self._log).split("==PROF== Profiling ")[1:]
        passes = [_FINISHED.search(each) for each in launches]
        done = [(each, count[1]) for each, count in zip(launches, passes, strict=True) if count]
        for each, count in done[self._told :]:
            words = "pass" if count == "1" else "passes"
            self._progress(f"profiled {_name_in(each)} in {count} {words}")
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
    found = _STARTED.search(f"==PROF== Profiling {text}")
    return found[1] if found else "?"


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def end_program(process: subprocess.Popen[bytes]) -> None:
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
    if not report.exists():
        return 0
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
    error = first_error(log) or f"it ended with exit code {attempt.status}{_last_output(attempt)}"
    return NotAvailable(f"ncu wrote no report: {error}; see: keet doctor")


def _last_output(attempt: NcuRun) -> str:
    """The last line of output; empty if it was printed already."""
    return (
        f"; its last output: {attempt.output_tail[-1][:200]}"
        if attempt.output_tail
        else " and no message"
    )
