"""Facts about the machine: memory, network, GPU."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from .processes import Limits


def gpu_facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name != "event"}


def host_memory() -> int:
    """Bytes of this machine, or of the container that this runs in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for place in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" where there is no limit
            found.append(int(Path("/sys/fs/cgroup", place).read_text(encoding="ascii")))
    return min(found)


def machine(nvcc: str, arch: str, limits: Limits) -> dict[str, Any]:
    """None: unknown."""
    smi = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    found = re.search(r"release ([\d.]+)", _said(nvcc, "--version"))
    return {
        "gpu": gpu_name(),
        "driver": _said(*smi) or None,
        "cuda": found[1] if found else None,
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": _now(),
        "arch": arch,
        "network": "cut off" if limits.network else "reachable: not permitted to leave it",
    }


def _now() -> str:
    utc = datetime.timezone.utc  # noqa: UP017, for Python 3.10
    return datetime.datetime.now(utc).isoformat(timespec="seconds")


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return found[1]
    return platform.machine()


_ASK_DRIVER = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("the driver's libcuda.so.1 is not here")
count = ctypes.c_int(0)
if problem := cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
    raise SystemExit(f"the driver gives error {problem}")
if not count.value:
    raise SystemExit("the driver knows none")
device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
if not cuda.cuDeviceGet(ctypes.byref(device), 0) and not cuda.cuDeviceGetName(name, 256, device):
    sys.stdout.write(name.value.decode(errors="replace"))
"""
"""Runs in a separate process, because a driver in a bad state can hang or kill the caller."""


def gpu_trouble() -> str | None:
    """Why no GPU can be used here, or None. Asked before compiling, which can take many minutes."""
    done = _ask_driver()
    if done is None:
        return "the driver does not answer"
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or [f"it ends with status {done.returncode}"])[-1]


def gpu_name() -> str | None:
    """Of the GPU that programs will run on, as the harness will have it too."""
    done = _ask_driver()
    return done.stdout.strip() or None if done and not done.returncode else None


def _ask_driver() -> subprocess.CompletedProcess[str] | None:
    command = [sys.executable, "-I", "-S", "-c", _ASK_DRIVER]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return None
