"""Parts of the script that runs programs. Whole requests: test_local_rounds.py."""

from __future__ import annotations

import ast
import json
import math
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from keet.collect.plain_run import record_plain_run
from keet.collect.recorder import read_recording
from keet.optimize import measure
from keet.optimize.judging import compare_times, judge
from keet.optimize.measure import Measurement, difference, goal_launches, typical_launches
from keet.optimize.runners import Command, Result, Run, VariantResult, export_commands
from tests.rows import each_row
from tests.unit.collect.toolkit import needs_compiler, program_at, use_toolkit
from tests.unit.optimize.bench import task_of


def rule(kind: str, relative: float = 0.0, absolute: float = 0.0) -> dict[str, object]:
    return {"file": "out", "type": kind, "relative": relative, "absolute": absolute}


def values(*numbers: float) -> bytes:
    return struct.pack(f"{len(numbers)}f", *numbers)


@each_row(
    ("wanted", "given", "how", "is_right"),
    [
        (b"x 1.0\n", b"x  1.0", rule("text"), True),
        (b"x 1.0", b"x 1.001", rule("text", relative=0.01), True),
        (b"x 1.0", b"x 1.1", rule("text", relative=0.01), False),
        (b"x 0.0", b"x 0.01", rule("text", relative=0.5), False),
        (b"x 0.0", b"x 0.01", rule("text", absolute=0.1), True),
        (b"x 1", b"y 1", rule("text", relative=1.0), False),
        (b"1 2", b"1", rule("text", relative=1.0), False),
        (b"1", b"nan", rule("text", relative=1.0), False),
        (b"nan", b"nan ", rule("text"), True),
        (b"inf", b"1e308", rule("text", relative=1.0), False),
        (b"1", b"inf", rule("text", relative=1e300), False),
        (b"ab", b"ab", rule("bytes"), True),
        (b"ab", b"ac", rule("bytes", absolute=9.0), False),
        (values(1, 2), values(1, 2.001), rule("float32", relative=0.01), True),
        (values(1, 2), values(1, 2.1), rule("float32", relative=0.01), False),
        (values(1, 2), values(1), rule("float32", relative=1.0), False),
        (values(1), values(math.nan), rule("float32", relative=1.0), False),
        (b"ab", None, rule("bytes"), False),
    ],
)
def test_outputs(wanted: bytes, given: bytes | None, how: Any, is_right: bool) -> None:
    assert (difference(wanted, given, how) == "") == is_right


@needs_compiler
def test_records_are_read_as_keet_profile_reads_them(tmp_path: Path, monkeypatch) -> None:
    program = use_toolkit(monkeypatch)
    words = ["launch", "_Z4stepPf", "1000", "2200", "132", "1024", "4"]
    words += ["launch", "_Z4fillPfi", "5000", "9000", "64", "256", "2"]
    record_plain_run([str(program), *words], tmp_path, lambda _: None, lambda: pytest.fail("ncu"))
    known = read_recording(tmp_path / "records").records
    launches = measure.read_records(tmp_path / "records")
    assert [each[:4] for each in launches] == [(r.name, r.full, r.start, r.end) for r in known]
    assert measure.busy_time(launches) == sum(each.end - each.start for each in known) - 800
    text = measure.ends_of(b"first error" + b"." * 10_000 + b"last line", 100)
    assert (text[:11], text[-9:], len(text) < 120) == ("first error", "last line", True)
    assert measure.kernel_times(launches)[0] == ["_Z4fillPfi", "fill(float*, int)", 2, 8000]
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    whole = next((tmp_path / "records").glob("*.rec")).read_bytes()
    for length in range(0, len(whole), 7):
        (damaged / "1.rec").write_bytes(whole[:length])
        assert len(measure.read_records(damaged)) <= len(launches)


def test_the_launches_that_are_profiled() -> None:
    launches = [("_Z1av", "a()", 0, time, 0) for time in (9, 100, 101)]
    launches += [("_Z1bv", "b()", 0, 50, 0)] * 2 + [("_Z1cv", "c()", 0, 1, 0)]
    assert typical_launches(launches) == ("::regex:^(_Z1av|_Z1bv)$:^(2)$", 2)
    solver = [("_Z1sv", "s()", 0, time, 0) for time in (50, 30, 30, 30)]
    several = [*launches, *solver, ("_Z1dv", "d()", 0, 60, 0)]
    chosen, count = typical_launches(several)
    assert chosen == "::regex:^(_Z1av|_Z1sv|_Z1bv|_Z1dv)$:^(1|2)$", "2 serves three kernels"
    assert count == 7, "d has one launch"
    search = [("_Z1av", "a()", 0, time, 0) for time in (3, 3, 3, 700, 3, 600, 3)]
    assert typical_launches(search) == ("::regex:^(_Z1av)$:^(4)$", 1), "where the time is"


@each_row(
    ("passed", "nanoseconds", "is_profiled"), [(299, 91, True), (301, 91, False), (301, 200, True)]
)
def test_late_launches_of_small_kernels(passed: int, nanoseconds: int, is_profiled: bool) -> None:
    """ncu is slow with every launch that it passes over."""
    times = [("_Z1av", 800), *[("_Z1bv", 0)] * (passed - 1), ("_Z1dv", 90), ("_Z1cv", nanoseconds)]
    launches = [(name, name, 0, time, 0) for name, time in times]
    assert ("_Z1cv" in typical_launches(launches)[0]) == is_profiled


def test_kernels_that_are_not_the_goal_are_not_profiled() -> None:
    """The mangled name of a kernel in an anonymous namespace is another one in each build."""
    hidden = "(anonymous namespace)::fill()"
    launches = [("_ZN12_GLOBAL__N__1fillEv", hidden, 0, 900, 0)]
    launches += [("_Z4stepv", "step()", 0, 100, 0), ("_Z3newv", "new()", 0, 50, 0)]
    known = {"_ZN12_GLOBAL__N__2fillEv", hidden, "_Z4stepv", "step()"}
    assert goal_launches(launches, "step", known) == launches[1:]
    assert goal_launches(launches[:1], "step", known) == launches[:1]
    assert goal_launches(launches, None, known) == launches


LIMITS = {"build_s": 20, "profile_s": 20, "output_chars": 1000, "file_bytes": 1 << 30}


def request(folder: Path, **values: object) -> Path:
    """With the variant `before`, which has no files."""
    (folder / "variants" / "before").mkdir(parents=True)
    given = {"protocol": 1, "variants": ["before"], "limits": LIMITS, "compare": []}
    given |= {"protected": {}, "files": {}, "profile": None, "record": False}
    (folder / "request.json").write_text(json.dumps(given | values))
    return folder


def measurement(folder: Path, **values: object) -> Measurement:
    """Of a request with its own folder for work."""
    work = folder.with_suffix(".work")
    work.mkdir()
    return Measurement(request(folder, **values), work, folder / "result")


def runs_in(folder: Path) -> list[dict[str, Any]]:
    result = json.loads((folder / "result/result.json").read_text())
    runs: list[dict[str, Any]] = result["variants"]["before"]["runs"]
    return runs


def test_builds_of_several_requests_run_at_one_time(tmp_path: Path, monkeypatch) -> None:
    """Each waits for the other one. A damaged request does not stop the others."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    build = f"touch {tmp_path}/%s; until test -e {tmp_path}/%s; do sleep 0.02; done; touch app"
    measurements = [
        measurement(tmp_path / "first", build=build % ("a", "b")),
        measurement(tmp_path / "second", build=build % ("b", "a")),
        measurement(tmp_path / "third", build="true", files={"measure.py": "0"}),
    ]
    *built, damaged = measure.at_one_time(Measurement.build, measurements)
    assert damaged.problem
    for one in built:
        assert one.is_built
        assert "app" in one.variants[0].states


def test_what_timed_runs_left_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is a file or a link where the program had a folder. What can't be restored fails
    the check, and nothing else."""
    limits = {**LIMITS, "run_s": 20, "check_s": 20}
    given = {"build": "mkdir a b; touch old", "repeats": 3, "once": [], "limits": limits}
    given |= {"run": "rmdir a b; echo x > a; ln -s a b; mkdir c; echo x > c/d; rm old"}
    given |= {"check": "test -f a && test -L b && test -s c/d && test ! -e old", "digest": ""}

    def checks(name: str) -> list[int]:
        measure.measure_together([measurement(tmp_path / name, **given, id=name)])
        return [each["check"]["exit"] for each in runs_in(tmp_path / name)]

    assert checks("whole") == [0, 0, 0, 0]
    monkeypatch.setattr(measure.tarfile.TarFile, "extractall", lambda *_: Path("/nowhere").stat())
    assert checks("broken") == [0, 1, 1, 1]


ALONE = """\
mkdir {lock} || exit 1
sleep 0.1; rmdir {lock}
echo $$ > out
"""


def test_a_run_that_fails_beside_others_is_repeated_alone(tmp_path: Path) -> None:
    """What a timed run left is checked later; no later run finds it."""
    count = f"find {tmp_path} -name out | wc -l >> {tmp_path}/outputs"
    run = ALONE.format(lock=tmp_path / "lock") + count
    limits = {**LIMITS, "run_s": 20, "check_s": 20}
    given = {"build": "true", "run": run, "check": "test -s out", "repeats": 3, "once": []}
    given |= {"limits": limits, "digest": ""}
    folders = [tmp_path / name for name in ("first", "second")]
    measure.measure_together([measurement(each, **given, id=each.name) for each in folders])
    for folder in folders:
        runs = [(r["warmup"], r["exit"], r["check"]["exit"]) for r in runs_in(folder)]
        assert runs == [(True, 0, 0), *[(False, 0, 0)] * 3]
    timed = (tmp_path / "outputs").read_text().split()[-6:]
    assert timed == ["1"] * 6, "each finds its own output alone; first runs are beside each other"


NCU = """\
#!/bin/sh
case "$*" in
  *details*) echo "DRAM Throughput" ;;
  *--print-source*) echo "unrecognised option" >&2; exit 1 ;;
  *source*) echo "Address,Source" ;;
esac
"""


def test_texts_of_ncus_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ncu that does not know an option is asked without it."""
    program_at(tmp_path / "ncu", NCU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    report = tmp_path / "before.ncu-rep"
    done = measurement(tmp_path / "request", build="true", profile={"exports": export_commands()})
    done.build()
    assert done.export(report) == []
    assert (tmp_path / "before.details.txt").read_text() == "DRAM Throughput\n"
    assert (tmp_path / "before.source.csv").read_text() == "Address,Source\n"
    (tmp_path / "ncu").write_text("#!/bin/sh\necho no license; exit 1\n")
    assert done.export(report) == ["details.txt: no license", "source.csv: no license"]
    assert not (tmp_path / "before.details.txt").exists()


def test_the_script_needs_the_standard_library_alone() -> None:
    tree = ast.parse(Path(measure.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("before", "after", "is_faster", "is_slower"),
    [
        ([100, 101, 99], [50, 51, 49], True, False),
        ([50, 51, 49], [100, 101, 99], False, True),
        ([100, 120, 80], [99, 121, 81], False, False),
        ([100, 140, 80, 120], [90, 80, 130, 100], False, False),  # within the noise
        ([100, 100, 100], [99.9, 99.9, 99.9], False, False),
        ([100], [50], False, False),  # one run says nothing about the noise
    ],
)
def test_times(before: list[float], after: list[float], is_faster: bool, is_slower: bool) -> None:
    times = compare_times(before, after)
    assert times is not None
    assert (times.is_faster, times.is_slower) == (is_faster, is_slower)
    for missing in ([], after[1:], [0, *after[1:]]):
        assert compare_times(before, missing) is None


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [
        ((1.02, 1.021, 1.019), "kept"),  # slower by less than three times the noise
        ((1.5, 1.51, 1.49), "refused"),  # it moves work to the host
    ],
)
def test_a_program_that_is_slower(seconds: tuple[float, ...], outcome: str, tmp_path: Path) -> None:
    """The kernels are faster."""

    def variant(busy: int, walls: tuple[float, ...]) -> VariantResult:
        kernels = (("_Z4stepv", "step()", 1, busy),)
        runs = [Run(0, s, False, "", False, (), (), None, busy, kernels) for s in walls]
        return VariantResult(Command(0, 1.0, False, ""), (), tuple(runs), None)

    sides = {"before": variant(2000, (1.0, 1.0, 1.02)), "after": variant(1000, seconds)}
    result = Result(1, "id", "digest", None, "cupti", "", sides)
    task = task_of(tmp_path, wall_check=True)
    assert judge(task, result, {"_Z4stepv"}).outcome == outcome
