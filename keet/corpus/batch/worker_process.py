"""The run's end of a worker process: the process, the thread that listens to it, its tasks."""

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
from typing import IO

from keet.corpus.batch.file_analysis import Analyse
from keet.corpus.batch.messages import Task, read_frame, write_frame
from keet.errors import one_line
from keet.records import NamedTuple


class WorkerMessage(NamedTuple):
    """Something that a worker said; `None`: nothing will come any more."""

    worker: int
    message: object | None


class WorkerProcess:
    def __init__(
        self, number: int, analyse: Analyse, heard: SimpleQueue[WorkerMessage | None]
    ) -> None:
        self.number = number
        self.tasks: deque[Task] = deque()
        """Not answered yet, in the order in which they will be."""
        self.ready = False
        self.served = 0
        self.since = time.monotonic()
        self._newest = 0
        """Tasks in the last message."""
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

    def _listen(self, heard: SimpleQueue[WorkerMessage | None]) -> None:
        """The end is reported in any case: without it the run would wait for ever. An answer that
        can't be unpickled is one of another version of keet, installed since the run began."""
        assert self.process.stdout is not None
        try:
            while (message := read_frame(self.process.stdout)) is not None:
                heard.put(WorkerMessage(self.number, message))
        except Exception:  # noqa: BLE001 - unpickling may raise anything
            self.kill()
        finally:
            heard.put(WorkerMessage(self.number, None))

    @property
    def wants_more(self) -> bool:
        """It is at its last message, or has none: the next one lies ready when it is through."""
        return len(self.tasks) <= self._newest

    def give(self, tasks: Sequence[Task]) -> None:
        """If it is dead by now, the listener reports that."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.extend(tasks)
        self._newest = len(tasks)
        assert self.process.stdin is not None
        with suppress(OSError):
            write_frame(self.process.stdin, list(tasks))

    def overdue(self, seconds: float) -> bool:
        busy = bool(self.tasks) and self.ready
        return busy and time.monotonic() - self.since > seconds

    def kill(self) -> None:
        """With everything that it has started."""
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def close(self) -> str:
        """Wait for its end and let go of all it held; how it ended."""
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


def _program(analyse: Analyse) -> str:
    """The worker imports from where its parent does: tests and editable installs have other paths.
    `analyse` is a function of a module: a new process can import it by name."""
    return (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from keet.corpus.batch.worker import serve; "
        f"from {analyse.__module__} import {analyse.__qualname__} as analyse; serve(analyse)"
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
