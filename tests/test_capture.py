"""`make samples`, without a GPU: in what order things happen, and what is written of them."""

import argparse
import shlex
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels_samples import capture
from kernels_samples.capture import Failure, Program
from kernels_samples.samples import HERE, PLAIN, Sample, load_sample
from tests.kept_reports import unpacked
from tests.rows import each_row

Words = Callable[..., int]
MACHINE = dict.fromkeys(("gpu", "driver", "cuda", "ncu", "keet"), "x")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Words:
    """`capture.main` with these words, on no machine."""
    monkeypatch.setattr(capture, "WORK", tmp_path)
    monkeypatch.setattr(capture, "_copy_sources", lambda: None)
    monkeypatch.setattr(capture, "machine_facts", lambda: MACHINE)

    def call(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["capture", *words])
        return capture.main()

    return call


def test_nothing_is_measured_while_something_is_built(run: Words, monkeypatch) -> None:
    building, lock, seen = [4], threading.Lock(), []

    def build(sample: Sample, variant: str) -> Program:
        time.sleep(0.2 if sample.name == "tap_filter" else 0)
        with lock:
            building[0] -= 1
        return Program(sample, variant, ("true",))

    monkeypatch.setattr(capture, "build", build)
    monkeypatch.setattr(capture, "capture", lambda *_: seen.append(building[0]) or HERE)
    assert run("matrix_flip", "tap_filter") == 0
    assert seen == [0, 0]


def test_a_mistyped_name_gives_one_line(run: Words, capsys) -> None:
    for names in (["matrix_flap"], ["matrix_flip", "harness"], [".."], [""]):
        assert run(*names) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"there is no sample {names[-1]!r}; there are band_scale,")
        assert len(said.splitlines()) == 1


@each_row("problem", [Failure("no"), OSError("no"), subprocess.TimeoutExpired("no", 1)])
def test_a_failure_is_reported_and_the_others_continue(
    problem: Exception, run: Words, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def fails(sample: Sample, *_: object) -> Path:
        if sample.name == "matrix_flip":
            raise problem
        return sample.folder

    monkeypatch.setattr(capture, "build", lambda s, variant: Program(s, variant, ("true",)))
    monkeypatch.setattr(capture, "capture", fails)
    assert run("matrix_flip", "tap_filter") == 1
    said = capsys.readouterr().out
    assert "FAILED matrix_flip: " in said
    assert "1 of 2 samples captured" in said


def rounds_of(sample: Sample, times: list[float]) -> list[list[dict[str, Any]]]:
    result = {"checksum": 1.0, "worst_error_over_allowed": 0.5}
    return [
        [{**result, "times_us": [t] * 2, "median_us": t} for t in times[: len(sample.variants)]]
    ]


@pytest.mark.parametrize("name", ["matrix_flip", "mechanism_rates", "softmax_rows"])
def test_the_recorded_command_is_the_one_that_ran(name: str, monkeypatch, tmp_path: Path) -> None:
    """The sampling interval included; `-f` and `--format` change no report."""
    sample = load_sample(HERE / name)
    assert sample.measured is not None
    median = sample.measured.variants["slow"].median_us
    programs = [Program(sample, variant, ("./slow",)) for variant in sample.variants]
    table = capture.measured_table(
        sample, programs, rounds_of(sample, [median] * 3), argparse.Namespace(seeds=3), MACHINE
    )
    recorded = shlex.split(tomllib.loads(table)["measured"]["profile"])

    ran: list[list[str]] = []

    def call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        (folder / "slow.ncu-rep").write_bytes(b"NVR\0")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(capture, "_call", call)
    monkeypatch.setattr(capture, "WORK", tmp_path)
    kept = tmp_path / "kept" / sample.report("slow").name
    monkeypatch.setattr(Sample, "report", lambda *_: kept)
    (tmp_path / name).mkdir()
    capture.profile_all(sample, programs[:1], swept=False)
    (command,) = ran
    assert recorded[: recorded.index("-o")][2:] == command[7 : command.index("-o")]
    assert "--warp-sampling-interval" in " ".join(recorded)
    assert unpacked(kept) == b"NVR\0"
    assert (kept.read_bytes() == b"NVR\0") == (name in PLAIN)


@each_row(
    ("words", "steps"),
    [
        ("--variant slow", {"profile", "sweep"}),
        ("--variant fast", {"profile"}),
        ("--no-sweep", {"profile"}),
    ],
)
def test_a_variant_that_is_left_out_is_not_swept(
    words: str, steps: set[str], run: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(capture, "build", lambda s, variant: Program(s, variant, ("true",)))
    for step in ("profile", "sweep"):
        monkeypatch.setattr(capture, step, lambda *_, step=step: done.append(step))
    assert run("pair_reduce", "--only-profile", *words.split()) == 0
    assert {*done} == steps
