"""Runs a short-lived child process that answers one question about a report.

They exchange files in a private folder: keet writes the report's bytes and the question, the child
its answer and its messages. With files instead of pipes the child never waits for keet, which can
do other work until it needs the answer. The only pipe is the child's stdin: when it closes, the
child knows that keet has exited.
"""

from __future__ import annotations

import json
import os
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.errors import ReaderFailed
from keet.evidence import Sentence, constant

if TYPE_CHECKING:
    import subprocess

# nvidia_reader_child.py has the first two names, too.
REPORT, QUESTION = "report.ncu-rep", "question.json"
_ANSWER, _MESSAGES = "answer.json", "messages.txt"


class _Resources:
    """What has to be cleaned up, even if `ReaderProcess` is never closed."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder: str | None = None
        self.process: subprocess.Popen[bytes] | None = None


class ReaderProcess:
    """A running child. `answer` waits for it.

    The child is ended and its folder removed after `answer`; if `answer` is never called, when the
    object is garbage-collected, at the latest when keet exits.
    """

    def __init__(
        self, script: Path, data: bytes, question: Mapping[str, Any], seconds: float
    ) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._problem: str | None = None
        self._resources = _Resources()
        self._finalizer = weakref.finalize(self, _release, self._resources)
        try:
            self._start(script, data, json.dumps({"seconds": seconds, **question}))
        except OSError as problem:
            self._problem = f"it could not be started ({problem})"
            self.close()
        except BaseException:
            self.close()
            raise

    def _start(self, script: Path, data: bytes, question: str) -> None:
        import subprocess
        import tempfile

        folder = self._resources.folder = tempfile.mkdtemp(prefix="keet-")
        place = Path(folder)
        (place / REPORT).write_bytes(data)
        (place / QUESTION).write_text(question, encoding="utf-8")
        with (place / _ANSWER).open("xb") as answer, (place / _MESSAGES).open("xb") as messages:
            self._resources.process = subprocess.Popen(
                [sys.executable, "-I", str(script), folder],
                stdin=subprocess.PIPE,
                stdout=answer,
                stderr=messages,
            )

    def answer(self) -> Any:
        """Wait for the answer. Raises `ReaderFailed` for any failure. Call it once."""
        try:
            return self._answer()
        finally:
            self.close()

    def _answer(self) -> Any:
        process, folder = self._resources.process, self._resources.folder
        if process is None or folder is None:
            raise failed(self._problem or "it was closed")
        if not self._wait(process):
            limit = constant(self._seconds, "s", "time limit of NVIDIA's reader")
            raise failed(Sentence("it did not answer within {limit:.0f}", limit=limit))
        try:
            if process.returncode != 0:
                messages = (Path(folder) / _MESSAGES).read_text("utf-8", errors="replace")
                raise failed(_exit_reason(process.returncode, messages))
            return json.loads((Path(folder) / _ANSWER).read_bytes())
        except (OSError, ValueError):
            raise failed("its answer could not be parsed") from None

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """False on timeout. `Popen.wait` with a timeout polls every 50 ms only, so a timer thread
        enforces the limit."""
        import threading

        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(max(self._deadline - time.monotonic(), 0.0), expire)
        timer.daemon = True
        timer.start()
        try:
            process.wait()
        finally:
            timer.cancel()
        return not expired.is_set()

    def close(self) -> None:
        """End the child if it still runs, and remove its folder."""
        self._finalizer()


def _release(resources: _Resources) -> None:
    if resources.owner != os.getpid():  # a forked copy of keet must not end its parent's child
        return
    process, folder = resources.process, resources.folder
    resources.process = resources.folder = None
    if process is not None:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    if folder is not None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _exit_reason(code: int, messages: str) -> Sentence:
    if code < 0:
        return Sentence("it was killed by signal {signal}", signal=str(-code))
    last = messages.strip().splitlines()[-1:]
    if last:
        return Sentence("it failed with {message}", message=repr(last[0]))
    return Sentence("it failed with code {code}", code=str(code))


def failed(problem: str) -> ReaderFailed:
    return ReaderFailed(
        "ncu-report",
        Sentence("NVIDIA's reader gave no answer: {problem}", problem=problem),
        "the values are unaffected; for the code, open the report in Nsight Compute",
    )
