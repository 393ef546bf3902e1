"""`keet profile` from the plain run to the explanation: the real recorder over a CUPTI of the tests,
and an ncu that leaves the reports of an H200."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from keet.collect.plain_run import PlainRun, recorded_run
from keet.collect.profile_plan import ProfilePlan, ProfileRequest, choose
from keet.collect.profile_program import profiled_launches
from keet.profile.run_table import Record, RunTable
from keet.report import read_profile
from keet.report.run_table import read_run_table
from tests.conftest import REPORTS, Keet
from tests.rows import mostly_slow
from tests.unit.collect.toolkit import RUNS, SMI, needs_compiler, program_at, use_toolkit

PROFILED_WAITS = read_profile(RUNS / "waits.ncu-repz").launches
SHAPE = ((65536, 1, 1), (256, 1, 1))


def run_of(*kernels: tuple[str, int], process: int = 0) -> list[Record]:
    return [
        Record(name, name, *SHAPE, 10_000 * n, 10_000 * n + ns, 0, process, n)
        for n, (name, ns) in enumerate(kernels)
    ]


def plain_of(*records: Record) -> PlainRun:
    return recorded_run(records, RunTable((), "cupti"))


def plan_of(plain: PlainRun) -> ProfilePlan:
    choice = choose(plain.records, plain.busy, lambda _: True, lambda _: True)
    return ProfilePlan(ProfileRequest(("./waits",)), choice)


FILL, BEFORE, AFTER = (launch.name.mangled for launch in PROFILED_WAITS)
FIRST = ProfilePlan(ProfileRequest(("./waits",)))


def without_times(err: str) -> str:
    """Without estimates from how long things took on this machine, and names of its folders."""
    err = re.sub(r"\S*keet-toolkit-\w+", "TOOLKIT", err)
    return re.sub(r" \(recording took.*|(?<=passes) and .*", "", err)


def linked(plan: ProfilePlan, plain: PlainRun, most: int = 3) -> list[tuple[int, int, float]]:
    found = profiled_launches(PROFILED_WAITS[:most], plan, plain)
    return [(each.launch, each.number, each.ns) for each in found]


def test_by_kernel_number_and_shape_or_the_first_of_each_kernel() -> None:
    """Behind a skip alone is one launch."""
    plain = plain_of(*run_of((FILL, 40), (BEFORE, 57), (AFTER, 58)))
    assert linked(plan_of(plain), plain) == [(0, 0, 40), (1, 1, 57), (2, 2, 58)]
    plain = plain_of(*run_of((FILL, 10), (FILL, 5000), (BEFORE, 57), (AFTER, 58)))
    assert linked(FIRST, plain) == [(0, 0, 10), (1, 2, 57), (2, 3, 58)]
    skip = ProfilePlan(ProfileRequest(("./waits",), launch_skip=1))
    assert linked(skip, plain_of(*run_of((BEFORE, 1), (FILL, 40))), 1) == [(0, 1, 40)]


def test_a_launch_that_is_missing_leaves_its_kernel_unlinked() -> None:
    """Two were to be profiled and one is there: which one, nobody knows. Nor of two processes."""
    plain = plain_of(*run_of(*[(FILL, 100)] * 50, (FILL, 900)))
    plan = plan_of(plain)
    assert len(plan.choice.launches) == 2
    assert linked(plan, plain) == []
    assert linked(FIRST, plain_of(*run_of((FILL, 40)), *run_of((FILL, 900), process=1))) == []


pytestmark = needs_compiler

STEPS = ("launch", "_Z11smooth_stepPKfPf", "1000", "2216", "132", "1024", "400")
STEP = "_Z11smooth_stepPKfPf"
WAITS = (
    *("launch", "_Z4fillPfi", "1000", "41000", "65536", "256", "1"),
    *("launch", "_Z11before_waitPfi", "50000", "107000", "65536", "256", "3"),
    *("launch", "_Z13wait_for_hostPViPf", "400000", "2400000", "1", "32", "3"),
    *("launch", "_Z10after_waitPfi", "9000000", "9058000", "65536", "256", "3"),
)
PROFILED = '==PROF== Profiling "1:7:{}:2": 0%....50%....100% - 24 passes\n'

NCU = """#!/usr/bin/env python3
import json, os, pathlib, shutil, subprocess, sys
words, home = sys.argv, pathlib.Path(__file__).parent
after = lambda option: words[words.index(option) + 1]
calls = json.loads((home / "calls.json").read_text())
call = calls.pop(0) if len(calls) > 1 else calls[0]
(home / "calls.json").write_text(json.dumps(calls))
with (home / "words.jsonl").open("a") as file:
    file.write(json.dumps(words) + "\\n")
program = words[words.index("--export") + 2:]
log = pathlib.Path(after("--log-file"))
child = subprocess.Popen(["sleep", "1000"] if call.get("hangs") else program)
log.write_text(call.get("log", ""))
code = child.wait()
if call.get("report"):
    shutil.copyfile(call["report"], after("--export"))
with log.open("a") as file:
    file.write(call.get("end", ""))
sys.exit(abs(code))
"""


class Bench:
    """A machine with a toolkit, an ncu and a program."""

    def __init__(self, folder: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keet, self.folder = keet, folder
        self.program = use_toolkit(monkeypatch)
        self.tools = folder / "bin"
        for name, text in {"ncu": NCU, "nvidia-smi": SMI}.items():
            program_at(self.tools / name, text)
        monkeypatch.setenv("PATH", f"{self.tools}:{os.environ['PATH']}")
        self.report = folder / "r.ncu-rep"

    def answers(self, *calls: dict[str, Any]) -> None:
        """What ncu does, call by call; the last one for all further calls."""
        (self.tools / "calls.json").write_text(json.dumps(calls))

    def profile(self, *words: object, options: Sequence[str] = ()) -> Any:
        done = ("profile", "--format", "path", *options, "-o", self.report, "--", self.program)
        return self.keet(*done, *words, width=200)

    def asked(self) -> list[list[str]]:
        return [*map(json.loads, (self.tools / "words.jsonl").read_text().splitlines())]

    def chosen(self, call: int = 0) -> str:
        words = self.asked()[call]
        assert words[words.index("--kernel-name-base") + 1] == "mangled"
        return words[words.index("--kernel-id") + 1]

    def left(self) -> list[str]:
        return sorted({path.name for path in self.folder.iterdir()} - {"bin", "cache"})


@pytest.fixture
def bench(tmp_path: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, keet, monkeypatch)


def report(name: str) -> str:
    return str(RUNS / f"{name}.ncu-repz")


BOTH = ["r.ncu-rep", "r.run.json"]
MANY = {"report": report("steps_many")}
HANGS = {"log": '==PROF== Profiling "1:7:_Z13wait_for_hostPViPf:2": 0%..', "hangs": True}


def test_the_launches_that_matter(bench: Bench, wording) -> None:
    bench.answers({"log": PROFILED.format(STEP), "report": report("steps_many")})
    done = bench.profile("launch", "_Z4fillPfi", 10, 900, 528, 256, 1, *STEPS)
    assert (done.code, done.out) == (0, f"{bench.report}\n")
    assert bench.chosen() == f"::regex:^({STEP})$:^(2)$"
    wording(without_times(done.err))
    assert bench.left() == BOTH
    profile = read_profile(bench.report)
    (linked,), position = profile.run.profiled, profile.in_run.of(0)
    assert (linked.launch, linked.number, linked.ns) == (0, 2, 1216)
    assert (position.launches, position.known_by) == (400, "launch")


@pytest.mark.slow
def test_a_kernel_that_can_not_be_replayed(bench: Bench, wording) -> None:
    """It is left out with its reason, and the others are profiled. One that was not chosen ends
    profiling."""
    bench.answers({"log": '==ERROR== Failed to profile "1:7:other:2" in process 7\n'})
    assert (bench.profile(*STEPS).code, len(bench.asked())) == (3, 1)
    (bench.tools / "words.jsonl").unlink()
    (bench.folder / "r.run.json").unlink()
    bench.answers(HANGS, {"report": report("waits")})
    done = bench.profile(*WAITS, options=["--kernel-timeout", "0.3"])
    assert done.code == 0
    assert bench.chosen(0).startswith("::regex:^(_Z13wait_for_hostPViPf|")
    assert "wait_for_host" not in bench.chosen(1)
    wording(without_times(done.err))
    run = read_profile(bench.report).run
    assert [each.kernel for each in run.skipped] == ["wait_for_host"]


GIVEN_UP = '==ERROR== Failed to profile "1:7:_Z13wait_for_hostPViPf:2" in process 7\n'
WARNS = '==PROF== Profiling "1:7:_Z4fillPfi:1": 0%..==WARNING== it takes long\n..100% - 9 passes\n'
NO_KERNELS = "==WARNING== No kernels were profiled.\n"
FAILED = "==ERROR== The application returned an error code (7).\n"
OF_WAITS = {"report": report("waits")}
TOLD: dict[str, tuple[Any, ...]] = {
    "none can be replayed": ([HANGS], WAITS[14:21], "--kernel-timeout 0.2", 3, ["r.run.json"]),
    "ncu gives up on one": ([{"log": GIVEN_UP}, OF_WAITS], WAITS, "", 0, BOTH),
    "a warning during a launch": ([{"log": WARNS, **OF_WAITS}], WAITS, "", 0, BOTH),
    # ncu has the last word on that: the recorder may not have been loaded
    "no kernels": ([{"log": NO_KERNELS}], ("exit", 0), "", 3, []),
    "it fails before its first kernel": ([{"end": FAILED}], ("exit", 7), "", 7, []),
    "no kernel of that name": ([{}], STEPS, "--kernel gemm", 3, []),
}


@pytest.mark.parametrize("name", mostly_slow(TOLD, few=2))
def test_what_is_told(name: str, bench: Bench, wording) -> None:
    calls, program, options, code, left = TOLD[name]
    bench.answers(*calls)
    done = bench.profile(*program, options=options.split())
    assert (done.code, bench.left()) == (code, left)
    wording(without_times(done.err))


@pytest.mark.slow
def test_the_programs_exit_code_is_kept_and_what_recording_costs_is_told(bench: Bench) -> None:
    bench.answers(MANY)
    done = bench.profile(*STEPS, "delivered", "abort", options=["--check-overhead"])
    for part in ("exit code 134", "s recorded, ", "s in all, "):
        assert part in done.err
    assert (done.code, bench.left()) == (134, BOTH)


@pytest.mark.slow
def test_without_a_recorder_ncu_times_the_launches(bench: Bench, monkeypatch, wording) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/another/tool.so")
    bench.answers({"report": str(REPORTS / "metrics_only.ncu-repz")}, {"report": report("waits")})
    done = bench.profile()
    wording(without_times(done.err))
    assert "gpu__time_duration.sum" in bench.asked()[0]
    assert "transpose_rows" in bench.chosen(1)


def test_selection_options_are_passed_to_ncu(bench: Bench) -> None:
    """What ncu does not collect for ranges is left out."""
    bench.answers(MANY)
    passed = {
        "--first": "--kernel-id ::regex:.:1 ",
        "--launch-skip 3 --launch-count 2": "--launch-skip 3 ",
        "--range": "--replay-mode app-range ",
    }
    for call, (options, words) in enumerate(passed.items()):
        assert bench.profile(*STEPS, options=["--force", *options.split()]).code == 0
        assert words in " ".join(bench.asked()[call])
        assert bench.left() == BOTH
    of_range = bench.asked()[-1]
    assert "SourceCounters" not in of_range
    assert "smsp__sass_" not in of_range[of_range.index("--metrics") + 1]


@pytest.mark.slow
def test_output_of_the_program_is_printed_once(bench: Bench) -> None:
    """On stderr, in the plain run; stdout is keet's result."""
    bench.answers(MANY)
    words = [*KEET, "--format", "path", "-o", str(bench.report), "--", str(bench.program)]
    program = ("print", "50000", *STEPS)
    done = subprocess.run([*words, *program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{bench.report}\n"
    assert done.stderr.count("the program speaks\n") == 50_000


KEET = (sys.executable, "-m", "keet", "profile")


def stopped(bench: Bench, ready: Callable[[], bool], *program: object, alone: bool = False) -> str:
    """Ctrl-C, or SIGTERM to keet `alone`, once it is `ready`; what it says on stderr."""
    words = [*KEET, "--kernel-timeout", "0.3", "-o", bench.report, "--", bench.program, *program]
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "start_new_session": True}
    process: Any = subprocess.Popen([*map(str, words)], text=True, **given)  # type: ignore[call-overload]
    while not ready():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate() if alone else os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert alone or process.returncode == 130
    return said


def is_left(path: Path) -> bool:
    return subprocess.run(["pgrep", "-f", path], capture_output=True, check=False).stdout != b""


@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_signal_in_the_plain_run_keeps_what_was_recorded(alone: bool, bench: Bench) -> None:
    """Ctrl-C; or SIGTERM, as `timeout` and batch systems send it, to keet alone: the program ends as
    well."""

    def recorded() -> bool:
        found = bench.folder.glob(".keet-profile-*/records/*.rec")
        return any(path.stat().st_size > 1000 for path in found)

    said = stopped(bench, recorded, *STEPS, "delivered", "pause", alone=alone)
    assert alone or f"wrote {bench.folder / 'r.run.json'}" in said
    assert bench.left() == ["r.run.json"]
    assert read_run_table(bench.folder / "r.run.json").complete is False
    assert not is_left(bench.program)


def test_existing_files_are_replaced_only_with_force(bench: Bench, wording) -> None:
    """The table of an earlier run counts, too."""
    (bench.folder / "r.run.json").write_text("kept")
    done = bench.profile(*STEPS)
    assert done.code == 2
    wording(without_times(done.err))


# --- what a reviewer broke


@pytest.mark.slow
def test_a_program_that_changes_its_folder(bench: Bench, keet: Keet, monkeypatch) -> None:
    """The recorder is told absolute paths, whatever -o and the cache are."""
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("KEET_CACHE", "cache")
    bench.answers(MANY)
    program = f"cd / && {bench.program} {' '.join(STEPS)}"
    done = keet("profile", "--format", "path", "-o", "r.ncu-rep", "--", "sh", "-c", program)
    assert "recorded with CUPTI" in done.err
    assert bench.left() == BOTH


SLEEPS = "if call.get('sleeps'):\n (home / 'ready').touch()\n import time\n time.sleep(3600)\n"


@pytest.mark.slow
def test_ctrl_c_under_ncu_keeps_what_is_there(bench: Bench) -> None:
    """Of any run of ncu, and the table in any case."""
    ncu = bench.tools / "ncu"
    ncu.write_text(ncu.read_text().replace("sys.exit(abs(code))", SLEEPS))
    for calls, kept in (
        ([{"sleeps": True}], ["r.run.json"]),
        ([HANGS, {"report": report("waits"), "sleeps": True}], BOTH),
    ):
        for path in (*bench.folder.glob("r.*"), *bench.tools.glob("ready")):
            path.unlink()
        bench.answers(*calls)
        said = stopped(bench, (bench.tools / "ready").exists, *WAITS)
        assert bench.left() == kept
        assert (f"interrupted; {bench.report} has " in said) == (kept == BOTH)


@pytest.mark.slow
def test_a_failed_profile_leaves_an_older_one_alone(bench: Bench) -> None:
    """And after a failure the same command works."""
    fails, table = {"log": "==ERROR== Something new.\n"}, bench.folder / "r.run.json"
    bench.answers(fails)
    assert bench.profile(*STEPS).code == 3
    assert bench.left() == ["r.run.json"]
    bench.answers(MANY)
    assert bench.profile(*STEPS).code == 0
    before = table.read_bytes()
    bench.answers(fails)
    assert bench.profile(*STEPS, options=["--force"]).code == 3
    assert table.read_bytes() == before
    assert bench.left() == [*BOTH, "r_failed.run.json"]
    assert read_profile(bench.report).run is not None


def test_a_report_without_a_plain_run_does_not_inherit_a_table(bench: Bench) -> None:
    bench.answers({"log": PROFILED.format(STEP), **MANY})
    bench.profile(*STEPS)
    assert bench.profile(*STEPS, options=["--force", "--no-plain-run"]).code == 0
    assert bench.left() == ["r.ncu-rep"]


@pytest.mark.slow
def test_a_run_that_does_not_end_whatever_the_program_is_called(bench: Bench) -> None:
    """It may hang under ncu when it is done, if it forks. Names that begin like parts of ncu, and a
    shell that would start the next program."""
    waits = program_at(bench.tools / "shallow_ncu", "#!/bin/sh\nsleep 1000\nsleep 1000\n")
    ncu = bench.tools / "ncu"
    ncu.write_text(ncu.read_text().replace('["sleep", "1000"]', f'["{waits}"]'))
    bench.answers({"log": PROFILED.format(STEP), "hangs": True, **MANY})
    for option, told in (
        ("--kernel-timeout 0.3", "made no progress"),
        ("--max-minutes 0.01", "stopped after --max-minutes"),
    ):
        done = bench.profile(*STEPS, options=["--force", *option.split()])
        assert told in done.err
        assert (done.code, bench.left()) == (0, BOTH)
        assert not is_left(waits)


@pytest.mark.slow
def test_arguments_that_are_no_text_and_a_cache_that_can_not_be_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEET_CACHE", "/proc/nothing")
    bench.answers(MANY)
    done = bench.profile(*STEPS, "caf\udce9")
    assert (done.code, "recorded with CUPTI" in done.err) == (0, True)
    assert read_profile(bench.report).run.command[-1] == "caf\\udce9"


def test_a_program_that_can_not_be_run(bench: Bench, wording) -> None:
    bench.answers({})
    bench.program = program_at(bench.folder / "script", "no interpreter")
    done = bench.profile()
    assert done.code == 2
    wording(without_times(done.err))
