"""The gate as a CI job runs it: the steps of docs/ci.md, annotations, comments, and what goes wrong."""

from __future__ import annotations

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
import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt

from keet.ingest.snapshot import write_snapshot
from tests.conftest import REPORTS, TESTS, Keet

PAGE = (TESTS.parent / "docs" / "ci.md").read_text(encoding="utf-8")
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
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.find_spec", lambda name: None)


# --- the page


def pages() -> list[dict[str, Any]]:
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def step(name: str) -> str:
    """The shell of a step of the workflow."""
    jobs = pages()[0]["jobs"].values()
    (found,) = [each for job in jobs for each in job["steps"] if each.get("name") == name]
    return str(found["run"])


def test_the_workflows_parse_and_ask_for_few_rights() -> None:
    github, gitlab = pages()
    jobs = github["jobs"]
    assert github["permissions"] == {"contents": "read"}
    assert "permissions" not in jobs["profile"]  # it runs what the pull request brings
    assert jobs["gate"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "secrets." not in PAGE
    assert set(gitlab) == {"profile", "gate"}
    assert "allow_failure" not in gitlab["gate"]  # exit 6: nothing was checked


class Step(NamedTuple):
    code: int
    out: str
    summary: str


class Job:
    """A checkout in which steps run as GitHub runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        program = folder / "bin" / "keet"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m keet "$@"\n')
        program.chmod(0o755)

    def runs(self, *reports: Path) -> None:
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        (self.folder / "runs").mkdir()
        for number, report in enumerate(reports, 1):
            shutil.copy(report, self.folder / "runs" / f"run{number}.ncu-rep")

    def __call__(self, name: str) -> Step:
        summary = self.folder / "summary.md"
        summary.write_text("")
        told: dict[str, object] = {
            "GITHUB_STEP_SUMMARY": summary,
            "GITHUB_WORKSPACE": self.folder,
            "GITHUB_OUTPUT": self.folder / "output",
            "BASELINE": "main-NVIDIA-H200",
        }
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-e", "-c", step(name)],
            cwd=self.folder,
            env={**os.environ, **{key: str(value) for key, value in told.items()}, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return Step(done.returncode, done.stdout, summary.read_text(encoding="utf-8"))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.slow
def test_a_push_saves_what_a_pull_request_is_compared_with(job: Job) -> None:
    job.runs(AFTER)
    assert "there is no baseline main-NVIDIA-H200 yet" in job("Compare").summary
    assert job("Save the baseline").code == 0
    job.runs(BEFORE)
    worse = job("Compare")
    assert worse.code == 1
    assert worse.out.startswith("::error ")
    assert "gate of 10% failed" in worse.summary
    assert (job.folder / "comment.md").read_text(encoding="utf-8") == worse.summary
    job.runs(AFTER)
    same = job("Compare")
    assert (same.code, "::" in same.out) == (0, False)


@pytest.mark.skipif(not shutil.which("jq"), reason="the step uses jq")
@pytest.mark.slow
def test_a_baseline_is_named_by_the_gpu(job: Job) -> None:
    job.runs(AFTER)
    assert job("Name the baseline by GPU").code == 0
    assert (job.folder / "output").read_text() == "baseline=main-NVIDIA-H200\n"


@pytest.mark.parametrize(
    ("report", "code", "complaint"),
    [(DOUBLE, 6, "different problem size"), (None, 4, "cut short")],
)
@pytest.mark.slow
def test_incomparable_runs_are_reported(
    report: Path | None,
    code: int,
    complaint: str,
    job: Job,
    keet: Keet,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(job.folder)
    assert keet("baseline", "save", "main-NVIDIA-H200", BEFORE).code == 0
    job.runs(report or BEFORE, *([] if report else [BEFORE]))
    if report is None:
        (job.folder / "runs" / "run2.ncu-rep").write_bytes(BEFORE.read_bytes()[:20_000])
    told = job("Compare")
    assert told.code == code
    assert told.out.startswith("::error title=keet::")
    assert complaint in told.summary


# --- annotations


class Annotation(NamedTuple):
    level: str
    properties: dict[str, str]
    text: str


def annotated(out: str) -> list[Annotation]:
    """As GitHub's runner reads them: `::level key=value,key=value::text`."""
    lines = [line for line in out.splitlines() if line.lstrip().startswith("::")]
    return [parsed(line) for line in lines]


def parsed(line: str) -> Annotation:
    match = re.fullmatch(r"::(error|warning) ([^:]*?)::(.*)", line)
    assert match, line
    pairs = [part.split("=", 1) for part in match[2].split(",")]
    return Annotation(match[1], {k: unescaped(v) for k, v in pairs}, unescaped(match[3]))


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


def rename(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(told: dict[str, Any]) -> None:
        for launch in told["launches"]:
            launch["name"] = {"function": "walk", "demangled": f"{name}(int)", "mangled": "_Zw"}

    return edit


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that holds the pipeline's source, as the working folder."""
    (tmp_path / "src").mkdir()
    source = TESTS / "data" / "programs" / "pipeline" / "before.cu"
    shutil.copy(source, tmp_path / "src" / "pipeline.cu")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_annotations_lie_on_lines_of_the_checkout(keet: Keet, checkout: Path) -> None:
    first, *others = annotated(keet("diff", AFTER, BEFORE, "--gate", 5, "--format", "github").out)
    assert first.level == "error"
    assert first.properties["title"] == "keet: gate of 5% failed: 3 regressions"
    assert 1 <= len(others) <= 9
    lines = (checkout / "src" / "pipeline.cu").read_text().splitlines()
    for each in others:
        assert each.level == "warning"
        assert each.properties["file"] == "src/pipeline.cu"
        assert lines[int(each.properties["line"]) - 1].strip()
        assert each.text.endswith("% of the time lost")


@pytest.mark.slow
def test_names_do_not_break_annotations(keet: Keet, tmp_path: Path) -> None:
    sides = [
        edited(keet, SAMPLES / f"xs_lookup/{v}.ncu-repz", tmp_path / f"{v}.keet.json", rename(ODD))
        for v in ("fast", "slow")
    ]
    found = annotated(keet("diff", *sides, "--gate", 5, "--format", "github").out)
    assert len(found) > 2
    assert all('"%25"' in each.text for each in found)


def test_nothing_is_annotated_where_nothing_got_slower(keet: Keet) -> None:
    assert annotated(keet("diff", BEFORE, AFTER, "--gate", 5, "--format", "github").out) == []


# --- the comment


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
        rename(ODD)({"launches": told["launches"][3:4]})

    sides = [
        edited(keet, report, tmp_path / f"{n}.keet.json", edit)
        for n, report in enumerate((BEFORE, AGAIN))
    ]
    told = keet("diff", *sides, "--gate", 5, "--format", "markdown").out
    rows = cells(told)
    assert {len(row) for row in rows} == {8}
    assert [row[2] for row in rows if row[2].startswith("walk")] == [ODD]
    html = MarkdownIt("commonmark").render(told)
    assert "<em>s" not in html
    assert "<a " not in html


def test_a_comment_of_many_kernels_stays_small(keet: Keet) -> None:
    told = keet("diff", AFTER, BEFORE, "--gate", 5, "--format", "markdown").out
    assert len(told) < 65_536 / 4  # what a comment may hold


# --- the gate


def gated(keet: Keet, before: Path, after: Path) -> tuple[int, str, list[str | None]]:
    """Exit code, verdict and kernels that became slower. None: all together."""
    result = keet("diff", before, after, "--gate", 5, "--format", "json")
    told = json.loads(result.out)
    slower = [each["kernel"] for each in told["gate"]["regressions"]]
    return result.code, told["verdict"]["word"], slower


def test_what_is_inconclusive_passes_and_says_so(keet: Keet) -> None:
    assert gated(keet, WARM, BEFORE) == (0, "inconclusive", [])
    told = json.loads(keet("diff", WARM, BEFORE, "--gate", 5, "--format", "json").out)
    assert "all kernels" in told["gate"]["blurred"]


@pytest.mark.slow
def test_one_slower_kernel_fails_although_the_total_is_unchanged(
    keet: Keet, tmp_path: Path
) -> None:
    def edit(told: dict[str, Any]) -> None:
        told["launches"][3]["metrics"]["gpu__time_duration.sum"] *= 1.12

    slower = edited(keet, BEFORE, tmp_path / "slower.keet.json", edit)
    assert gated(keet, AGAIN, slower) == (1, "unchanged", ["turn<16>"])


@pytest.mark.slow
def test_a_new_kernel_counts_in_the_total(keet: Keet, tmp_path: Path) -> None:
    def edit(told: dict[str, Any]) -> None:
        del told["launches"][4]
        for number, launch in enumerate(told["launches"]):
            launch["id"] = number

    fewer = edited(keet, BEFORE, tmp_path / "fewer.keet.json", edit)
    assert gated(keet, fewer, AGAIN) == (1, "slower", [None])


@pytest.mark.slow
def test_runs_of_two_gpus_are_refused(keet: Keet, tmp_path: Path) -> None:
    def edit(told: dict[str, Any]) -> None:
        for launch in told["launches"]:
            launch["device"]["name"] = OTHER_GPU

    (tmp_path / "runs").mkdir()
    shutil.copy(BEFORE, tmp_path / "runs" / "1.ncu-repz")
    edited(keet, AGAIN, tmp_path / "runs" / "2.keet.json", edit)
    result = keet("diff", tmp_path / "runs", AFTER, "--gate", 5)
    assert (result.code, result.out) == (6, "")
    assert OTHER_GPU.removeprefix("NVIDIA ") in result.err


def test_an_empty_folder_and_a_folder_for_output(keet: Keet, tmp_path: Path) -> None:
    empty = keet("diff", BEFORE, tmp_path, "--gate", 5)
    assert (empty.code, empty.out) == (2, "")
    assert "this folder contains no report" in empty.err
    folder = keet("diff", BEFORE, AFTER, "-o", tmp_path)
    assert (folder.code, "name a file in it" in folder.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


# --- baselines


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keet: Keet) -> Path:
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", "main", BEFORE).code == 0
    return tmp_path


def kept(project: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted((project / ".keet").rglob("*")):
        yield path.name, path.read_bytes() if path.is_file() else b""


@pytest.mark.slow
def test_an_interrupt_leaves_the_old_baseline(
    keet: Keet, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = list(kept(project))

    def interrupted(profile: Any, path: Path) -> None:
        if path.name.startswith("run_02"):
            raise KeyboardInterrupt
        write_snapshot(profile, path)

    monkeypatch.setattr("keet.ingest.baselines.write_snapshot", interrupted)
    assert keet("baseline", "save", "main", AFTER, AFTER).code == 130
    assert list(kept(project)) == old


def test_a_folder_with_a_broken_report_leaves_the_old_baseline(keet: Keet, project: Path) -> None:
    old = list(kept(project))
    (project / "runs").mkdir()
    shutil.copy(AFTER, project / "runs" / "1.ncu-repz")
    (project / "runs" / "2.ncu-rep").write_bytes(b"")
    result = keet("baseline", "save", "main", "runs")
    assert (result.code, "2.ncu-rep: the file is empty" in result.err) == (4, True)
    assert list(kept(project)) == old


def test_a_damaged_baseline_is_named(keet: Keet, project: Path) -> None:
    (kept_run,) = (project / ".keet/baselines/main").rglob("run_01.keet.json")
    kept_run.write_text("{}")
    result = keet("diff", "baseline:main", AFTER, "--gate", 5)
    assert (result.code, "run_01.keet.json" in result.err) == (4, True)


def test_an_unwritable_folder_is_reported(
    keet: Keet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".keet").write_text("a file where a folder is wanted")
    result = keet("baseline", "save", "main", BEFORE)
    assert (result.code, "can't be written" in result.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == [".keet"]
