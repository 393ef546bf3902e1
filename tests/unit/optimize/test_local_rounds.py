"""Rounds that are built, run and timed on this machine, by the real script and the real recorder."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from keet.errors import NotAvailable, UsageError
from keet.optimize.task import Limits
from tests.unit.collect.toolkit import needs_compiler, program_at, use_toolkit
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


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_source(tmp_path, use_toolkit(monkeypatch))


def both(*edits: Edit) -> Edit:
    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


def test_a_gain_is_kept_and_the_source_stays(source: Path, tmp_path: Path) -> None:
    """Processes that a program leaves are ended."""
    again = both(replaced("TIME=1000", "TIME=400"), added("AFTER='(setsid sleep 1000 &)'"))
    edits = (both(FASTER, added("AFTER='sleep 1000 &'")), again)
    found = optimize(task_of(source, rounds=2), tmp_path / "rounds", *edits)
    assert outcomes(found) == ["kept", "kept"]
    times = found.best.times
    assert (times.speedup, times.before_us) == pytest.approx((5.0, 800.0))
    assert [each.of_original for each in found.rounds] == pytest.approx([0.5, 0.2])
    assert (source / "kernel.cu").read_text() == KERNEL
    assert "+TIME=400" in Path(found.best.patch).read_text()


OUTCOMES: tuple[tuple[Edit, str], ...] = (
    (replaced("VALUE=42.0", "VALUE=41.0"), "wrong"),
    (replaced("VALUE=42.0", "VALUE=42.01"), "wrong"),  # the check is exact
    (added("BROKEN"), "no_build"),
    (added("X=$(env >&2; kill -11 $$)"), "failed"),
    (replaced("TIME=2000", "TIME=3000"), "slower"),
    (replaced("TIME=2000", "TIME=1999"), "no_gain"),
    (replaced("TIME=2000", "TIME=2000 "), "no_gain"),
    (lambda folder: None, "no_change"),
    (lambda folder: (folder / "check.sh").write_text("exit 0"), "refused"),
    (lambda folder: (folder / "check.sh").unlink(), "refused"),
    (lambda folder: (folder / "new.cu").symlink_to("/etc/passwd"), "refused"),
    (lambda folder: (folder / "new.cu").write_bytes(b"\0"), "refused"),
    (lambda folder: (folder / "new.cu").write_text("x" * 2_000_000), "refused"),
)


def cheat(*lines: str) -> Edit:
    """In a program that would be twice as fast."""
    return both(FASTER, *map(added, lines))


CHEATS = (
    (cheat("X=$(echo exit 0 > check.sh)", "VALUE=1"), "refused"),
    (cheat("AFTER='echo 1 > ../kept'"), "refused"),  # results for the next run
    (cheat("AFTER='for f in ../../*/built/app.cfg; do echo TIME=9999 >> $f; done'"), "refused"),
    (cheat("X='cudaIpcOpenMemHandle'"), "refused"),
    (cheat("eval export KEET_RECO''RD_DIR=/nowhere"), "refused"),  # hides its launches
    (cheat("AFTER='rm out.txt; ln -s kernel.cu out.txt'"), "wrong"),
    (cheat("AFTER='exit 3'"), "failed"),
    # Right in the first run alone: timed runs are checked, too.
    (cheat("AFTER='echo >> $RUNS; test $(wc -l < $RUNS) = 1 || echo 41 > out.txt'"), "wrong"),
    (cheat("AFTER='echo >> $RUNS; test $(wc -l < $RUNS) = 3 || rm check.sh out.txt'"), "refused"),
)


@pytest.mark.parametrize("table", [OUTCOMES, CHEATS], ids=["outcomes", "cheats"])
def test_what_is_not_kept(
    table: Sequence[tuple[Edit, str]], source: Path, tmp_path: Path, monkeypatch
) -> None:
    """No program gets the user's keys."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-programs-1234")
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    edits, wanted = zip(*table)
    found = optimize(task_of(source, rounds=len(edits)), tmp_path / "rounds", *edits)
    assert outcomes(found) == list(wanted)
    assert found.best is None
    shown = "".join(path.read_text() for path in tmp_path.glob("rounds/rounds/*/output.txt"))
    assert "not-for-programs" not in shown
    assert ("PATH=" in shown) == (table is OUTCOMES)


def test_an_old_output_does_not_count_and_tolerated_errors_do_not_add_up(
    source: Path, tmp_path: Path
) -> None:
    """Neither the output in the source folder counts, nor that of an earlier run."""
    (source / "out.txt").write_text("42.0\n")
    edits = (
        both(FASTER, added("X=$(kill $$)=")),
        both(FASTER, replaced("VALUE=42.0", "VALUE=42.0\nexit # =")),
        both(FASTER, replaced("42.0", "42.03")),
        both(replaced("TIME=1000", "TIME=500"), replaced("42.03", "42.06")),
    )
    task = task_of(source, check=None, outputs=(OUTPUT,), rounds=4)
    found = optimize(task, tmp_path / "rounds", *edits)
    assert outcomes(found) == ["failed", "wrong", "kept", "wrong"]


def test_expected_results_are_hidden(source: Path, tmp_path: Path) -> None:
    (source / "expected.txt").write_text("42.0\n")
    (source / "check.sh").write_text("cmp out.txt expected.txt\n")
    copies = both(FASTER, added("AFTER='cat expected.txt > out.txt'"), replaced("42.0", "1"))
    hidden = task_of(source, check_files=("expected.txt", "check.sh"), rounds=2)
    found = optimize(hidden, tmp_path / "hidden", copies, FASTER)
    assert outcomes(found)[-1] == "kept"
    assert outcomes(found)[0] != "kept"


def test_what_hangs_is_ended(source: Path, tmp_path: Path) -> None:
    task = task_of(source, limits=Limits(build_s=2, run_s=2), rounds=2, repeats=1)
    found = optimize(task, tmp_path / "rounds", added("BUILD_HANGS"), added("X=$(sleep 1000)"))
    assert outcomes(found) == ["too_long", "too_long"]


def test_a_renamed_kernel_counts(source: Path, tmp_path: Path) -> None:
    task = task_of(source, kernel="step")
    found = optimize(task, tmp_path / "rounds", both(added("NAME=_Z4fastPf"), FASTER))
    assert outcomes(found) == ["kept"]
    assert found.best.times.speedup == pytest.approx(2.0)
    with pytest.raises(UsageError):
        optimize(task_of(source, kernel="other"), tmp_path / "other", FASTER)


def test_the_program_must_be_right_before(source: Path, tmp_path: Path) -> None:
    for script in ("build.sh", "run.sh", "check.sh"):
        text = (source / script).read_text()
        (source / script).write_text("exit 9\n")
        with pytest.raises(UsageError):
            optimize(task_of(source, repeats=1), tmp_path / script, FASTER)
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


NCU = """#!/usr/bin/env python3
import pathlib, shutil, subprocess, sys
words = sys.argv[1:]
at = words.index("--export")
pathlib.Path("LOG").open("a").write(repr(words) + "\\n")
shutil.copyfile("REPORT", words[at + 1])
sys.exit(subprocess.call(words[at + 2:]))
"""


def test_programs_are_profiled_where_ncu_is(source: Path, tmp_path: Path, monkeypatch) -> None:
    report = Path(__file__).parents[3] / "kernels_samples/matrix_flip/slow.ncu-rep"
    tools, log = tmp_path / "bin", tmp_path / "words"
    program_at(tools / "ncu", NCU.replace("LOG", str(log)).replace("REPORT", str(report)))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    found = optimize(task_of(source), tmp_path / "rounds", FASTER)
    assert outcomes(found) == ["kept"]
    assert found.left
    first, second = map(ast.literal_eval, log.read_text().splitlines())
    assert first[first.index("--kernel-id") + 1] == "::regex:^(_Z4stepPf)$:^(1)$"
    assert second[-3:] == ["sh", "-c", "sh run.sh"]
    (tools / "ncu").write_text("#!/bin/sh\nexit 1\n")
    found = optimize(task_of(source), tmp_path / "without", FASTER)
    assert outcomes(found) == ["kept"]
    assert found.left is None
