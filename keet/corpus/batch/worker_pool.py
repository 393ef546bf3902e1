"""Worker processes that may die: each file is tried to the end, and no file stops the others.

Plain pipes and a thread for each worker's answers: `multiprocessing` would refuse to start workers
inside a Dask worker, and a pool of it hangs when one of them is killed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Self

from keet.corpus.batch.file_analysis import Analyse
from keet.corpus.batch.messages import READY, Failed, Task, WorkerAnswer
from keet.corpus.batch.worker import look
from keet.corpus.batch.worker_process import WorkerMessage, WorkerProcess
from keet.errors import NotAvailable
from keet.records import NamedTuple

MAX_CRASHES = 3
"""Times that a worker may die over a file before the file is given up."""
MAX_FAILED_STARTS = 8
"""Workers in a row that die before they are ready: then it is not the files."""
TASKS_AHEAD = 64
"""Tasks per worker that are asked for, those under way included: messages are made of them."""
MESSAGE_BYTES = 4 << 20
"""Of the files in one message: a tenth of a second of work, or one large file."""
GATHER_SECONDS = 0.01
"""After an answer, for others to arrive: workers have more than that ahead of them, and answers
cost less when several are taken together."""
_GLANCE_BYTES = 64 << 10
"""What a glance counts for, however large the file is."""
LARGE = 256 << 20
"""Bytes of a file that has as long as --timeout says; larger ones have longer, in proportion."""
MOST_FILES = 2_000
MOST_MEMORY = 512 << 20
"""After so many files, or with so much memory held, a worker is replaced by a fresh one."""


class WorkerLimits(NamedTuple):
    seconds: float = 300.0
    """For one file, or for one slice of a large one."""
    files: int = MOST_FILES
    memory: int = MOST_MEMORY

    def seconds_for(self, task: Task) -> float:
        """All launches of a large file are read before the first slice: it has more time."""
        return self.seconds * max(1.0, task.size / LARGE)


class Pool:
    """Hands tasks to workers and their answers back. Not for several threads."""

    def __init__(self, analyse: Analyse, jobs: int, limits: WorkerLimits | None = None) -> None:
        self._analyse, self._jobs = analyse, jobs
        self._limits = limits or WorkerLimits()
        self._heard: SimpleQueue[WorkerMessage | None] = SimpleQueue()
        self._workers: dict[int, WorkerProcess] = {}
        self._numbers = count()
        self._queue: deque[Task] = deque()
        self._deaths: Counter[Task] = Counter()
        self._stillborn = 0
        self.started = 0
        """Workers so far."""
        self.most_memory = 0
        """Bytes that any worker held after a file."""

    # --- for the run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_workers(self) -> None:
        """All of them, before there are tasks: they import what they need meanwhile."""
        while len(self._workers) < self._jobs:
            self._start()

    def room(self) -> int:
        """How many more tasks keep everybody busy."""
        under_way = len(self._queue) + sum(len(w.tasks) for w in self._workers.values())
        return self._jobs * TASKS_AHEAD - under_way

    def submit(self, task: Task) -> None:
        """It goes to a worker with the next `wait`, together with others."""
        self._queue.append(task)

    def wait(self, seconds: float) -> list[WorkerAnswer]:
        """What has come in meanwhile; at the latest after so long, also nothing."""
        self._distribute()
        answers: list[WorkerAnswer] = []
        for heard in self._hear(seconds):
            answers += self._take(heard)
        answers += self._end_overdue()
        return answers

    def wake(self) -> None:
        """End a `wait` early; may be called by a signal handler."""
        self._heard.put(None)

    def close(self) -> None:
        """Kill the workers that are left; what they were doing is lost."""
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    # --- inside

    def _hear(self, seconds: float) -> list[WorkerMessage]:
        heard: list[WorkerMessage] = []
        with suppress(Empty):
            message = self._heard.get(timeout=seconds)
            time.sleep(GATHER_SECONDS)
            while True:
                if message is not None:
                    heard.append(message)
                message = self._heard.get_nowait()
        return heard

    def _take(self, heard: WorkerMessage) -> list[WorkerAnswer]:
        worker = self._workers.get(heard.worker)
        if worker is None:  # killed, and its thread had one more thing to say
            return []
        if heard.message is None:
            return self._lose(worker)
        worker.since = time.monotonic()
        if heard.message == READY:
            worker.ready = True
            self._stillborn = 0
            return []
        assert isinstance(heard.message, WorkerAnswer)
        if heard.message.is_last:
            self._finish(worker, heard.message)
        return [heard.message]

    def _finish(self, worker: WorkerProcess, answer: WorkerAnswer) -> None:
        worker.tasks.popleft()
        worker.served += 1
        self._deaths.pop(answer.task, None)
        self.most_memory = max(self.most_memory, answer.memory)
        if worker.served >= self._limits.files or answer.memory > self._limits.memory:
            self._end(worker)

    def _end(self, worker: WorkerProcess) -> None:
        """Nothing is wrong with what it has left to do: others do that."""
        worker.kill()
        self._remove(worker)
        self._queue.extendleft(reversed(worker.tasks))

    def _lose(self, worker: WorkerProcess) -> list[WorkerAnswer]:
        """A worker is gone. The file it was at is to blame; those it had not begun are not."""
        cause = self._remove(worker)
        if not worker.ready:
            self._check_stillborn(cause)
            self._queue.extendleft(reversed(worker.tasks))
            return []
        if not worker.tasks:
            return []
        blamed, *others = worker.tasks
        self._queue.extendleft(reversed(others))
        self._deaths[blamed] += 1
        if self._deaths[blamed] < MAX_CRASHES:
            self._queue.appendleft(blamed)
            return []
        return [_given_up(blamed, f"its reader died {MAX_CRASHES} times, the last time {cause}")]

    def _end_overdue(self) -> list[WorkerAnswer]:
        answers = []
        for worker in [each for each in self._workers.values() if each.tasks]:
            allowed = self._limits.seconds_for(worker.tasks[0])
            if worker.overdue(allowed):
                blamed = worker.tasks.popleft()
                self._end(worker)
                answers.append(_given_up(blamed, _too_slow(allowed)))
        return answers

    def _remove(self, worker: WorkerProcess) -> str:
        del self._workers[worker.number]
        return worker.close()

    def _check_stillborn(self, cause: str) -> None:
        """A worker that can't even start says nothing about any file."""
        self._stillborn += 1
        if self._stillborn >= MAX_FAILED_STARTS:
            raise NotAvailable(
                f"no worker process can be started ({cause}); check the installation: keet doctor"
            )

    def _distribute(self) -> None:
        while self._queue and (worker := self._next_worker()):
            worker.give(self._next_message(self._files_left(worker)))

    def _next_worker(self) -> WorkerProcess | None:
        """The one with the least to do; a fresh one where one is missing."""
        workers = self._workers.values()
        if len(workers) < self._jobs and all(worker.tasks for worker in workers):
            return self._start()
        able = [w for w in workers if w.wants_more and self._files_left(w) > 0]
        return min(able, key=lambda w: (len(w.tasks), w.number)) if able else None

    def _files_left(self, worker: WorkerProcess) -> int:
        """Until it is replaced."""
        return self._limits.files - worker.served - len(worker.tasks)

    def _next_message(self, most: int) -> list[Task]:
        """Up to `MESSAGE_BYTES`, and no more than a share of the queue: at the end of a run every
        worker has something left to do."""
        most = min(most, -(-len(self._queue) // self._jobs))
        message = [self._queue.popleft()]
        size = _weight(message[0])
        while self._queue and len(message) < most:
            size += _weight(self._queue[0])
            if size > MESSAGE_BYTES:
                break
            message.append(self._queue.popleft())
        return message

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(next(self._numbers), self._analyse, self._heard)
        self._workers[worker.number] = worker
        self.started += 1
        return worker


def _weight(task: Task) -> int:
    return _GLANCE_BYTES if task.step == "glance" else task.size


def _given_up(task: Task, reason: str) -> WorkerAnswer:
    failed = Failed(f"{reason}; try it alone: keet explain FILE")
    return WorkerAnswer(task, failed, look(task.path), 0.0, 0)


def _too_slow(seconds: float) -> str:
    return f"it took longer than the {seconds:.6g} s that --timeout allows"
