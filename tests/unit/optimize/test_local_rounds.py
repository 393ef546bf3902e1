"""Rounds that are built, run and timed on this machine, by the real script and the real recorder."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from keet.errors import NotAvailable, UsageError
from keet.optimize.task import Limits
from tests.unit.collect.toolkit import needs_compiler, use_toolkit
from tests.unit.optimize.bench import (
    FASTER,
    KERNEL,
    OUTPUT,
    Edit,
    added,
    make_source,
    optimize,
    outcomes,
    replaced,
    task_of,
)

pytestmark = [needs_compiler, pytest.mark.slow]
FAST = "TIME=1000"
"""In a proposal that cheats, so that it is not dropped for being slow."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_source(tmp_path, use_toolkit(monkeypatch))


def both(*edits: Edit) -> Edit:
    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


def test_a_gain_is_kept_and_the_source_stays(source: Path, tmp_path: Path) -> None:
    again = replaced("TIME=1000", "TIME=400")
    found = optimize(task_of(source, rounds=2), tmp_path / "rounds", FASTER, again)
    assert outcomes(found) == ["kept", "kept"]
    assert found.best is not None
    assert found.best.times.speedup == pytest.approx(5.0)
    assert found.best.times.before_us == pytest.approx(800.0)
    assert [each.of_original for each in found.rounds] == pytest.approx([0.5, 0.2])
    assert (source / "kernel.cu").read_text() == KERNEL
    assert "+TIME=400" in Path(found.best.patch).read_text()


@pytest.mark.parametrize(
    ("edit", "outcome"),
    [
        pytest.param(replaced("VALUE=42.0", "VALUE=41.0"), "wrong", id="wrong result"),
        pytest.param(replaced("VALUE=42.0", "VALUE=42.01"), "wrong", id="check is exact"),
        pytest.param(added("BROKEN"), "no_build", id="does not compile"),
        pytest.param(added("X=$(kill -11 $$)"), "failed", id="crash"),
        pytest.param(replaced("TIME=2000", "TIME=3000"), "slower", id="slower"),
        pytest.param(replaced("TIME=2000", "TIME=1999"), "no_gain", id="no gain"),
        pytest.param(replaced("TIME=2000", "TIME=2000 "), "no_gain", id="same"),
        pytest.param(lambda folder: None, "no_change", id="nothing"),
        pytest.param(
            lambda folder: (folder / "check.sh").write_text("exit 0"), "refused", id="check changed"
        ),
        pytest.param(lambda folder: (folder / "check.sh").unlink(), "refused", id="check removed"),
        pytest.param(
            lambda folder: (folder / "new.cu").symlink_to("/etc/passwd"), "refused", id="link"
        ),
        pytest.param(lambda folder: (folder / "new.cu").write_bytes(b"\0"), "refused", id="binary"),
        pytest.param(
            lambda folder: (folder / "new.cu").write_text("x" * 2_000_000), "refused", id="large"
        ),
    ],
)
def test_outcomes(edit: Edit, outcome: str, source: Path, tmp_path: Path) -> None:
    found = optimize(task_of(source), tmp_path / "rounds", edit)
    assert outcomes(found) == [outcome]
    assert (found.best is None) == (outcome != "kept")


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        pytest.param(["X=$(echo exit 0 > check.sh)", "VALUE=1"], "refused", id="check at run time"),
        pytest.param(["AFTER='sleep 1000 &'"], "kept", id="leaves a process that is killed"),
        pytest.param(["AFTER='(setsid sleep 1000 &)'"], "kept", id="leaves a session"),
        pytest.param(["AFTER='echo 1 > ../kept'"], "refused", id="keeps results beside it"),
        pytest.param(
            ["AFTER='for f in ../../*/built/app.cfg; do echo TIME=9999 >> $f; done'"],
            "refused",
            id="slows the others down",
        ),
        pytest.param(["X='cudaIpcOpenMemHandle'"], "refused", id="a forbidden name"),
        pytest.param(
            ["eval export KEET_RECO''RD_DIR=/nowhere"], "refused", id="hides its launches"
        ),
        pytest.param(["AFTER='rm out.txt; ln -s kernel.cu out.txt'"], "wrong", id="output a link"),
        pytest.param(["AFTER='exit 3'"], "failed", id="exit code"),
    ],
)
def test_cheats(lines: list[str], outcome: str, source: Path, tmp_path: Path) -> None:
    """A program that would be twice as fast."""
    edit = both(FASTER, *(added(line) for line in lines))
    found = optimize(task_of(source), tmp_path / "rounds", edit)
    assert outcomes(found) == [outcome], found.rounds[0].reason


def test_an_old_output_does_not_count(source: Path, tmp_path: Path) -> None:
    """Neither the one in the source folder, nor that of an earlier run."""
    (source / "out.txt").write_text("42.0\n")
    task = task_of(source, check=None, outputs=(OUTPUT,))
    found = optimize(task, tmp_path / "rounds", both(FASTER, added("X=$(kill $$)=")))
    assert outcomes(found) == ["failed"]
    stops = both(FASTER, replaced("VALUE=42.0", "VALUE=42.0\nexit # ="))
    found = optimize(task, tmp_path / "other", stops)
    assert outcomes(found) == ["wrong"]


def test_expected_results_are_hidden(source: Path, tmp_path: Path) -> None:
    (source / "expected.txt").write_text("42.0\n")
    (source / "check.sh").write_text("cmp out.txt expected.txt\n")
    copies = both(FASTER, added("AFTER='cat expected.txt > out.txt'"), replaced("42.0", "1"))
    # The copy takes time: often more than the noise of three runs.
    found = optimize(task_of(source, wall_check=False), tmp_path / "seen", copies)
    assert outcomes(found) == ["kept"]  # why they should be hidden
    hidden = task_of(source, check_files=("expected.txt", "check.sh"), rounds=2, wall_check=False)
    found = optimize(hidden, tmp_path / "hidden", copies, FASTER)
    assert outcomes(found)[-1] == "kept"
    assert outcomes(found)[0] != "kept"


def test_errors_within_the_tolerance_do_not_add_up(source: Path, tmp_path: Path) -> None:
    first = both(FASTER, replaced("42.0", "42.03"))
    second = both(replaced("TIME=1000", "TIME=500"), replaced("42.03", "42.06"))
    task = task_of(source, check=None, outputs=(OUTPUT,), rounds=2)
    found = optimize(task, tmp_path / "rounds", first, second)
    assert outcomes(found) == ["kept", "wrong"]


@pytest.mark.parametrize("line", ["BUILD_HANGS", "X=$(sleep 1000)"])
def test_what_hangs_is_ended(line: str, source: Path, tmp_path: Path) -> None:
    limits = Limits(build_s=2, run_s=2)
    found = optimize(task_of(source, limits=limits), tmp_path / "rounds", added(line))
    assert outcomes(found) == ["too_long"]


def test_a_renamed_kernel_counts(source: Path, tmp_path: Path) -> None:
    task = task_of(source, kernel="step")
    found = optimize(task, tmp_path / "rounds", both(added("NAME=_Z4fastPf"), FASTER))
    assert outcomes(found) == ["kept"]
    assert found.best is not None
    assert found.best.times.speedup == pytest.approx(2.0)
    with pytest.raises(UsageError):
        optimize(task_of(source, kernel="other"), tmp_path / "other", FASTER)


def test_the_program_must_be_right_before(source: Path, tmp_path: Path) -> None:
    for script in ("build.sh", "run.sh", "check.sh"):
        text = (source / script).read_text()
        (source / script).write_text("exit 9\n")
        with pytest.raises(UsageError):
            optimize(task_of(source), tmp_path / script, FASTER)
        (source / script).write_text(text)


def test_without_a_recorder(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The goal `gpu` needs one; the goal `wall` does not."""
    (source / "run.sh").write_text('. ./app.cfg\nsleep "$TIME"\necho "$VALUE" > out.txt\n')
    (source / "kernel.cu").write_text("TIME=0.3\nVALUE=42.0\n")
    monkeypatch.setenv("CC", "nothing")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    faster = replaced("TIME=0.3", "TIME=0.1")
    with pytest.raises(NotAvailable):
        optimize(task_of(source), tmp_path / "gpu", faster)
    found = optimize(task_of(source, goal="wall"), tmp_path / "wall", faster)
    assert outcomes(found) == ["kept"]


def test_keys_are_not_in_the_environment(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-programs-1234")
    leaks = added("X=$(env >&2; kill $$)")
    found = optimize(task_of(source, rounds=1), tmp_path / "rounds", leaks)
    output = (tmp_path / "rounds/rounds/01/output.txt").read_text()
    assert outcomes(found) == ["failed"]
    assert "PATH=" in output
    assert "not-for-programs" not in output


NCU = """#!/usr/bin/env python3
import pathlib, shutil, subprocess, sys
words = sys.argv[1:]
at = words.index("--export")
pathlib.Path("LOG").open("a").write(repr(words) + "\\n")
shutil.copyfile("REPORT", words[at + 1])
sys.exit(subprocess.call(words[at + 2:]))
"""


def test_programs_are_profiled_where_ncu_is(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Path(__file__).parents[3] / "kernels_samples/matrix_flip/slow.ncu-rep"
    tools, log = tmp_path / "bin", tmp_path / "words"
    tools.mkdir()
    (tools / "ncu").write_text(NCU.replace("LOG", str(log)).replace("REPORT", str(report)))
    (tools / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    found = optimize(task_of(source), tmp_path / "rounds", FASTER)
    assert outcomes(found) == ["kept"]
    assert found.left is not None
    first, second = map(ast.literal_eval, log.read_text().splitlines())
    assert first[first.index("--kernel-id") + 1] == "::regex:^(_Z4stepPf)$:^(1)$"
    assert second[-3:] == ["sh", "-c", "sh run.sh"]
    (tools / "ncu").write_text("#!/bin/sh\nexit 1\n")
    found = optimize(task_of(source), tmp_path / "without", FASTER)
    assert outcomes(found) == ["kept"]
    assert found.left is None
