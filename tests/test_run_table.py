"""The table of the whole run, as `explain`, `show`, `context`, `snapshot` and `verify` use it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from keet_tools.answers import ToolInput
from keet_tools.launch_overview import analyst_findings, list_launches

from keet.explanation.analyst import explain
from keet.explanation.token_budget import count_tokens
from keet.ingest import read_profile
from keet.ingest.run_table import table_document, write_run_table
from keet.profile import KernelRun, RunTable
from keet.profile.run_table import Migrations, ProfiledLaunch, SkippedKernel
from tests.conftest import REPORTS, Keet
from tests.json_documents import check_document
from tests.rows import each_row

MS, US = 1e6, 1e3
TOUR = Path("tests/data/reports/tour_full.ncu-rep")
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


def kernel(name: str, launches: int, busy_ms: float, **fields: object) -> KernelRun:
    made = KernelRun(name, name, None, None, launches, busy_ms * MS, busy_ms * MS, 0.0)
    return made._replace(**fields)


MANAGED = RunTable(
    kernels=(
        kernel("transpose_rows", 10, 0.7),
        kernel("tour::transpose_tiles", 400, 4.88),
        kernel("tour::normalise", 100, 241, overlapped_ns=0.0)._replace(
            shortest_ns=1000 * US, longest_ns=2500 * US
        ),
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
        kernel("transpose_rows", 100, 241, overlapped_ns=0.0)._replace(
            shortest_ns=1000 * US, longest_ns=2500 * US
        ),
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
    return report_beside(MANAGED, tmp_path)


@pytest.fixture
def found_beside(tmp_path: Path) -> Path:
    """The same, of a kernel with a finding."""
    return report_beside(MANAGED_ROWS, tmp_path)


def report_beside(table: RunTable, folder: Path) -> Path:
    report = folder / "app.ncu-rep"
    shutil.copy(TOUR, report)
    created = read_profile(report).provenance.created
    write_run_table(table._replace(report_created=created), folder / "app.run.json")
    return report


# --- explain


ROW = re.compile(r"^(\S.*?)  +([\d.<]+%) .*?(not profiled)? +([\d.]+ [mu]?s) +(\d+)$", re.MULTILINE)


def rows_of(text: str) -> list[tuple[str, ...]]:
    """Share, launches, time, kernel with its launches; findings are tested elsewhere."""
    return [(row[1], row[4], row[3], row[0], row[2]) for row in ROW.findall(text)]


def test_explain_starts_with_the_run(table: Path, keet: Keet) -> None:
    result = keet("explain", TOUR, "--run-table", table, "--top", 1, "--no-model")
    assert result.code == 0
    assert result.out.startswith(
        """\
tests/data/reports/tour_full.ncu-rep on NVIDIA H200 (cc 9.0, 132 SMs)

The run: 514 launches of 6 kernels; their durations add up to 10.07 ms (from a
table that was given).
"""
    )
    assert rows_of(result.out) == [
        ("7.0%", "10", "700 us", "transpose_rows #0", ""),  # saves more than 5 % of the run
        ("48%", "400", "4.88 ms", "transpose_tiles #1", ""),
        ("30%", "2", "3 ms", "solve", "not profiled"),
        ("15%", "100", "1.47 ms", "normalise #2", ""),
        ("0.2%", "2", "20 us", "2 other kernels", ""),
    ]
    assert (
        """
#0 transpose_rows: grid 64×256, block 32×8, 69.34 us; represents 10 launches,
7.0% of the sum of all durations
"""
        in result.out
    )
    footer = "All measured numbers in these texts come from the report and the run table; gains"
    assert footer in " ".join(result.out.split())


def test_kernels_come_in_the_order_of_the_time_that_a_fix_saves(table: Path, keet: Keet) -> None:
    """In the table and below it; where no saving is notable, in the order of their time."""
    for rows, kernels in (("5,0.35", ["1", "2", "0"]), ("10,0.7", ["0", "1", "2"])):
        table.write_text(CSV.replace("transpose_rows,10,0.7", f"transpose_rows,{rows}"))
        out = keet("explain", TOUR, "--run-table", table, "--no-model").out
        assert re.findall(r"#(\d)", " ".join(row[3] for row in rows_of(out))) == kernels
        printed = re.findall(r"^#(\d)", out, re.MULTILINE)
        assert printed[0] == kernels[0]


def test_explain_says_first_where_the_replay_differs(beside: Path, keet: Keet) -> None:
    result = keet("explain", beside, "--top", 1, "--no-model", "--launch", "0,2")
    said = result.out.split("\n\n", 1)[1]
    assert said.startswith(
        """\
The run: 513 launches of 4 kernels took 252.6 ms of GPU time (recorded with
CUPTI in a run without a profiler).
From its first kernel to its last, the run took 300 ms; the GPU ran no kernel
for 16% of that time.
normalise (#2) took 14.69 us under ncu's replay and 2.41 ms in the plain run:
likely managed or host memory. What is said of it below is of the replay.
"""
    )
    assert rows_of(said) == [
        ("95%", "100", "241 ms", "normalise #2", ""),
        ("2.4%", "3", "6 ms", "wait_for_host", "not profiled"),
        ("1.9%", "400", "4.88 ms", "transpose_tiles #1", ""),
        ("0.3%", "10", "700 us", "transpose_rows #0", ""),
    ]
    assert (
        """
wait_for_host could not be profiled: it did not end under replay; to profile it:
try --replay-mode range
note: the program started another one, which was not recorded

#2 normalise: grid 2048, block 256, 14.69 us; represents 100 launches, 95% of
the run's GPU time
  Under ncu's replay this launch took 14.69 us; in the plain run, 2.41 ms (164x
  as long): what follows explains the replay, not the run.
  Likely: managed or host memory. In the run, kernels caused 1,600 groups of
  page faults, and 104.9 MB of managed memory moved to the GPU; under replay the
  pages stay there. To tell: call cudaMemPrefetchAsync before the launch, or use
  cudaMalloc and explicit copies, and time the run again; a kernel that polls a
  flag of the host may find it set under replay, or never end.

  FP32 3.46 TFLOP/s (5% of peak)"""
        in said
    )


def test_all_launches_are_in_the_order_of_the_table(table: Path, keet: Keet) -> None:
    out = keet("explain", TOUR, "--run-table", table, "--no-model", "--all").out
    titles = re.findall(r"^#(\d)", out, re.MULTILINE)
    assert titles == ["0", "1", "2"]


def test_a_launch_that_is_not_in_the_table_is_marked(tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "some.csv"
    path.write_text("kernel,launches,total_ms\ntranspose_rows,10,0.7\n")
    arguments = ("--run-table", path, "--no-model", "--format", "markdown", "--all")
    result = keet("explain", TOUR, *arguments)
    assert "grid 2048, block 256, 14.69 us; not in the run table" in result.out
    assert "grid 64×256, block 32×8, 69.34 us; represents 10 launches, 100% of the" in result.out


def test_markdown_has_the_run(beside: Path, keet: Keet) -> None:
    result = keet("explain", beside, "--no-model", "--format", "markdown")
    cells = [line.strip("| ").split(" | ")[:2] for line in result.out.splitlines() if "|" in line]
    assert cells[:6] == [
        ["Kernel", "Share"],
        ["---", "---:"],
        ["`normalise` launch 2 (1 ms to 2.50 ms per launch)", "95%"],
        ["`wait_for_host`", "2.4%"],
        ["`transpose_tiles` launch 1", "1.9%"],
        ["`transpose_rows` launch 0", "0.3%"],
    ]
    told = [
        "> normalise (launch 2) took 14.69 us under ncu's replay and 2.41 ms in the plain run: ",
        "> wait_for_host could not be profiled: it did not end under replay; to profile it: ",
        "> note: the program started another one, which was not recorded\n",
        "### Launch 2 `normalise`: ",
        "> Under ncu's replay this launch took 14.69 us; in the plain run, 2.41 ms (164x as long)",
        "- **Likely: managed or host memory.** In the run, kernels caused 1,600 groups of page",
    ]
    assert [part for part in told if f"\n{part}" not in result.out] == []


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
    document = json.loads(keet(command, TOUR, "--format", "json").out)
    assert "run" not in document
    assert not {"in_run", "replay"} & set(document["launches"][0])


def test_a_table_may_be_named_for_one_report_only(table: Path, keet: Keet) -> None:
    result = keet("explain", TOUR, REPORTS / "tour_lines.ncu-repz", "--run-table", table)
    assert result.code == 2
    assert "--run-table is for a single report" in result.err


def test_the_table_is_not_overwritten(table: Path, keet: Keet) -> None:
    result = keet("explain", TOUR, "--run-table", table, "--no-model", "-o", table)
    assert (result.code, table.read_text()) == (2, CSV)


# --- show


def test_show_has_the_run(beside: Path, keet: Keet) -> None:
    result = keet("show", beside, width=120)
    assert re.search(r"^normalise +95% +241 ms +100 ", result.out, re.MULTILINE)
    assert re.search(r"DRAM % +Run %\n", result.out)
    assert re.search(r"^2 +normalise .* 24\.6 +95\.4$", result.out, re.MULTILINE)
    assert "Run %: of the run's GPU time, by the launches that this one represents" in result.out
    assert "wait_for_host could not be profiled" in result.out
    document = json.loads(keet("show", beside, "--format", "json").out)
    check_document("show", document)
    assert document["run"]["kernels"][0]["kernel"] == "normalise"
    shares = [launch["run_share_pct"] for launch in document["launches"]]
    assert shares == [pytest.approx(100 * ms / 252.58) for ms in (0.7, 4.88, 241)]
    assert [launch["run_launches"] for launch in document["launches"]] == [10, 400, 100]


def test_a_table_without_time_is_reported(tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "none.csv"
    path.write_text("kernel,launches,total_ms\ntranspose_rows,10,0\n")
    told = "the run table contains no GPU time, so it is not used"
    assert told in keet("explain", TOUR, "--run-table", path, "--no-model").err
    shown = keet("show", TOUR, "--run-table", path)
    assert f"note: {told}" in shown.out
    assert "Run %" not in shown.out


def test_run_tables_among_the_reports_are_skipped(beside: Path, keet: Keet) -> None:
    table = beside.with_name("app.run.json")
    done = keet("explain", beside, table, "--no-model")
    assert (done.code, done.err) == (0, "")
    assert "#2 normalise" in done.out
    done = keet("explain", table, table)
    assert done.code == 2
    assert "app.run.json is a run table; name a report" in done.err


def test_show_lists_twenty_kernels(tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "many.csv"
    rows = [f"kernel_{n},1,{10 + n}" for n in range(30)]
    path.write_text("\n".join(["kernel,launches,total_ms", *rows, "transpose_rows,1,500"]))
    result = keet("show", TOUR, "--run-table", path)
    assert len(re.findall(r"% +\d+ ms +\d+ ", result.out)) == 20
    assert re.search(r"^12 other kernels .* not profiled$", result.out, re.MULTILINE)


# --- context


@pytest.mark.parametrize("budget", [30, 120, 300, 800, 2000])
@pytest.mark.slow
def test_context_with_a_run_is_within_its_budget(budget: int, beside: Path, keet: Keet) -> None:
    text = keet("context", beside, "--max-tokens", budget).out
    assert count_tokens(text) <= budget


def test_context_has_the_run(beside: Path, keet: Keet) -> None:
    text = keet("context", beside).out
    assert re.match(
        "# Kernel normalise\n\n"
        r"Under ncu's replay this launch took 14\.69 us; in the plain run, 2\.41 ms \(164x as long\)\."
        r"\nUnder replay: No unit is above 52% of its peak \(L2: 52%\)",
        text,
    )
    assert (
        "\nMeasured with Nsight Compute on NVIDIA H200 (cc 9.0, 132 SMs), launch 2 (of 3 that were "
        "profiled, the one with the largest share of the run): it took 14.69 us. It represents "
        "100 launches, 95% of the run's GPU time.\n\n"
        "## What the whole run spends its time on\n"
    ) in text
    assert (
        "- 95%: normalise, 100 launches, 241 ms, 1 ms to 2.50 ms per launch, this kernel\n"
        "- 2.4%: wait_for_host, 3 launches, 6 ms\n"
        "- 1.9%: transpose_tiles, 400 launches, 4.88 ms\n"
        "- 0.3%: transpose_rows, 10 launches, 700 us\n\n"
        "## Causes: why the run differs from the replay\n"
        "1. Likely: managed or host memory. In the run, kernels caused 1,600 groups"
    ) in text
    assert "## Causes, by gain" not in text
    assert "COMMAND): in the plain run this launch takes less than 2.41 ms.\n" in text


def test_context_has_findings_after_the_reasons_of_the_replay(
    found_beside: Path, keet: Keet
) -> None:
    text = keet("context", found_beside).out
    assert "\n1. Likely: managed or host memory. In the run, kernels caused 1,600 groups" in text
    seen = (
        r"\n## Causes seen under replay only\n"
        r"2\. Uncoalesced global access: .*\) under replay if fixed, "
    )
    assert re.search(seen, text)
    assert "## Causes, by gain" not in text
    assert "- If cause 2 is gone, these should change: " in text


@pytest.mark.parametrize("budget", [60, 90, 120, 150, 200, 300])
@pytest.mark.slow
def test_a_finding_about_the_replay_is_never_the_only_one(
    budget: int, found_beside: Path, keet: Keet
) -> None:
    text = keet("context", found_beside, "--max-tokens", budget).out
    if "uncoalesced global access" in text.lower():
        assert "1. Likely: managed or host memory." in text


def test_certainty_is_limited_to_the_replay(found_beside: Path, keet: Keet) -> None:
    for form, text in (
        ("terminal", r"^1\. .*\) under replay  cause: \w+, for the replay only$"),
        ("markdown", r"^#### 1\. .*\) under replay, cause: \w+, for the replay only$"),
    ):
        options = ("--launch", 0, "--no-model", "--format", form)
        done = keet("explain", found_beside, *options, width=120)
        assert re.search(text, done.out, re.MULTILINE)


# --- snapshot, baseline, verify


@pytest.mark.parametrize("name", ["app.keet.json", "app.keet.json.zst"])
@pytest.mark.slow
def test_a_snapshot_keeps_the_table(name: str, beside: Path, tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "elsewhere" / name
    path.parent.mkdir()
    assert keet("snapshot", beside, "-o", path).code == 0
    profile, again = read_profile(beside), read_profile(path)
    assert profile.run is not None
    assert again.run == profile.run._replace(path=None)
    one, other = (keet("explain", each, "--format", "json") for each in (beside, path))
    first, second = json.loads(one.out), json.loads(other.out)
    assert first["run"].pop("path") == str(tmp_path / "app.run.json")
    assert second["run"].pop("path") is None
    assert first["run"] == second["run"]
    assert first["launches"] == second["launches"]


@pytest.mark.slow
def test_a_snapshot_keeps_a_named_table(table: Path, tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "named.keet.json"
    assert keet("snapshot", TOUR, "--run-table", table, "-o", path).code == 0
    run = read_profile(path).run
    assert run is not None
    assert (run.recorder, run.launch_count) == ("file", 514)


@pytest.mark.slow
def test_a_baseline_keeps_the_table(
    beside: Path, tmp_path: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", "main", beside).code == 0
    assert "normalise" in keet("baseline", "show", "main").out
    (saved,) = (tmp_path / ".keet").rglob("*.keet.json*")
    run = read_profile(saved).run
    assert run is not None
    assert run._replace(report_created=None) == MANAGED


@pytest.mark.parametrize("form", ["terminal", "markdown"])
@pytest.mark.slow
def test_verify_does_not_contradict_explain(
    form: str, beside: Path, tmp_path: Path, keet: Keet
) -> None:
    text = tmp_path / "said.txt"
    keet("explain", beside, "--no-model", "--format", form, "-o", text)
    result = keet("verify", text, "--report", beside)
    assert (result.code, ", 0 contradicted," in result.out) == (0, True)


@pytest.mark.slow
def test_verify_confirms_numbers_of_the_run(beside: Path, tmp_path: Path, keet: Keet) -> None:
    text = tmp_path / "said.txt"
    text.write_text("In the run, normalise took 2.41 ms.\n\nThe run took 252.6 ms of GPU time.\n")
    assert "2 numbers: 2 confirmed" in keet("verify", text, "--report", beside).out
    text.write_text("In the run, normalise took 2.73 ms.\n")
    done = keet("verify", text, "--report", beside, width=120)
    assert done.code == 1
    assert "GPU time of normalise is 241 ms; duration in the run of #2 is 2.41 ms" in done.out
    text.write_text("The duration of normalise is 2.41 ms.\n")
    assert keet("verify", text, "--report", beside).code == 1


@each_row(
    ("text", "verdict"),
    [
        ("In the plain run, normalise took 14.69 us per launch.", "contradicted"),
        ("In the plain run, normalise took 2.41 ms per launch.", "confirmed"),
        ("Each launch of normalise took 241 ms in the run.", "contradicted"),
        ("normalise took 241 ms in the run.", "confirmed"),
        ("The run took 14.69 us.", "contradicted"),
        ("The run took 252.6 ms.", "confirmed"),
        ("The run took 300 ms.", "confirmed"),
        ("The run has 513 launches.", "confirmed"),
        ("The run has 100 launches.", "contradicted"),
        ("In the run there were 100 launches of normalise.", "confirmed"),
        ("normalise has 99 launches in the run.", "contradicted"),
        ("wait_for_host took 6 ms in the run.", "confirmed"),
        ("wait_for_host took 7 ms in the run.", "contradicted"),
        ("normalise takes 95% of the run.", "confirmed"),
        ("normalise takes 60% of the run's GPU time.", "contradicted"),
        ("normalise takes 60% of the run.", "contradicted"),
        ("normalise takes 241 ms of the run's 252.6 ms.", "confirmed"),
        ("If fixed, the run would take 14.69 us.", "not_found"),
        ("Under replay normalise took 14.69 us, in the run 2.41 ms.", "confirmed"),
        ("Under ncu's replay, normalise took 14.69 us.", "confirmed"),
        ("The kernel normalise has a duration of 14.69 us; see the table of the run.", "confirmed"),
        ("In the run, kernels caused 1,600 groups of page faults.", "confirmed"),
        ("In the run, kernels caused 1,700 groups of page faults.", "contradicted"),
    ],
    few=6,
)
def test_verify_compares_sentences_about_the_run_with_its_table(
    text: str, verdict: str, beside: Path, tmp_path: Path, keet: Keet
) -> None:
    said = tmp_path / "said.txt"
    said.write_text(text)
    done = json.loads(keet("verify", said, "--report", beside, "--format", "json").out)
    assert {check["verdict"] for check in done["checks"]} == {verdict}


# --- tools of the agent


def test_tools_say_how_many_launches_a_launch_represents() -> None:
    profile = replace(read_profile(TOUR), run=MANAGED)
    tool_input = ToolInput([explain(profile, profile.launches, 5)])
    listed = re.sub(r" \{\S+\}", "", list_launches(tool_input).text).splitlines()
    assert listed[1].startswith(
        "#2 `normalise` `grid 2048 block 256` 14.69 us, represents 100 launches, "
        "95.4% of the run; 2.41 ms in the run, so the rest is of the replay alone: No unit"
    )
    found = re.sub(r" \{\S+\}", "", analyst_findings(tool_input).text)
    assert found.startswith("Under ncu's replay this launch took 14.69 us; in the plain run, 2.41")
    assert "Likely managed_or_host_memory: in the run, kernels caused 1,600 groups of" in found
    profile = replace(profile, run=MANAGED_ROWS)
    found = analyst_findings(ToolInput([explain(profile, profile.launches, 5)])).text
    assert re.search(r"forecast `[^`]* under replay`", found)


def test_tools_say_that_launches_are_not_alike() -> None:
    own = kernel("tour::normalise", 160, 2.352, grid=(2048, 1, 1), block=(256, 1, 1))
    large = own._replace(grid=(8192, 1, 1), launches=10, total_ns=5000 * MS, busy_ns=5000 * MS)
    table = RunTable(
        (own._replace(median_ns=14.7 * US), large._replace(median_ns=500 * MS)), "cupti"
    )
    profile = replace(read_profile(TOUR), run=table)
    tool_input = ToolInput([explain(profile, profile.launches, 5)])
    listed = re.sub(r" \{\S+\}", "", list_launches(tool_input).text)
    assert "100.0% of the run, of which 0.05% is in launches about as long: No unit" in listed
    found = analyst_findings(tool_input).text
    assert found.startswith("This launch took 14.70 us {")
    assert "What follows may not hold for the others." in found


# --- tables that can't be


@pytest.mark.parametrize("field", ["shortest_ns", "median_ns", "longest_ns", "overlapped_ns"])
def test_an_invalid_time_is_refused(field: str, tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "odd.run.json"
    document = table_document(MANAGED)
    problems = {
        "-1.0": "transpose_rows: its launch count or times are invalid",
        "1e999": f"kernels.0.{field} is a number that is too large",
    }
    for value, problem in problems.items():
        document["kernels"][0][field] = "here"
        path.write_text(json.dumps(document).replace('"here"', value))
        result = keet("explain", TOUR, "--run-table", path)
        assert result.code == 4
        assert problem in result.err


def test_half_a_surrogate_pair_is_refused(tmp_path: Path, keet: Keet) -> None:
    path = tmp_path / "odd.run.json"
    path.write_text(json.dumps(table_document(MANAGED)).replace("wait_for_host", "\\ud800"))
    result = keet("explain", TOUR, "--run-table", path, "--format", "json")
    assert result.code == 4
    assert "the run table is damaged" in result.err
