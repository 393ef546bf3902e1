"""`keet diff --format html`, as people call it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet

SAMPLES = Path("kernels_samples")
SLOW, FAST = (SAMPLES / "matrix_flip" / f"{side}.ncu-rep" for side in ("slow", "fast"))
BEFORE, AFTER = (REPORTS / f"pipeline_{side}.ncu-repz" for side in ("before", "after"))


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.find_spec", lambda name: None)


def page(keet: Keet, tmp_path: Path, *arguments: object, code: int = 0) -> str:
    target = tmp_path / "page.html"
    result = keet("diff", *arguments, "--format", "html", "-o", target)
    assert (result.code, result.out) == (code, ""), result.err
    return target.read_text(encoding="utf-8")


def test_a_page_is_written(keet: Keet, tmp_path: Path) -> None:
    text = page(keet, tmp_path, SLOW, FAST)
    assert text.startswith("<!doctype html>")
    title = text.partition("<title>")[2].partition("</title>")[0]
    assert title.startswith("7.02x faster: 1.02 ms → 145.3 us")
    assert title.endswith("slow.ncu-rep → fast.ncu-rep")
    assert text == keet("diff", SLOW, FAST, "--format", "html").out


def test_the_gate_decides_the_exit_code_and_is_told_first(keet: Keet, tmp_path: Path) -> None:
    failed = page(keet, tmp_path, FAST, SLOW, "--gate", 10, code=1)
    assert failed.index("gate of 10% failed: 1 regression") < failed.index("<dt>Why</dt>")
    passed = page(keet, tmp_path, SLOW, FAST, "--gate", 10)
    assert "gate of 10% passed" in passed


def test_what_cannot_be_compared_leaves_no_page(keet: Keet, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    other = SAMPLES / "column_physics" / "fast.ncu-rep"
    result = keet("diff", SLOW, other, "--format", "html", "-o", target)
    assert result.code == 6
    assert not target.exists()
    assert "matched by position only" in page(keet, tmp_path, SLOW, other, "--force")


def test_a_report_against_itself(keet: Keet, tmp_path: Path) -> None:
    text = page(keet, tmp_path, SLOW, SLOW)
    assert "both sides are the same report" in text
    assert "Share of the change" not in text
    assert 'class="row edited' not in text


def test_times_of_whole_runs(keet: Keet, tmp_path: Path) -> None:
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    head = "kernel,launches,total_us\n"
    before.write_text(
        f"{head}scale,100,1200\nadd_bias,100,1100\nclamp,100,1000\nturn<16>,100,3200\n"
        "sum_blocks,100,2600\nrelax,300,3850\nclear,5,100\n"
    )
    after.write_text(
        f"{head}scale_bias_clamp,100,1300\nturn<32>,100,1600\ntotal_of_blocks,100,2600\n"
        "relax,150,1900\nclear,5,90\n"
    )
    tables = ("--run-table-before", before, "--run-table", after)
    text = page(keet, tmp_path, BEFORE, AFTER, *tables)
    heads = text.partition("<thead>")[2].partition("</thead>")[0]
    row = text.partition("<tfoot><tr>")[2].partition("</tr>")[0]
    assert ">Launches</th>" in heads
    assert "kernels that were not profiled" in row
    assert heads.count("<th") == 10
    assert row.count("</td>") + row.count("</th>") == 6  # as far as both times


def test_a_terminal_is_refused(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = keet("diff", SLOW, FAST, "--format", "html")
    assert (result.code, result.out) == (2, "")
    assert "-o page.html" in result.err
    assert result.err.count("\n") == 1


def test_explain_against_has_what_changed(keet: Keet, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    keet("explain", FAST, "--against", SLOW, "--format", "html", "-o", target)
    text = target.read_text(encoding="utf-8")
    assert 'id="diff"' in text
    assert "7.02x faster" in text
