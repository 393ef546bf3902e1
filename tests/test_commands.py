"""Output of the commands: goldens named by the command line, JSON, files and wrong usage."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import pytest

from keet.cli import COMMANDS, GROUPS, make_parser
from keet.cli.help_texts import RARE_OPTIONS
from keet.formats.schema import DOCUMENTS
from keet.serve.reports import TOOLS
from tests import encode
from tests.conftest import REPORTS, TESTS, Keet
from tests.rows import each_row

VERSIONS = {"explain": 4, "explain-against": 4, "profile": 4, "ask": 2, "diff": 2}
"""Of JSON that readers of the first version can't read; all other is 1."""

GOLDENS = [
    ("show", "tour_full.ncu-repz", 80),
    ("show", "tour_full.ncu-repz", 160),
    ("show", "zoo.ncu-repz", 160),
    ("show", "range.ncu-rep", 80),
    ("show", "tour_basic.live.csv", 80),
    ("show", "metrics_only.ncu-repz", 80),
    ("metrics", "tour_full.ncu-repz", 80),
    ("metrics", "tour_full.ncu-repz l2.*hit", 80),
    ("roofline", "tour_full.ncu-repz", 80),
    ("amounts", "tour_full.ncu-repz --launch 0", 80),
    ("amounts", "zoo.ncu-repz --launch 2 --per pair=1e6", 120),
    ("roofline", "zoo.ncu-repz", 80),
    ("roofline", "tour_basic.ncu-repz", 80),
    ("roofline", "zoo.ncu-repz --format svg", 80),
    ("chart", "tour_full.ncu-repz --launch 1", 80),
    ("chart", "tour_basic.ncu-repz --launch 0", 80),
    ("chart", "zoo.ncu-repz --launch 6 --format svg", 80),
    ("hotspots", "tour_full.ncu-repz", 80),
    ("hotspots", "tour_full.ncu-repz", 160),
    ("hotspots", "triton.ncu-repz", 80),
    ("hotspots", "tour_full.ncu-repz --launch 0 --format csv", 80),
    ("hotspots", "tour_full.ncu-repz --line tour.cu:60", 80),
    ("hotspots", "tour_nolines.ncu-repz --launch 1 --top 5", 100),
]


@pytest.mark.parametrize(("command", "rest", "width"), GOLDENS, ids=str)
def test_output(command: str, rest: str, width: int, keet: Keet, golden) -> None:
    name, *options = rest.split(" ")
    result = keet(command, f"tests/data/reports/{name}", *options, width=width)
    assert result.code == 0
    assert result.err == ""
    safe = re.sub(r"[^\w.-]+", "_", rest)
    golden(f"{command}.{safe}.{width}.txt", result.out)


@each_row(
    "name",
    [
        f"{name}.ncu-repz"
        for name in ("tour_full", "zoo", "triton", "nvtx", "metrics_only", "graph")
    ],
    few=2,
)
@each_row("command", ["explain", "show", "metrics", "hotspots", "roofline", "chart", "amounts"])
def test_nothing_is_cut_at_80_columns(command: str, name: str, keet: Keet) -> None:
    out = keet(command, (REPORTS / name).relative_to(TESTS.parent)).out
    breakable = [line for line in out.splitlines() if " " in line.strip().removesuffix(" \\")]
    assert max(map(len, breakable)) <= 80, "but for words of commands, which stay whole"


@pytest.mark.parametrize(
    ("name", "at", "expected"),
    [
        ("tour_full.ncu-repz", 1, {"kernel": "transpose_tiles<float, 32>", "grid": [64, 64, 1], "workload": "kernel",
         "kernel_full": "void tour::transpose_tiles<float, (int)32>(const T1 *, T1 *, int)"}),
        ("zoo.ncu-repz", 6, {"cluster": None}),
        ("zoo.ncu-repz", 7, {"cluster": [4, 1, 1]}),
        ("nvtx.ncu-repz", 0, {"nvtx": ["<default domain>/setup", '<default domain>/fill, "quoted"']}),
        ("nvtx.ncu-repz", 1, {"nvtx": ["solver/iteration 1", "solver/iteration 1"]}),
        ("range.ncu-rep", 0, {"workload": "range", "grid": None}),
        ("graph.ncu-repz", 0, {"workload": "graph", "grid": None}),
    ],
)  # fmt: skip
def test_show_json(name: str, at: int, expected: dict[str, object], keet: Keet) -> None:
    document = keet("show", REPORTS / name, "--format", "json").json
    assert document["report"]["launch_count"] == len(document["launches"])
    (device,) = document["devices"]
    assert (device["name"], device["compute_capability"], device["sm_count"]) == (
        "NVIDIA H200", "9.0", 132,
    )  # fmt: skip
    launch = document["launches"][at]
    assert {key: launch[key] for key in expected} == expected
    assert launch["values"]["duration"]["unit"] == "ns"


@pytest.mark.slow
def test_metrics_parquet(keet: Keet, tmp_path: Path) -> None:
    """What CSV has, with texts in a column of their own: numbers stay numbers."""
    import duckdb

    chosen = ("metrics", REPORTS / "tour_full.ncu-repz", "^launch__|gpu__time", "--all", "--format")
    target = tmp_path / "it's.parquet"
    assert keet(*chosen, "parquet", "-o", target).code == 0
    written = list(csv.DictReader(io.StringIO(keet(*chosen, "csv").out)))
    with duckdb.connect() as connection:
        rows = connection.execute(
            "select launch, metric, number, text, unit"
            f" from read_parquet('{target.parent}/*.parquet')"
        ).fetchall()
    assert len(rows) == len(written) > 150
    for (launch, metric, number, text, unit), row in zip(rows, written):
        assert (str(launch), metric, unit or "") == (row["launch"], row["metric"], row["unit"])
        told = text or ("" if number is None else number)
        assert row["value"] == told or float(row["value"]) == told
    values = {(launch, metric): number or text for launch, metric, number, text, _ in rows}
    assert values[0, "gpu__time_duration.sum"] == pytest.approx(69344)
    assert values[0, "launch__func_cache_config"] == "CachePreferNone"
    assert keet("metrics", REPORTS / "tour_full.ncu-repz", "--format", "parquet").code == 2


def test_output_to_a_file(keet: Keet, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    result = keet("show", REPORTS / "range.ncu-rep", "-o", target)
    assert (result.code, result.out) == (0, "")
    assert "1 launch on NVIDIA H200" in " ".join(target.read_text().split())
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    keet("show", REPORTS / "range.ncu-rep", "-o", tmp_path / "no" / "out.txt").refuses(
        "can't be written"
    )


def test_snapshot_and_back(keet: Keet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = REPORTS / "nvtx.ncu-repz"
    monkeypatch.chdir(tmp_path)
    result = keet("snapshot", report)
    assert (result.code, result.out, result.err) == (0, "", "keet: wrote nvtx.keet.json (224 kB)\n")
    shown = keet("show", "nvtx.keet.json").out
    assert "snapshot of" in shown
    assert shown.split("\n\n")[1:] == keet("show", report).out.split("\n\n")[1:]
    assert keet("snapshot", "nvtx.keet.json").code == 2  # it would write over itself
    assert keet("snapshot", report, "-o", "-").out == (tmp_path / "nvtx.keet.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "there is no command"),
        (["shwo"], "did you mean: keet show"),
        (["--fast", "show"], "must come after the command"),
        (["show"], "required: REPORT"),
        (["baseline"], "required: {save,list,show,name,remove}"),
        (["show", "a", "b"], "unrecognized"),
        (["metrics", "REPORT", "("], "not a valid regular expression"),
        (["metrics", "REPORT", "no_such_metric_at_all"], "no metric matches"),
        (["metrics", "REPORT", "--kernel", "nothing_like_it"], "matches no launch"),
        (["hotspots", "REPORT", "--launch", "99"], "launches 0 to 2"),
        (["hotspots", "REPORT", "--launch", "3-1"], "must be launch numbers"),
        (["hotspots", "REPORT", "--line", "tour.cu"], "must be FILE:LINE"),
        (
            ["hotspots", "REPORT", "--line", "tour.cu:22"],
            "code: tour.cu:19, tour.cu:20, tour.cu:21",
        ),
        (["hotspots", "REPORT", "--line", "a.cu:1"], "files with code: tour.cu, tour_math.cuh"),
        (["show", "REPORT", "--format", "yaml"], "invalid choice"),
        (["schema", "poem"], "there is no schema"),
        (["hotspots", "REPORT", "--source", "/no/such/dir"], "no such folder"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, keet: Keet) -> None:
    report = str(REPORTS / "tour_full.ncu-repz")
    keet(*(report if argument == "REPORT" else argument for argument in arguments)).refuses(says)


@each_row(
    ("option", "selection", "ids"),
    [
        *(("--launch", "0", [0]), ("--launch", "0,2", [0, 2]), ("--launch", "1-2", [1, 2])),
        # A kernel is found by any form of its name.
        *(("--kernel", "^transpose_tiles$", [1]), ("--kernel", "_ZN4tour15", [1])),
        *(("--kernel", "tour::trans", [1]), ("--kernel", "tiles<float, 32>", [1])),
    ],
)
def test_selection(option: str, selection: str, ids: list[int], keet: Keet) -> None:
    report = REPORTS / "tour_full.ncu-repz"
    found = keet("metrics", report, "duration", option, selection, "--format", "json").json
    assert [launch["id"] for launch in found["launches"]] == ids


@pytest.mark.slow
def test_commands_about_one_launch_choose_the_representative_of_explain(keet: Keet) -> None:
    report = REPORTS / "pipeline_before.ncu-repz"
    program = keet("explain", report, "--format", "json").json["program"]
    row = max(program["rows"], key=lambda row: row["us_total"])
    number = row["representative"]
    assert len(row["launches"]) > 1
    charted = keet("chart", report, "--format", "json").json["launches"]
    assert [each["id"] for each in charted] == [number]
    assert f"launch {number}" in keet("context", report).out
    hotspots = keet("hotspots", report, "--by", "instruction").out.splitlines()
    first, *others = [line for line in hotspots if re.match("#[0-9]+ ", line)]
    assert first.startswith(f"#{number} {row['kernel']}")
    assert len(others) == len(program["rows"]) + len(row["launches"]) - 2


def test_help_and_version(keet: Keet) -> None:
    for arguments in ((), ("--help",), ("help",)):
        result = keet(*arguments)
        assert result.code == 0
        listed = re.findall(r"^  ([a-z]+)  ", result.out, re.MULTILINE)
        assert listed == [name for name in COMMANDS if name not in GROUPS[""]]
        assert len(result.out.splitlines()) <= 48
        assert max(len(line) for line in result.out.splitlines()) <= 80
    assert keet("--version").out.startswith("keet ")
    complete = keet("--help-all").out
    assert all(f"  {command} " in complete for command in COMMANDS)
    assert "exit codes: 0 " in complete


def test_rare_options_are_only_in_the_complete_help(keet: Keet) -> None:
    short, complete = keet("explain", "--help").out, keet("explain", "--help-all").out
    assert "--token-budget" not in short
    assert "--token-budget" in complete
    assert short.endswith("\nall options: keet explain --help-all\n")
    assert "--help-all" not in keet("show", "--help").out
    options = {name for command in COMMANDS for name in option_names(command)}
    assert options > RARE_OPTIONS
    model, _, examples = short.partition("\nmodel:\n")[2].partition("\nexamples:\n")
    assert "--model PROVIDER:NAME" in model
    assert "keet explain report.ncu-rep\n" in examples


def option_names(command: str) -> Iterator[str]:
    module = import_module(f"keet.cli.{command}")
    if not hasattr(module, "find_action"):
        for action in make_parser(module, command)._actions:
            yield from action.option_strings


@pytest.mark.slow
def test_schema(keet: Keet) -> None:
    everything = keet("schema").json
    assert {name for name in everything if not name.startswith("mcp-")} == set(DOCUMENTS)
    assert {f"mcp-{name}" for name in TOOLS} == set(everything) - set(DOCUMENTS)
    assert keet("schema", "show").json == everything["show"]
    of = lambda name: everything[name]["properties"]["schema_version"]["const"]  # noqa: E731
    versions = {name: of(name) for name in DOCUMENTS}
    assert versions == {name: VERSIONS.get(name, 1) for name in DOCUMENTS}


def test_doctor(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = keet("doctor")
    assert (shown.code, "--model PROVIDER:NAME" in " ".join(shown.out.split())) == (0, True)
    monkeypatch.setattr("keet.cli.doctor._PACKAGES", ("rich", "surely-not-installed"))
    result = keet("doctor")
    assert result.code == 3
    assert "can't work without: surely-not-installed" in result.out
    assert "pip install 'surely-not-installed'" in result.out


def test_a_bug_prints_one_line_instead_of_a_traceback(keet: Keet, monkeypatch, wording) -> None:
    broken = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("keet.report.read_profile", broken)
    assert keet("show", REPORTS / "range.ncu-rep") == (130, "", "keet: interrupted\n")
    broken.side_effect = ZeroDivisionError("oops")
    result = keet("show", REPORTS / "range.ncu-rep")
    assert result.code == 70
    wording(result.err)
    assert len(result.err.splitlines()) == 1
    monkeypatch.setenv("KEET_DEBUG", "1")
    assert "Traceback" in keet("show", REPORTS / "range.ncu-rep").err


@pytest.mark.slow
def test_no_number_is_ever_cut(keet: Keet) -> None:
    """Whatever the width: shares, counts and places are there as the JSON has them."""
    report = REPORTS / "tour_full.ncu-repz"
    told = keet("hotspots", report, "--format", "json").json["launches"]
    rows = [row for launch in told for row in launch["rows"][:10]]
    for width in (60, 67, 81, 130):
        out = keet("hotspots", report, "--launch", "0-2", width=width).out
        for row in rows:
            assert f"{row['share']:.1%}" in out, width
            assert f"{row['samples']:,}" in out, width
            assert f"{Path(row['file']).name}:{row['line']}" in out, width


def test_what_if_curves_are_shown_as_points(keet: Keet) -> None:
    report = REPORTS / "tour_full.ncu-repz"
    out = keet("metrics", report, "Occupancy Per Register", "--launch", 0, "--format", "json").out
    (metric,) = json.loads(out)["launches"][0]["metrics"]
    assert metric["value"] is None
    assert {"at": 16, "value": 100} in metric["points"]
    assert len(metric["points"]) == metric["instances"]
    rows = keet("metrics", report, "Occupancy Per Register", "--format", "csv").out.splitlines()
    assert rows[1].endswith(",,%,Occupancy")
    assert "257 points" in keet("metrics", report, "Occupancy Per Register").out


def test_the_command_can_be_pasted(keet: Keet, tmp_path: Path) -> None:
    """Run by a shell whose ncu prints its arguments: what is shown is what JSON has."""
    fake = tmp_path / "ncu"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    report = REPORTS / "tour_basic.live.csv"  # a kernel filter in quotes
    for width in (40, 80, 160):
        shown = keet("show", report, width=width).out
        command = shown[shown.index("  ncu ") :]
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=True
        )
        wanted = keet("show", report, "--format", "json").json["capture"]
        assert done.stdout.splitlines() == shlex.split(wanted)[1:]


def test_sort_time_lists_the_longest_launch_first(keet: Keet) -> None:
    report = REPORTS / "tour_basic.ncu-repz"
    out = keet("show", report, "--sort", "time", "--format", "json").json
    assert [launch["id"] for launch in out["launches"]] == [0, 2, 1, 3]
    only = keet("show", report, "--kernel", "norm", "--format", "json").json
    assert [launch["id"] for launch in only["launches"]] == [2, 3]


@pytest.fixture
def long_report(tmp_path: Path) -> Path:
    """More launches than a terminal lists, the last one the longest."""
    kernels = [
        encode.Kernel(f"k{i}", {"gpu__time_duration.sum": i + 1.0}, {"inst_executed": [(16, 1)]})
        for i in range(45)
    ]
    path = tmp_path / "long.ncu-rep"
    path.write_bytes(encode.report(kernels))
    return path


def test_the_terminal_lists_the_longest_of_many(long_report: Path, keet: Keet) -> None:
    shown = keet("show", long_report).out
    assert "5 more launches: --all" in shown
    assert " k44 " in shown
    assert " k4 " not in shown
    assert " k4 " in keet("show", long_report, "--all").out
    assert "more launches" not in keet("show", long_report, "--launch", "3").out


@pytest.mark.slow
def test_data_formats_have_every_launch(long_report: Path, keet: Keet) -> None:
    def launches(*words: object) -> list[int]:
        command, *rest = words
        document = keet(command, long_report, *rest, "--format", "json").json
        return [launch["id"] for launch in document["launches"]]

    for command in ("explain", "show", "metrics", "hotspots", "roofline", "amounts"):
        assert launches(command) == list(range(45)), command
    assert launches("show", "--launch", "1-42", "--sort", "time") == list(range(42, 0, -1))
    for command in ("metrics", "hotspots"):
        rows = csv.DictReader(io.StringIO(keet(command, long_report, "--format", "csv").out))
        assert list(dict.fromkeys(int(row["launch"]) for row in rows)) == list(range(45))
