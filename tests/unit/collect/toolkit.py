"""A CUDA toolkit without CUDA: tests/data/fake_cupti, compiled as the recorder expects it."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPORTS

FAKE = REPORTS.parent / "fake_cupti"
RUNS = REPORTS.parent / "runs"

SMI = "#!/bin/sh\necho 'GPU 0: H200'\n"
"""An nvidia-smi."""

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the recorder is compiled: there is no C compiler here"
)


def program_at(path: Path, text: str) -> Path:
    """A script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def use_toolkit(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes it the one that keet finds, and returns the "CUDA program" that goes with it."""
    home = _toolkit()
    monkeypatch.setenv("CUDA_HOME", str(home))
    monkeypatch.setenv("KEET_CACHE", str(home / "cache"))
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    return home / "program"


@cache
def _toolkit() -> Path:
    """Compiled once per test process."""
    home = Path(tempfile.mkdtemp(prefix="keet-toolkit-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "include").mkdir()
    (home / "lib64").mkdir()
    shutil.copy(FAKE / "cupti.h", home / "include")
    options = ("-shared", "-fPIC", f"-I{FAKE}", "-o", str(home / "lib64" / "libcupti.so"))
    subprocess.run(["cc", *options, str(FAKE / "cupti.c"), "-lpthread"], check=True)
    options = ("-o", str(home / "program"), str(FAKE / "program.c"), "-ldl")
    subprocess.run(["cc", *options], check=True)
    return home
