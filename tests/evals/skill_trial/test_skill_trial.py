"""The runner of the skill trial, with stand-ins for nvcc and ncu, and the files it is given."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evals.skill_trial import baseline, device, page
from evals.skill_trial.candidates import NCU_OPTIONS, Problem, read_candidates, read_request
from evals.skill_trial.packing import pack, unpack
from evals.skill_trial.processes import Done, call
from keet.catalog import findings

NVCC = """#!/bin/sh
grep -q BROKEN kernel.cu && { echo 'kernel.cu(1): error: BROKEN' >&2; exit 2; }
cp kernel.cu program && chmod +x program
"""
NCU = """#!/bin/sh
[ "$1" = --import ] && { echo "a page: $*"; exit 0; }
while [ "$1" != --export ]; do shift; done
echo report > "$2"
"""
LINE = "echo time_us={} low_us=1.0 high_us=900.0 check={} worst=0.5 seed=$1; exit {}"


def _program(time_us: float, check: str = "ok") -> str:
    return "#!/bin/sh\n" + LINE.format(time_us, check, int(check != "ok"))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of a run over one right, one wrong, one broken and one crashing candidate."""
    for name, text in (("nvcc", NVCC), ("ncu", NCU)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(device, "KERNELS", _kernels(tmp_path / "kernels", _program(300.0)))
    work = tmp_path / "work"
    for name in ("WORK", "PROGRAMS", "LOCK"):
        monkeypatch.setattr(device, name, work / name if name != "WORK" else work)
    sources = {"right": _program(100.0), "wrong": _program(9.0, "FAILED")}
    sources |= {"broken": "BROKEN", "crashing": "#!/bin/sh\nkill -9 $$"}
    for agent, text in sources.items():
        _hand_in(tmp_path / "requests" / agent / "one", text, 'profile = true\narm = "both"\n')
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["device", str(tmp_path / "requests"), str(out)])
    assert device.main() == 0
    document: dict[str, Any] = json.loads((out / "results.json").read_text())
    names = [path.name for path in unpack(out, tmp_path / "reports")]
    return {**document["candidates"], "reports": names}


def _kernels(folder: Path, original: str) -> Path:
    (folder / "one").mkdir(parents=True)
    (folder / "harness.h").write_text("")
    for name, text in (("main.cu", ""), ("kernel.cu", original), ("Makefile", "FLAGS := -O3\n")):
        (folder / "one" / name).write_text(text)
    return folder


def _hand_in(folder: Path, source: str, request: str) -> None:
    folder.mkdir(parents=True)
    (folder / "kernel.cu").write_text(source)
    (folder / "request.toml").write_text(request)


def test_a_failing_candidate_does_not_stop_the_rest(results: dict[str, Any]) -> None:
    checks = {name: results[f"{name}/one"]["check"] for name in ("right", "wrong", "crashing")}
    assert checks == {"right": "ok", "wrong": "FAILED", "crashing": "crashed"}
    assert "BROKEN" in results["broken/one"]["build"]["message"]
    assert [len(results[f"{name}/one"]["runs"]) for name in ("right", "wrong")] == [3, 1]


def test_the_speedup_is_over_the_original_with_the_same_seeds(results: dict[str, Any]) -> None:
    right, original = results["right/one"], results["original/one"]
    assert [run["seed"] for run in right["runs"]] == [run["seed"] for run in original["runs"]]
    assert len({run["seed"] for run in right["runs"]}) == 3
    assert right["speedup"] == 3.0
    assert results["wrong/one"]["speedup"] is None


def test_only_right_programs_are_profiled(results: dict[str, Any]) -> None:
    pages = [f"right.one.full.{suffix}" for suffix in device.PAGES]
    assert sorted(results["reports"]) == sorted(
        ["right.one.full.ncu-rep", "right.one.keet.ncu-rep", *pages]
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("profile = 1", "profile must be"),
        ('arm = "skill"', "arm must be"),
        ("profiles = true", "unknown entry 'profiles'"),
        ('ncu = ["--clock-control", "base"]', "'--clock-control' is not allowed"),
        ('ncu = ["--section"]', "'--section' is not allowed"),
        ('ncu = ["--section", "--export"]', "'--section' is not allowed"),
        ("profile = ", "not TOML"),
    ],
)
def test_a_wrong_request_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "request.toml"
    path.write_text(text)
    with pytest.raises(Problem, match=why):
        read_request(path)


def test_only_unchanged_kernels_are_originals(tmp_path: Path) -> None:
    kernels = _kernels(tmp_path / "kernels", "as it was")
    _hand_in(tmp_path / "requests" / "original" / "one", "faster", "")
    _hand_in(tmp_path / "requests" / "agent" / "other", "text", "")
    told = {one.name: one.problem for one in read_candidates(tmp_path / "requests", kernels)}
    assert "unchanged" in told["original/one"]
    assert "there are one" in told["agent/other"]


def test_a_line_has_to_agree_with_the_exit_code() -> None:
    line = "time_us=5.00 low_us=4.00 high_us=6.00 check=ok worst=0.1 seed=7\n"
    assert device.read_line(Done(0, line, ""))["time_us"] == 5.0
    assert device.read_line(Done(1, line, "x"))["check"] == "crashed"
    assert device.read_line(Done(None, line, "stopped"))["message"] == "stopped"


def test_a_program_that_hangs_is_stopped(tmp_path: Path) -> None:
    done = call(["sh", "-c", "echo begun; sleep 30"], tmp_path, 0.1)
    assert (done.code, done.out) == (None, "begun\n")


def test_packed_files_come_back_in_parts(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    contents = {f"{i}.ncu-rep": bytes([i]) * 5000 for i in range(5)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    assert len(pack(folder, out, most=2500)) == 2
    assert {path.name: path.read_bytes() for path in unpack(out, tmp_path / "again")} == contents


def test_every_kernel_has_its_truth() -> None:
    known = set(findings())
    assert len(baseline.names()) == 5
    for name in baseline.names():
        truth = tomllib.loads((baseline.HERE / "truth" / name / "truth.toml").read_text())
        source = (baseline.HERE / "kernels" / name / "kernel.cu").read_text().splitlines()
        assert {truth["finding"], *truth["accept"]} <= known
        assert all(source[line - 1].strip() for line in truth["lines"])
        assert "nvcc" in device.build_command(name)[0]


def test_the_baseline_asks_for_both_kinds_of_profile(tmp_path: Path) -> None:
    baseline.write_requests(tmp_path)
    read = read_candidates(tmp_path, baseline.HERE / "kernels")
    kinds = {one.agent: one.profiles for one in read}
    assert len(read) == 10
    assert kinds == {"original": ("keet", "full"), "reference": ("keet",)}
    assert all(option.startswith("--") for option in NCU_OPTIONS)


def test_the_page_is_that_of_the_record() -> None:
    assert page.page() == page.RECORD.with_suffix(".md").read_text(encoding="utf-8")


def test_a_failed_candidate_counts_as_the_original() -> None:
    right = {"speedup": 4.0, "check": "ok"}
    wrong = {"speedup": 9.0, "check": "FAILED"}
    head, row = page._rows({"keet_a": {"one": right, "two": wrong}})
    assert (head[-1], row) == ("geometric mean", ["keet_a", "4.00x", "FAILED", "2.00x"])
