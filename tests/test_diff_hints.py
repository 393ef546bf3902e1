"""What `keet diff` and `keet explain --against` advise, and what shares are of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Keet

SAMPLES = Path("kernels_samples")
RUNS = Path("tests/data/runs")
MANY, ONE = RUNS / "steps_many.ncu-repz", RUNS / "steps_one.ncu-repz"


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.find_spec", lambda name: None)


def _document(keet: Keet, *arguments: object) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(keet("diff", *arguments, "--format", "json").out)
    return told


def test_a_refusal_names_force_once(keet: Keet) -> None:
    result = keet(
        "diff", SAMPLES / "matrix_flip/slow.ncu-rep", SAMPLES / "ring_steps/fast.ncu-repz"
    )
    assert result.code == 6
    assert result.err.count("--force") == 1
    assert "with --launch A:B" in result.err
    assert result.err.rstrip().endswith("; to compare anyway: --force")


def test_a_share_says_what_it_is_of(keet: Keet, tmp_path: Path) -> None:
    text = _document(keet, MANY, ONE)["next"]["text"]
    assert re.search(r"; that saves \d+% of the GPU time after$", text)
    table = tmp_path / "one.csv"
    table.write_text("kernel,launches,total_us\nscale,9,99\nrelax,9,99\nturn<16>,100,3200\n")
    before = Path("tests/data/reports/pipeline_before.ncu-repz")
    both = ("--run-table-before", table, "--run-table", table)
    chosen = _document(keet, before, before, *both, "--kernel", "turn")["next"]["text"]
    assert chosen.endswith(" of the time of the chosen launches after")
    table.write_text("kernel,launches,total_us\nsmooth_all,1,53.4\nfill,2,2.3\n")
    sums = _document(keet, MANY, ONE, "--run-table", table)["next"]["text"]
    assert sums.endswith(" of the summed durations after")


def test_short_launches_that_were_counted_by_hand_are_not_split(keet: Keet, tmp_path: Path) -> None:
    """As with tables: more than a tenth of such a replay is the profiler's."""
    many, one = (shutil.copy(report, tmp_path) for report in (MANY, ONE))
    told = _document(keet, many, one, "--times", "400:1")
    kinds = {each["kind"] for each in told["pairs"][0]["attribution"]}
    assert "cause" in kinds
    assert not kinds & {"account", "unit", "line"}


def test_no_verdict_is_a_sentence_of_its_own(keet: Keet, tmp_path: Path) -> None:
    tables: list[object] = []
    for option, us in (("--run-table-before", 10_200), ("--run-table", 30_000)):
        path = tmp_path / f"{us}.csv"
        path.write_text(f"kernel,launches,total_us\nflip,10,{us}\n")
        tables += [option, path]
    reports = [SAMPLES / f"matrix_flip/{version}.ncu-rep" for version in ("slow", "fast")]
    line = (
        "No verdict on the total: launches of flip may have overlapped, and the tables do not "
        "record that"
    )
    assert f"\n{line}" in keet("diff", *reports, *tables, width=200).out
    assert f"\n> {line}" in keet("diff", *reports, *tables, "--format", "markdown").out


def _against(keet: Keet, before: object, after: object) -> str:
    result = keet("explain", after, "--against", before, "--no-model", "--format", "markdown")
    return " ".join(result.out.replace("\\", "").split())


def test_an_explanation_names_keet_diff_with_its_options(keet: Keet, tmp_path: Path) -> None:
    """`keet explain` has neither --run-table-before nor --times."""
    bare = shutil.copy(MANY, tmp_path)
    told = _against(keet, bare, ONE)
    assert "add the other table with keet diff --run-table-before FILE" in told
    row_layers = [SAMPLES / f"row_layers/{version}.ncu-repz" for version in ("slow", "fast")]
    told += _against(keet, *row_layers)
    assert "keet diff --run-table-before FILE --run-table FILE" in told
    assert "launch counts with keet diff --times N:M" in told
    for option in ("--run-table-before", "--times"):
        assert told.count(f"keet diff {option}") == told.count(option)
