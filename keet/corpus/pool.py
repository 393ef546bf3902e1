"""Worker processes that may die: each file is tried to the end, and no file stops the others.

Plain pipes and a thread for each worker's answers: `multiprocessing` would refuse to start workers
inside a Dask worker, and a pool of it hangs when one of them is killed.
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
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import IO, NamedTuple, Self

from keet.corpus.worker import READY, Answer, Failed, Task, look, read_frame, write_frame
from keet.errors import NotAvailable, one_line

DEATHS = 3
"""Times that a worker may die over a file before the file is given up."""
STILLBORN = 8
"""Workers in a row that die before they are ready: then it is not the files."""
AHEAD = 2
"""Tasks that a worker is given at a time, so that it need not wait for the next."""
MOST_FILES = 2_000
MOST_MEMORY = 512 << 20
"""After so many files, or with so much memory held, a worker is replaced by a fresh one."""


class Limits(NamedTuple):
    seconds: float = 300.0
    """For one file."""
    files: int = MOST_FILES
    memory: int = MOST_MEMORY


class _Heard(NamedTuple):
    """Something that a worker said; `None`: nothing will come any more."""

    worker: int
    message: object | None


class _Worker:
    """A process, the thread that listens to it, and what it has to do."""

    def __init__(self, number: int, analyse: str, heard: SimpleQueue[_Heard | None]) -> None:
        self.number = number
        self.tasks: deque[Task] = deque()
        self.ready = self.retired = False
        self.served = 0
        self.since = time.monotonic()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the worker
        self.process = subprocess.Popen(
            [sys.executable, "-c", _program(analyse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the run, which decides what becomes of workers
        )
        self._listener = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._listener.start()

    def _listen(self, heard: SimpleQueue[_Heard | None]) -> None:
        """The end is reported in any case: without it the run would wait for ever. An answer that
        can't be unpickled is one of another version of keet, installed since the run began."""
        assert self.process.stdout is not None
        try:
            while (message := read_frame(self.process.stdout)) is not None:
                heard.put(_Heard(self.number, message))
        except Exception:  # noqa: BLE001 - unpickling may raise anything
            self.kill()
        finally:
            heard.put(_Heard(self.number, None))

    def give(self, task: Task) -> None:
        """Whoever is dead by now will be heard of soon."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.append(task)
        assert self.process.stdin is not None
        with suppress(OSError):
            write_frame(self.process.stdin, task)

    def overdue(self, seconds: float) -> bool:
        busy = bool(self.tasks) and self.ready
        return busy and time.monotonic() - self.since > seconds

    def dismiss(self) -> None:
        """No more tasks: it ends when it is through with those it has."""
        self.retired = True
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        """With everything that it has started."""
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def bury(self) -> str:
        """Let go of all it held; how it died."""
        code = self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self._errors.close()
        return _cause_of_death(code, last)


def _program(analyse: str) -> str:
    """Imports what its parent would: tests and editable installs have paths of their own."""
    return (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from keet.corpus.worker import serve; serve({analyse!r})"
    )


def _cause_of_death(code: int, last_words: list[str]) -> str:
    if code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        return f"killed by signal {-code}"
    said = f" ({one_line(last_words[0][:200])})" if last_words else ""
    return f"ended with code {code}{said}"


class Pool:
    """Hands tasks to workers and their answers back. Not for several threads."""

    def __init__(self, analyse: str, jobs: int, limits: Limits | None = None) -> None:
        self._analyse, self._jobs = analyse, jobs
        self._limits = limits or Limits()
        self._heard: SimpleQueue[_Heard | None] = SimpleQueue()
        self._workers: dict[int, _Worker] = {}
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

    def room(self) -> int:
        """How many more tasks keep everybody busy."""
        under_way = len(self._queue) + sum(len(w.tasks) for w in self._workers.values())
        return self._jobs * AHEAD - under_way

    def submit(self, task: Task) -> None:
        self._queue.append(task)
        self._distribute()

    def wait(self, seconds: float) -> list[Answer]:
        """What has come in meanwhile; at the latest after so long, also nothing."""
        answers: list[Answer] = []
        for heard in self._hear(seconds):
            answers += self._take(heard)
        answers += self._end_overdue()
        self._distribute()
        return answers

    def wake(self) -> None:
        """End a `wait` early; may be called by a signal handler."""
        self._heard.put(None)

    def close(self) -> None:
        """Kill who is left; what they were doing is lost."""
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.bury()
        self._workers.clear()

    # --- inside

    def _hear(self, seconds: float) -> list[_Heard]:
        heard: list[_Heard] = []
        with suppress(Empty):
            message = self._heard.get(timeout=seconds)
            while True:
                if message is not None:
                    heard.append(message)
                message = self._heard.get_nowait()
        return heard

    def _take(self, heard: _Heard) -> list[Answer]:
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
        assert isinstance(heard.message, Answer)
        return [self._answered(worker, heard.message)]

    def _answered(self, worker: _Worker, answer: Answer) -> Answer:
        worker.tasks.popleft()
        worker.served += 1
        self._deaths.pop(answer.task, None)
        self.most_memory = max(self.most_memory, answer.memory)
        worn = worker.served >= self._limits.files or answer.memory > self._limits.memory
        if worn and not worker.retired:
            worker.dismiss()
        return answer

    def _lose(self, worker: _Worker) -> list[Answer]:
        """A worker is gone. The file it was at is to blame; those it had not begun are not."""
        cause = self._bury(worker)
        if not worker.ready:
            self._check_stillborn(cause)
            self._queue.extendleft(reversed(worker.tasks))
            return []
        if not worker.tasks:
            return []
        blamed, *others = worker.tasks
        self._queue.extendleft(reversed(others))
        self._deaths[blamed] += 1
        if self._deaths[blamed] < DEATHS:
            self._queue.appendleft(blamed)
            return []
        return [_given_up(blamed, f"its reader died {DEATHS} times, the last time {cause}")]

    def _end_overdue(self) -> list[Answer]:
        answers = []
        for worker in list(self._workers.values()):
            if worker.overdue(self._limits.seconds):
                worker.kill()
                self._bury(worker)
                blamed, *others = worker.tasks
                self._queue.extendleft(reversed(others))
                answers.append(_given_up(blamed, _too_slow(self._limits.seconds)))
        return answers

    def _bury(self, worker: _Worker) -> str:
        del self._workers[worker.number]
        return worker.bury()

    def _check_stillborn(self, cause: str) -> None:
        """A worker that can't even start says nothing about any file."""
        self._stillborn += 1
        if self._stillborn >= STILLBORN:
            raise NotAvailable(
                f"no worker process can be started ({cause}); check the installation: keet doctor"
            )

    def _distribute(self) -> None:
        """To the one with the least to do; a fresh worker where one is missing."""
        while self._queue:
            able = [w for w in self._workers.values() if not w.retired]
            if len(able) < self._jobs and all(worker.tasks for worker in able):
                able.append(self._start())
            worker = min(able, key=lambda w: (len(w.tasks), w.number))
            if len(worker.tasks) >= AHEAD:
                return
            worker.give(self._queue.popleft())

    def _start(self) -> _Worker:
        worker = _Worker(next(self._numbers), self._analyse, self._heard)
        self._workers[worker.number] = worker
        self.started += 1
        return worker


def _given_up(task: Task, reason: str) -> Answer:
    failed = Failed(f"{reason}; try it alone: keet explain FILE")
    return Answer(task, failed, look(task.path), 0.0, 0)


def _too_slow(seconds: float) -> str:
    return f"it took longer than the {seconds:g} s that --timeout allows"
