"""One run of ncu: the program's output goes to stderr, the report appears whole or not at all."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keet.collect.command import Request, ncu_command
from keet.collect.problems import (
    NO_GPU,
    first_error,
    nothing_profiled,
    program_status,
    recognise,
)
from keet.collect.tools import has_gpu
from keet.errors import IngestError, NotAvailable, ProgramFailed, UsageError
from keet.ingest import read_profile

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 20
"""How long ncu may take to write its report after Ctrl-C."""

Progress = Callable[[str], None]


def collect(request: Request, report: Path, ncu: str, progress: Progress) -> int:
    """Profile the program into `report`. Raises NotAvailable or ProgramFailed without a report.

    Returns the program's exit code: not 0 when it failed after its kernels were profiled.
    """
    with _workshop(report) as folder:
        partial, log = folder / "report.ncu-rep", folder / "ncu.log"
        command = ncu_command(ncu, request, partial, log)
        try:
            status = run(command, log, progress)
        except KeyboardInterrupt:
            if launches := whole_launches(partial):
                partial.replace(report)
                progress(f"interrupted; {report} holds {counted(launches)}")
            raise
        messages = _text_of(log)
        if not whole_launches(partial):
            raise _failure(request, messages, status)
        partial.replace(report)
        if said := _complaint(messages, status):
            progress(f"ncu ended with an error: {said}; launches may be missing")
        return program_status(messages) or 0


@contextmanager
def _workshop(report: Path) -> Iterator[Path]:
    """A folder beside the report-to-be, on the same disk, that goes away whatever happens."""
    try:
        with tempfile.TemporaryDirectory(prefix=".keet-profile-", dir=report.parent) as folder:
            yield Path(folder)
    except OSError as problem:
        if problem.filename is None or ".keet-profile-" not in str(problem.filename):
            raise
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(
            f"{report}: it can't be written ({reason}); name another with -o"
        ) from None


def run(command: list[str], log: Path, progress: Progress) -> int:
    """Run to the end, telling about each kernel that ncu finishes."""
    sys.stderr.flush()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=_stderr())
    try:
        told = 0
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            told = _tell(log, told, progress)
        _tell(log, told, progress)
    except KeyboardInterrupt:
        _stop(process)
        raise
    return process.returncode


def _stderr() -> int:
    """stdout is keet's result alone."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):  # no real file: under a test, or closed
        return subprocess.DEVNULL


def _stop(process: subprocess.Popen[bytes]) -> None:
    """A terminal has interrupted ncu too, and it writes what it has; a lone keet passes it on."""
    with suppress(OSError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_GRACE_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


# With --kernel-id a name stands between its context and stream and its invocation: "1:7:gemm:1".
_PROFILED = re.compile(
    r'^==PROF== Profiling "(?:\d+:\d+:)?(.+?)(?::\d+)?".*?(\d+) pass(?:es)?\s*$', re.MULTILINE
)


def _tell(log: Path, told: int, progress: Progress) -> int:
    """Report the kernels that are finished beyond the first `told`."""
    finished = _PROFILED.findall(_text_of(log))
    for name, passes in finished[told:]:
        progress(f"profiled {name} in {passes} {'pass' if passes == '1' else 'passes'}")
    return len(finished)


def _text_of(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def whole_launches(report: Path) -> int:
    """How many launches the report holds: 0 when there is none, or it is not whole."""
    if not report.exists():
        return 0
    try:
        return len(read_profile(report).launches)
    except IngestError:
        return 0


def counted(launches: int) -> str:
    return f"{launches:,} {'launch' if launches == 1 else 'launches'}"


def _complaint(log: str, status: int) -> str | None:
    """What went wrong in ncu itself; of a program that failed, ncu passes the exit code on."""
    said = first_error(log)
    if said is None and status and program_status(log) is None:
        return f"exit code {status} and no message"
    return said


def _failure(request: Request, log: str, status: int) -> NotAvailable | ProgramFailed:
    """Why there is no report: keet's words for what is known, else ncu's own."""
    if problem := recognise(log):
        return NotAvailable(str(problem))
    if not has_gpu():  # what the program said of that has gone to stderr
        return NotAvailable(str(NO_GPU))
    code = program_status(log)
    if code is not None:
        return ProgramFailed(
            f"{request.program[0]} failed with exit code {code} before a kernel was profiled; "
            "run it alone first: it has to succeed without ncu",
            code,
        )
    if problem := nothing_profiled(log):
        return NotAvailable(str(problem))
    said = first_error(log) or f"it ended with exit code {status} and no message"
    return NotAvailable(f"ncu wrote no report: {said}; see: keet doctor")
