"""`keet diff --format html`, as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Keet
from tests.diff_pages import pair
from tests.kept_reports import sample_report

SLOW, FAST = pair("matrix_flip")


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
    assert title.startswith("7.02x faster: ")
    assert title.endswith("slow.ncu-rep → fast.ncu-rep")
    assert text == keet("diff", SLOW, FAST, "--format", "html").out


def test_the_gate_decides_the_exit_code_and_is_told_first(keet: Keet, tmp_path: Path) -> None:
    failed = page(keet, tmp_path, FAST, SLOW, "--gate", 10, code=1)
    assert failed.index("gate of 10% failed") < failed.index("<dt>Why</dt>")
    passed = page(keet, tmp_path, SLOW, FAST, "--gate", 10)
    assert "gate of 10% passed" in passed


def test_what_cannot_be_compared_leaves_no_page(keet: Keet, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    other = sample_report("column_physics", "fast")
    result = keet("diff", SLOW, other, "--format", "html", "-o", target)
    assert result.code == 6
    assert not target.exists()
    assert page(keet, tmp_path, SLOW, other, "--force")
