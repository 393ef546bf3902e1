"""The runner on a stand-in for a GPU: programs that fail, crash and hang, and time that runs out."""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
from pathlib import Path

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


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A family `toy` whose program is a script."""
    home = tmp_path / "casebook"
    folder = home / "families" / "toy"
    folder.mkdir(parents=True)
    (folder / "toy.py").write_text(PROGRAM)
    write_cases(folder, ("a", "b"))
    monkeypatch.setattr(runner, "HERE", home)
    monkeypatch.setattr(runner, "WORK", tmp_path / "work")
    monkeypatch.setattr(runner, "machine_facts", lambda: {"gpu": "NVIDIA H200"})
    return folder


def write_cases(folder: Path, *pairs: tuple[str, str]) -> None:
    cases = "".join(
        f'[[case]]\nid = "{before}"\nproblem = "p"\nbefore = "{before}"\nafter = "{after}"\n'
        for before, after in pairs
    )
    (folder / "family.toml").write_text(cases)


def run(monkeypatch: pytest.MonkeyPatch, out: Path, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["runner", str(out), *options])
    return runner.main()


def measured(out: Path) -> dict[str, list[dict[str, object]]]:
    return json.loads((out / "toy.json").read_text())


def test_a_family_is_checked_and_timed_and_packed(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, out, "--stage", "measure") == 0
    assert "toy: 2 of 2 " in capsys.readouterr().out
    assert len(measured(out)["checks"]) == 6
    with tarfile.open(out / "part1.tar") as archive:
        assert archive.getnames() == ["toy.json"]


def test_a_crashing_side_loses_only_that_side(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_cases(family, ("a", "crashes"), ("a", "b"))
    out = tmp_path / "out"
    run(monkeypatch, out, "--stage", "measure")
    assert [event["variant"] for event in measured(out)["times"]] == ["a", "b"]
    assert measured(out)["crashed"] == ["p/crashes: illegal address"]
    assert "CRASHED p/crashes" in capsys.readouterr().out


def test_a_family_of_crashes_is_given_up_and_the_next_one_runs(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_cases(family, *((f"crashes{i}", f"crashes{i + 1}") for i in range(6)))
    second = family.parent / "zoo"
    second.mkdir()
    (second / "zoo.py").write_text(PROGRAM)
    write_cases(second, ("a", "b"))
    out = tmp_path / "out"
    run(monkeypatch, out, "--stage", "measure")
    printed = capsys.readouterr().out
    assert "FAILED toy: Failure: illegal" in printed
    assert "zoo: 2 of 2 " in printed


def test_a_wrong_result_is_named_and_not_profiled(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_cases(family, ("wrong", "b"))
    out = tmp_path / "out"
    run(monkeypatch, out, "--stage", "measure")
    assert "WRONG p/wrong" in capsys.readouterr().out
    assert runner._right_sides("toy", out) == ["p/b"]


def test_existing_results_are_measured_again_only_if_the_source_changed(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    run(monkeypatch, out, "--stage", "measure")
    capsys.readouterr()
    run(monkeypatch, out, "--stage", "measure")
    assert "toy:" not in capsys.readouterr().out
    (family / "toy.py").write_text(PROGRAM + "# another one\n")
    run(monkeypatch, out, "--stage", "measure")
    assert "toy: 2 of 2 " in capsys.readouterr().out


def test_a_report_counts_as_done_for_its_own_sides_and_source_alone(
    family: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "toy.ncu-rep.xz").write_bytes(b"")
    assert not runner.is_done(out, "toy", "profile")
    record = {"source": runner.source_digest("toy"), "sides": ["p/a"]}
    (out / "toy.profiled").write_text(json.dumps(record))
    assert not runner.is_done(out, "toy", "profile")
    (out / "toy.profiled").write_text(json.dumps({**record, "sides": ["p/a", "p/b"]}))
    assert runner.is_done(out, "toy", "profile")
    (family / "toy.py").write_text(PROGRAM + "# another one\n")
    assert not runner.is_done(out, "toy", "profile")


def test_it_stops_before_the_time_limit(
    family: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    run(monkeypatch, out, "--stage", "measure", "--seconds", "1")
    assert "NO TIME for toy" in capsys.readouterr().out
    assert not (out / "toy.json").exists()


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_its_children_and_its_side_left_out(
    family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = """
if "p/hangs" in options["--only"]:
    import subprocess
    say("start", "p/hangs")
    subprocess.run(["sleep", "600"])
"""
    (family / "toy.py").write_text(PROGRAM.replace("for side in", hangs + "for side in", 1))
    monkeypatch.setattr(runner, "SIDE_SECONDS", 1.0)
    monkeypatch.setattr(runner, "MORE_SECONDS", 0.0)
    runner._copy_sources()
    events, crashed = runner._run_all("toy", ["p/a", "p/hangs"], ["--seeds", "1"])
    assert [crash.partition(":")[0] for crash in crashed] == ["p/hangs"]
    assert {event.get("variant") for event in events} == {"a", None}


def test_profiles_are_compressed_and_parts_stay_small(
    family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    report = tmp_path / "toy.ncu-rep"
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
