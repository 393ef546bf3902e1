"""Finds ncu, and whether there is a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from keet.errors import NotAvailable

_INSTALL = (
    "install Nsight Compute (it comes with the CUDA toolkit) or name it with --ncu PATH; "
    "a report from another machine is read without it: keet show REPORT"
)


def find_ncu(asked_for: str | None = None) -> str:
    """The ncu to run: the one that was named, else on the PATH, else where installers put it."""
    if asked_for is not None:
        found = shutil.which(asked_for)
        if found is None:
            raise NotAvailable(f"there is no program {asked_for}; {_INSTALL}")
        return found
    for place in ("ncu", *_usual_places()):
        if found := shutil.which(place):
            return found
    raise NotAvailable(f"ncu is not on the PATH; {_INSTALL}")


_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu")
"""Of the driver on servers and desktops, under WSL, and on Jetson boards."""


def has_gpu() -> bool:
    """Whether nvidia-smi lists a GPU; without nvidia-smi, whether the driver is loaded."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return any(Path(device).exists() for device in _DEVICES)
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"GPU" in done.stdout


def _usual_places() -> Iterator[str]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield str(Path(home) / "bin" / "ncu")
    yield "/usr/local/cuda/bin/ncu"
    yield from map(str, sorted(_installed(), key=_version, reverse=True))


_ROOTS = (Path("/opt/nvidia/nsight-compute"), Path("/usr/local"))


def _installed() -> list[Path]:
    """Where Nsight Compute's installer and CUDA toolkits put it."""
    return [ncu for root in _ROOTS for way in ("*/ncu", "cuda-*/bin/ncu") for ncu in root.glob(way)]


def _version(ncu: Path) -> list[int]:
    """`2025.3.1` after `2025.3` and before `2026.1`; toolkits, with their own numbers, last."""
    return [int(part) for part in re.findall(r"\d+", str(ncu))]
