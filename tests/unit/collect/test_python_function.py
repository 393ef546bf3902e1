"""One Python function through nsight-python, played by a package of the same shape."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from keet.collect.profile_program import metric_names
from tests.conftest import REPORTS, Keet, Result
from tests.rows import each_row

NSIGHT = """\
    import json, pathlib, shutil
    from contextlib import contextmanager

    told = {{}}

    @contextmanager
    def annotate(name):
        told["annotated"] = name
        yield

    class analyze:
        @staticmethod
        def kernel(**options):
            def decorate(function):
                def run():
                    function()
                    told["options"] = {{k: v for k, v in options.items() if not callable(v)}}
                    {ending}
                return run
            return decorate
    """
WRITES = f"""shutil.copyfile({str(REPORTS / "tour_basic.ncu-repz")!r}, options["output_prefix"] + "ncu-output-f-0.ncu-rep"); pathlib.Path(__file__).with_name("told.json").write_text(json.dumps(told))"""
FAILS_AFTER = WRITES + '; raise RuntimeError("no space left")'
DIES = "import os; os._exit(3)"
REFUSES = 'raise RuntimeError("ncu 2026.2.1 or later is required")'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bench.py"
    path.write_text(
        "calls = []\ndef step():\n    calls.append(1)\ndef bad():\n    raise ValueError('size')\n"
        "def says():\n    print('{\"loss\": 2}')\n    print('{not JSON: 1', flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return path


@pytest.fixture
def profile(script: Path, keet: Keet) -> Callable[..., Result]:
    """Profile a function of the script; `ending`: what nsight-python does behind it."""

    def run(function: str, ending: str | None, *options: str) -> Result:
        if ending is not None:
            text = textwrap.dedent(NSIGHT).format(ending=ending)
            script.with_name("nsight.py").write_text(text)
        words = ("--function", f"{script}:{function}", "-o", script.with_name("r.ncu-rep"))
        return keet("profile", *words, *options, width=200)

    return run


def test_the_function_is_profiled(script: Path, profile) -> None:
    done = profile("step", WRITES)
    assert done.code == 0, done.err
    assert "on NVIDIA H200" in done.out
    told = json.loads(script.with_name("told.json").read_text())
    assert told["annotated"] == "keet"
    assert told["options"]["metrics"] == metric_names()
    assert not list(script.parent.glob(".keet-profile-*"))


@each_row(
    ("name", "code", "says"),
    [
        ("step", 3, "nsight-python wrote no report: RuntimeError: ncu 2026.2.1 or later"),
        ("bad", 1, "failed: ValueError: size; run it alone first"),
        ("nothing", 1, "has no attribute 'nothing'"),
    ],
)
def test_no_report(name: str, code: int, says: str, script: Path, profile) -> None:
    done = profile(name, REFUSES)
    assert (done.code, done.err.count("\n")) == (code, 1)
    assert says in done.err
    assert not list(script.parent.glob("*.ncu-rep"))


@pytest.mark.parametrize("ending", [REFUSES, DIES])
def test_what_the_function_prints_is_not_taken_for_an_answer(ending: str, profile) -> None:
    done = profile("says", ending)
    last = done.err.splitlines()[-1]
    assert (done.code, done.out) == (3, "")
    assert "nsight-python wrote no report" in last
    assert ("ncu 2026.2.1" in last) == (ending == REFUSES)


def test_what_the_function_prints_goes_to_stderr(script: Path, profile) -> None:
    done = profile("says", WRITES, "--format", "path")
    assert (done.code, done.out) == (0, f"{script.with_name('r.ncu-rep')}\n")
    assert done.err.count("{not JSON: 1") == 2  # to warm up, and under the profiler


def test_a_failure_after_the_report_keeps_it_and_is_printed(profile, wording) -> None:
    done = profile("step", FAILS_AFTER)
    assert done.code == 1
    assert "on NVIDIA H200" in done.out
    wording(done.err)


def test_without_nsight_python(profile, wording) -> None:
    done = profile("step", None)
    assert done.code == 3
    wording(done.err)


def test_metrics_have_names_that_ncu_collects() -> None:
    assert "gpu__time_duration.sum" in metric_names()
    assert not [n for n in metric_names() if n.startswith(("launch__", "derived__", "device__"))]
