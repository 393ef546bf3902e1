"""Protects the scorer's process from candidates, and kills processes that candidates leave running.

The lists of words and symbols do not keep a candidate from the C library: it can compute the
address of any function from one that it may call. So it may read /proc and start processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

_GET_DUMPABLE, _SET_DUMPABLE = 3, 4
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37  # <sys/prctl.h>


def _prctl(option: int, argument: Any = 0) -> int:
    """-1 if Linux refuses it, or on other systems."""
    if sys.platform != "linux":
        return -1
    number = ctypes.c_ulong(argument) if isinstance(argument, int) else argument
    return int(ctypes.CDLL(None).prctl(option, number, *[ctypes.c_ulong(0)] * 3))


@contextmanager
def guarded() -> Iterator[None]:
    """Other processes of this user can't read this one's environment and memory meanwhile, and what
    a candidate leaves behind becomes a child of this process, which can then end it.

    `exec` undoes the first: the referee and the checkers do it for themselves.
    """
    dumpable, reaper = _prctl(_GET_DUMPABLE), ctypes.c_int(0)
    _prctl(_GET_CHILD_SUBREAPER, ctypes.byref(reaper))
    _prctl(_SET_DUMPABLE, 0)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_SET_CHILD_SUBREAPER, reaper.value)
        _prctl(_SET_DUMPABLE, dumpable)


class _Process(NamedTuple):
    parent: int
    dead: bool
    """It has ended, and its parent has not asked how."""


def _processes() -> dict[int, _Process]:
    """By their ids; empty where there is no /proc."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            told = place.read_bytes().rpartition(b")")[2].split()  # a name may hold anything
            found[int(place.parent.name)] = _Process(int(told[1]), told[0] in (b"Z", b"X"))
    return found


def children() -> set[int]:
    """Of this process."""
    return {pid for pid, one in _processes().items() if one.parent == os.getpid()}


def _below(processes: dict[int, _Process], above: Collection[int]) -> set[int]:
    """Children of these, their children, and so on."""
    found, latest = set[int](), {*above}
    while latest:
        latest = {pid for pid, one in processes.items() if one.parent in latest} - found
        found |= latest
    return found


PASSES, PAUSE_S = 400, 0.005
"""Chosen: two seconds in total. One pass kills everything that does not start new processes
meanwhile."""


def end_strays(spared: Collection[int]) -> bool:
    """Kills children of this process that are not `spared`, with all that they started. False:
    something is left. It starts processes too quickly, or hangs in the driver.
    """
    for _ in range(PASSES):
        found = _processes()
        orphans = {pid for pid in found if found[pid].parent == os.getpid()} - {*spared}
        strays = orphans | {pid for pid in _below(found, orphans) if not found[pid].dead}
        if not strays:
            return True
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return False


class Scheduling:
    """Priority and CPUs of processes. A candidate of the same user may change them where the
    processes have no capability that it lacks; what this process starts later inherits its own."""

    def __init__(self, processes: Collection[int]) -> None:
        self.before = {pid: _scheduling(pid) for pid in processes}

    def restore(self) -> bool:
        """Whether any had been changed."""
        changed = {
            pid: was
            for pid, was in self.before.items()
            if was is not None and _scheduling(pid) not in (was, None)
        }
        for pid, (policy, nice, cpus) in changed.items():
            with suppress(OSError):
                os.sched_setaffinity(pid, cpus)
            with suppress(OSError):
                os.sched_setscheduler(pid, policy, os.sched_param(0))
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, nice)
        return bool(changed)


def _scheduling(pid: int) -> tuple[int, int, frozenset[int]] | None:
    """Policy, nice value and CPUs; None if it has ended."""
    try:
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        return os.sched_getscheduler(pid), nice, frozenset(os.sched_getaffinity(pid))
    except OSError:
        return None
