"""Large reports go through a batch in slices: the store has their rows once, or not at all."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from keet.corpus.batch import worker_pool
from keet.corpus.batch.coordinator import Batch, BatchProgress
from keet.corpus.batch.stored_files import NOTHING_STORED
from keet.corpus.batch.worker import Analysed, Slice, Task, perform
from keet.corpus.batch.worker_pool import Pool, WorkerLimits
from keet.corpus.discovery import find_reports
from keet.corpus.store import part_writer
from keet.corpus.store.part_writer import PartQueue, joined
from keet.corpus.store.report_rows import rows_of, slices_of
from keet.documents.document import json_line
from keet.explanation.analyst import explain
from keet.ingest import read_profile
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.corpus import fake_analyses
from tests.unit.corpus.fake_analyses import SLICES, sliced
from tests.unit.corpus.pool_in_process import PoolInProcess
from tests.unit.corpus.store_rows import asked


@pytest.mark.slow
@each_row("most", [1, 2, 3, 4])
def test_slices_are_the_rows_of_the_report(most: int) -> None:
    profile = read_profile(REPORTS / "tour_full.ncu-repz")
    told = explain(profile, profile.launches, 5, sass=False)
    found = list(slices_of(told, json_line, most))
    assert [len(rows.launches) for rows in found] == {1: [1, 1, 1], 2: [2, 1]}.get(most, [3])
    assert joined(found) == rows_of(told, json_line)


def test_a_report_without_launches_is_one_slice() -> None:
    profile = read_profile(REPORTS / "tour_full.ncu-repz")
    told = explain(profile, [], 5, sass=False)
    (rows,) = slices_of(told, lambda _: "")
    assert (rows.launches, rows.sha256) == ((), None)


def test_the_last_slice_ends_the_task(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_text("fine")
    answers = list(perform(Task(0, "analyse", str(path)), sliced))
    assert [type(answer.result) for answer in answers] == [Slice] * (SLICES - 1) + [Analysed]
    assert [answer.is_last for answer in answers] == [False] * (SLICES - 1) + [True]


def run(tree: Path, out: Path, workers: Any) -> list[BatchProgress]:
    """What was told on the way; the last is how it ended."""
    told: list[BatchProgress] = []
    with workers, PartQueue(out) as writer:
        files = find_reports([tree], out).reports
        last = Batch(files, NOTHING_STORED, workers, writer).run(told.append)
    return [*told, last]


def tree_of(folder: Path, *contents: str) -> Path:
    folder.mkdir()
    for number, content in enumerate(contents):
        (folder / f"{number}.ncu-rep").write_text(content)
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
@pytest.mark.parametrize("held", [1, 2, 3, 100])
def test_rows_are_the_same_however_many_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(part_writer, "MOST_HELD", held)
    tree, out = tree_of(tmp_path / "tree", "a", "bb", "cc"), tmp_path / "out"
    last = run(tree, out, PoolInProcess(sliced, 1))[-1]
    check_rows(out, "a", "bb", "cc")
    in_order = "SELECT launch_id FROM parts.launches WHERE report_sha256 = 'bb' ORDER BY filename, "
    assert asked(out, f"{in_order} file_row_number") == [(n,) for n in range(SLICES)]
    assert (last.done, last.launches) == (3, 3 * SLICES)
    assert last.gpu_seconds == pytest.approx(3 * SLICES * 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("held", [1, 100])
def test_a_report_that_fails_leaves_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(part_writer, "MOST_HELD", held)
    tree, out = tree_of(tmp_path / "tree", "damaged", "fine"), tmp_path / "out"
    last = run(tree, out, PoolInProcess(sliced, 1))[-1]
    check_rows(out, "fine")
    assert (last.done, last.failed) == (1, 1)


@pytest.mark.slow
def test_equal_reports_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are analysed: nothing tells beforehand that they will have the same hash."""
    first_step = "keet.corpus.batch.coordinator.DuplicateTracker.first_step"
    monkeypatch.setattr(part_writer, "MOST_HELD", 1)
    monkeypatch.setattr(first_step, lambda *_: "analyse")
    tree, out = tree_of(tmp_path / "tree", "same", "same"), tmp_path / "out"
    last = run(tree, out, PoolInProcess(sliced, 1))[-1]
    check_rows(out, "same")
    assert (last.done, last.duplicates) == (1, 1)


@pytest.mark.slow
def test_a_worker_that_dies_between_two_slices_costs_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of an earlier attempt are dropped."""
    monkeypatch.setattr(part_writer, "MOST_HELD", 1)
    tree, out = tree_of(tmp_path / "tree", "die once"), tmp_path / "out"
    workers = Pool(sliced, 1)
    last = run(tree, out, workers)[-1]
    check_rows(out, "fine")
    assert (last.launches, workers.started) == (SLICES, 2)
    tree, out = tree_of(tmp_path / "tree 2", "die once"), tmp_path / "out 2"
    last = run(tree, out, Pool(fake_analyses.sliced_at_first, 1))[-1]
    assert asked(out, "SELECT report_sha256, launch_id FROM launches") == [("fine", 0)]
    assert last.launches == 1


def test_progress_counts_launches_of_unfinished_reports(tmp_path: Path) -> None:
    class OneByOne(PoolInProcess):
        """Hands on an answer at a time, as a worker does."""

        def __init__(self) -> None:
            super().__init__(sliced, 1)
            self._answers: deque[Any] = deque()

        def wait(self, seconds: float) -> list[Any]:
            self._answers.extend(super().wait(seconds))
            return [self._answers.popleft()]

    *told, _ = run(tree_of(tmp_path / "tree", "a"), tmp_path / "out", OneByOne())
    counts = [(each.done, each.launches) for each in told]
    assert counts == [*((0, number + 1) for number in range(SLICES - 1)), (1, SLICES)]


# --- messages


class Recorded:
    """A worker process that notes what it is given."""

    def __init__(self, number: int, *_: object) -> None:
        self.number, self.served = number, 0
        self.tasks: deque[Task] = deque()
        self.messages: list[list[int]] = []

    @property
    def wants_more(self) -> bool:
        return len(self.messages) < 2

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
    mega = 1 << 20
    sizes = [mega, mega, mega, 9 * mega, 9 * mega, mega]
    tasks = [Task(number, "analyse", "", size) for number, size in enumerate(sizes)]
    assert messages(monkeypatch, tasks, 1) == [[[0, 1, 2], [3]]]
    glances = [Task(number, "sample", "", 9 * mega) for number in range(70)]
    assert messages(monkeypatch, glances, 1) == [[[*range(64)], [*range(64, 70)]]]


def test_few_files_are_shared_by_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none gets more than it may serve."""
    tasks = [Task(number, "analyse", "", 1) for number in range(9)]
    given = messages(monkeypatch, tasks[:6], 3)
    assert [sum(map(len, each)) for each in given] == [2, 2, 2]
    assert sorted(n for each in given for message in each for n in message) == [*range(6)]
    assert messages(monkeypatch, tasks, 1, WorkerLimits(files=3)) == [[[0, 1, 2]]]
