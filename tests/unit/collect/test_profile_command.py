"""A run of ncu, played by a script that says what the real one said on an H200."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet, Result
from tests.rows import each_row
from tests.unit.collect.toolkit import SMI, program_at

REPORT = REPORTS / "tour_basic.ncu-repz"
PROFILED = '==PROF== Profiling "1:7:transpose_rows:1": 0%....50%....100% - 23 passes\n'
PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0.\n"
)
NO_MATCH = "==WARNING== No kernels were profiled.\n"
KERNELS = "Available Kernels:\n1. normalise\n2. transpose_rows\n"
FAILED = "==ERROR== The application returned an error code (7).\n"
UNKNOWN = "==ERROR== Something new.\n"
ONE_PASS = '==PROF== Profiling "1:7:normalise:1": 0%....100% - 1 pass\n'
NOT_LOADED = "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n"

FakeNcu = Callable[..., Path]


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNcu:
    """An `ncu` on the PATH that logs these words and, if told to, leaves a report."""

    def make(log: str, *, report: Path | None = None, code: int = 0) -> Path:
        folder = tmp_path / "bin"
        script = f"""\
            #!{sys.executable}
            import pathlib, shutil, sys, time
            words = sys.argv
            after = lambda option: pathlib.Path(words[words.index(option) + 1])
            print("the program speaks", flush=True)
            after("--log-file").write_text({log!r})
            if {report is not None}:
                shutil.copyfile({str(report)!r}, after("--export"))
            sys.exit({code})
            """
        program_at(folder / "nvidia-smi", SMI)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return program_at(folder / "ncu", textwrap.dedent(script))

    return make


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "bin")


@pytest.fixture
def profile(keet: Keet, tmp_path: Path) -> Callable[..., Result]:
    """Of `ls`, without a plain run."""

    def run(*words: object) -> Result:
        out = tmp_path / "r.ncu-rep"
        return keet("profile", "--no-plain-run", "-o", out, *words, "--", "ls", width=200)

    return run


def test_a_report_is_written_and_shown(fake_ncu: FakeNcu, profile, tmp_path: Path, wording) -> None:
    fake_ncu(PROFILED, report=REPORT)
    out, done = tmp_path / "r.ncu-rep", profile()
    assert done.code == 0
    assert done.out.startswith(f"{out} on NVIDIA H200")
    wording(done.err)
    assert leftovers(tmp_path) == ["r.ncu-rep"]
    assert profile("-f", "--format", "path").out == f"{out}\n"


@pytest.mark.slow
@each_row(
    ("log", "code", "exit_code", "says"),
    [
        (PERMISSION, 1, 3, "run as root"),
        (PERMISSION + FAILED, 7, 3, "NVreg_RestrictProfilingToAdminUsers=0"),
        (NO_MATCH + KERNELS, 0, 3, "the program launches normalise, transpose_rows; choose one"),
        (NO_MATCH, 0, 3, "the program launched no kernel; check"),
        (FAILED, 7, 7, "ls failed with exit code 7 before a kernel was profiled; run it alone"),
        (UNKNOWN, 1, 3, "ncu wrote no report: Something new; see: keet doctor"),
        (NOT_LOADED, 1, 3, "ncu can't reach the driver's profiler"),
        ("", 139, 3, "it ended with exit code 139"),
    ],
)
def test_no_report(
    log: str, code: int, exit_code: int, says: str, fake_ncu: FakeNcu, profile, tmp_path: Path
) -> None:
    """An incomplete one counts as none."""
    cut = fake_ncu(log, code=code).with_name("cut")
    done = profile()
    assert (done.code, done.out, done.err.count("\n")) == (exit_code, "", 1)
    assert says in done.err
    cut.write_bytes(REPORT.read_bytes()[:20_000])
    fake_ncu(log, report=cut, code=code)
    assert profile().code == exit_code
    assert leftovers(tmp_path) == []


def test_a_program_that_fails_late_keeps_its_report_and_its_code(
    fake_ncu: FakeNcu, profile, wording
) -> None:
    fake_ncu(PROFILED + FAILED, report=REPORT, code=7)
    done = profile()
    assert done.code == 7
    assert "normalise" in done.out
    wording(done.err)


def test_one_pass(fake_ncu: FakeNcu, profile, wording) -> None:
    fake_ncu(ONE_PASS, report=REPORT)
    wording(profile().err)


def test_no_gpu(fake_ncu: FakeNcu, profile, wording) -> None:
    smi = fake_ncu(FAILED, code=7).with_name("nvidia-smi")
    smi.write_text("#!/bin/sh\nexit 9\n")
    done = profile()
    assert done.code == 3  # and the program was not run
    wording(done.err)


@pytest.mark.slow
@each_row(
    ("log", "code", "says"),
    [
        (PROFILED + UNKNOWN, 1, "keet: ncu ended with an error: Something new; "),
        (PROFILED + FAILED + UNKNOWN, 7, "keet: ncu ended with an error: Something new; "),
        (PROFILED, 139, "keet: ncu ended with an error: exit code 139 and no message; "),
    ],
)
def test_an_error_of_ncu_is_printed_even_with_a_report(
    log: str, code: int, says: str, fake_ncu: FakeNcu, profile
) -> None:
    fake_ncu(log, report=REPORT, code=code)
    done = profile("--force")
    assert done.code == (7 if FAILED in log else 0)
    assert "normalise" in done.out
    assert says + "launches may be missing" in done.err


@pytest.mark.slow
def test_existing_files_are_replaced_only_with_force(
    fake_ncu: FakeNcu, keet: Keet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    fake_ncu(PROFILED, report=REPORT)
    kept = tmp_path / "ls.ncu-rep"
    kept.write_text("mine")
    wording(keet("profile", "--no-plain-run", "-o", kept, "--", "ls").err)
    monkeypatch.chdir(tmp_path)
    assert keet("profile", "--format", "path", "--", "ls").out == "ls_2.ncu-rep\n"
    assert kept.read_text() == "mine"


@each_row(
    ("words", "says"),
    [
        ([], "name one program after --"),
        (["./app"], "put the program after --"),
        (["--", "/nowhere/app"], "there is no program /nowhere/app: "),
        (["--", "nothing-of-this-name"], "e.g. ./nothing-of-this-name"),
        (["-o", "/nowhere/x.ncu-rep", "--", "ls"], "there is no folder /nowhere"),
        (["-o", "/", "--", "ls"], "this is a folder"),
        (["--kernel", "(", "--", "ls"], "not a valid regular expression"),
        (["--launch-count", "0", "--", "ls"], "must be a positive integer"),
        (["--function", "a.py:f", "--", "ls"], "one program after --, or one --function"),
        (["--function", "a.py:f", "--kernel", "k"], "every kernel of the function"),
        (["--function", "a.py:f", "--ncu", "/opt/ncu"], "every kernel of the function"),
        (["--dry-run", "--kernel", "(?:a|b)", "--", "ls"], "--kernel (?:a|b): "),
        *(
            (["--dry-run", "--function", f], "FILE.py:NAME")
            for f in ("b.py", "b.py:", ":f", "b.py:a b")
        ),
    ],
)
def test_wrong_usage(words: list[str], says: str, keet: Keet) -> None:
    done = keet("profile", *words)
    assert (done.code, says in done.err) == (2, True)


def test_without_ncu_the_command_to_copy_is_named(keet: Keet, monkeypatch) -> None:
    monkeypatch.setattr("keet.collect.profile_plan._usual_places", lambda: iter(()))
    monkeypatch.setenv("PATH", "/nowhere")
    done = keet("profile", "--", sys.executable, "a b")
    assert done.code == 3
    assert f"keet profile --dry-run -- {sys.executable} 'a b'" in done.err


def test_a_dry_run_says_what_the_command_does_with_the_clocks(keet: Keet) -> None:
    for clocks, said in {"none": "leaves the clocks unchanged", "base": "locks the clocks"}.items():
        done = keet("profile", "--dry-run", "--clock-control", clocks, "--", "./app")
        assert f"--clock-control {clocks} " in done.out
        assert f"and {said} " in done.err
