"""What stands in for worker processes where they are not the point: each takes a second to start."""

from __future__ import annotations

from collections import deque
from importlib import import_module
from typing import Self

from keet.corpus.messages import Answer, Task
from keet.corpus.pool import AHEAD, Limits
from keet.corpus.worker import perform


class PoolInProcess:
    """`Pool` without workers: the same steps, done by whoever waits for them."""

    def __init__(self, analyse: str, jobs: int, limits: Limits | None = None) -> None:
        module, _, function = analyse.partition(":")
        self._work = getattr(import_module(module), function)
        self._jobs = jobs
        self._queue: deque[Task] = deque()
        self.started = self.most_memory = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.clear()

    def start_workers(self) -> None:
        """There are none."""

    def room(self) -> int:
        return self._jobs * AHEAD - len(self._queue)

    def submit(self, task: Task) -> None:
        self._queue.append(task)

    def wait(self, seconds: float) -> list[Answer]:
        return list(perform(self._queue.popleft(), self._work)) if self._queue else []

    def wake(self) -> None:
        """Nobody sleeps here."""
