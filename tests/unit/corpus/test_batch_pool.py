"""Workers crash, hang, leak memory and print; every file gets an answer. Large reports go through a
batch in slices: the store has their rows once, or not at all."""

import hashlib
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from keet.corpus.batch import worker_pool
from keet.corpus.batch.coordinator import Batch, BatchProgress
from keet.corpus.batch.stored_files import NOTHING_STORED
from keet.corpus.batch.worker import (
    Analysed,
    Failed,
    Hashed,
    Slice,
    Step,
    Task,
    WorkerAnswer,
    perform,
)
from keet.corpus.batch.worker_pool import Pool, WorkerLimits
from keet.corpus.discovery import find_reports
from keet.corpus.store import part_writer
from keet.corpus.store.part_writer import PartQueue, joined
from keet.corpus.store.report_rows import slices_of
from keet.documents.document import json_line
from keet.errors import NotAvailable
from keet.explanation.analyst import explain
from keet.report import read_profile
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.corpus import fake_analyses
from tests.unit.corpus.fake_analyses import SLICES, sliced
from tests.unit.corpus.pool_in_process import PoolInProcess
from tests.unit.corpus.store_rows import asked


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
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.ncu-rep" for number in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(content)
    return [Task(number, "analyse", str(path)) for number, path in enumerate(paths)]


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
def test_a_file_over_the_time_limit_does_not_affect_others(tmp_path, monkeypatch, wording) -> None:
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
def test_unreadable_answers_and_workers_that_do_not_start(tmp_path, monkeypatch, wording) -> None:
    """The first do not stop the batch, the second end it."""
    with Pool(fake_analyses.of_another_version, 1) as pool:
        found = answers(pool, tasks(tmp_path, "fine"))
    assert isinstance(found[0].result, Failed)
    wording(found[0].result.reason)
    monkeypatch.setattr("keet.corpus.batch.worker_pool.MAX_FAILED_STARTS", 2)
    said = r"no worker process can be started .*No module named"
    with Pool(fake_analyses.cannot_be_imported, 1) as pool, pytest.raises(NotAvailable, match=said):
        answers(pool, tasks(tmp_path, "fine"))


@pytest.mark.slow
def test_a_worker_is_replaced_after_so_many_files_or_when_it_holds_too_much(tmp_path: Path) -> None:
    made = tasks(tmp_path, *["fine"] * 5)
    with Pool(fake_analyses.by_content, 1, WorkerLimits(files=3)) as pool:
        assert len(answers(pool, made)) == 5
        assert pool.started == 2
    with Pool(fake_analyses.leak, 1, WorkerLimits(memory=150 << 20)) as pool:
        assert len(answers(pool, made)) == 5
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


# --- slices


@pytest.mark.slow
@each_row("most", [1, 2, 3, 4])
def test_slices_are_the_rows_of_the_report(most: int) -> None:
    profile = read_profile(REPORTS / "tour_full.ncu-repz")
    told = explain(profile, profile.launches, 5, sass=False)
    found = list(slices_of(told, json_line, most))
    assert [len(rows.launches) for rows in found] == {1: [1, 1, 1], 2: [2, 1]}.get(most, [3])
    assert [joined(found)] == [*slices_of(told, json_line)]
    (rows,) = slices_of(explain(profile, [], 5, sass=False), lambda _: "")
    assert (rows.launches, rows.sha256) == ((), None), "one slice, also without launches"


def test_the_last_slice_ends_the_task(tmp_path: Path) -> None:
    (task,) = tasks(tmp_path, "abc")
    told = list(perform(task, sliced))
    assert [type(answer.result) for answer in told] == [Slice] * (SLICES - 1) + [Analysed]
    assert [answer.is_last for answer in told] == [False] * (SLICES - 1) + [True]
    (told,) = perform(task._replace(step="hash"), sliced)
    assert told.result == Hashed(hashlib.sha256(b"abc").hexdigest())


def run(tree: Path, out: Path, workers: Any) -> list[BatchProgress]:
    """What was told on the way; the last is how it ended."""
    told: list[BatchProgress] = []
    with workers, PartQueue(out) as writer:
        files = find_reports([tree], out).reports
        last = Batch(files, NOTHING_STORED, workers, writer).run(told.append)
    return [*told, last]


def in_folder(folder: Path, *contents: str) -> Path:
    tasks(folder, *contents)
    return folder


def check_rows(out: Path, *reports: str) -> None:
    expected = [(sha256, number) for sha256 in sorted(reports) for number in range(SLICES)]
    for table in ("launches", "findings", "account"):
        found = asked(out, f"SELECT report_sha256, launch_id FROM {table} ORDER BY ALL")
        assert found == expected, table
    counts = "SELECT sha256, launches FROM files WHERE status = 'done' ORDER BY ALL"
    assert asked(out, counts) == [(sha256, SLICES) for sha256 in sorted(reports)]
    assert not list(out.glob(".making-*"))


@pytest.mark.slow
@pytest.mark.parametrize("held", [1, 3, 100])
def test_rows_are_the_same_however_many_fit_into_memory(tmp_path, monkeypatch, held: int) -> None:
    """A report that fails leaves none."""
    monkeypatch.setattr(part_writer, "MOST_HELD", held)
    tree, out = in_folder(tmp_path / "tree", "a", "damaged", "bb", "cc"), tmp_path / "out"
    last = run(tree, out, PoolInProcess(sliced, 1))[-1]
    check_rows(out, "a", "bb", "cc")
    in_order = "SELECT launch_id FROM parts.launches WHERE report_sha256 = 'bb' ORDER BY filename, "
    assert asked(out, f"{in_order} file_row_number") == [(n,) for n in range(SLICES)]
    assert (last.done, last.failed, last.launches) == (3, 1, 3 * SLICES)
    assert last.gpu_seconds == pytest.approx(3 * SLICES * 2e-6)


@pytest.mark.slow
def test_equal_reports_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are analysed: nothing tells beforehand that they will have the same hash."""
    first_step = "keet.corpus.batch.coordinator.DuplicateTracker.first_step"
    monkeypatch.setattr(part_writer, "MOST_HELD", 1)
    monkeypatch.setattr(first_step, lambda *_: "analyse")
    tree, out = in_folder(tmp_path / "tree", "same", "same"), tmp_path / "out"
    last = run(tree, out, PoolInProcess(sliced, 1))[-1]
    check_rows(out, "same")
    assert (last.done, last.duplicates) == (1, 1)


@pytest.mark.slow
def test_a_worker_that_dies_between_two_slices_costs_a_retry(tmp_path: Path, monkeypatch) -> None:
    """Slices of an earlier attempt are dropped, also where the next one has fewer."""
    monkeypatch.setattr(part_writer, "MOST_HELD", 1)
    for number, analyse in enumerate((sliced, fake_analyses.sliced_at_first)):
        tree, out = in_folder(tmp_path / f"tree {number}", "die once"), tmp_path / str(number)
        workers = Pool(analyse, 1)
        last = run(tree, out, workers)[-1]
        assert (last.launches, workers.started) == (1 if number else SLICES, 2)
    check_rows(tmp_path / "0", "fine")
    assert asked(out, "SELECT report_sha256, launch_id FROM launches") == [("fine", 0)]


def test_progress_counts_launches_of_unfinished_reports(tmp_path: Path) -> None:
    class OneByOne(PoolInProcess):
        """Hands on an answer at a time, as a worker does."""

        def __init__(self) -> None:
            super().__init__(sliced, 1)
            self._answers: deque[Any] = deque()

        def wait(self, seconds: float) -> list[Any]:
            self._answers.extend(super().wait(seconds))
            return [self._answers.popleft()]

    *told, _ = run(in_folder(tmp_path / "tree", "a"), tmp_path / "out", OneByOne())
    counts = [(each.done, each.launches) for each in told]
    assert counts == [*((0, number + 1) for number in range(SLICES - 1)), (1, SLICES)]


# --- messages


class Recorded:
    """A worker process that notes what it is given."""

    def __init__(self, number: int, *_: object) -> None:
        self.number, self.served = number, 0
        self.tasks: deque[Task] = deque()
        self.messages: list[list[int]] = []

    wants_more = property(lambda self: len(self.messages) < 2)

    def send(self, tasks: list[Task]) -> None:
        self.messages.append([task.number for task in tasks])
        self.tasks.extend(tasks)

    def is_overdue(self, seconds: float) -> bool:
        return False

    def kill(self) -> None:
        """There is no process."""

    close = kill


def messages(
    monkeypatch: pytest.MonkeyPatch,
    tasks: list[Task],
    jobs: int,
    limits: WorkerLimits | None = None,
) -> list[list[list[int]]]:
    """Of each worker."""
    monkeypatch.setattr(worker_pool, "WorkerProcess", Recorded)
    with Pool(sliced, jobs, limits) as workers:
        for task in tasks:
            workers.submit(task)
        workers.wait(0)
        return [worker.messages for worker in workers._workers.values()]  # type: ignore[attr-defined]


def test_small_files_share_a_message_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files are shared by all workers, and none gets more than it may serve."""

    def sized(step: Step, *sizes: int) -> list[Task]:
        return [Task(number, step, "", size) for number, size in enumerate(sizes)]

    mega = 1 << 20
    mixed = sized("analyse", mega, mega, mega, 9 * mega, 9 * mega, mega)
    assert messages(monkeypatch, mixed, 1) == [[[0, 1, 2], [3]]]
    glances = sized("sample", *[9 * mega] * 70)
    assert messages(monkeypatch, glances, 1) == [[[*range(64)], [*range(64, 70)]]]
    given = messages(monkeypatch, sized("analyse", *[1] * 6), 3)
    assert [sum(map(len, each)) for each in given] == [2, 2, 2]
    assert sorted(n for each in given for message in each for n in message) == [*range(6)]
    limited = messages(monkeypatch, sized("analyse", *[1] * 9), 1, WorkerLimits(files=3))
    assert limited == [[[0, 1, 2]]]
