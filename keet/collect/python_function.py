"""`keet profile --function`: profiles one Python function (Triton, CuPy, torch) with nsight-python.

nsight-python attaches ncu to the process that imports it, and must do so before CUDA starts.
Therefore a separate process runs `python_child`, which imports nsight first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from keet.analysis.capture.recapture import KEET_FOLDER
from keet.catalog import capabilities, metric_with_id, metrics
from keet.collect.ncu_run import count_launches
from keet.collect.plain_run import Progress
from keet.errors import NotAvailable, ProgramFailed, UsageError
from keet.files import put_in_place
from keet.formatting import count_noun
from keet.optional_packages import is_installed, missing

_INSTEAD = "or profile the whole script: keet profile -- python3 FILE"
_NOT_FOR_NCU = ("launch__", "device__", "derived__", "profiler__")
"""Prefixes of metrics that every report has, or that are computed from others."""


def child_command(function: str, report: Path, clock_control: str) -> list[str]:
    """The command of the child process. `report`: prefix of nsight-python's files."""
    file, _, name = function.rpartition(":")
    if not file or not name.isidentifier():
        raise UsageError(f"--function {function}: write it as FILE.py:NAME, e.g. bench.py:step")
    options = {"metrics": metric_names(), "clock_control": clock_control}
    child = Path(__file__).with_name("python_child.py")
    return [sys.executable, str(child), file, name, str(report), json.dumps(options)]


def metric_names() -> list[str]:
    """The collector takes metrics, not sections: the key metrics and the warp samples."""
    wanted = [spec.id for spec in metrics().values() if spec.key]
    wanted += [name for capability in capabilities().values() for name in capability.metrics]
    names = [metric_with_id(metric_id).names[0] for metric_id in dict.fromkeys(wanted)]
    chosen = [name for name in names if not name.startswith(_NOT_FOR_NCU)]
    return ["group:smsp__pcsamp_warp_stall_reasons", *dict.fromkeys(chosen)]


def collect_function(function: str, report: Path, clock_control: str, progress: Progress) -> int:
    """Profile into `report`. Returns 1 if something failed after the report was written; raises if
    there is no report."""
    if not is_installed("nsight"):
        raise NotAvailable(f"{missing('nsight-python', 'collect')}; {_INSTEAD}")
    file = function.rpartition(":")[0]
    if not Path(file).is_file():
        raise UsageError(
            f"--function {function}: there is no file {file}; write it as FILE.py:NAME"
        )
    with tempfile.TemporaryDirectory(prefix=KEET_FOLDER, dir=report.parent) as folder:
        command = child_command(function, Path(folder) / "run_", clock_control)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        sys.stderr.write(done.stderr)
        written = next(Path(folder).glob("*.ncu-rep"), None)
        launches = count_launches(written) if written else 0
        if written is None or not launches:
            raise _failure(function, done)
        put_in_place(written, report)
    progress(f"nsight-python profiled {count_noun(launches, 'launch')} of {function}")
    if done.returncode:
        progress(f"{function} failed after its kernels ran: {_message(done)}")
    return 1 if done.returncode else 0


def _child_result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON line that the child prints last; empty if it did not get that far. nsight may print
    lines before it."""
    for line in reversed(done.stdout.splitlines()):
        with suppress(ValueError):
            result = json.loads(line)
            if isinstance(result, dict) and "who" in result:
                return result
    return {}


def _message(done: subprocess.CompletedProcess[str]) -> str:
    """The child's error message, else its exit code. Its stderr was already printed."""
    message = (
        _child_result(done).get("message") or f"its process ended with exit code {done.returncode}"
    )
    return " ".join(str(message).split())[:400]


def _failure(function: str, done: subprocess.CompletedProcess[str]) -> NotAvailable | ProgramFailed:
    message = _message(done)
    if _child_result(done).get("who") == "function":
        return ProgramFailed(f"{function} failed: {message}; run it alone first", 1)
    return NotAvailable(f"nsight-python wrote no report: {message}; see: keet doctor, {_INSTEAD}")
