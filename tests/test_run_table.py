"""The table of the whole run, as `explain`, `show`, `context`, `snapshot` and `verify` use it."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from keet_tools.answers import ToolInput
from keet_tools.launch_overview import analyst_findings, list_launches

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.formatting import count_tokens
from keet.pages.blocks import Block, Heading, plain
from keet.pages.context import context_of
from keet.profile import KernelRun, RunTable
from keet.profile.run_table import Migrations, ProfiledLaunch, SkippedKernel
from keet.report import read_profile
from keet.report.run_table import read_run_table, write_run_table
from tests.conftest import REPORTS, Keet
from tests.diff_pages import cells, tables
from tests.explain_pages import explain_blocks
from tests.json_documents import check_document
from tests.rows import each_row

MS, US = 1e6, 1e3
TOUR = Path("tests/data/reports/tour_full.ncu-repz")
CSV = """\
kernel,launches,total_ms
transpose_rows,10,0.7
tour::transpose_tiles,400,4.88
tour::normalise,100,1.47
solve,2,3
init,1,0.01
finish,1,0.01
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.csv"
    path.write_text(CSV)
    return path


def kernel(name: str, launches: int, busy_ms: float, **fields: Any) -> KernelRun:
    made = KernelRun(name, name, None, None, launches, busy_ms * MS, busy_ms * MS, 0.0)
    return made._replace(**fields)


MANAGED = RunTable(
    kernels=(
        kernel("transpose_rows", 10, 0.7),
        kernel("tour::transpose_tiles", 400, 4.88),
        kernel("tour::normalise", 100, 241, shortest_ns=1000 * US, longest_ns=2500 * US),
        kernel("wait_for_host", 3, 6),
    ),
    recorder="cupti",
    profiled=(ProfiledLaunch(2, 40, 2410 * US),),
    span_ns=300 * MS,
    gpus=1,
    managed_bytes=1 << 20,
    migrations=Migrations(100 << 20, 100 << 20, 1600),
    skipped=(
        SkippedKernel("wait_for_host", "it did not end under replay", "try --replay-mode range"),
    ),
    notes=("the program started another one, which was not recorded",),
)
"""A kernel that waits for pages: 14.69 us under replay, 2.41 ms in the run."""


MANAGED_ROWS = MANAGED._replace(
    kernels=(
        kernel("transpose_rows", 100, 241, shortest_ns=1000 * US, longest_ns=2500 * US),
        kernel("tour::normalise", 10, 0.7),
    ),
    profiled=(ProfiledLaunch(0, 40, 2410 * US),),
    skipped=(),
    notes=(),
)
"""A kernel with a finding waits for pages: 69.34 us under replay, 2.41 ms in the run."""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A report with its table beside it, as `keet profile` leaves them."""
    report = Path(shutil.copy(TOUR, tmp_path / "app.ncu-rep"))
    created = read_profile(report).provenance.created
    write_run_table(MANAGED._replace(report_created=created), tmp_path / "app.run.json")
    return report


# --- explain


def explained(run: RunTable) -> Explanation:
    profile = replace(read_profile(TOUR), run=run)
    return explain(profile, profile.launches, 5, sass=False)


def program_rows(blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    """Kernel with its launches, share, time, number of launches, and whether it was profiled."""
    table = tables(blocks)["Kernels by time"]
    return [
        (kernel, share, time, count, "not profiled" if finding == "not profiled" else "")
        for kernel, share, _, finding, time, count in map(cells, table.rows)
    ]


def titles(blocks: Sequence[Block]) -> list[str]:
    """Of the launches, in their order."""
    told = [plain(block.words) for block in blocks if isinstance(block, Heading)]
    return [title for title in told if title.startswith("#")]


@each_row(("rows", "kernels"), [("5,0.35", ["1", "2", "0"]), ("10,0.7", ["0", "1", "2"])])
def test_kernels_come_in_the_order_of_the_time_that_a_fix_saves(
    rows: str, kernels: list[str], table: Path
) -> None:
    """In the table and below it; where no saving is notable, in the order of their time."""
    table.write_text(CSV.replace("transpose_rows,10,0.7", f"transpose_rows,{rows}"))
    told = explained(read_run_table(table))
    blocks = explain_blocks(told)
    assert re.findall(r"#(\d)", " ".join(row[0] for row in program_rows(blocks))) == kernels
    assert titles(blocks)[0][1] == kernels[0]
    assert [title[1] for title in titles(explain_blocks(told, everything=True))] == kernels


def test_a_launch_that_is_not_in_the_table_is_marked(wording) -> None:
    told = explained(RunTable((kernel("transpose_rows", 10, 0.7),), "file"))
    first, *others = titles(explain_blocks(told, everything=True))
    wording(first)
    assert all(title.endswith("; not in the run table") for title in others)


def test_json_has_the_run(beside: Path, keet: Keet) -> None:
    result = keet("explain", beside, "--no-model", "--format", "json")
    document = json.loads(result.out)
    check_document("explain", document)
    run = document["run"]
    assert (run["recorder"], run["launches"]) == ("cupti", 513)
    assert run["busy"] == {"value": pytest.approx(252_580), "unit": "us", "nonfinite": None}
    assert run["span"]["value"] == 300_000
    assert run["covered_pct"] == pytest.approx(100 * (1 - 6 / 252.58))
    assert [row["profiled"] for row in run["kernels"]] == [[2], [], [1], [0]]
    assert sum(row["share_pct"] for row in run["kernels"]) == pytest.approx(100)
    assert run["skipped"][0]["remedy"] == "try --replay-mode range"
    assert run["migrations"]["fault_groups"] == 1600
    assert {piece for row in run["kernels"] for piece in row["evidence"]} <= set(run["evidence"])
    first, *others = document["launches"]
    assert (first["id"], [other["replay"] for other in others]) == (2, [None, None])
    assert first["in_run"]["launches"] == 100
    assert first["in_run"]["share_pct"] == pytest.approx(100 * 241 / 252.58)
    assert first["in_run"]["known_by"] == "launch"
    replay = first["replay"]
    assert replay["plain_duration"]["value"] == 2410
    assert replay["ratio"] == pytest.approx(2410 / 14.688)
    assert [(r["id"], r["status"]) for r in replay["reasons"]] == [
        ("managed_or_host_memory", "likely"),
        ("cold_caches", "ruled_out"),
        ("clocks", "ruled_out"),
        ("concurrency", "ruled_out"),
        ("not_typical", "ruled_out"),
    ]
    cited = {piece for r in replay["reasons"] for piece in r["evidence"]}
    cited |= {*replay["evidence"], *first["in_run"]["evidence"]}
    assert cited <= set(first["evidence"])
    assert document["grounding"]["verified"] == document["grounding"]["numbers"]


@pytest.mark.parametrize("command", ["explain", "show"])
def test_json_without_a_table_has_no_run(command: str, keet: Keet) -> None:
    document = keet(command, TOUR, "--format", "json").json
    assert "run" not in document
    assert not {"in_run", "replay"} & set(document["launches"][0])


def test_a_table_may_be_named_for_one_report_only(table: Path, keet: Keet, wording) -> None:
    named = ("explain", TOUR, "--run-table", table, "--no-model", "--format", "json")
    assert keet(*named).json["run"]["launches"] == 514
    assert keet(*named[:-2], "-o", table).code == 2  # it would be overwritten
    assert table.read_text() == CSV
    result = keet("explain", TOUR, REPORTS / "tour_lines.ncu-repz", "--run-table", table)
    assert result.code == 2
    wording(result.err)


# --- show


def test_show_has_the_run(beside: Path, keet: Keet) -> None:
    """The goldens of `test_output` have what it says."""
    document = keet("show", beside, "--format", "json").json
    check_document("show", document)
    assert document["run"]["kernels"][0]["kernel"] == "normalise"
    shares = [launch["run_share_pct"] for launch in document["launches"]]
    assert shares == [pytest.approx(100 * ms / 252.58) for ms in (0.7, 4.88, 241)]
    assert [launch["run_launches"] for launch in document["launches"]] == [10, 400, 100]


def test_run_tables_among_the_reports_are_skipped(beside: Path, keet: Keet, wording) -> None:
    table = beside.with_name("app.run.json")
    done = keet("explain", beside, table, "--no-model")
    assert (done.code, done.err) == (0, "")
    assert "#2 normalise" in done.out
    done = keet("explain", table, table)
    assert done.code == 2
    wording(done.err)


# --- context


def context(run: RunTable, budget: int = 4000) -> str:
    profile = replace(read_profile(TOUR), run=run)
    return context_of(profile, profile.launches, budget, sass=False)


@each_row("budget", [30, 60, 90, 120, 150, 200, 300, 800, 2000], few=2)
def test_context_with_a_run_is_within_its_budget(budget: int) -> None:
    """A finding about the replay is never the only one."""
    assert count_tokens(context(MANAGED, budget)) <= budget
    text = context(MANAGED_ROWS, budget)
    assert count_tokens(text) <= budget
    if "uncoalesced global access" in text.lower():
        assert "1. Likely: managed" in text


def test_context_has_the_run(beside: Path, keet: Keet, wording) -> None:
    text = keet("context", beside).out
    wording(text)


def test_context_has_findings_after_the_reasons_of_the_replay() -> None:
    text = context(MANAGED_ROWS)
    reason = text.index("\n1. Likely: managed or host memory. ")
    cause = text.index("\n## Causes seen under replay only\n2. Uncoalesced global access: ")
    assert reason < cause
    assert "## Causes, by gain" not in text
    assert "\n- If cause 2 " in text


def test_certainty_is_limited_to_the_replay(wording) -> None:
    blocks = explain_blocks(explained(MANAGED_ROWS), 120)
    told = [plain(block.words) for block in blocks if isinstance(block, Heading)]
    (finding,) = [title for title in told if title.startswith("1. Uncoalesced")]
    wording(finding)


# --- snapshot, baseline, verify


@pytest.mark.slow
def test_a_snapshot_keeps_a_named_table(table: Path, tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "named.keet.json"
    assert keet("snapshot", TOUR, "--run-table", table, "-o", path).code == 0
    run = read_profile(path).run
    assert run is not None
    assert (run.recorder, run.launch_count) == ("file", 514)


@pytest.mark.slow
def test_a_baseline_keeps_the_table(beside: Path, tmp_path: Path, keet: Keet, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", "main", beside).code == 0
    assert "normalise" in keet("baseline", "show", "main").out
    (saved,) = (tmp_path / ".keet").rglob("*.keet.json*")
    run = read_profile(saved).run
    assert run is not None
    assert run._replace(report_created=None) == MANAGED


@each_row("text, verdict", [
    ("In the plain run, normalise took 14.69 us per launch.", "contradicted"),
    ("In the plain run, normalise took 2.41 ms per launch.", "confirmed"),
    ("The duration of normalise is 2.41 ms.", "contradicted"),
    ("Each launch of normalise took 241 ms in the run.", "contradicted"),
    ("normalise took 241 ms in the run.", "confirmed"),
    ("The run took 252.6 ms.", "confirmed"),
    ("The run has 513 launches.", "confirmed"),
    ("In the run there were 100 launches of normalise.", "confirmed"),
    ("wait_for_host took 6 ms in the run.", "confirmed"),
    ("normalise takes 95% of the run.", "confirmed"),
    ("normalise takes 60% of the run's GPU time.", "contradicted"),
    ("normalise takes 241 ms of the run's 252.6 ms.", "confirmed"),
    ("If fixed, the run would take 14.69 us.", "not_found"),
    ("Under replay normalise took 14.69 us, in the run 2.41 ms.", "confirmed"),
    ("The kernel normalise has a duration of 14.69 us; see the table of the run.", "confirmed"),
    ("In the run, kernels caused 1,600 groups of page faults.", "confirmed"),
], few=2)  # fmt: skip
def test_verify_compares_sentences_about_the_run_with_its_table(
    text: str, verdict: str, beside: Path, tmp_path: Path, keet: Keet
) -> None:
    said = tmp_path / "said.txt"
    said.write_text(text)
    done = keet("verify", said, "--report", beside, "--format", "json").json
    assert {check["verdict"] for check in done["checks"]} == {verdict}


# --- tools of the agent


def test_tools_say_how_many_launches_a_launch_represents(wording) -> None:
    tool_input = ToolInput([explained(MANAGED)])
    listed = re.sub(r" \{\S+\}", "", list_launches(tool_input).text).splitlines()
    found = re.sub(r" \{\S+\}", "", analyst_findings(tool_input).text)
    wording(listed[1], found.splitlines()[0])
    assert "Likely managed_or_host_memory: " in found
    found = analyst_findings(ToolInput([explained(MANAGED_ROWS)])).text
    assert re.search(r"forecast `[^`]* under replay`", found)


# --- reports of programs that were made for it (tests/data/programs/runs)

WHERE = "tests/data/runs"


def report(name: str) -> Path:
    return Path(WHERE, f"{name}.ncu-repz")


@pytest.mark.parametrize("name", ["managed", "streams_together", "waits", "growing"])
@pytest.mark.slow
def test_verify_does_not_contradict_explain_about_a_run(name: str, keet: Keet, tmp_path) -> None:
    for form in ("terminal", "markdown"):
        said = tmp_path / "said.txt"
        keet("explain", report(name), "--no-model", "--format", form, "-o", said)
        assert keet("verify", said, "--report", report(name)).code == 0


OUTPUTS = [
    *(f"explain {name}" for name in ("managed", "streams_together", "waits", "waits_range")),
    *("show growing", "show waits"),
    *("diff steps_many steps_one", "diff streams_serial streams_together"),
]


@pytest.mark.parametrize("words", OUTPUTS)
def test_output(words: str, keet: Keet, golden) -> None:
    command, *names = words.split()
    out = keet(command, *map(report, names), width=100).out
    golden(f"{command}.runs.{'.'.join(names)}.100.txt", out)


def test_a_table_without_time_is_reported(tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "none.csv"
    path.write_text("kernel,launches,total_ms\ntranspose_rows,10,0\n")
    told = "the run table contains no GPU time, so it is not used"
    assert told in keet("explain", TOUR, "--run-table", path, "--no-model").err
    shown = keet("show", TOUR, "--run-table", path)
    assert f"note: {told}" in shown.out
    assert "Run %" not in shown.out
