"""One command line in this process, and what counts as a fault of it."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from keet.cli import main
from keet.errors import ExitCode
from tests.fuzz.commands import Command
from tests.fuzz.mutants import ROOT

LONGEST_S, LONGEST_WAIT_S = 10.0, 60.0
"""Of processor time: a command that takes longer hangs. One that waits for something, on a machine
that others use too, gets longer by the clock."""
MOST_MEMORY = 1 << 30
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_NO_NUMBER = re.compile(r"(?<![\w.\"'/-])(?<!note: )-?(?:nan|inf)(?![\w.(\"'/-])")
"""What Python prints for a float that is none, as a word of its own. Notes are texts of the file."""
_NO_COORDINATE = re.compile(r"(?<![\w.])-?(?:nan|inf)(?![\w.])")
_LONGEST_OUTPUT = 5_000_000
_KNOWN_CODES = range(7)


class Fault(NamedTuple):
    what: str
    """`ZeroDivisionError`, `hang`, `not JSON`, …"""
    place: str
    """The deepest frame of keet, or the words around."""

    def __str__(self) -> str:
        return f"{self.what} at {self.place}"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float
    fault: Fault | None = None


class TooLong(BaseException):
    """Not an `Exception`, so that nothing but this module catches it."""


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, stop) for number in timers}
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT_S)
    try:
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def run(command: Command, words: Sequence[str]) -> Outcome:
    """Run the command like the program would, and look for faults."""
    out, err, start = io.StringIO(), io.StringIO(), time.perf_counter()
    code, fault = ExitCode.BUG, None
    try:
        with redirect_stdout(out), redirect_stderr(err), time_limit():
            code = main(list(words))
    except TooLong as stopped:
        fault = Fault("hang", _deepest(_formatted(stopped)))
    except BaseException as escaped:  # noqa: BLE001 - `main` lets nothing out
        fault = Fault(f"{type(escaped).__name__} out of main", _deepest(_formatted(escaped)))
    seconds = time.perf_counter() - start
    done = Outcome(code, out.getvalue(), err.getvalue(), seconds, fault)
    return done if fault else done._replace(fault=fault_of(command, done))


def run_program(command: Command, words: Sequence[str]) -> Outcome:
    """The same through the real program."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "keet", *words],
            capture_output=True,
            timeout=LONGEST_WAIT_S,
            preexec_fn=_limit_processor_time,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(ExitCode.BUG, "", "", LONGEST_WAIT_S, Fault("hang", command.name))
    out, err = (each.decode("utf-8", "replace") for each in (done.stdout, done.stderr))
    ended = Outcome(done.returncode, out, err, time.perf_counter() - start)
    return ended._replace(fault=fault_of(command, ended))


def _limit_processor_time() -> None:
    """The program is killed beyond it, which is an exit code that `fault_of` does not know."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(LONGEST_S), int(LONGEST_S)))


def fault_of(command: Command, done: Outcome) -> Fault | None:
    """What a user would call a bug: a traceback, an undocumented exit code, an invalid number."""
    if done.code == ExitCode.BUG:
        last = done.err.strip().splitlines()[-1:] or [""]
        named = re.search(r"a bug in keet: (\w+)", done.err)
        return Fault(named[1] if named else "exit 70", _deepest(done.err) or last[0][:200])
    if "Traceback (most recent call last)" in done.err:
        return Fault("traceback on stderr", _deepest(done.err))
    if done.code not in _KNOWN_CODES:
        return Fault(f"exit {done.code}", done.err.strip()[-200:])
    if len(done.out) > _LONGEST_OUTPUT:
        return Fault("flood", f"{len(done.out):,} characters")
    # A command that ends with 2 to 6 prints nothing else; 1 is a gate or a check that fails.
    return _fault_in_output(command, done.out) if done.code in (0, 1) and done.out else None


def _fault_in_output(command: Command, out: str) -> Fault | None:
    try:
        if command.prints == "json":
            json.loads(out, parse_constant=_refuse)
        elif command.prints == "svg":
            ElementTree.fromstring(out)
    except (ValueError, ElementTree.ParseError) as problem:
        return Fault(f"not {command.prints}", f"{command.name}: {problem}")
    pattern = {"text": _NO_NUMBER, "svg": _NO_COORDINATE}.get(command.prints)
    told = pattern.search(out) if command.claims and pattern else None
    if told is None:
        return None
    line = out[out.rfind("\n", 0, told.start()) + 1 :].partition("\n")[0].strip()
    return Fault("prints no number", f"{command.name}: {_without_digits(line)[:120]}")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _without_digits(line: str) -> str:
    """So that faults that differ only in numbers count as one."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "0", line))


def _formatted(problem: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(problem))


def _deepest(trace: str) -> str:
    """`keet/analysis/launch_view.py:97 in ratio`: the last frame that is keet's own."""
    frames = [found for found in _FRAME.finditer(trace) if "/keet/" in found[1]]
    if not frames:
        return ""
    file, line, function = frames[-1].groups()
    return f"keet/{file.rpartition('/keet/')[2]}:{line} in {function}"


def peak_memory() -> int:
    """Bytes of this process, or of a program that it started, at its largest."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose) * 1024


@contextmanager
def surroundings(folder: Path, cache: Path) -> Iterator[None]:
    """The environment of a trial: no key, no cache of the user's, a folder to work in."""
    environment, before = dict(os.environ), Path.cwd()
    for name in list(os.environ):
        if name.startswith("KEET_") or name.endswith("_API_KEY"):
            del os.environ[name]
    caches = {"KEET_CACHE": cache, "XDG_CONFIG_HOME": folder / "config"}
    os.environ |= {name: str(path) for name, path in caches.items()}
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "KEET_DEBUG": "1"}
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before if before.exists() else ROOT)
        os.environ.clear()
        os.environ.update(environment)
