"""A CUDA toolkit without CUDA: tests/data/fake_cupti, compiled as the recorder expects it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPORTS

FAKE = REPORTS.parent / "fake_cupti"
RUNS = REPORTS.parent / "runs"

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the recorder is compiled: there is no C compiler here"
)


def build_toolkit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes it the one that keet finds, and returns the "CUDA program" that goes with it."""
    home = folder / "toolkit"
    (home / "include").mkdir(parents=True)
    (home / "lib64").mkdir()
    shutil.copy(FAKE / "cupti.h", home / "include")
    options = ("-shared", "-fPIC", f"-I{FAKE}", "-o", str(home / "lib64" / "libcupti.so"))
    subprocess.run(["cc", *options, str(FAKE / "cupti.c"), "-lpthread"], check=True)
    program = home / "program"
    subprocess.run(["cc", "-o", str(program), str(FAKE / "program.c"), "-ldl"], check=True)
    monkeypatch.setenv("CUDA_HOME", str(home))
    monkeypatch.setenv("KEET_CACHE", str(folder / "cache"))
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    return program
