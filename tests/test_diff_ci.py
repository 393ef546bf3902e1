"""The gate in CI: annotations, comments, baselines, and what goes wrong. `test_action.py` runs the action."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from markdown_it import MarkdownIt

from tests.conftest import REPORTS, TESTS, Keet

BEFORE, AFTER, AGAIN, DOUBLE, WARM = (
    REPORTS / f"pipeline_{name}.ncu-repz" for name in ("before", "after", "again", "double", "warm")
)
SAMPLES = TESTS.parent / "kernels_samples"
ODD = 'walk<1|8, `x`, "%25", *s*, [l](http://e)>'
OTHER_GPU = "NVIDIA A100-SXM4-80GB"


@pytest.fixture(autouse=True)
def without_sass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where NVIDIA's reader is not installed: nothing here is said of SASS, and each report that
    is kept takes it two seconds. (What runs in processes of its own has the reader.)"""
    monkeypatch.setattr("keet.report.disassembler.find_spec", lambda name: None)


class Annotation(NamedTuple):
    level: str
    properties: dict[str, str]
    text: str


def annotated(out: str) -> Iterator[Annotation]:
    """As GitHub's runner reads them: `::level key=value,key=value::text`."""
    for line in out.splitlines():
        if line.lstrip().startswith("::"):
            match = re.fullmatch(r"::(error|warning) ([^:]*?)::(.*)", line)
            assert match, line
            pairs = [part.split("=", 1) for part in match[2].split(",")]
            properties = {key: unescaped(value) for key, value in pairs}
            yield Annotation(match[1], properties, unescaped(match[3]))


def unescaped(text: str) -> str:
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


def edited(keet: Keet, report: Path, place: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    keet("snapshot", report, "-o", place)
    told = json.loads(place.read_text(encoding="utf-8"))
    edit(told)
    place.write_text(json.dumps(told), encoding="utf-8")
    return place


def rename(told: dict[str, Any]) -> None:
    for launch in told["launches"]:
        launch["name"] = {"function": "walk", "demangled": f"{ODD}(int)", "mangled": "_Zw"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that holds the pipeline's source, as the working folder."""
    (tmp_path / "src").mkdir()
    source = TESTS / "data" / "programs" / "pipeline" / "before.cu"
    shutil.copy(source, tmp_path / "src" / "pipeline.cu")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_annotations_lie_on_lines_of_the_checkout(keet: Keet, checkout: Path, wording) -> None:
    first, *others = annotated(keet("diff", AFTER, BEFORE, "--gate", 5, "--format", "github").out)
    assert first.level == "error"
    wording(first.properties["title"])
    assert 1 <= len(others) <= 9
    lines = (checkout / "src" / "pipeline.cu").read_text().splitlines()
    for each in others:
        assert each.level == "warning"
        assert each.properties["file"] == "src/pipeline.cu"
        assert lines[int(each.properties["line"]) - 1].strip()
        assert each.text.endswith("time lost")
    better = keet("diff", BEFORE, AFTER, "--gate", 5, "--format", "github").out
    assert [*annotated(better)] == []


@pytest.mark.slow
def test_names_do_not_break_annotations(keet: Keet, tmp_path: Path) -> None:
    sides = [
        edited(keet, SAMPLES / f"xs_lookup/{v}.ncu-repz", tmp_path / f"{v}.keet.json", rename)
        for v in ("fast", "slow")
    ]
    found = [*annotated(keet("diff", *sides, "--gate", 5, "--format", "github").out)]
    assert len(found) > 2
    assert all('"%25"' in each.text for each in found)


def cells(markdown: str) -> list[list[str]]:
    """Rows of the tables, as a reader of Markdown sees them."""
    rows: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and token.level >= 4:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return [row for row in rows if row]


@pytest.mark.slow
def test_names_do_not_break_the_comment(keet: Keet, tmp_path: Path) -> None:
    def edit(told: dict[str, Any]) -> None:
        rename({"launches": told["launches"][3:4]})

    sides = [
        edited(keet, report, tmp_path / f"{n}.keet.json", edit)
        for n, report in enumerate((BEFORE, AGAIN))
    ]
    told = keet("diff", *sides, "--gate", 5, "--format", "markdown").out
    assert len(told) < 65_536 / 4  # what a comment may hold
    rows = cells(told)
    assert {len(row) for row in rows} == {8}
    assert [row[2] for row in rows if row[2].startswith("walk")] == [ODD]
    html = MarkdownIt("commonmark").render(told)
    assert "<em>s" not in html
    assert "<a " not in html


@pytest.mark.slow
def test_a_failed_gate_fails_also_if_nobody_reads_its_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "keet", "diff", AFTER, BEFORE, "--gate", "5"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
def test_what_is_inconclusive_passes_and_says_so(keet: Keet) -> None:
    result = keet("diff", WARM, BEFORE, "--gate", 5, "--format", "json")
    told = result.json
    assert (result.code, told["verdict"]["word"]) == (0, "inconclusive")
    assert (told["gate"]["regressions"], "all kernels" in told["gate"]["blurred"]) == ([], True)


@pytest.mark.slow
def test_one_slower_kernel_fails_although_the_total_is_unchanged(keet: Keet, tmp_path) -> None:
    def edit(told: dict[str, Any]) -> None:
        told["launches"][3]["metrics"]["gpu__time_duration.sum"] *= 1.12

    slower = edited(keet, BEFORE, tmp_path / "slower.keet.json", edit)
    result = keet("diff", AGAIN, slower, "--gate", 5, "--format", "json")
    (regression,) = result.json["gate"]["regressions"]
    assert (result.code, regression["kernel"]) == (1, "turn<16>")
    assert result.json["verdict"]["word"] == "unchanged"


@pytest.mark.slow
def test_runs_of_two_gpus_are_refused(keet: Keet, tmp_path: Path) -> None:
    def edit(told: dict[str, Any]) -> None:
        for launch in told["launches"]:
            launch["device"]["name"] = OTHER_GPU

    (tmp_path / "runs").mkdir()
    shutil.copy(BEFORE, tmp_path / "runs" / "1.ncu-repz")
    edited(keet, AGAIN, tmp_path / "runs" / "2.keet.json", edit)
    keet("diff", tmp_path / "runs", AFTER, "--gate", 5).refuses(
        OTHER_GPU.removeprefix("NVIDIA "), code=6
    )


def test_an_empty_folder_and_a_folder_for_output(keet: Keet, tmp_path: Path, wording) -> None:
    empty = keet("diff", BEFORE, tmp_path, "--gate", 5)
    assert (empty.code, empty.out) == (2, "")
    wording(empty.err)
    folder = keet("diff", BEFORE, AFTER, "-o", tmp_path)
    assert (folder.code, "name a file" in folder.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keet: Keet) -> Path:
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", "main", BEFORE).code == 0
    return tmp_path


def kept(project: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted((project / ".keet").rglob("*")):
        yield path.name, path.read_bytes() if path.is_file() else b""


@pytest.mark.slow
def test_a_folder_with_a_broken_report_leaves_the_old_baseline(keet: Keet, project: Path) -> None:
    old = list(kept(project))
    (project / "runs").mkdir()
    shutil.copy(AFTER, project / "runs" / "1.ncu-repz")
    (project / "runs" / "2.ncu-rep").write_bytes(b"")
    result = keet("baseline", "save", "main", "runs")
    assert (result.code, "2.ncu-rep: " in result.err) == (4, True)
    assert list(kept(project)) == old


def test_a_damaged_baseline_is_named(keet: Keet, project: Path) -> None:
    (kept_run,) = (project / ".keet/baselines/main").rglob("run_01.keet.json")
    kept_run.write_text("{}")
    result = keet("diff", "baseline:main", AFTER, "--gate", 5)
    assert (result.code, "run_01.keet.json" in result.err) == (4, True)


@pytest.mark.slow
def test_a_comparison_names_the_baseline_of_the_gpu_and_not_its_file(keet, project: Path) -> None:
    assert keet("baseline", "name", "main-{gpu}", BEFORE).out == "main-NVIDIA-H200\n"
    assert keet("baseline", "save", "main-{gpu}", BEFORE).code == 0
    assert keet("diff", "baseline:main-NVIDIA-H200", BEFORE, "--gate", 5).code == 0
    result = keet("diff", "baseline:main-{gpu}", AFTER, "--format", "github")
    assert result.code == 0
    assert "baseline:main-NVIDIA-H200" in result.out
    assert ".keet/baselines" not in result.out


def test_an_unwritable_folder_is_reported(keet: Keet, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".keet").write_text("a file where a folder is wanted")
    result = keet("baseline", "save", "main", BEFORE)
    assert (result.code, "can't be written" in result.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == [".keet"]
