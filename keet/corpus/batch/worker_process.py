"""A worker process on the side of the batch: its unanswered tasks and the thread that reads it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, NamedTuple

from keet.corpus.batch.file_analysis import Analyse
from keet.corpus.batch.messages import Task, read_frame, write_frame
from keet.errors import one_line


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
