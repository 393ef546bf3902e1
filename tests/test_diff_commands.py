"""`keet diff`, `keet baseline` and `keet explain --against`, as people and programs see them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keet.report import read_profile
from keet.report.run_table import read_run_table, table_path, write_run_table
from tests.conftest import REPORTS, Keet
from tests.diff_pages import AFTER, AGAIN, BEFORE, DOUBLE, caveats, document, pair
from tests.json_documents import check_document
from tests.kept_reports import sample_report
from tests.rows import each_row

SLOW_FAST = pair("matrix_flip")
STRANGERS = tuple(
    Path("kernels_samples", name, "slow.ncu-repz") for name in ("tap_filter", "page_walk")
)
GOLDENS = {
    "diff.pipeline.80.txt": ("diff", BEFORE, AFTER),
    "diff.pipeline.md": ("diff", BEFORE, AFTER, "--format", "markdown"),
    "diff.pair_reduce.80.txt": ("diff", *pair("pair_reduce")),
    "diff.pipeline.swapped.github.txt": ("diff", AFTER, BEFORE, "--format", "github"),
}


@pytest.fixture
def with_sass() -> None:
    """Asked for by tests of what an installed keet prints. The SASS of samples is cached."""


@pytest.fixture(autouse=True)
def without_sass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where NVIDIA's reader is not installed: nothing here is said of SASS, and each report that
    is kept takes it two seconds."""
    if "with_sass" not in request.fixturenames:
        monkeypatch.setattr("keet.report.disassembler.find_spec", lambda name: None)


@pytest.mark.parametrize("name", GOLDENS)
def test_output(name: str, keet: Keet, golden: Callable[[str, str], None]) -> None:
    result = keet(*GOLDENS[name])
    assert (result.code, result.err) == (0, "")
    golden(name, result.out)


DOCUMENTED_SAMPLE = "diff.matrix_flip.80.txt"


@pytest.mark.usefixtures("with_sass")
def test_output_with_machine_code(keet: Keet, golden: Callable[[str, str], None]) -> None:
    """The sample in docs/diff.md: pip installs NVIDIA's reader with keet."""
    result = keet("diff", *SLOW_FAST)
    assert (result.code, result.err) == (0, "")
    golden(DOCUMENTED_SAMPLE, result.out)


# --- what may be compared


@each_row(("arguments", "complaint"), [
    ((BEFORE, DOUBLE), "different problem size or input"),
    (pair("ring_steps"), "--times N:M"),
    (STRANGERS, "no kernel was found on both sides"),
    ((SLOW_FAST[0], pair("ring_steps")[1]), "with --launch A:B"),
], few=2)  # fmt: skip
def test_what_is_refused(arguments: tuple[Path, Path], complaint: str, keet: Keet) -> None:
    """--force is named once, at the end, and compares them anyway."""
    result = keet("diff", *arguments)
    assert (result.code, result.out) == (6, "")
    assert complaint in result.err
    assert result.err.count("--force") == 1
    assert result.err.endswith("--force\n")
    assert keet("diff", *arguments, "--force").code == 0


def test_pairs_by_position_alone_are_noted(keet: Keet) -> None:
    assert next(iter(caveats(document(keet, *STRANGERS, "--force")))) == "guessed"


def test_a_count_is_told_of_a_unit_only_where_it_moved_with_it(keet: Keet) -> None:
    told = document(keet, *pair("phase_sum"))
    (xu,) = [
        a["what"]
        for a in told["pairs"][0]["attribution"]
        if a["unit"] == "XU" and a["kind"] in ("account", "unit")
    ]
    assert "conversion" not in xu


def test_two_launches_of_one_report(keet: Keet) -> None:
    told = document(keet, BEFORE, "--launch", "5:7")
    assert told["pairs"][0]["before"] == [5]
    assert told["pairs"][0]["after"] == [7]


@each_row(("arguments", "complaint"), [
    ((BEFORE,), "name two reports"),
    ((BEFORE, AFTER, "--launch", "3"), "two launch numbers"),
    ((BEFORE, AFTER, "--times", "0:1"), "two positive integers"),
    ((BEFORE, AFTER, "--metric", "duration"), "--gate PCT"),
    ((BEFORE, AFTER, "--gate", "1", "--metric", "stall_ratio"), "whether lower or higher"),
    ((BEFORE, AFTER, "--gate", "1", "--metric", "bites:lower"), "neither report has this"),
    ((BEFORE, AFTER, "--launch", "9:0"), "launches 0 to 7"),
    *(
        ((BEFORE, AFTER, "--gate", gate), "a percentage from 0 to 1000")
        for gate in ("x", "-5", "nan", "1001")
    ),
])  # fmt: skip
def test_wrong_usage(arguments: tuple[object, ...], complaint: str, keet: Keet) -> None:
    keet("diff", *arguments).refuses(complaint)


# --- the gate


@pytest.mark.slow
def test_the_gate_stops_what_is_slower_beyond_noise(keet: Keet) -> None:
    gate = document(keet, AFTER, BEFORE, "--gate", 5)["gate"]
    assert (gate["failed"], len(gate["regressions"])) == (True, 3)
    within = document(keet, BEFORE, AGAIN, "--gate", 0)["gate"]
    assert (within["failed"], bool(within["blurred"])) == (False, True)
    reports = ((AFTER, BEFORE, "5%"), (BEFORE, AFTER, 5), (AFTER, BEFORE, 500), (BEFORE, AGAIN, 0))
    codes = [keet("diff", *sides, "--gate", percent).code for *sides, percent in reports]
    assert codes == [1, 0, 0, 0]


@pytest.mark.slow
@each_row(("sides", "gate", "metric", "code"), [
    (SLOW_FAST, 0, "launch__registers_per_thread", 1),
    (SLOW_FAST[::-1], 0, "launch__registers_per_thread", 0),
    (SLOW_FAST, 10, "l1_hit_rate_pct", 1),  # higher is better, and it fell
    (SLOW_FAST, 10, "l1_hit_rate_pct:lower", 0),
])  # fmt: skip
def test_the_gate_of_another_metric(
    sides: tuple[Path, Path], gate: int, metric: str, code: int, keet: Keet
) -> None:
    options = (*sides, "--gate", gate, "--metric", metric)
    assert keet("diff", *options).code == code
    told = document(keet, *options)["gate"]["regressions"]
    assert [each["metric"] for each in told] == [metric] * code


@pytest.mark.slow
def test_more_runs_make_the_noise_smaller(keet: Keet, tmp_path: Path) -> None:
    for name, report in (("a", BEFORE), ("b", AGAIN)):
        (tmp_path / f"{name}.ncu-repz").write_bytes(report.read_bytes())
    one = document(keet, BEFORE, AFTER)["verdict"]["noise"]
    two = document(keet, tmp_path, AFTER)
    assert two["verdict"]["noise"] < one
    assert len(two["before"]["further_runs"]) == 1
    (tmp_path / "copy.ncu-repz").write_bytes(AGAIN.read_bytes())
    assert (
        document(keet, tmp_path, AFTER)["before"]["further_runs"] == two["before"]["further_runs"]
    )
    kernels = ("--kernel", "sum_blocks|total_of")  # of the other run, these have other sizes
    assert keet("diff", BEFORE, AFTER, "--before-run", DOUBLE, *kernels).code == 6
    named = document(keet, BEFORE, AFTER, "--before-run", AGAIN)
    assert named["verdict"]["noise"] == two["verdict"]["noise"]


def test_the_output_never_replaces_a_report(keet: Keet, tmp_path: Path) -> None:
    after = tmp_path / "after.ncu-repz"
    after.write_bytes(AFTER.read_bytes())
    for arguments in (("diff", BEFORE, after), ("explain", BEFORE, "--against", after)):
        result = keet(*arguments, "--format", "markdown", "-o", after)
        assert result.code == 2
        assert "the report itself" in result.err
    assert after.read_bytes() == AFTER.read_bytes()


@pytest.mark.slow
def test_the_next_step_is_not_known_where_nothing_was_judged(keet: Keet) -> None:
    """Without counters nothing can be said; without source text everything but the place can."""
    bare, no_lines = REPORTS / "metrics_only.ncu-repz", REPORTS / "tour_nolines.ncu-repz"
    assert document(keet, bare, bare, "--kernel", "transpose_rows")["next"] is None
    out = keet("diff", bare, bare, "--kernel", "transpose_rows").out
    assert "Next: not known" in out
    step = document(keet, no_lines, no_lines)["next"]
    assert (step["kernel"], step["finding"]) == ("transpose_rows", "uncoalesced_global")


@pytest.mark.slow
def test_what_can_not_be_gated_fails_the_step(keet: Keet, tmp_path: Path) -> None:
    kernels = ("--kernel", "scale|bias|clamp", "--gate", 0, "--metric", "registers_per_thread")
    fused = keet("diff", BEFORE, AFTER, *kernels)
    assert (fused.code, "nothing was gated" in fused.err) == (6, True)
    assert keet("diff", *SLOW_FAST, "--gate", 1, "--metric", "nvlink_rx_bytes").code == 6
    github = keet("diff", BEFORE, DOUBLE, "--format", "github")
    assert github.code == 6
    assert github.out.startswith("::error title=keet::scale: different problem size")
    timeless = tmp_path / "timeless.keet.json"  # what --force compared without durations
    keet("snapshot", AFTER, "-o", timeless)
    timeless.write_text(timeless.read_text().replace("gpu__time_duration.sum", "gpu__no_time.sum"))
    forced = keet("diff", timeless, timeless, "--force", "--gate", 5)
    assert (forced.code, "nothing was gated" in forced.err) == (6, True)


def test_github_gets_annotations_and_a_summary(keet: Keet, tmp_path: Path, monkeypatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    slow, fast = pair("xs_lookup")
    result = keet("diff", fast, slow, "--gate", 5, "--format", "github")
    assert result.code == 1
    lines = [line for line in result.out.splitlines() if line.startswith("::")]
    assert "::warning file=kernels_samples/xs_lookup/slow.cu,line=11," in lines[1]
    assert len(lines) <= 10
    written = summary.read_text(encoding="utf-8")
    assert written.startswith("before\n## 🔴 keet: ")


# --- baselines


def test_a_baseline_is_saved_listed_shown_and_compared_with(keet, tmp_path, monkeypatch) -> None:
    before, after = BEFORE.resolve(), AFTER.resolve()
    (tmp_path / "deeper").mkdir()
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    saved = keet("baseline", "save", "main", before)
    assert saved.code == 0
    assert "saved main (1 run)" in saved.err
    assert (tmp_path / ".keet" / "baselines" / "main").is_dir()  # at the repository's root
    assert keet("baseline", "list").out.startswith("main    1 run ")
    assert "turn<16>" in keet("baseline", "show", "main").out
    against = document(keet, "baseline:main", after)
    direct = document(keet, before, after)
    assert against["verdict"] == direct["verdict"]
    assert [p["attribution"] for p in against["pairs"]] == [
        p["attribution"] for p in direct["pairs"]
    ]
    assert keet("baseline", "remove", "main").code == 0
    assert keet("diff", "baseline:main", after).code == 3


@each_row("name", ["../out", "", "a/b", ".hidden"])
def test_a_name_stays_in_its_folder(name: str, keet: Keet, tmp_path: Path, monkeypatch) -> None:
    before = REPORTS / BEFORE.name
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", name, before).code == 2
    assert list(tmp_path.iterdir()) == []


# --- in an explanation


@pytest.mark.slow
def test_an_explanation_tells_what_changed(keet: Keet) -> None:
    slow, fast = SLOW_FAST
    asked = ("explain", fast, "--against", slow, "--no-model")
    assert "7.02x faster" in keet(*asked).out
    told = keet(*asked, "--format", "json").json
    check_document("explain-against", told)
    assert told["against"]["pairs"][0]["fixed"] == ["uncoalesced_global"]
    assert told["launches"][0]["kernel"] == "flip"


def test_a_finding_that_is_only_not_printed_is_not_fixed(keet: Keet) -> None:
    """The cause of the slow variant is the third of the fast one."""
    slow, fast = pair("xs_lookup")
    options = ("--no-model", "--no-sass", "--top", "1", "--format", "json")
    told = keet("explain", fast, "--against", slow, *options).json
    assert len(told["launches"][0]["findings"]) == 1
    assert "small_grid" not in told["against"]["pairs"][0]["fixed"]


def test_an_explanation_stands_where_nothing_can_be_compared(keet: Keet, wording) -> None:
    flip, stranger = SLOW_FAST[0], STRANGERS[1]
    result = keet("explain", flip, "--against", stranger, "--no-model")
    assert result.code == 6
    wording(result.err)
    assert "uncoalesced global access" in result.out


def test_the_page_about_diff_shows_what_is_printed() -> None:
    printed = Path("tests/golden", DOCUMENTED_SAMPLE).read_text(encoding="utf-8")
    slow, fast = SLOW_FAST
    assert f"$ keet diff {slow} {fast}\n{printed}```" in Path("docs/diff.md").read_text(
        encoding="utf-8"
    )


# --- as a page


def page(keet: Keet, tmp_path: Path, *arguments: object, code: int = 0) -> str:
    target = tmp_path / "page.html"
    result = keet("diff", *arguments, "--format", "html", "-o", target)
    assert (result.code, result.out) == (code, ""), result.err
    return target.read_text(encoding="utf-8")


def test_a_page_is_written(keet: Keet, tmp_path: Path) -> None:
    text = page(keet, tmp_path, *SLOW_FAST)
    assert text.startswith("<!doctype html>")
    title = text.partition("<title>")[2].partition("</title>")[0]
    assert title.startswith("7.02x faster: ")
    assert title.endswith("slow.ncu-rep → fast.ncu-rep")
    assert text == keet("diff", *SLOW_FAST, "--format", "html").out


def test_what_cannot_be_compared_leaves_no_page(keet: Keet, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    other = sample_report("column_physics", "fast")
    result = keet("diff", SLOW_FAST[0], other, "--format", "html", "-o", target)
    assert result.code == 6
    assert not target.exists()
    assert page(keet, tmp_path, SLOW_FAST[0], other, "--force")


# --- with tables of the runs, and without them where it matters

RUNS = Path("tests/data/runs")
MANY, ONE = RUNS / "steps_many.ncu-repz", RUNS / "steps_one.ncu-repz"
_SPENT_BEFORE = """\
kernel,launches,total_us
scale,100,1200
add_bias,100,1100
clamp,100,1000
turn<16>,100,3200
sum_blocks,100,2600
relax,300,3850
clear,5,100
"""
_SPENT_AFTER = """\
kernel,launches,total_us
scale_bias_clamp,100,1300
turn<32>,100,1600
total_of_blocks,100,2600
relax,150,1900
clear,5,90
"""


@pytest.fixture
def spent(tmp_path: Path) -> tuple[str, Path, str, Path]:
    """The options that name both tables of the pipeline."""
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(_SPENT_BEFORE)
    after.write_text(_SPENT_AFTER)
    return "--run-table-before", before, "--run-table", after


@pytest.fixture
def bare(tmp_path: Path) -> list[Path]:
    """Reports without the tables that lie beside them."""
    return [Path(shutil.copy(report, tmp_path)) for report in (MANY, ONE)]


def _run_notes(keet: Keet, *arguments: object) -> list[str]:
    notes = document(keet, *arguments)["comparability"]["notes"]
    return [note["text"] for note in notes if note["id"] == "run_table"]


def _beside(report: Path, folder: Path, table: Path | None = None, text: str = "") -> Path:
    """A copy of a report of tests/data/runs with a table beside it."""
    folder.mkdir(exist_ok=True)
    copy = folder / report.name
    copy.write_bytes(report.read_bytes())
    beside = folder / report.name.replace(".ncu-repz", ".run.json")
    beside.write_text(table.read_text() if table else text)
    return copy


def test_a_table_beside_the_report_that_is_not_used_is_noted(keet: Keet, tmp_path, wording) -> None:
    before = _beside(MANY, tmp_path / "before", RUNS / "steps_one.run.json")
    first, other = _run_notes(keet, before, ONE)
    wording(first, other)
    after = _beside(ONE, tmp_path / "after", RUNS / "steps_many.run.json")
    beside = after.parent / "steps_one.run.json"
    first, _ = _run_notes(keet, MANY, after)
    assert first.startswith("after: ")
    assert first.endswith(f" --run-table {beside}")
    assert len(_run_notes(keet, before, after)) == 2


def test_a_broken_table_beside_the_report_is_noted(keet: Keet, tmp_path: Path, wording) -> None:
    after = _beside(ONE, tmp_path / "after", text="{")
    notes = _run_notes(keet, MANY, after)
    assert len(notes) == 2
    wording(notes[0])
    fits = document(keet, MANY, after, "--run-table", RUNS / "steps_one.run.json")
    assert fits["verdict"]["basis"] == "run"


@pytest.mark.slow
def test_a_side_of_several_reports_keeps_tables_beside_them(keet, spent, wording) -> None:
    """--run-table is refused for a side of several reports, so it is not advised."""
    (note,) = _run_notes(keet, BEFORE, AFTER, *spent[2:], "--before-run", AGAIN)
    wording(note)


def _causes(told: dict[str, Any]) -> list[str]:
    return [a["what"] for p in told["pairs"] for a in p["attribution"] if a["finding"]]


def test_a_cause_is_shown_by_its_own_number(keet: Keet, bare: list[Path], wording) -> None:
    """It once said `waiting at barriers: new; sectors of global accesses 76,032 → 33,792`."""
    told = document(keet, *bare)
    wording(_causes(told))
    assert told["grounding"]["unchecked"] == []


def test_short_launches_are_counted(keet: Keet, bare: list[Path], wording) -> None:
    """In the run, or as the user says. `Duration 2.53 us → 54.62 us` under `8.59x faster` read as
    slower."""
    told = document(keet, MANY, ONE)  # what it says is in the golden
    (evidence,) = [a["evidence"] for a in told["pairs"][0]["attribution"] if a["finding"]]
    assert len(evidence) == 5  # with the share of the difference
    assert told["grounding"]["unchecked"] == []
    back = _causes(document(keet, ONE, MANY))
    wording(back)
    told = document(keet, *bare, "--times", "400:1")
    wording(_causes(told))
    # As with tables, they are not split: more than a tenth of such a replay is the profiler's.
    kinds = {each["kind"] for each in told["pairs"][0]["attribution"]}
    assert not kinds & {"account", "unit", "line"}


@pytest.mark.slow
def test_an_explanation_against_a_report_uses_the_tables(keet, spent, tmp_path) -> None:
    """Tables that lie beside the reports, as keet profile leaves them."""
    places = []
    for report, table in ((BEFORE, spent[1]), (AFTER, spent[3])):
        place = Path(shutil.copy(report, tmp_path))
        created = read_profile(place).provenance.created
        write_run_table(read_run_table(table)._replace(report_created=created), table_path(place))
        places.append(place)
    result = keet("explain", places[1], "--against", places[0], "--no-model", "--format", "json")
    against = json.loads(result.out)["against"]
    assert against["verdict"]["basis"] == "run"
    assert against["verdict"]["speedup"] == pytest.approx(13050 / 7490)


@each_row(("options", "complaint"), [
    (("--times", "3:1"), "leave out --times"),
    (("--after-run", BEFORE), "the run table of one report, and this side has 2"),
])  # fmt: skip
def test_wrong_usage_of_tables(options: tuple[object, ...], complaint: str, keet, spent) -> None:
    keet("diff", BEFORE, AFTER, *spent, *options).refuses(complaint)


def test_a_table_of_another_program_exits_6(keet: Keet, tmp_path: Path, wording) -> None:
    """The gate once passed: the other kernel took as long on both sides."""
    other = tmp_path / "other.csv"
    other.write_text("kernel,launches,total_ms\nother,160,133\n")
    both = ("--run-table", other, "--run-table-before", other)
    result = keet("diff", *pair("matrix_flip"), *both, "--gate", 5)
    assert (result.code, result.out) == (6, "")
    wording(result.err)
    forced = keet("diff", *pair("matrix_flip"), *both, "--gate", 5, "--force")
    assert forced.code == 6
    wording(forced.err)


def test_the_gate_says_that_captured_launches_are_not_the_run(keet: Keet, wording) -> None:
    told = document(keet, *pair("matrix_flip"), "--gate", 5)
    (sentence,) = told["gate"]["not_gated"]
    wording(sentence)
    told = document(keet, *pair("matrix_flip"), "--times", "1:1", "--gate", 5)
    assert told["gate"]["not_gated"] == []


def test_what_ncu_adds_to_short_launches_is_said(keet: Keet, wording) -> None:
    """`--times 400:1` of 2.3 us against 43 us: the program itself gained half of what that says."""
    told = document(keet, *pair("ring_steps"), "--times", "400:1")
    (note,) = [n for n in told["comparability"]["notes"] if n["id"] == "short_launches"]
    assert note["severity"] == "weakens"
    wording(note["text"])
    alike = document(keet, *pair("ring_steps"), "--times", "1:1", "--force")
    assert "short_launches" not in caveats(alike)


def test_a_share_says_what_it_is_of(keet: Keet, tmp_path: Path, wording) -> None:
    table = tmp_path / "one.csv"
    table.write_text("kernel,launches,total_us\nscale,9,99\nrelax,9,99\nturn<16>,100,3200\n")
    both = ("--run-table-before", table, "--run-table", table)
    chosen = document(keet, BEFORE, BEFORE, *both, "--kernel", "turn")["next"]["text"]
    wording(chosen)
    table.write_text("kernel,launches,total_us\nsmooth_all,1,53.4\nfill,2,2.3\n")
    sums = document(keet, MANY, ONE, "--run-table", table)["next"]["text"]
    wording(sums)
