"""`keet REPORT`, paths that do not exist, and where the output goes: -o, its format, --open."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet
from tests.kept_reports import sample_report
from tests.rows import each_row


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two reports."""
    for name in ("before.ncu-rep", "after.ncu-rep"):
        shutil.copy(sample_report("matrix_flip"), tmp_path / name)
    (tmp_path / "runs").mkdir()
    (tmp_path / "show").touch()
    monkeypatch.chdir(tmp_path)
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@each_row("options", [(), ("--format", "json"), ("--no-sass", "--verbose"), (".",)])
def test_a_report_alone_is_explained(options: tuple[str, ...], keet: Keet) -> None:
    assert keet("before.ncu-rep", *options) == keet("explain", "before.ncu-rep", *options)


@each_row(
    ("words", "message"),
    [
        (["befor.ncu-rep"], "befor.ncu-rep: there is no such file; did you mean: before.ncu-rep"),
        (["diff", "before.ncu-rep", "./after"], "did you mean: after.ncu-rep"),
        (["hotspots", "x.csv"], "reports in this folder: after.ncu-rep, before.ncu-rep"),
        (["batch", "run", "-o", "store"], "did you mean: runs"),
        (["explain", "nowhere/x.ncu-rep"], "there is no such file; there is no folder nowhere"),
        (["rnus/1.ncu-rep"], "did you mean: runs"),
        (["explian"], "there is no command 'explian'; did you mean: keet explain"),
    ],
    ids=str,
)
def test_a_wrong_word_gets_the_nearest_one(words: list[str], message: str, keet: Keet) -> None:
    assert message in keet(*words).err


@each_row(
    ("options", "beginning"),
    [
        (["explain", "-o", "page.html"], "<!DOCTYPE html>"),
        (["explain", "-o", "page.md"], "## keet: "),
        (["explain", "-o", "page.json"], "{"),
        (["explain", "-o", "page.html", "--format", "json"], "{"),
        (["explain", "-o", "page.txt"], "before.ncu-rep on"),
        (["explain", "-o", "page.HTM"], "<!DOCTYPE html>"),
        (["roofline", "-o", "page.svg"], "<svg "),
        (["metrics", "-o", "page.csv"], "launch,kernel,"),
    ],
    ids=str,
)
def test_the_ending_of_the_file_decides_the_format(
    options: list[str], beginning: str, keet: Keet, folder: Path
) -> None:
    told = keet(*options, "before.ncu-rep")
    (page,) = folder.glob("page.*")
    written = page.read_text("utf-8")
    page.unlink()
    assert (told.code, told.out) == (0, "")
    assert told.err.startswith(f"keet: wrote {page.name} (")
    assert written.lower().startswith(beginning.lower())


@each_row(
    ("command", "name", "possible"),
    [
        ("explain", "page.pdf", ".html, .md, .json or .txt"),
        ("roofline", "chart.html", ".json, .svg or .txt"),
        ("hotspots", "lines.md", ".json, .csv or .txt"),
    ],
)
def test_an_ending_that_is_no_format_is_refused(
    command: str, name: str, possible: str, keet: Keet, folder: Path
) -> None:
    told = keet(command, "before.ncu-rep", "-o", name)
    assert (told.code, (folder / name).exists()) == (2, False)
    assert f"use the ending {possible}, or name a --format" in told.err
    assert keet(command, "before.ncu-rep", "-o", name, "--format", "json").code == 0


def test_quiet_does_not_say_what_was_written(keet: Keet) -> None:
    assert keet("show", "before.ncu-rep", "-q", "-o", "page.txt").err == ""
    assert keet("show", "before.ncu-rep", "-o", "/dev/null").err == ""


def test_open_shows_the_page(keet: Keet, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = folder / "opened.json"
    program = folder / "browser.py"
    program.write_text(f"import sys, json; json.dump(sys.argv[1:], open({str(log)!r}, 'w'))")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} %s")
    assert keet("diff", "before.ncu-rep", "after.ncu-rep", "--open", "-o", "page.html").code == 0
    assert json.loads(log.read_text()) == [(folder / "page.html").as_uri()]


@each_row(("command", "ending"), [("explain", "html"), ("chart", "html"), ("roofline", "svg")])
def test_without_a_browser_open_says_where_the_page_is(command: str, ending: str, keet) -> None:
    told = keet(command, "before.ncu-rep", "--open")
    assert (told.code, told.out) == (0, "")
    wrote, opened = told.err.splitlines()
    assert wrote.startswith("keet: wrote ")
    page = Path(opened.rpartition(": ")[2])
    assert page.is_file()
    assert page.suffix == f".{ending}"
    shutil.rmtree(page.parent)


@each_row("options", [("--format", "json"), ("-o", "page.md"), ("--show-prompt",)])
def test_open_is_for_pages(options: tuple[str, ...], keet: Keet) -> None:
    told = keet("explain", "before.ncu-rep", "--open", *options)
    assert told.code == 2
    assert told.err.startswith("keet: --open ")


def test_amounts_begin_with_what_is_done_more_than_needed(keet: Keet, wording) -> None:
    """The rest of the page says what was measured."""
    shutil.copy(REPORTS / "tour_full.ncu-repz", "tour.ncu-rep")
    told = keet("amounts", "tour.ncu-rep", width=120).out.splitlines()
    wording(told[2])
    assert told[3].split()[:3] == ["tour.cu:21", "#0", "transpose_rows:"]
