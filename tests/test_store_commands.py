"""`keet top` and `keet query`, on a store of real reports."""

import csv
import io
import json
import math
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from keet.corpus.batch.worker import analyse
from keet.corpus.store.part_writer import make_store, write_part
from keet.corpus.store.reader import open_store
from keet.corpus.store.report_rows import FileRows, slices_of
from keet.corpus.store.schema import ACCOUNT_COLUMNS, LAUNCH_COLUMNS, METRICS
from keet.documents.finding import Forecast
from keet.documents.top import QueryDocument, TopDocument
from keet.explanation.analyst import explain
from keet.pages.top import duration
from keet.report import read_profile
from tests.conftest import Keet, Result
from tests.json_documents import read_document
from tests.kept_reports import sample_report
from tests.rows import mostly_slow
from tests.unit.corpus.store_rows import OTHER, record, write_table

SAMPLES = ("matrix_flip", "pair_reduce", "lookup_records", "fan_update")
PATHS = [
    *(str(sample_report(name, which)) for name in SAMPLES for which in ("slow", "fast")),
    *(f"tests/data/reports/{name}" for name in ("tour_full.ncu-repz", "tour_basic.live.csv", "zoo.ncu-repz")),
]  # fmt: skip


@pytest.fixture(scope="session")
def analysed() -> dict[str, FileRows]:
    return {path: next(analyse(path)) for path in PATHS}


@pytest.fixture(scope="session")
def store(analysed: dict[str, FileRows], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("batch") / "OUT"
    done = [
        record(path, rows.sha256, launches=len(rows.launches)) for path, rows in analysed.items()
    ]
    write_part(out, done[:5], list(analysed.values())[:5])
    failed = record(
        "cut.ncu-rep", None, "failed", reason="cut.ncu-rep: it was cut short; copy it again"
    )
    write_part(out, [*done[5:], failed], list(analysed.values())[5:])
    return out


# --- rows


@pytest.mark.slow
def test_rows_are_what_keet_explain_tells(analysed: dict[str, FileRows], keet: Keet) -> None:
    for path, rows in analysed.items():
        told = keet("explain", path, "--no-model", "--no-sass", "--format", "json").out
        document = json.loads(told)
        launches = [dict(zip(LAUNCH_COLUMNS, row)) for row in rows.launches]
        for launch, said in zip(launches, document["launches"], strict=True):
            assert json.loads(str(launch["explanation"])) == said
            assert launch["report_sha256"] == document["report"]["sha256"]
            assert launch["headline"] == said["verdict"]["headline"]
            assert launch["limiter"] == said["verdict"]["limiter"]
            assert launch["duration_us"] == said["duration"]["value"]
            assert launch["finding_count"] == len(said["findings"])
            assert launch["grid"] == (said["grid"] and "x".join(map(str, said["grid"])))
            nothing = {"id": None, "forecast": {"likely": None}}
            first = (*said["findings"], nothing)[0]
            assert launch["top_finding"] == first["id"]
            assert launch["top_forecast"] == first["forecast"]["likely"]


@pytest.mark.slow
def test_the_account_is_that_of_keet_explain(analysed: dict[str, FileRows]) -> None:
    """Every part is a row, and the rows of a launch add up as its account does."""
    for rows in analysed.values():
        for row in rows.launches:
            cells = dict(zip(LAUNCH_COLUMNS, row))
            parts = account_of(rows, cells["launch_id"])
            told = flat(json.loads(str(cells["explanation"]))["account"])
            assert [(p["part"], p["parent"], p["label"]) for p in parts] == [
                (part["id"], parent, part["part"]) for part, parent in told
            ]
            inner = [p for p in parts if p["innermost"]]
            for some in ([p for p in parts if p["parent"] is None], inner):
                assert sum(p["share"] for p in some) == pytest.approx(1, abs=1e-3)
                assert sum(p["us"] for p in some) == pytest.approx(cells["duration_us"], rel=1e-3)
            top = max(inner, key=lambda p: p["share"])
            assert (cells["top_part"], cells["top_part_share"]) == (top["part"], top["share"])
            unknown = [p for p in inner if str(p["part"]).endswith("unknown")]
            assert cells["unknown_share"] == pytest.approx(sum(p["share"] for p in unknown))


def account_of(rows: FileRows, launch: object) -> list[dict[str, Any]]:
    cells = [dict(zip(ACCOUNT_COLUMNS, row, strict=True)) for row in rows.account]
    return [each for each in cells if each["launch_id"] == launch]


def flat(parts: list[Any], parent: str | None = None) -> list[tuple[Any, str | None]]:
    """Every part of the JSON, with the id of the part that it is in."""
    return [
        each for part in parts for each in ((part, parent), *flat(part["children"], part["id"]))
    ]


def test_a_launch_without_a_duration_has_shares_and_no_times(monkeypatch) -> None:
    profile = read_profile("kernels_samples/matrix_flip/slow.ncu-rep")
    kind = type(profile.launches[0].data)
    measured = kind.metric
    monkeypatch.setattr(
        kind, "metric", lambda data, name: None if "time_duration" in name else measured(data, name)
    )
    (rows,) = slices_of(explain(profile, profile.launches, 5, sass=False), lambda _: "{}")
    parts = account_of(rows, 0)
    assert {part["us"] for part in parts} == {None}
    assert sum(p["share"] for p in parts if p["innermost"]) == pytest.approx(1, abs=1e-3)


def test_metrics_are_those_of_the_report(analysed: dict[str, FileRows]) -> None:
    path = "tests/data/reports/zoo.ncu-repz"
    for launch, row in zip(read_profile(path).launches, analysed[path].launches):
        cells = dict(zip(LAUNCH_COLUMNS, row))
        for spec in METRICS:
            quantity = launch.get(spec.id)
            assert cells[spec.id] == (None if quantity is None else quantity.value)


def test_a_healthy_end_and_what_was_not_judged_are_those_of_the_headline(analysed) -> None:
    unknown = ("Nothing was measured", "Where the time goes is unknown")
    ends = set()
    for rows in analysed.values():
        for number, row in enumerate(rows.launches):
            cells = dict(zip(LAUNCH_COLUMNS, row))
            headline = str(cells["headline"])
            is_unknown = any(words in headline for words in unknown)
            assert cells["not_judged"] == (is_unknown and cells["top_finding"] is None)
            if number == 0:
                is_healthy = "at most" in headline and "x is left" in headline
                assert (cells["healthy"] is not None) == is_healthy
                ends.add(cells["healthy"])
    assert {None} < ends <= {None, "at_dram_roofline", "at_compute_roofline"}


def test_a_forecast_that_can_not_be_computed_is_null() -> None:
    profile = read_profile("kernels_samples/matrix_flip/slow.ncu-rep")
    told = explain(profile, profile.launches, 5)
    (only,) = told.launches
    unknown = replace(only.findings[0], forecast=Forecast(1.0, math.inf, math.inf))
    explanation = told._replace(launches=(replace(only, findings=(unknown,)),))
    (((row,), (finding,), *_),) = slices_of(explanation, lambda _: "{}")
    assert dict(zip(LAUNCH_COLUMNS, row))["top_low"] is None
    assert finding[7:10] == (None, None, None)


# --- keet top


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((f"{by}.80", ("--by", by, "--top", 4)) for by in ("kernel", "finding", "file")),
        ("kernel.120", ("--top", 4)),
        ("markdown", ("--top", 3, "--format", "markdown")),
    ],
)
def test_top_output(name: str, options: tuple[object, ...], store: Path, keet, golden) -> None:
    result = keet("top", store, *options, width=120 if name.endswith(".120") else 80)
    assert (result.code, result.err) == (0, "")
    golden(f"top.{name}.txt", result.out.replace(str(store), "OUT"))
    if name == "kernel.80":
        step = result.out.splitlines()[-1].removeprefix("next: keet ")
        assert keet(*shlex.split(step)).code == 0


@pytest.mark.parametrize("option", mostly_slow(["--top", "--limit"], few=1))
def test_an_explicit_top_limits_data_formats_too(store: Path, keet: Keet, option: str) -> None:
    top = read_document(TopDocument, keet("top", store, option, 2, "--format", "json").out)
    assert (len(top.opportunities), top.groups > 2) == (2, True)
    rows = list(csv.DictReader(io.StringIO(keet("top", store, option, 2, "--format", "csv").out)))
    assert [row["kernel"] for row in rows] == [each.kernel for each in top.opportunities]
    first = top.opportunities[0].forecast
    assert first
    assert float(rows[0]["forecast_likely"]) == first.likely


def test_top_json_adds_up(store: Path, keet: Keet) -> None:
    result = keet("top", store, "--format", "json")
    top = read_document(TopDocument, result.out)
    assert (top.reports, top.failed) == (len(PATHS), 1)
    assert [gpu.launches for gpu in top.gpus] == [top.launches]
    assert sum(each.launches for each in top.opportunities) == top.launches
    assert sum(each.share or 0 for each in top.opportunities) == pytest.approx(1)
    savings = [each.saved_us or 0 for each in top.opportunities]
    assert savings == sorted(savings, reverse=True)
    assert savings[0] > 0
    for each in top.opportunities:
        if each.saved_us and each.forecast and each.finding_launches == each.launches:
            assert each.saved_us == pytest.approx(
                max(0, (each.time_us or 0) * (1 - 1 / each.forecast.likely)), rel=1e-3
            )


def changed(rows: FileRows, **cells: object) -> FileRows:
    """The same report with other cells."""
    named = (zip(LAUNCH_COLUMNS, row) for row in rows.launches)
    made = tuple(tuple(cells.get(name, cell) for name, cell in row) for row in named)
    return rows._replace(launches=made)


def write_on_gpus(out: Path, rows: FileRows, count: int) -> None:
    for number in range(count):
        sha256 = f"{number:064}"
        on_gpu = changed(rows, report_sha256=sha256, device=f"GPU {number}")
        write_part(out, [record(str(rows.launches[0][1]) + "?" * number, sha256)], [on_gpu])


@pytest.mark.slow
def test_several_gpus_are_told_one_by_one(tmp_path, analysed, keet, wording) -> None:
    write_on_gpus(tmp_path, analysed[PATHS[0]], 7)
    lines = keet("top", tmp_path).out.splitlines()
    assert lines[1] == "7 launches of 7 reports on 7 GPUs"
    assert lines[2] == "  GPU 0: 1.02 ms in 1 launch"
    assert lines[7] == "  and 2 more"
    first = keet("top", tmp_path, "--format", "json").json["opportunities"][0]
    assert first["saved_share"] == pytest.approx(first["saved_us"] / first["time_us"])
    assert f"{duration(first['saved_us'])} ({first['saved_share']:.1%})" in "".join(lines)
    wording(lines[8:12])
    one = keet("top", tmp_path, "--device", "GPU 3").out.splitlines()
    wording(one[1])
    assert "own GPU" not in "".join(one)


@pytest.mark.slow
def test_an_example_that_is_gone_is_marked(tmp_path, analysed, keet, wording) -> None:
    lost = changed(analysed[PATHS[0]], path="no/such.ncu-rep")
    there = changed(analysed[PATHS[1]], path=PATHS[1])
    write_part(tmp_path, [record("no/such.ncu-rep", lost.sha256)], [lost])
    out = keet("top", tmp_path).out
    wording([line for line in out.splitlines() if "no/such.ncu-rep" in line])
    assert out.splitlines()[-1] == f"next: keet batch DIR -o {tmp_path} --prune"
    write_part(tmp_path, [record(PATHS[1], there.sha256)], [there])
    out = keet("top", tmp_path).out
    assert out.splitlines()[-1] == f"next: keet explain {PATHS[1]} --launch 0"


# --- keet query


@pytest.mark.slow
def test_cells_that_are_cut_still_differ(store: Path, keet: Keet) -> None:
    long = "/home/somebody/projects/of/the/year/with/long/names/" * 2
    sql = (
        f"SELECT '{long}' || range || '/slow.ncu-rep' AS path, '{long}' || range AS b FROM range(3)"
    )
    rows = keet("query", store, sql, width=80).out.splitlines()[2:5]
    assert len({row.split()[0] for row in rows}) == len({row.split()[1] for row in rows}) == 3
    assert all(row.split()[0].endswith("/slow.ncu-rep") for row in rows)
    sql = f"SELECT range || '{long}' || range % 2 AS path FROM range(4)"
    rows = keet("query", store, sql, width=80).out.splitlines()[2:6]
    assert len(set(rows)) == 4


@pytest.mark.parametrize(
    ("name", "width", "sql"),
    [
        ("table", 160, "SELECT kernel, device, duration_us, dram_throughput_pct, top_finding, headline "
                  "FROM launches ORDER BY path, launch_id LIMIT 6"),
        ("record", 80, "FROM launches ORDER BY path, launch_id LIMIT 1"),
    ],
)  # fmt: skip
def test_query_output(name: str, width: int, sql: str, store: Path, keet: Keet, golden) -> None:
    """A row that is wider than the terminal is a list."""
    result = keet("query", store, sql, width=width)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= width
    golden(f"query.{name}.{width}.txt", result.out)


def test_query_json(store: Path, keet: Keet) -> None:
    sql = """SELECT kernel, launch_id, created, 1.5::DECIMAL(4, 2), 'nan'::DOUBLE, NULL, [1, 2.5], {'a': 'é"'}
        FROM launches ORDER BY path, launch_id LIMIT 1"""
    document = read_document(QueryDocument, keet("query", store, sql, "--format", "json").out)
    (row,) = document.rows
    assert row[:2] == ["fan_update", 0]
    assert row[2].startswith("2026-")
    assert row[3:] == [1.5, None, None, [1, 2.5], {"a": 'é"'}]
    assert [column.type for column in document.columns[:3]] == ["VARCHAR", "INTEGER", "TIMESTAMP"]
    empty = keet("query", store, "FROM launches WHERE false", "--format", "json").out
    assert read_document(QueryDocument, empty).rows == []


@pytest.mark.slow
def test_a_long_answer_is_cut_on_a_terminal_and_nowhere_else(store: Path, keet, wording) -> None:
    sql = "SELECT range FROM range(5000)"
    out = keet("query", store, sql).out.splitlines()
    wording(out[-1])
    assert len(out) == 53
    assert len(keet("query", store, sql, "--format", "csv").out.splitlines()) == 5001
    assert len(keet("query", store, sql, "--format", "json").json["rows"]) == 5000
    assert len(keet("query", store, sql, "--limit", 7, "--format", "csv").out.splitlines()) == 8


@pytest.mark.slow
def test_files_are_written_whole(store: Path, keet: Keet, tmp_path: Path) -> None:
    out = tmp_path / "answer.parquet"

    def write(sql: str, form: str, target: Path, *more: object) -> Result:
        return keet("query", store, sql, "--format", form, "-o", target, *more)

    assert write("FROM launches;", "parquet", out, "--limit", 3).code == 0
    read = duckdb.sql(f"SELECT * FROM '{out}'")
    assert tuple(read.columns) == LAUNCH_COLUMNS
    assert len(read.fetchall()) == 3
    assert write("SELECT 1 AS one, NULL AS n, 'a,b' AS t", "csv", tmp_path / "a.csv").out == ""
    assert (tmp_path / "a.csv").read_text() == 'one,n,t\n1,,"a,b"\n'
    assert write("SELECT nope", "csv", tmp_path / "b.csv").code == 2
    assert not (tmp_path / "b.csv").exists()


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "OUT", "SELEC 1"], "syntax error"),
        (["query", "OUT", "SELECT kernl FROM launches"], 'Candidate bindings: "kernel"'),
        (["query", "OUT", "SELECT * FROM launchs"], 'Did you mean "launches"'),
        (["query", "OUT", "SELECT 'a'::INTEGER"], "Could not convert"),
        (["query", "OUT", "SELECT error('my\nown')"], "my"),
        (["query", "OUT", "COPY launches TO 'x.csv'"], "give one SELECT"),
        (["query", "OUT", "SELECT 1", "--format", "parquet"], "name it with: -o"),
        (["query", "OUT", "--format", "parquet", "-o", "x.parquet"], "needs SQL"),
        *(
            ([command, folder], f"keet: {folder} is a {kind}, not a store; make one: {then}\n")
            for command in ("top", "query", "insights")
            for folder, kind in (("tests", "folder"), ("tests/data/runs", "folder of reports"))
            for then in (f"keet batch {folder} -o store, then keet top store",)
        ),
        (["top", PATHS[0]], f"this is a report, not a store; see: keet explain {PATHS[0]}\n"),
        (["top", "OUT", "--kernel", "zzz"], "matches no launch; the store has "),
        (["top", "OUT", "--device", "zzz"], "launch; the store has NVIDIA H200; see: keet top"),
        (["top", "OUT", "--by", "phase"], "invalid choice"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, store: Path, keet: Keet) -> None:
    keet(*(store if argument == "OUT" else argument for argument in arguments)).refuses(says)


@pytest.mark.slow
def test_an_empty_store(tmp_path: Path, keet: Keet, wording) -> None:
    make_store(tmp_path)
    for name, *rest in (["top"], ["query"], ["query", "SELECT 1"]):
        result = keet(name, tmp_path, *rest)
        assert (result.code, result.out) == (2, "")
        wording(result.err)


@pytest.mark.slow
def test_a_store_of_failures_says_where_the_reasons_are(tmp_path: Path, keet: Keet) -> None:
    write_part(tmp_path, [record("x", None, "failed", reason="cut short")], [])
    result = keet("top", tmp_path)
    assert result.code == 2
    step = result.err.split("see: keet ")[1]
    assert "cut short" in keet(*shlex.split(step)).out


# --- the page


def blocks(language: str) -> list[str]:
    page = Path("docs/store.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.slow
def test_the_examples_of_the_page_run(store: Path, run_store: Path) -> None:
    (text,) = blocks("sql")
    questions = [part for part in text.split(";") if part.strip()]
    of_runs = [question for question in questions if "run_" in question]
    assert (len(questions), len(of_runs)) == (14, 4)
    for question in questions:
        with open_store(run_store if question in of_runs else store) as opened:
            assert opened.query(question).rows, question


@pytest.fixture
def run_store(tmp_path: Path) -> Path:
    """One report whose run is known; its longest kernel took much longer there than under replay, and
    stands for launches unlike it."""
    report = Path(shutil.copy("tests/data/reports/tour_full.ncu-repz", tmp_path))
    write_table(
        report, {"transpose_rows": (50, 90_000.0), "normalise": (10, 150.0), OTHER: (1, 5.0)}
    )
    rows = next(analyse(str(report)))
    assert rows.run is not None
    done = record(str(report), rows.sha256, run_total_us=rows.run.total_us)
    done = done._replace(run_unprofiled_us=rows.run.unprofiled_us)
    cells = [dict(zip(LAUNCH_COLUMNS, row, strict=True)) for row in rows.launches]
    cells[0]["run_alike_us"] = 1800.0
    rows = rows._replace(launches=tuple(tuple(each.values()) for each in cells))
    write_part(tmp_path / "OUT", [done], [rows])
    return tmp_path / "OUT"


@pytest.mark.slow
def test_a_command_that_top_names_for_a_replay_gap_can_be_pasted(run_store: Path, keet) -> None:
    """What it says of the gap is tested in tests/unit/corpus/test_store_top_runs.py."""
    lines = keet("top", run_store, width=80).out.splitlines()
    step = lines[-2].strip().removeprefix("keet ")
    assert step.startswith("explain ")
    assert keet(*shlex.split(step)).code == 0


def test_the_python_of_the_page_runs(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("python")
    monkeypatch.chdir(store.parent)
    names: dict[str, Any] = {}
    exec(code, names)
    assert len(names["frame"]) == 24
    assert names["table"].columns == ("kernel", "sum(duration_us)")
