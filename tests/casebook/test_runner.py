"""The runner on a stand-in for a GPU: programs that fail, crash and hang, and time that runs out."""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels_samples.casebook import run_archives, runner

PROGRAM = """\
import json, os, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
def say(event, side, **more):
    problem, variant = side.split("/")
    print(json.dumps({"event": event, "problem": problem, "variant": variant, **more}), flush=True)
for side in options["--only"].split(","):
    say("start", side)
    if "crashes" in side:
        sys.exit("illegal address")
    for seed in map(int, options["--seeds"].split(",")):
        say("check", side, seed=seed, ok="wrong" not in side, wrong=0, not_finite=0,
            worst_error_over_allowed=0.1)
    say("time", side, needs={"dram_bytes": 4.8e9}, times_us=[10.0 + i for i in range(25)])
print(json.dumps({"event": "done", "failed": 0}))
"""
OTHER = PROGRAM + "# another one\n"
Measure = Callable[..., str]


def write_family(folder: Path, *pairs: tuple[str, str], program: str = PROGRAM) -> None:
    """`pairs`: its cases by their sides before and after the fix."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{folder.name}.py").write_text(program)
    cases = "".join(
        f'[[case]]\nid = "{before}"\nproblem = "p"\nbefore = "{before}"\nafter = "{after}"\n'
        for before, after in pairs
    )
    (folder / "family.toml").write_text(cases)


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A family `toy` whose program is a script."""
    folder = tmp_path / "casebook" / "families" / "toy"
    write_family(folder, ("a", "b"))
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(runner, "HERE", tmp_path / "casebook")
    monkeypatch.setattr(runner, "WORK", tmp_path / "work")
    monkeypatch.setattr(runner, "machine_facts", lambda: {"gpu": "NVIDIA H200"})
    return folder


@pytest.fixture
def out(family: Path) -> Path:
    """Where the results of its families are."""
    return family.parents[2] / "out"


@pytest.fixture
def measure(out: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Measure:
    """Runs all families, and returns what is printed."""

    def run(*options: str) -> str:
        words = ["runner", str(out), "--stage", "measure", *options]
        monkeypatch.setattr(sys, "argv", words)
        assert runner.main() == 0
        return capsys.readouterr().out

    return run


def measured(out: Path) -> dict[str, list[Any]]:
    return json.loads((out / "toy.json").read_text())


def test_a_family_is_measured_and_packed_and_again_if_its_source_changed(
    family: Path, out: Path, measure: Measure
) -> None:
    assert "toy: 2 of 2 " in measure()
    assert len(measured(out)["checks"]) == 6
    with tarfile.open(out / "part1.tar") as archive:
        assert archive.getnames() == ["toy.json"]
    assert "toy:" not in measure()
    write_family(family, ("a", "b"), program=OTHER)
    assert "toy: 2 of 2 " in measure()


def test_a_side_that_crashes_or_is_wrong_is_left_out(
    family: Path, out: Path, measure: Measure
) -> None:
    write_family(family, ("a", "crashes"), ("wrong", "b"))
    told = measure()
    assert "CRASHED p/crashes" in told
    assert "WRONG p/wrong" in told
    assert [event["variant"] for event in measured(out)["times"]] == ["a", "wrong", "b"]
    assert measured(out)["crashed"] == ["p/crashes: illegal address"]
    assert runner._right_sides("toy", out) == ["p/a", "p/b"]


def test_a_family_of_crashes_is_given_up_and_the_next_one_runs(
    family: Path, measure: Measure
) -> None:
    write_family(family, *((f"crashes{i}", f"crashes{i + 1}") for i in range(6)))
    write_family(family.with_name("zoo"), ("a", "b"))
    told = measure()
    assert "FAILED toy: Failure: illegal" in told
    assert "zoo: 2 of 2 " in told


def test_it_stops_before_the_time_limit(out: Path, measure: Measure) -> None:
    assert "NO TIME for toy" in measure("--seconds", "1")
    assert not (out / "toy.json").exists()


def test_a_report_counts_as_done_for_its_own_sides_and_source_alone(
    family: Path, out: Path
) -> None:
    (out / "toy.ncu-rep.xz").write_bytes(b"")
    assert not runner.is_done(out, "toy", "profile")
    record = {"source": runner.source_digest("toy")}
    for sides in (["p/a"], ["p/a", "p/b"]):
        (out / "toy.profiled").write_text(json.dumps({**record, "sides": sides}))
        assert runner.is_done(out, "toy", "profile") is (len(sides) == 2)
    write_family(family, ("a", "b"), program=OTHER)
    assert not runner.is_done(out, "toy", "profile")


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_its_children_and_its_side_left_out(
    family: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = """
if "p/hangs" in options["--only"]:
    import subprocess
    say("start", "p/hangs")
    subprocess.run(["sleep", "600"])
"""
    write_family(family, program=PROGRAM.replace("for side in", hangs + "for side in", 1))
    monkeypatch.setattr(runner, "SIDE_SECONDS", 1.0)
    monkeypatch.setattr(runner, "MORE_SECONDS", 0.0)
    runner._copy_sources()
    events, crashed = runner._run_all("toy", ["p/a", "p/hangs"], ["--seeds", "1"])
    assert [crash.partition(":")[0] for crash in crashed] == ["p/hangs"]
    assert {event.get("variant") for event in events} == {"a", None}


def test_profiles_are_compressed_and_parts_stay_small(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = out.with_name("toy.ncu-rep")
    report.write_bytes(b"NVR\0" * 1000)
    run_archives.compress(report, out / "toy.ncu-rep.xz")
    assert lzma.decompress((out / "toy.ncu-rep.xz").read_bytes()) == b"NVR\0" * 1000
    assert not report.exists()
    monkeypatch.setattr(run_archives, "PART_BYTES", 500)
    for name in "abc":
        (out / f"{name}.json").write_bytes(b"x" * 300)
    run_archives.pack(out)
    names = []
    for part in sorted(out.glob("part*.tar")):
        with tarfile.open(part) as archive:
            names.append(archive.getnames())
    assert names == [["a.json"], ["b.json"], ["c.json", "toy.ncu-rep.xz"]]


def test_ncu_is_asked_for_all_sections_and_only_between_start_and_stop(family: Path) -> None:
    command = runner.ncu_command("toy", Path("x.ncu-rep"), ["p/a"])
    assert command[command.index("--profile-from-start") + 1] == "off"
    assert "WorkloadDistribution" in command
    assert not any("PmSampling" in word for word in command)
    assert command[-2:] == ["--only", "p/a"]
