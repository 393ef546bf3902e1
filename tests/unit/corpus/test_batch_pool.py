"""Workers crash, hang, leak memory and print; every file gets an answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keet.corpus.batch.worker import Analysed, Failed, Hashed, Task, WorkerAnswer
from keet.corpus.batch.worker_pool import Pool, WorkerLimits
from keet.errors import NotAvailable
from tests.unit.corpus import fake_analyses


def answers(pool: Pool, tasks: list[Task]) -> dict[int, WorkerAnswer]:
    found: dict[int, WorkerAnswer] = {}
    waiting = list(tasks)
    while len(found) < len(tasks):
        while waiting and pool.room() > 0:
            pool.submit(waiting.pop(0))
        for answer in pool.wait(0.2):
            assert answer.task.number not in found, "two answers to one task"
            found[answer.task.number] = answer
    return found


def tasks(folder: Path, *contents: str) -> list[Task]:
    made = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.ncu-rep"
        path.write_text(content)
        made.append(Task(number, "analyse", str(path)))
    return made


ORDERS = {
    "die": "its worker process died 3 times, the last time killed by SIGKILL",
    "leave": "its worker process died 3 times, the last time ended with code 7 (last words)",
    "damaged": "its bytes\\nare wrong; copy it again",
    "bug": "this is a bug in keet: KeyError: 'no such thing'",
}


@pytest.mark.slow
def test_a_bad_file_does_not_affect_others(tmp_path: Path) -> None:
    """All kinds in one folder, each between files that nothing is wrong with."""
    contents = [content for order in ORDERS for content in ("fine", order)]
    with Pool(fake_analyses.by_content, 2) as pool:
        found = answers(pool, tasks(tmp_path, *contents, "fine"))
    for number, (order, reason) in enumerate(ORDERS.items()):
        failed = found.pop(2 * number + 1).result
        assert isinstance(failed, Failed), order
        assert failed.reason.startswith(reason)
        assert "\n" not in failed.reason
    assert len(found) == len(ORDERS) + 1
    assert all(isinstance(answer.result, Analysed) for answer in found.values())


class Clock:
    """Stands still, but for an hour that passes once a file exists."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def monotonic(self) -> float:
        return 3600.0 * self._file.exists()

    def sleep(self, seconds: float) -> None:
        """No time passes."""


@pytest.mark.slow
def test_a_file_over_the_time_limit_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    """The clock jumps when the only worker has begun the file that hangs. The file before it is
    answered first: an answer after the jump would restart the limit, and the test would hang."""
    made = tasks(tmp_path, "fine", "hang", "fine")
    clock = Clock(Path(f"{made[1].path}.begun"))
    monkeypatch.setattr("keet.corpus.batch.worker_pool.time", clock)
    with Pool(fake_analyses.by_content, 1, WorkerLimits(seconds=60.0)) as pool:
        found = answers(pool, made[:1])
        found |= answers(pool, made[1:])
    failed = found.pop(1).result
    assert isinstance(failed, Failed)
    wording(failed.reason)
    assert all(isinstance(answer.result, Analysed) for answer in found.values())


def test_a_large_file_gets_more_time() -> None:
    """In proportion to its size; a small one has as long as any other."""
    limits = WorkerLimits(seconds=60.0)
    sizes = [0, 1 << 20, 256 << 20, 512 << 20, 1 << 30]
    allowed = [limits.seconds_for(Task(0, "analyse", "", size)) for size in sizes]
    assert allowed == [60.0, 60.0, 60.0, 120.0, 240.0]


def test_a_file_is_retried_after_a_crash(tmp_path: Path) -> None:
    """Output of libraries does not mix with answers."""
    with Pool(fake_analyses.by_content, 1) as pool:
        found = answers(pool, tasks(tmp_path, "print", "die once", "fine", "print"))
        assert pool.started == 2
    assert all(isinstance(answer.result, Analysed) for answer in found.values())


@pytest.mark.slow
def test_unreadable_answers_do_not_stop_the_batch(tmp_path: Path, wording) -> None:
    with Pool(fake_analyses.of_another_version, 1) as pool:
        found = answers(pool, tasks(tmp_path, "fine"))
    assert isinstance(found[0].result, Failed)
    wording(found[0].result.reason)


@pytest.mark.slow
def test_a_worker_is_replaced_after_so_many_files_or_when_it_holds_too_much(tmp_path: Path) -> None:
    made = tasks(tmp_path, *["fine"] * 8)
    with Pool(fake_analyses.by_content, 1, WorkerLimits(files=2)) as pool:
        assert len(answers(pool, made)) == 8
        assert pool.started >= 3
    with Pool(fake_analyses.leak, 1, WorkerLimits(memory=150 << 20)) as pool:
        assert len(answers(pool, made)) == 8
        assert pool.started >= 2
        assert pool.most_memory > 150 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="no such parents")
@pytest.mark.slow
def test_a_worker_does_not_outlive_its_batch(tmp_path: Path) -> None:
    """Not even over a file that never ends."""
    (task,) = tasks(tmp_path, "hang")
    code = (
        "import os, sys, time; from keet.corpus.batch.worker_pool import Pool; "
        "from keet.corpus.batch.worker import Task; "
        "from tests.unit.corpus.fake_analyses import by_content\n"
        f"pool = Pool(by_content, 1); pool.submit(Task(0, 'analyse', {task.path!r}))\n"
        "pool.wait(0)\n"
        "print(*(w.process.pid for w in pool._workers.values()), flush=True)\n"
        f"while not os.path.exists({task.path + '.begun'!r}): time.sleep(0.02)\n"
        "os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    while is_running(int(done.stdout)):
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie that nobody collects is not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_hash_is_the_sha256_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with Pool(fake_analyses.by_content, 1) as pool:
        found = answers(pool, [Task(0, "hash", str(tmp_path / "a"))])
    assert isinstance(found[0].result, Hashed)
    assert found[0].result.sha256.startswith("ba7816bf8f01cfea")


@pytest.mark.slow
def test_workers_that_do_not_start_end_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keet.corpus.batch.worker_pool.MAX_FAILED_STARTS", 3)
    said = r"no worker process can be started .*No module named"
    with (
        Pool(fake_analyses.cannot_be_imported, 1) as pool,
        pytest.raises(NotAvailable, match=said),
    ):
        answers(pool, tasks(tmp_path, "fine"))
