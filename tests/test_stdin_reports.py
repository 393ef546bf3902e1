"""Reports, exports, snapshots and SQL from standard input."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.errors import IngestError
from keet.files import STDIN
from keet.report import read_profile
from keet.report.input import files
from tests.conftest import REPORTS, TESTS, Keet
from tests.rows import each_row

BASIC = REPORTS / "tour_basic.ncu-repz"


class Piped(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, content: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put bytes, or a file's, on standard input."""

    def put(content: bytes | Path, **options: bool) -> None:
        raw = content.read_bytes() if isinstance(content, Path) else content
        monkeypatch.setattr(sys, "stdin", Piped(raw, **options))

    return put


FILES = [
    (REPORTS / name).relative_to(TESTS.parent)
    for name in ("tour_basic.ncu-repz", "zoo.ncu-repz", "tour_basic.live.csv", "range.ncu-rep")
]


@pytest.mark.parametrize(
    "command", ["show", "metrics", "roofline", "chart", "hotspots", "context", "explain"]
)
def test_a_report_from_stdin_gives_the_same_output_as_the_file(command: str, keet, pipe) -> None:
    for report in FILES if command == "show" else FILES[:1]:
        pipe(report)
        piped, named = keet(command, "-"), keet(command, report)
        assert (piped.code, piped.err) == (0, "")
        assert joined(piped.out) == joined(named.out.replace(str(report), "<stdin>"))


def joined(text: str) -> str:
    """A name of another length wraps lines elsewhere."""
    return " ".join(text.split())


def test_one_side_of_a_diff_can_be_stdin(keet: Keet, pipe: Any) -> None:
    pipe(BASIC)
    assert "<stdin>" in keet("diff", BASIC, "-").out
    pipe(BASIC)
    assert "<stdin>" in keet("diff", "-", BASIC).out
    pipe(BASIC)
    assert keet("diff", "-", "--launch", "0:2", "--force").code == 0, "both sides are of one report"
    pipe(BASIC)
    assert keet("verify", "It has 3 blocks.", "--report", "-").code in (0, 1)


def test_a_baseline_can_be_saved_from_stdin(keet: Keet, pipe: Any, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipe(BASIC)
    saved = keet("baseline", "save", "main", "-")
    assert saved.code == 0, saved.err
    assert "saved main (1 run)" in saved.err
    pipe(BASIC)
    assert keet("diff", "baseline:main", "-").code == 0
    assert keet("baseline", "save", "main", "-", "-").code == 2, "it is read once"


def test_batch_refuses_stdin(keet: Keet, pipe: Any, tmp_path: Path, wording) -> None:
    pipe(BASIC)
    refused = keet("batch", "-", "-o", tmp_path / "store")
    assert (refused.code, refused.out) == (2, "")
    wording(refused.err)
    assert not (tmp_path / "store").exists()


def test_stdin_may_be_used_once(keet: Keet, pipe: Any, wording) -> None:
    for command in ("explain - -", "diff - -", "verify - --report -"):
        pipe(BASIC)
        result = keet(*command.split())
        assert (result.code, result.out) == (2, "")
        wording(result.err)


@each_row("content, said", [
    (b"", "standard input is empty"),
    (b"\0" * 5000, "not an Nsight Compute report"),
    (b"\x1f\x8b" + b"x" * 100, "compressed with gzip"),
])  # fmt: skip
def test_other_input_is_refused(content: bytes, said: str, keet: Keet, pipe: Any) -> None:
    pipe(content)
    result = keet("show", "-")
    assert (result.code, result.err.count("\n")) == (4, 1)
    assert result.err.startswith("keet: <stdin>: ")
    assert said in result.err


def test_a_terminal_is_refused(keet: Keet, pipe: Any, monkeypatch, wording) -> None:
    pipe(b"", terminal=True)
    wording(keet("explain", "-").err)
    monkeypatch.setattr(sys, "stdin", None)
    wording(keet("explain", "-").err)


def test_a_read_error_is_reported(monkeypatch: pytest.MonkeyPatch, pipe: Any) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    pipe(b"")
    monkeypatch.setattr(files, "_standard_input", Broken)
    with pytest.raises(IngestError, match=r"can't be read \(input/output error\)"):
        read_profile(STDIN)


def test_files_named_like_stdin_are_files(tmp_path: Path, monkeypatch, pipe: Any) -> None:
    """What is piped has no run table beside it."""
    monkeypatch.chdir(tmp_path)
    Path("<stdin>.run.json").write_text("{}", encoding="utf-8")
    Path("<stdin>").write_bytes(BASIC.read_bytes())
    pipe(REPORTS / "range.ncu-rep")
    profile = read_profile(STDIN)
    assert (len(profile.launches), profile.run, profile.run_problem) == (1, None, None)
    assert len(read_profile("<stdin>").launches) == 4


@given(content=st.binary(max_size=9000), limit=st.integers(1, 9000))
def test_all_of_stdin_is_read_or_it_is_refused(content: bytes, limit: int) -> None:
    """For any content, in pieces of any size."""
    stream = io.BytesIO(content)
    if not content or max(len(content[: files.HEAD]), len(content)) > limit:
        with pytest.raises(IngestError):
            files._read_standard_input(stream, lambda _: limit)
    else:
        assert files._read_standard_input(stream, lambda _: limit).open().read() == content


@pytest.mark.slow
def test_a_killed_keet_leaves_no_file_behind(tmp_path: Path) -> None:
    """Killed while it reads the report, which is only in memory."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "KEET_CACHE": str(tmp_path / "cache")}
    child = subprocess.Popen(
        [sys.executable, "-m", "keet", "explain", "-"], stdin=subprocess.PIPE, env=environment
    )
    assert child.stdin is not None
    child.stdin.write(BASIC.read_bytes()[:50_000])
    child.stdin.flush()
    child.kill()
    child.wait()
    child.stdin.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_sql_is_read_from_stdin(keet: Keet, pipe: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert keet("batch", "-q", BASIC, "-o", store, "--jobs", 1).code == 0
    pipe(b"SELECT count(*) AS n FROM launches\n")
    assert keet("query", store, "-", "--format", "csv").out.split() == ["n", "4"]
    for content, options, said in (
        (b" \n", {}, "standard input has no SQL"),
        (b"\xff\xfe", {}, "not UTF-8"),
        (b"x" * 1_000_001, {}, "has more than 1,000,000 bytes"),
        (b"", {"terminal": True}, "which is a terminal here"),
    ):
        pipe(content, **options)
        result = keet("query", store, "-")
        assert result.code == 2
        assert said in result.err
