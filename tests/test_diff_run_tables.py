"""`keet diff` with tables of the runs, and without them where it matters, as people see it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Keet
from tests.json_documents import check_document
from tests.kept_reports import sample_report

BEFORE, AFTER = (
    Path(f"tests/data/reports/pipeline_{side}.ncu-repz") for side in ("before", "after")
)
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


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.find_spec", lambda name: None)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, Path, str, Path]:
    """The options that name both tables of the pipeline."""
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(_SPENT_BEFORE)
    after.write_text(_SPENT_AFTER)
    return "--run-table-before", before, "--run-table", after


def sample(name: str) -> tuple[Path, Path]:
    return sample_report(name, "slow"), sample_report(name, "fast")


def document(keet: Keet, *arguments: object) -> dict[str, Any]:
    result = keet("diff", *arguments, "--format", "json")
    assert result.err == ""
    told: dict[str, Any] = json.loads(result.out)
    check_document("diff", told)
    return told


@pytest.mark.slow
def test_times_are_those_of_the_runs(keet: Keet, tables: tuple[object, ...]) -> None:
    told = document(keet, BEFORE, AFTER, *tables)
    verdict = told["verdict"]
    assert (verdict["word"], verdict["basis"]) == ("faster", "run")
    assert verdict["speedup"] == pytest.approx(13050 / 7490)
    assert verdict["headline"].startswith(
        "1.74x faster in total: durations add up to 13.05 ms → 7.49 ms in the run (noise "
    )
    assert [(p["launches"]["before"], p["launches"]["after"]) for p in told["pairs"]] == [
        (300, 100),
        (100, 100),
        (100, 100),
        (300, 150),
    ]
    rest = told["not_profiled"]
    assert (rest["before"]["value"], rest["after"]["value"]) == (100.0, 90.0)
    assert rest["before"]["unit"] == "us"
    for which in ("before", "after"):
        rows = sum(p["verdict"][which]["value"] for p in told["pairs"]) + rest[which]["value"]
        assert rows == pytest.approx(verdict[which]["value"])
    assert told["pairs"][0]["verdict"]["headline"] == (
        "2.54x faster: durations add up to 3.30 ms → 1.30 ms in the run (300 launches → 100)"
    )
    assert told["grounding"]["unchecked"] == []
    assert told["grounding"]["numbers"] == told["grounding"]["verified"] > 50


@pytest.mark.slow
def test_the_terminal_says_what_the_times_are_of(keet: Keet, tables: tuple[object, ...]) -> None:
    told = keet("diff", BEFORE, AFTER, *tables).out
    flat = " ".join(told.split())
    assert (
        "Times are the sums of durations in the whole run (from a table that was given): 805 launches "
        "before, 455 after."
    ) in flat
    assert "300 → 100" in told
    assert "relax: 2.03x faster: durations add up to 3.85 ms → 1.90 ms in the run (300" in flat


def test_markdown_has_the_launches_and_the_rest(keet: Keet, tables: tuple[object, ...]) -> None:
    told = keet("diff", BEFORE, AFTER, *tables, "--format", "markdown").out
    assert "| Kernel | Launches | Before | After | Change | Noise |" in told
    assert "| kernels that were not profiled |  | 100 us | 90 us |" in told
    assert "| `relax` | 300 → 150 | 3.85 ms | 1.90 ms | 🟢 2.03x faster |" in told


@pytest.mark.slow
def test_github_annotates_what_the_run_lost(keet: Keet, tables: tuple[object, ...]) -> None:
    before, after = tables[1], tables[3]
    swapped = ("--run-table-before", after, "--run-table", before)
    result = keet("diff", AFTER, BEFORE, *swapped, "--gate", 5, "--format", "github")
    assert result.code == 1
    assert result.out.startswith("::error title=keet%3A gate of 5%25 failed%3A 4 regressions::")
    assert "all kernels: durations in the run 7.49 ms → 13.05 ms" in result.out


def test_chosen_kernels_have_a_total_of_their_own(keet: Keet, tables: tuple[object, ...]) -> None:
    told = document(keet, BEFORE, AFTER, *tables, "--kernel", "relax")
    assert told["verdict"]["headline"].startswith(
        "2.03x faster: durations add up to 3.85 ms → 1.90 ms in the run, the chosen launches only (noise "
    )
    assert told["not_profiled"] is None


@pytest.mark.slow
def test_one_table_changes_nothing_but_a_note(keet: Keet, tables: tuple[object, ...]) -> None:
    plain, one = document(keet, BEFORE, AFTER), document(keet, BEFORE, AFTER, *tables[2:])
    assert plain["verdict"] == one["verdict"]
    for pair, other in zip(plain["pairs"], one["pairs"], strict=True):
        assert pair["verdict"] == other["verdict"]
        assert [a["what"] for a in pair["attribution"]] == [a["what"] for a in other["attribution"]]
    notes = {note["id"]: note["text"] for note in one["comparability"]["notes"]}
    assert notes["run_table"] == (
        "only the side after has a run table, so it is not used: times are those under the "
        "profiler; add the other table with --run-table-before FILE"
    )
    other = document(keet, BEFORE, AFTER, *tables[:2])
    notes = {note["id"]: note["text"] for note in other["comparability"]["notes"]}
    assert notes["run_table"].endswith(
        "under the profiler; add the other table with --run-table FILE"
    )


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


def test_a_table_beside_the_report_that_is_not_used_is_noted(keet: Keet, tmp_path: Path) -> None:
    before = _beside(MANY, tmp_path / "before", RUNS / "steps_one.run.json")
    beside = before.parent / "steps_many.run.json"
    notes = _run_notes(keet, before, ONE)
    assert notes == [
        f"before: {beside} belongs to another profile and is not used; to use it anyway: "
        f"--run-table-before {beside}",
        "the AFTER run table is not used either: times are those under the profiler",
    ]
    assert f"Note: {notes[1]}" in " ".join(keet("diff", before, ONE).out.split())
    after = _beside(ONE, tmp_path / "after", RUNS / "steps_many.run.json")
    beside = after.parent / "steps_one.run.json"
    (note,) = _run_notes(keet, MANY, after)[:1]
    assert note.startswith("after: ")
    assert note.endswith(f"; to use it anyway: --run-table {beside}")
    assert len(_run_notes(keet, before, after)) == 2


def test_a_broken_table_beside_the_report_is_noted(keet: Keet, tmp_path: Path) -> None:
    after = _beside(ONE, tmp_path / "after", text="{")
    notes = _run_notes(keet, MANY, after)
    assert len(notes) == 2
    assert notes[0].startswith("after: the run table is not used: ")
    fits = document(keet, MANY, after, "--run-table", RUNS / "steps_one.run.json")
    assert fits["verdict"]["basis"] == "run"


@pytest.mark.slow
def test_a_side_of_several_reports_keeps_tables_beside_them(
    keet: Keet, tables: tuple[object, ...]
) -> None:
    """--run-table is refused for a side of several reports, so it is not advised."""
    again = Path("tests/data/reports/pipeline_again.ncu-repz")
    (note,) = _run_notes(keet, BEFORE, AFTER, *tables[2:], "--before-run", again)
    assert note.endswith(
        "under the profiler; store a run table next to each report of the other side"
    )


# --- the number of a cause


def _causes(told: dict[str, Any]) -> list[str]:
    return [a["what"] for p in told["pairs"] for a in p["attribution"] if a["finding"]]


def test_a_cause_is_shown_by_its_own_number(keet: Keet, tmp_path: Path) -> None:
    """It once said `waiting at barriers: new; sectors of global accesses 76,032 → 33,792`."""
    many, one = (shutil.copy(report, tmp_path) for report in (MANY, ONE))
    told = document(keet, many, one)
    assert _causes(told) == [
        "heavily used pipe: new; LSU pipe busy 3.4% → 71.1%",
        "kernel too short: gone; Duration 2.53 us → 54.62 us",
    ]
    assert told["grounding"]["unchecked"] == []


def test_short_launches_are_counted_in_the_run(keet: Keet) -> None:
    """`Duration 2.53 us → 54.62 us` under `8.59x faster` read as slower."""
    told = document(keet, MANY, ONE)
    (cause,) = _causes(told)
    assert cause == "kernel too short: gone; 400 launches of 1.15 us → 1 of 53.44 us"
    (evidence,) = [a["evidence"] for a in told["pairs"][0]["attribution"] if a["finding"]]
    assert len(evidence) == 5  # with the share of the difference
    assert told["grounding"]["unchecked"] == []
    back = _causes(document(keet, ONE, MANY))
    assert "kernel too short: new; 1 launch of 53.44 us → 400 of 1.15 us" in back


def test_short_launches_are_counted_as_the_user_says(keet: Keet, tmp_path: Path) -> None:
    many, one = (shutil.copy(report, tmp_path) for report in (MANY, ONE))
    causes = _causes(document(keet, many, one, "--times", "400:1"))
    assert "kernel too short: gone; 400 launches of 2.53 us → 1 of 54.62 us" in causes


@pytest.mark.slow
def test_an_explanation_against_a_report_uses_the_tables(keet: Keet, tmp_path: Path) -> None:
    """Tables that lie beside the reports, as keet profile leaves them."""
    from keet.ingest import read_profile
    from keet.ingest.run_table import read_run_table, table_path, write_run_table

    places = []
    for report, text in ((BEFORE, _SPENT_BEFORE), (AFTER, _SPENT_AFTER)):
        place = tmp_path / report.name
        place.write_bytes(report.read_bytes())
        (tmp_path / "table.csv").write_text(text)
        created = read_profile(place).provenance.created
        table = read_run_table(tmp_path / "table.csv")._replace(report_created=created)
        write_run_table(table, table_path(place))
        places.append(place)
    result = keet("explain", places[1], "--against", places[0], "--no-model", "--format", "json")
    against = json.loads(result.out)["against"]
    assert against["verdict"]["basis"] == "run"
    assert against["verdict"]["speedup"] == pytest.approx(13050 / 7490)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--times", "3:1"), "say how often each kernel is launched: leave out --times"),
        (
            ("--after-run", BEFORE),
            "--run-table is the run table of one report, and this side has 2",
        ),
    ],
)
def test_wrong_usage_of_tables(
    options: tuple[object, ...], complaint: str, keet: Keet, tables: tuple[object, ...]
) -> None:
    result = keet("diff", BEFORE, AFTER, *tables, *options)
    assert (result.code, result.out) == (2, "")
    assert complaint in result.err


def test_a_table_of_another_program_exits_6(keet: Keet, tmp_path: Path) -> None:
    """The gate once passed: the other kernel took as long on both sides."""
    other = tmp_path / "other.csv"
    other.write_text("kernel,launches,total_ms\nother,160,133\n")
    both = ("--run-table", other, "--run-table-before", other)
    result = keet("diff", *sample("matrix_flip"), *both, "--gate", 5)
    assert (result.code, result.out) == (6, "")
    assert "no kernel of slow.ncu-rep is in the BEFORE run table (other.csv)" in result.err
    forced = keet("diff", *sample("matrix_flip"), *both, "--gate", 5, "--force")
    assert forced.code == 6
    assert "nothing was gated. No total can be given: the BEFORE run table" in forced.err


def test_a_gate_of_sums_that_may_overlap_does_not_pass(keet: Keet, tmp_path: Path) -> None:
    tables = []
    for name, us in (("before", 10_200), ("after", 30_000)):  # 1.02 ms and 145 us under replay
        tables.append(tmp_path / f"{name}.csv")
        tables[-1].write_text(f"kernel,launches,total_us\nflip,10,{us}\n")
    named = ("--run-table-before", tables[0], "--run-table", tables[1])
    told = document(keet, *sample("matrix_flip"), *named)
    verdict = told["verdict"]
    assert (verdict["word"], verdict["speedup"], verdict["measure"]) == (
        "inconclusive",
        None,
        "durations",
    )
    result = keet("diff", *sample("matrix_flip"), *named, "--gate", 5)
    assert result.code == 6
    assert "nothing was gated: kernels may have run at the same time" in result.err


# --- without tables


@pytest.mark.slow
def test_captured_launches_are_not_the_run(keet: Keet) -> None:
    result = keet("diff", *sample("matrix_flip"), "--gate", 5)
    flat = " ".join(result.out.split())
    assert "1.02 ms → 145.3 us per launch (noise 5.0%, assumed)" in flat
    assert "Only these launches were compared; the program's total time is not known." in flat
    assert "the whole run was not gated because its time is not known" in flat
    swapped = document(keet, *reversed(sample("matrix_flip")))
    assert "of the total" not in swapped["next"]["text"]
    known = document(keet, *sample("matrix_flip"), "--times", "1:1")
    assert known["verdict"]["headline"].endswith("145.3 us (noise 5.0%, assumed).")
    every = document(keet, BEFORE, AFTER)  # ncu captured every launch
    assert "total time is not known" not in every["verdict"]["headline"]
    assert "of the total" in every["next"]["text"]


def test_what_ncu_adds_to_short_launches_is_said(keet: Keet) -> None:
    """`--times 400:1` of 2.3 us against 43 us: the program itself gained half of what that says."""
    told = document(keet, *sample("ring_steps"), "--times", "400:1")
    (note,) = [n for n in told["comparability"]["notes"] if n["id"] == "short_launches"]
    assert note["severity"] == "weakens"
    assert note["text"].endswith(
        ": ncu adds about 1.20 us to each launch, which takes 2.30 us before including that: the "
        "speed-up may be 1.9x too high"
    )
    alike = document(keet, *sample("ring_steps"), "--times", "1:1", "--force")
    assert "short_launches" not in {n["id"] for n in alike["comparability"]["notes"]}


def test_no_total_where_launches_were_fused(keet: Keet) -> None:
    told = document(keet, *sample("row_layers"))
    verdict = told["verdict"]
    assert (verdict["word"], verdict["basis"]) == ("inconclusive", "per_launch")
    assert verdict["speedup"] is verdict["before"] is verdict["after"] is None
    assert verdict["headline"] == (
        "No total can be given: kernels were fused or split, and the reports do not contain all "
        "launches. Profile both with keet profile, which records the whole run, add the run tables "
        "of both with --run-table-before FILE --run-table FILE, or give the launch counts with "
        "--times N:M."
    )
    (pair,) = told["pairs"]
    assert pair["verdict"]["headline"].startswith("1.67x faster per launch: 169.4 us → 101.2 us; ")
    known = document(keet, *sample("row_layers"), "--times", "1:1")
    assert known["verdict"]["headline"].startswith("1.67x faster: 169.4 us → 101.2 us (noise ")


def test_force_gives_no_total_of_launches_that_do_the_work_of_many(keet: Keet) -> None:
    """It once said `18.5x slower` of a program that had become 16 times as fast."""
    told = document(keet, *sample("ring_steps"), "--force")
    assert told["verdict"]["speedup"] is None
    (pair,) = told["pairs"]
    assert pair["verdict"]["headline"] == "inconclusive per launch: 2.30 us → 42.72 us"
    out = keet("diff", *sample("ring_steps"), "--force").out
    assert "slower" not in out


@pytest.mark.slow
def test_the_gate_says_that_the_total_was_not_gated(keet: Keet) -> None:
    passed = keet("diff", *sample("row_layers"), "--gate", 5)
    assert passed.code == 0
    assert (
        "the total was not gated: kernels were fused or split; kernels are gated per launch"
    ) in " ".join(passed.out.split())
    told = document(keet, *sample("row_layers"), "--gate", 5)["gate"]
    assert told["total_gated"] is False
    assert len(told["not_gated"]) == 1
    slow, fast = sample("row_layers")
    assert keet("diff", fast, slow, "--gate", 5).code == 1


def test_a_gate_of_launches_that_can_not_be_compared_does_not_pass(keet: Keet) -> None:
    result = keet("diff", *sample("ring_steps"), "--force", "--gate", 5)
    assert (result.code, result.out) == (6, "")
    assert "nothing was gated. No total can be given: the work per launch may have" in result.err
