"""Options that commands share: --quiet, --, --top, --launch, --kernel; help, and hints."""

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from keet.cli import COMMANDS, pager
from keet.cli.explain import NO_MODEL
from keet.files import cache_folder
from tests.conftest import REPORTS, TESTS, Keet, Result
from tests.rows import each_row

BASIC = REPORTS / "tour_basic.ncu-repz"
TOUR = REPORTS / "tour_full.ncu-repz"


def test_quiet_drops_notes_and_keeps_the_rest(keet, tmp_path, monkeypatch, wording) -> None:
    for missing in ("nowhere.ncu-rep", str(BASIC)):
        assert keet("-q", "show", missing) == keet("show", missing)
    monkeypatch.chdir(tmp_path)
    wording(keet("baseline", "list").err)
    for where in ("-q baseline", "baseline --quiet", "baseline -q"):
        assert keet(*where.split(), "list") == Result(0, "", "")


def test_quiet_keeps_errors_that_do_not_end_the_command(keet: Keet, tmp_path, wording) -> None:
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(b"NVR\0 nothing")
    result = keet("explain", "-q", "--no-sass", BASIC, bad)
    assert result.code == 5
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["keet", "keet"]
    wording(result.err)


@each_row("command", [name for name in COMMANDS if name != "eval"])
def test_every_command_has_the_option_and_examples(command: str, keet: Keet) -> None:
    shown = keet(command, "--help")
    assert shown.code == 0
    assert "-q, --quiet" in shown.out
    assert "\nexamples:\n" in shown.out
    assert keet("help", command).out == shown.out


@pytest.fixture
def dashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    shutil.copy(BASIC, tmp_path / "-dash.ncu-rep")
    monkeypatch.chdir(tmp_path)
    return "-dash.ncu-rep"


def test_two_dashes_end_the_options(dashed: str, keet: Keet) -> None:
    for command in ("show", "metrics", "roofline", "hotspots", "explain", "snapshot"):
        result = keet(command, "-q", "--", dashed)
        assert (result.code, result.err) == (0, "")


@pytest.mark.slow
def test_two_dashes_of_other_commands(dashed: str, keet: Keet, wording) -> None:
    assert keet("diff", "--format", "json", "--", dashed, dashed).code == 0
    assert keet("baseline", "save", "main", "--", dashed).code == 0
    assert keet("metrics", "--", dashed, "-nothing-").code == 2  # a pattern, and no option
    assert "matches '-nothing-'" in keet("metrics", "--", dashed, "-nothing-").err
    wording(keet("show", "--", "--format").err)


def test_a_file_that_looks_like_an_option(dashed: str, keet: Keet, wording) -> None:
    for line in ("show {}", "diff a.ncu-rep {}", "verify t.txt --report {}"):
        result = keet(*line.format(dashed).split())
        assert result.code == 2
        wording(result.err)


def test_unknown_options_are_reported(dashed: str, keet: Keet) -> None:
    assert "unrecognized arguments: --dsah" in keet("show", "r.ncu-rep", "--dsah").err
    assert "after --, " in keet("profile", "./app").err
    assert "did you mean --dry-run?" in keet("profile", "--dryrun", "./app").err
    assert "did you mean --kernel?" in keet("profile", "-k", "gemm", "--", "./app").err
    assert "did you mean" not in keet("explain", "r.ncu-rep", "--brief").err  # nearest: --price


def test_help(keet: Keet, wording) -> None:
    assert keet("help") == keet("--help")
    assert keet("help", "eval", "diagnosis").out.startswith("usage: keet eval diagnosis")
    assert keet("help", "eval") == keet("eval", "--help") == keet("eval", "-q")
    assert keet("eval", "-q", "diagnosis", "--help") == keet("eval", "diagnosis", "--help")
    wording(keet("help", "shwo").err, keet("compare", "a", "b").err)


@pytest.fixture
def terminal(capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """stderr is a terminal, and nobody has seen a hint."""
    del capsys  # which puts its own stream there first
    monkeypatch.setenv("KEET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True, raising=False)


def explained(keet: Keet, *options: str) -> str:
    """Without the progress, which a busy machine shows."""
    told = keet("explain", "--no-sass", *options, BASIC).err
    return re.sub(r"\r\x1b\[2K(?:keet: [^\r\n]*)?", "", told)


@pytest.mark.usefixtures("terminal")
def test_the_hint_is_printed_once_on_a_terminal(keet: Keet) -> None:
    assert NO_MODEL not in explained(keet, "--no-model")
    assert NO_MODEL not in explained(keet, "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(sys.stderr), "isatty", lambda _: False)
        assert NO_MODEL not in explained(keet)
    assert [NO_MODEL in explained(keet) for _ in range(2)] == [True, False]


@pytest.mark.usefixtures("terminal")
def test_a_read_only_home_prints_no_hint_and_no_error(keet: Keet, monkeypatch, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("KEET_CACHE", str(blocked / "cache"))
    assert explained(keet) == ""
    with pytest.MonkeyPatch.context() as patch:  # no home folder at all
        patch.delenv("KEET_CACHE")
        patch.setattr(pager, "cache_folder", no_home)
        assert explained(keet) == ""


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.usefixtures("terminal")
def test_one_of_several_processes_prints_the_hint() -> None:
    """Whoever makes the marker does; the others find it, however close they come."""
    start = Barrier(8)

    def mark(_: int) -> bool:
        start.wait()
        return pager._mark_as_seen("model")

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(mark, range(8))) == [False] * 7 + [True]
    assert (cache_folder() / "hints" / "model").is_file()


@pytest.mark.slow
def test_top_limits_json_only_if_it_is_given(keet: Keet) -> None:
    for command, entries in (
        (("diff", TOUR, TOUR), lambda document: document["pairs"]),
        (("hotspots", TOUR, "--no-sass"), lambda document: document["launches"][0]["rows"]),
    ):
        every = entries(keet(*command, "--format", "json").json)
        first = entries(keet(*command, "--format", "json", "--top", 1).json)
        assert len(every) > 1
        assert first == every[:1]


@each_row(
    "words",
    [("explain", BASIC), ("diff", BASIC, BASIC), ("insights", TESTS / "data/stores/version_1")],
)
def test_a_page_is_not_printed_on_a_terminal(
    words: tuple[object, ...], keet: Keet, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = keet(*words, "--format", "html")
    assert (result.code, result.out) == (2, "")
    wording(result.err, case=words[0])


def test_options_after_two_dashes_belong_to_the_program(keet: Keet) -> None:
    out = keet("profile", "--dry-run", "--", "./app", "-q", "--", "--help").out
    assert out.rstrip().endswith("./app -q -- --help")
