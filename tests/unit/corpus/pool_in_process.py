"""A `Pool` without processes, for tests of other things: a worker takes a second to start."""

from collections import deque
from typing import Self

from keet.corpus.batch.worker import Analyse, Task, WorkerAnswer, perform
from keet.corpus.batch.worker_pool import TASKS_AHEAD, WorkerLimits


class PoolInProcess:
    """Performs the tasks in `wait`."""

    def __init__(self, analyse: Analyse, jobs: int, limits: WorkerLimits | None = None) -> None:
        self._analyse = analyse
        self._jobs = jobs
        self._queue: deque[Task] = deque()
        self.started = self.most_memory = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.clear()

    def start_workers(self) -> None:
        """This pool has no workers."""

    def room(self) -> int:
        return self._jobs * TASKS_AHEAD - len(self._queue)

    def submit(self, task: Task) -> None:
        self._queue.append(task)

    def wait(self, seconds: float) -> list[WorkerAnswer]:
        return list(perform(self._queue.popleft(), self._analyse)) if self._queue else []

    def wake(self) -> None:
        """`wait` does not block."""
