"""`keet diff` with tables of the runs, and without them where it matters: times, notes, advice."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from keet.ingest import read_profile
from keet.ingest.run_table import read_run_table, table_path, write_run_table
from tests.conftest import Keet
from tests.diff_pages import AFTER, AGAIN, BEFORE, caveats, document, pair
from tests.rows import each_row

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
def spent(tmp_path: Path) -> tuple[str, Path, str, Path]:
    """The options that name both tables of the pipeline."""
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(_SPENT_BEFORE)
    after.write_text(_SPENT_AFTER)
    return "--run-table-before", before, "--run-table", after


@pytest.mark.slow
def test_times_are_those_of_the_runs(keet: Keet, spent: tuple[Any, ...]) -> None:
    told = document(keet, BEFORE, AFTER, *spent)
    verdict = told["verdict"]
    assert (verdict["word"], verdict["basis"]) == ("faster", "run")
    assert verdict["speedup"] == pytest.approx(13050 / 7490)
    assert [(p["launches"]["before"], p["launches"]["after"]) for p in told["pairs"]] == [
        (300, 100),
        (100, 100),
        (100, 100),
        (300, 150),
    ]
    rest = told["not_profiled"]
    assert (rest["before"]["value"], rest["after"]["value"]) == (100.0, 90.0)
    assert rest["before"]["unit"] == "us"
    assert told["grounding"]["unchecked"] == []
    assert told["grounding"]["numbers"] == told["grounding"]["verified"] > 50


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
def test_a_side_of_several_reports_keeps_tables_beside_them(
    keet: Keet, spent: tuple[Any, ...], wording
) -> None:
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
def test_an_explanation_against_a_report_uses_the_tables(
    keet: Keet, spent: tuple[Any, ...], tmp_path: Path
) -> None:
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


@each_row(
    ("options", "complaint"),
    [
        (("--times", "3:1"), "leave out --times"),
        (("--after-run", BEFORE), "the run table of one report, and this side has 2"),
    ],
)
def test_wrong_usage_of_tables(
    options: tuple[object, ...], complaint: str, keet: Keet, spent: tuple[Any, ...]
) -> None:
    result = keet("diff", BEFORE, AFTER, *spent, *options)
    assert (result.code, result.out) == (2, "")
    assert complaint in result.err


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


def test_force_gives_no_total_of_launches_that_do_the_work_of_many(keet: Keet) -> None:
    """It once said `18.5x slower` of a program that had become 16 times as fast."""
    told = document(keet, *pair("ring_steps"), "--force")
    assert told["verdict"]["speedup"] is None
    assert told["pairs"][0]["verdict"]["word"] == "inconclusive"
    assert "slower" not in keet("diff", *pair("ring_steps"), "--force").out


def test_a_share_says_what_it_is_of(keet: Keet, tmp_path: Path, wording) -> None:
    table = tmp_path / "one.csv"
    table.write_text("kernel,launches,total_us\nscale,9,99\nrelax,9,99\nturn<16>,100,3200\n")
    both = ("--run-table-before", table, "--run-table", table)
    chosen = document(keet, BEFORE, BEFORE, *both, "--kernel", "turn")["next"]["text"]
    wording(chosen)
    table.write_text("kernel,launches,total_us\nsmooth_all,1,53.4\nfill,2,2.3\n")
    sums = document(keet, MANY, ONE, "--run-table", table)["next"]["text"]
    wording(sums)


def test_an_explanation_names_keet_diff_with_its_options(keet: Keet, bare: list[Path]) -> None:
    """`keet explain` has neither --run-table-before nor --times."""
    told = ""
    for before, after in ((bare[0], ONE), pair("row_layers")):
        options = ("--against", before, "--no-model", "--format", "markdown")
        told += keet("explain", after, *options).out.replace("\\", "")
    for option in ("--run-table-before", "--times"):
        assert told.count(f"keet diff {option}") == told.count(option) > 0
