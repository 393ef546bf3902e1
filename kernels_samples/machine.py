"""Facts about the machine that measured: GPU, driver and tools. Needs the standard library only."""

from __future__ import annotations

import re
import subprocess


def machine_facts() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
    gpu, driver = (part.strip() for part in _said(*query).split(","))
    return {
        "gpu": gpu,
        "driver": driver,
        "cuda": _version(_said("nvcc", "--version"), r"release ([\d.]+)"),
        "ncu": _version(_said("ncu", "--version"), r"Version ([\d.]+)"),
    }


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _version(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "unknown"
