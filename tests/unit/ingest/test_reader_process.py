"""The child process never leaves a process or a file behind, whether its answer is used or not."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from keet.errors import ReaderFailed
from keet.ingest.sass.nvidia_reader import _CHILD, ReaderProcess

SLOW = "import time; time.sleep(3600)"
AN_HOUR = 3600.0
"""Longer than any test may take: a child that ends before has not ended by itself."""
unix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of the children's folders."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


@pytest.fixture
def start(tmp_path: Path, folders: Path) -> Iterator[Callable[..., ReaderProcess]]:
    def begin(code: str, *, seconds: float = AN_HOUR, data: bytes = b"bytes") -> ReaderProcess:
        script = tmp_path / "child.py"
        script.write_text(code)
        return ReaderProcess(script, data, {"want": "that"}, seconds)

    yield begin
    assert list(folders.iterdir()) == []


def wait_until_gone(pid: int) -> None:
    """Neither running nor a zombie of this process."""
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            time.sleep(0.02)


def answers_after(signal_file: Path, answer: str) -> str:
    """Code of a child that answers once the file exists."""
    return (
        "import pathlib, time\n"
        f"while not pathlib.Path({str(signal_file)!r}).exists(): time.sleep(0.01)\n"
        f"print({answer!r})"
    )


def pid_of(running: ReaderProcess) -> int:
    assert running._resources.process is not None
    return running._resources.process.pid


def test_it_starts_at_once_and_answers_later(start, tmp_path: Path) -> None:
    """The child answers when it sees a file that is written after the start has returned."""
    running = start(answers_after(tmp_path / "go", "[1, 2]"))
    (tmp_path / "go").touch()
    assert running.answer() == [1, 2]


def test_the_child_gets_the_report_and_the_question(start) -> None:
    code = """
import json, sys, pathlib
folder = pathlib.Path(sys.argv[1])
question = json.loads((folder / "question.json").read_text())
print(json.dumps([question, (folder / "report.ncu-rep").read_bytes().decode()]))
"""
    given = {"seconds": AN_HOUR, "want": "that"}
    assert start(code).answer() == [given, "bytes"]


def test_an_answer_larger_than_a_pipe_does_not_wait_for_keet(start) -> None:
    running = start("print('\"' + 'x' * 1_000_000 + '\"')")
    process = running._resources.process
    process.wait()
    assert len(running.answer()) == 1_000_000


def test_the_time_limit_counts_from_the_start(start, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the limit has passed before the answer is requested, there is no waiting."""
    running = start(SLOW)
    pid = pid_of(running)
    later = SimpleNamespace(monotonic=lambda: running._deadline)
    monkeypatch.setattr("keet.ingest.sass.nvidia_reader.time", later)
    with pytest.raises(ReaderFailed, match="within 3600 s"):
        running.answer()
    wait_until_gone(pid)


@pytest.mark.slow
def test_a_child_whose_answer_is_never_requested_is_ended(start) -> None:
    running = start(SLOW)
    pid = pid_of(running)
    del running
    gc.collect()
    wait_until_gone(pid)


@pytest.mark.slow
def test_a_finished_child_whose_answer_is_never_requested_leaves_no_zombie(start) -> None:
    """It has ended by itself, and must not stay as a zombie."""
    running = start("print(1)")
    pid = pid_of(running)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    del running
    gc.collect()
    wait_until_gone(pid)


def test_a_closed_child_gives_no_answer(start) -> None:
    running = start(SLOW)
    pid = pid_of(running)
    running.close()
    wait_until_gone(pid)
    with pytest.raises(ReaderFailed, match="was closed"):
        running.answer()


@unix_only
def test_a_killed_child_is_reported(start) -> None:
    running = start("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ReaderFailed, match="signal 9"):
        running.answer()


def test_a_full_disk_is_reported(start, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    running = start(SLOW)
    assert list(folders.iterdir()) == []
    with pytest.raises(ReaderFailed, match="No space left"):
        running.answer()


def test_an_interrupt_at_the_start_leaves_nothing_behind(
    start, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(SLOW)
    assert list(folders.iterdir()) == []


PARENT = """
import sys, time
from pathlib import Path
from keet.ingest.sass.nvidia_reader import ReaderProcess
running = ReaderProcess(Path(sys.argv[1]), b"bytes", {"megabytes": 500}, 3600.0)
print(running._resources.process.pid, flush=True)
"""
NATIVE = """
import sys, runpy, time, types
module = types.ModuleType("ncu_report")
def load_report(path):
    print("loaded", file=sys.stderr, flush=True)
    time.sleep(3600)
module.load_report = load_report
sys.modules["ncu_report"] = module
runpy.run_path({child!r}, run_name="__main__")
"""
"""keet's real child with a library that hangs."""


@pytest.fixture
def parent(tmp_path: Path, folders: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """A separate keet process with a child that would run for an hour."""
    script = tmp_path / "child.py"
    script.write_text(NATIVE.format(child=str(_CHILD)))
    started: list[subprocess.Popen[str]] = []

    def begin(then: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT + then, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def child_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def wait_until_loaded(folders: Path) -> None:
    while not any("loaded" in path.read_text() for path in folders.glob("*/messages.txt")):
        time.sleep(0.02)


@unix_only
@pytest.mark.parametrize(
    "then", ["", "sys.exit(3)", "raise KeyboardInterrupt", "raise ValueError", "running.close()"]
)
def test_the_child_ends_when_keet_exits(then: str, parent, folders: Path) -> None:
    process = parent(then)
    child = child_of(process)
    process.wait()
    wait_until_gone(child)
    assert list(folders.iterdir()) == []


@unix_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
@pytest.mark.slow
def test_the_child_ends_when_keet_is_killed(number: int, parent, folders: Path) -> None:
    """The child detects it and cleans up."""
    process = parent("time.sleep(3600)")
    child = child_of(process)
    wait_until_loaded(folders)
    process.send_signal(number)
    assert process.wait() == -number
    wait_until_gone(child)
    assert list(folders.iterdir()) == []


@unix_only
@pytest.mark.parametrize("then", ["time.sleep(3600)", "running.answer()"])
@pytest.mark.slow
def test_ctrl_c_ends_keet_and_the_child(then: str, parent, folders: Path) -> None:
    """A terminal sends the signal to both."""
    process = parent(then)
    child = child_of(process)
    wait_until_loaded(folders)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    wait_until_gone(child)
    assert list(folders.iterdir()) == []


@unix_only
def test_a_forked_keet_does_not_end_the_child(start, tmp_path: Path) -> None:
    running = start(answers_after(tmp_path / "go", "7"))
    forked = os.fork()
    if forked == 0:
        running.close()
        os._exit(0)
    os.waitpid(forked, 0)
    (tmp_path / "go").touch()
    assert running.answer() == 7
