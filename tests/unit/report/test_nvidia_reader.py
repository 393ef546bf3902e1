"""If NVIDIA's reader crashes, hangs, gives wrong answers or is missing, only SASS text is missing."""

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
from unittest.mock import Mock

import pytest

from keet.errors import ReaderFailed
from keet.profile import Absent
from keet.report import disassembler, read_profile
from keet.report.disassembler import _CHILD, ReaderProcess
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.report.test_disassembler import needs_reader

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
    return running._resources.process.pid


def test_it_starts_at_once_and_answers_questions_about_a_report(start, tmp_path: Path) -> None:
    """The child answers when it sees a file that is written after the start has returned."""
    running = start(answers_after(tmp_path / "go", "[1, 2]"))
    (tmp_path / "go").touch()
    assert running.answer() == [1, 2]
    code = """
import json, sys, pathlib
folder = pathlib.Path(sys.argv[1])
question = json.loads((folder / "question.json").read_text())
print(json.dumps([question, (folder / "report.ncu-rep").read_bytes().decode()]))
"""
    assert start(code).answer() == [{"seconds": AN_HOUR, "want": "that"}, "bytes"]
    running = start("print('\"' + 'x' * 1_000_000 + '\"')")  # more than a pipe holds
    running._resources.process.wait()
    assert len(running.answer()) == 1_000_000


def test_after_the_time_limit_or_if_closed_a_child_gives_no_answer(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts from the start: if it has passed before the answer is requested, there is no
    waiting."""
    closed, running = start(SLOW), start(SLOW)
    pids = [pid_of(closed), pid_of(running)]
    closed.close()
    later = SimpleNamespace(monotonic=lambda: running._deadline)
    monkeypatch.setattr("keet.report.disassembler.time", later)
    for each, says in ((running, "within 3600 s"), (closed, "was closed")):
        with pytest.raises(ReaderFailed, match=says):
            each.answer()
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.slow
@pytest.mark.parametrize("code", [SLOW, "print(1)"])
def test_a_child_whose_answer_is_never_requested_is_ended(code: str, start) -> None:
    """One that has ended by itself must not stay as a zombie."""
    running = start(code)
    pid = pid_of(running)
    if code != SLOW:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    del running
    gc.collect()
    wait_until_gone(pid)


def test_a_full_disk_or_an_interrupt_at_the_start_leaves_nothing_behind(
    start, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=[full, KeyboardInterrupt]))
    running = start(SLOW)
    assert list(folders.iterdir()) == []
    with pytest.raises(ReaderFailed, match="No space left"):
        running.answer()
    with pytest.raises(KeyboardInterrupt):
        start(SLOW)
    assert list(folders.iterdir()) == []


PARENT = """
import sys, time
from pathlib import Path
from keet.report.disassembler import ReaderProcess
question = {"megabytes": 500, "addresses": {}}
running = ReaderProcess(Path(sys.argv[1]), b"bytes", question, 3600.0)
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
        process.stdout.close()


def child_of(process: subprocess.Popen[str]) -> int:
    return int(process.stdout.readline())


def wait_until_loaded(folders: Path) -> None:
    """Until the child says so; where it ends before that, its messages fail the test."""
    told = ""
    while "loaded" not in told:
        time.sleep(0.02)
        told = "".join(path.read_text() for path in folders.glob("*/messages.txt"))
        assert "Traceback" not in told, told


@unix_only
@pytest.mark.parametrize("then", ["", "raise KeyboardInterrupt", "running.close()"])
def test_the_child_ends_when_keet_exits(then: str, parent, folders: Path) -> None:
    process = parent(then)
    child = child_of(process)
    process.wait()
    wait_until_gone(child)
    assert list(folders.iterdir()) == []


@unix_only
@each_row("then, number", [
    ("time.sleep(3600)", signal.SIGKILL),
    ("time.sleep(3600)", signal.SIGINT),
    ("running.answer()", signal.SIGINT),
])  # fmt: skip
@pytest.mark.slow
def test_the_child_ends_when_keet_is_killed(then: str, number: int, parent, folders: Path) -> None:
    """The child detects it and cleans up. Of Ctrl-C, a terminal sends the signal to both."""
    process = parent(then)
    child = child_of(process)
    wait_until_loaded(folders)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    assert process.wait() == -number
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


DATA = (REPORTS / "tour_nolines.ncu-repz").read_bytes()


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Replace the child by another program, of another name: answers are kept by it."""

    def replace(code: str) -> None:
        script = tmp_path / f"child_{len(list(tmp_path.iterdir()))}.py"
        script.write_text(code)
        monkeypatch.setattr(disassembler, "_CHILD", script)

    return replace


WRONG = ("{}", "[]", '{"0": {"x": "NOP"}}', '{"0": {"1": null}}')


@each_row("code, says", [
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by signal 11"),
    ("raise MemoryError('no more')", "MemoryError: no more"),
    ("print('not json')", "could not be parsed"),
    *((f"print('{told}')", "could not be parsed") for told in WRONG),
    ("", "could not be parsed"),
    ("import sys; sys.exit(3)", "failed with code 3"),
])  # fmt: skip
def test_every_failure_of_the_child_gives_a_reason(code: str, says: str, child) -> None:
    child(code)
    answer = disassembler.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    assert says in answer.reason
    assert answer.remedy


@pytest.mark.slow
def test_a_child_that_never_answers_times_out(
    child, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(disassembler, "SECONDS", 1.0)
    child("import time; time.sleep(600)")
    answer = disassembler.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    wording(answer.reason)


def test_code_of_an_unsupported_gpu_is_absent() -> None:
    assert disassembler.known_code({1: "???", 2: "NOP"}) == {2: "NOP"}
    answer = disassembler.known_code({1: "???", 2: "???"})
    assert isinstance(answer, Absent)
    assert "can't disassemble" in answer.reason


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_the_memory_of_the_child_is_limited(child) -> None:
    child(
        "import json, sys, resource;"
        f"exec(open({str(disassembler._CHILD)!r}).read().split('def disassemble')[0]);"
        "limit_memory(200); bytearray(1 << 30)"
    )
    answer = disassembler.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    assert "MemoryError" in answer.reason


@needs_reader
@pytest.mark.slow
def test_several_launches_are_fetched_with_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four launches of three kernels: one request for the first, one for the others."""
    asked = Mock(side_effect=disassembler._start)
    monkeypatch.setenv("KEET_CACHE", str(tmp_path))
    monkeypatch.setattr(disassembler, "_start", asked)
    launches = read_profile(REPORTS / "tour_nolines.ncu-repz").launches
    codes = [launch.disassembly for launch in launches]
    questions = [sorted(call.args[1]["addresses"]) for call in asked.call_args_list]
    assert questions == [["0"], ["1", "2"]]
    assert codes[2] is codes[3]
    assert not any(isinstance(code, Absent) for code in codes)
    assert set(codes[0]) == set(launches[0].data.addresses())  # type: ignore[arg-type, attr-defined]
    assert any(text.startswith("STG") for text in codes[0].values())  # type: ignore[union-attr]
    assert disassembler.reader_identity() == disassembler.installed_version()


@each_row(("addresses", "children"), [(4999, 1), (5000, 2), (90_000, 3)])
def test_a_large_request_is_split_over_children(
    addresses: int, children: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disassembler, "_processors", lambda: 8)
    half = addresses // 2
    questions = {3: list(range(half)), 5: list(range(half, addresses))}
    parts = disassembler._parts(questions)
    assert len(parts) == children
    sizes = [sum(map(len, part.values())) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert {n: [pc for part in parts for pc in part.get(n, [])] for n in questions} == questions
    monkeypatch.setattr(disassembler, "_processors", lambda: 1)
    assert len(disassembler._parts(questions)) == 1


def test_launches_of_a_failed_child_have_no_text(child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launches have no text, not a part of it."""
    child("""
import json, pathlib, sys
asked = json.loads(pathlib.Path(sys.argv[1], "question.json").read_text())["addresses"]
if "2" in asked:
    sys.exit("no luck")
print(json.dumps({launch: {pc: "NOP" for pc in pcs} for launch, pcs in asked.items()}))
""")
    monkeypatch.setattr(disassembler, "_WORTH_A_CHILD", 3)
    monkeypatch.setattr(disassembler, "_processors", lambda: 8)
    found = disassembler.Disassembly(DATA, {0: [1, 2], 1: [3, 4], 2: [5, 6]}).texts()
    assert found[0] == {1: "NOP", 2: "NOP"}
    assert isinstance(found[1], Absent)
    assert isinstance(found[2], Absent)


def test_a_reader_without_metadata_is_identified_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "ncu_report.py"
    module.write_text("")
    monkeypatch.setattr(disassembler, "find_spec", lambda _: SimpleNamespace(origin=str(module)))
    first = disassembler.reader_identity()
    assert first
    module.write_text("# newer")
    assert disassembler.reader_identity() != first
    module.unlink()
    assert disassembler.reader_identity() is None
