"""Worker processes with retries and limits: a file that crashes a worker does not stop the others.

It uses pipes and one thread per worker: `multiprocessing` can't start workers inside a Dask worker,
and its pool hangs when a worker is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import IO, NamedTuple, Self

from keet.corpus.batch.worker import (
    READY,
    Analyse,
    Failed,
    Task,
    WorkerAnswer,
    file_state,
    read_frame,
    write_frame,
)
from keet.errors import NotAvailable, one_line


class WorkerMessage(NamedTuple):
    """A message of a worker; None: the worker has ended."""

    worker: int
    message: object | None


class WorkerProcess:
    def __init__(
        self, number: int, analyse: Analyse, received: SimpleQueue[WorkerMessage | None]
    ) -> None:
        self.number = number
        self.tasks: deque[Task] = deque()
        """Unanswered tasks, in the order of their answers."""
        self.ready = False
        self.served = 0
        self.since = time.monotonic()
        self._last_message = 0
        """Number of tasks in the last message."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the worker
        self.process = subprocess.Popen(
            [sys.executable, "-c", _program(analyse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C goes to the batch, which ends its workers
        )
        self._listener = threading.Thread(target=self._listen, args=(received,), daemon=True)
        self._listener.start()

    def _listen(self, received: SimpleQueue[WorkerMessage | None]) -> None:
        """Always reports the end: else the batch would wait forever. An answer that can't be
        unpickled comes from another version of keet that was installed since the batch started."""
        assert self.process.stdout is not None
        try:
            while (message := read_frame(self.process.stdout)) is not None:
                received.put(WorkerMessage(self.number, message))
        except Exception:  # noqa: BLE001 - unpickling may raise anything
            self.kill()
        finally:
            received.put(WorkerMessage(self.number, None))

    @property
    def wants_more(self) -> bool:
        """It has at most one message left: the next one should be waiting when it is done."""
        return len(self.tasks) <= self._last_message

    def send(self, tasks: Sequence[Task]) -> None:
        """If the process is dead, the listener reports it."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.extend(tasks)
        self._last_message = len(tasks)
        assert self.process.stdin is not None
        with suppress(OSError):
            write_frame(self.process.stdin, list(tasks))

    def is_overdue(self, seconds: float) -> bool:
        busy = bool(self.tasks) and self.ready
        return busy and time.monotonic() - self.since > seconds

    def kill(self) -> None:
        """Kill the process and all processes that it started."""
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def close(self) -> str:
        """Wait for the end of the process and close its streams; returns how it ended."""
        code = self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self._errors.close()
        return _exit_reason(code, last)


def _program(analyse: Analyse) -> str:
    """The worker imports from where its parent does: tests and editable installs have other paths.
    `analyse` is a function of a module: a new process can import it by name."""
    return (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from keet.corpus.batch.worker import serve; "
        f"from {analyse.__module__} import {analyse.__qualname__} as analyse; serve(analyse)"
    )


def _exit_reason(code: int, last_lines: list[str]) -> str:
    if code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        return f"killed by signal {-code}"
    stderr_line = f" ({one_line(last_lines[0][:200])})" if last_lines else ""
    return f"ended with code {code}{stderr_line}"


MAX_CRASHES = 3
"""A file fails after it crashed so many workers."""
MAX_FAILED_STARTS = 8
"""So many workers in a row that die before they are ready end the batch."""
TASKS_AHEAD = 64
"""Tasks per worker that the pool accepts in advance, including those in progress."""
MESSAGE_BYTES = 4 << 20
"""Size of the files in one message: 0.1 s of work, or one large file."""
GATHER_SECONDS = 0.01
"""Wait after an answer for others to arrive: handling several together costs less."""
_SAMPLE_BYTES = 64 << 10
"""What sampling a file counts for, however large the file is."""
SIZE_FOR_TIMEOUT = 256 << 20
"""Bytes of the largest file with the limit of --timeout; larger ones get more in proportion."""
MOST_FILES = 2_000
MOST_MEMORY = 512 << 20
"""A worker is replaced after so many files, or when it holds so many bytes."""


class WorkerLimits(NamedTuple):
    seconds: float = 300.0
    """Per file, or per slice of a large file."""
    files: int = MOST_FILES
    memory: int = MOST_MEMORY

    def seconds_for(self, task: Task) -> float:
        """A large file gets more time: all its launches are read before the first slice."""
        return self.seconds * max(1.0, task.size / SIZE_FOR_TIMEOUT)


class Pool:
    """Gives tasks to workers and returns their answers. Not thread-safe."""

    def __init__(self, analyse: Analyse, jobs: int, limits: WorkerLimits | None = None) -> None:
        self._analyse, self._jobs = analyse, jobs
        self._limits = limits or WorkerLimits()
        self._received: SimpleQueue[WorkerMessage | None] = SimpleQueue()
        self._workers: dict[int, WorkerProcess] = {}
        self._numbers = count()
        self._queue: deque[Task] = deque()
        self._deaths: Counter[Task] = Counter()
        self._failed_starts = 0
        self.started = 0
        """Number of workers started so far."""
        self.most_memory = 0
        """Largest resident size of a worker after a file, in bytes."""

    # --- used by the coordinator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_workers(self) -> None:
        """Start all workers before there are tasks, so that their imports are done in time."""
        while len(self._workers) < self._jobs:
            self._start()

    def room(self) -> int:
        """How many more tasks the pool accepts."""
        under_way = len(self._queue) + sum(len(w.tasks) for w in self._workers.values())
        return self._jobs * TASKS_AHEAD - under_way

    def submit(self, task: Task) -> None:
        """The next `wait` sends it to a worker, together with others."""
        self._queue.append(task)

    def wait(self, seconds: float) -> list[WorkerAnswer]:
        """Answers that have arrived. Returns after `seconds` at the latest, perhaps without any."""
        while self._queue and (worker := self._next_worker()):
            worker.send(self._next_message(self._files_left(worker)))
        answers: list[WorkerAnswer] = []
        for received in self._receive(seconds):
            answers += self._handle(received)
        answers += self._end_overdue()
        return answers

    def wake(self) -> None:
        """End a `wait` early. Safe in a signal handler."""
        self._received.put(None)

    def close(self) -> None:
        """Kill all workers; their current tasks are lost."""
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    # --- messages of workers

    def _receive(self, seconds: float) -> list[WorkerMessage]:
        received: list[WorkerMessage] = []
        with suppress(Empty):
            message = self._received.get(timeout=seconds)
            time.sleep(GATHER_SECONDS)
            while True:
                if message is not None:
                    received.append(message)
                message = self._received.get_nowait()
        return received

    def _handle(self, received: WorkerMessage) -> list[WorkerAnswer]:
        worker = self._workers.get(received.worker)
        if worker is None:  # killed before this message was handled
            return []
        if received.message is None:
            return self._handle_death(worker)
        worker.since = time.monotonic()
        if received.message == READY:
            worker.ready = True
            self._failed_starts = 0
            return []
        assert isinstance(received.message, WorkerAnswer)
        if received.message.is_last:
            self._finish(worker, received.message)
        return [received.message]

    def _finish(self, worker: WorkerProcess, answer: WorkerAnswer) -> None:
        worker.tasks.popleft()
        worker.served += 1
        self._deaths.pop(answer.task, None)
        self.most_memory = max(self.most_memory, answer.memory)
        if worker.served >= self._limits.files or answer.memory > self._limits.memory:
            self._end(worker)

    def _end(self, worker: WorkerProcess) -> None:
        """Kill a worker and give its remaining tasks to others."""
        worker.kill()
        self._remove(worker)
        self._queue.extendleft(reversed(worker.tasks))

    def _handle_death(self, worker: WorkerProcess) -> list[WorkerAnswer]:
        """A worker died: retry its current file or let it fail; others do its other tasks."""
        cause = self._remove(worker)
        if not worker.ready:  # which says nothing about any file
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise NotAvailable(
                    f"no worker process can be started ({cause}); check the installation: keet "
                    "doctor"
                )
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
        return [
            _failed_answer(
                blamed, f"its worker process died {MAX_CRASHES} times, the last time {cause}"
            )
        ]

    def _end_overdue(self) -> list[WorkerAnswer]:
        answers = []
        for worker in [each for each in self._workers.values() if each.tasks]:
            allowed = self._limits.seconds_for(worker.tasks[0])
            if worker.is_overdue(allowed):
                blamed = worker.tasks.popleft()
                self._end(worker)
                reason = f"it took longer than the {allowed:.6g} s that --timeout allows"
                answers.append(_failed_answer(blamed, reason))
        return answers

    def _remove(self, worker: WorkerProcess) -> str:
        del self._workers[worker.number]
        return worker.close()

    def _next_worker(self) -> WorkerProcess | None:
        """The worker with the fewest tasks; a new one if there are less than `jobs`."""
        workers = self._workers.values()
        if len(workers) < self._jobs and all(worker.tasks for worker in workers):
            return self._start()
        able = [w for w in workers if w.wants_more and self._files_left(w) > 0]
        return min(able, key=lambda w: (len(w.tasks), w.number)) if able else None

    def _files_left(self, worker: WorkerProcess) -> int:
        """Before it is replaced."""
        return self._limits.files - worker.served - len(worker.tasks)

    def _next_message(self, most: int) -> list[Task]:
        """Up to `MESSAGE_BYTES`, and at most 1/jobs of the queue, so that at the end of a batch all
        workers are busy."""
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
        worker = WorkerProcess(next(self._numbers), self._analyse, self._received)
        self._workers[worker.number] = worker
        self.started += 1
        return worker


def _weight(task: Task) -> int:
    return _SAMPLE_BYTES if task.step == "sample" else task.size


def _failed_answer(task: Task, reason: str) -> WorkerAnswer:
    failed = Failed(f"{reason}; try this file alone: keet explain FILE")
    return WorkerAnswer(task, failed, file_state(task.path), 0.0, 0)
