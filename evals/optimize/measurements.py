"""Finds the measurements of a run: files in its folder, or a new measurement if this machine has a
GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from evals.runs import RunFolder
from keet.errors import NotAvailable

MEASURED = "measured.json"
_ANSWER = 60
"""Seconds for nvidia-smi."""


def measured_files(folder: RunFolder) -> list[Path]:
    """A GPU comes first: a measurement is resumed, so that nothing is measured twice."""
    if can_measure():
        return [measure(folder)]
    found = sorted(folder.path.glob("measured*.json"))
    if not found:
        raise NotAvailable(
            "programs are measured on a GPU, and this machine has none with nvcc; "
            f"copy them to one: keet eval bundle {folder.path} -o FOLDER, "
            "or name its result with --measured"
        )
    return found


def can_measure() -> bool:
    """nvidia-smi may exist without a GPU, or hang: it has to list one within the time limit."""
    listing = shutil.which("nvidia-smi")
    if shutil.which("nvcc") is None or listing is None:
        return False
    command = [listing, "-L"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and "GPU" in done.stdout


def measure(folder: RunFolder) -> Path:
    """The bundle is written again, because there may be new answers; results stay next to it."""
    from evals.optimize.bundle import SCRIPT, write_bundle

    bundle, result = folder.path / "gpu", folder.path / MEASURED
    _remove(bundle)
    write_bundle(folder, bundle, "native")
    command = [sys.executable, str(bundle / SCRIPT), str(bundle), "-o", str(result)]
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if not result.is_file():
        raise NotAvailable(
            f"{bundle / SCRIPT} ended with status {done.returncode} and measured nothing; "
            "run it by hand to see why"
        )
    if done.returncode:  # an older file, or a part of a new one, is not to pass for the whole
        raise NotAvailable(
            f"{bundle / SCRIPT} ended with status {done.returncode}; mend that and score again, or "
            f"take what is measured so far: --measured {result}"
        )
    return result


def _remove(bundle: Path) -> None:
    if not bundle.exists():
        return
    try:
        shutil.rmtree(bundle)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise NotAvailable(f"{bundle} cannot be removed ({reason}); remove it manually") from None
