"""Asks a model in a separate process, which keet can kill at any moment.

Timeouts of HTTP clients are per read: they do not end a server that sends a byte now and then, a
name server that hangs, or a reply that keeps a parser busy. Every provider has its own client, so
keet enforces the limit from outside by killing the process. Its memory is limited, too (worker.py).
Both limits work for every provider that langchain supports.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from keet.agent.model.faults import AskedModel, fault_of, time_limit_fault
from keet.agent.model.messages import (
    CantCallTools,
    ChatReply,
    ChatRequest,
    ModelFault,
    reply_from,
    request_document,
)
from keet.agent.model.settings import LONGEST_WAIT_S, ModelSpec, TimeLimit
from keet.agent.secrets import scrub
from keet.errors import one_line

if TYPE_CHECKING:
    import subprocess

_START_S = 120.0
"""Limit for loading the client's modules, which takes about 2 s on one core."""
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from keet.agent.model.worker import main; main(int(sys.argv[2]))"
)
_HAS_OWN_PIPE = os.name == "posix"
"""On Windows a process inherits only the standard pipes, so answers come through its stdout."""
BEGIN = b"keet: answers begin\n"
_LONGEST_LINE = 64 * 2**20
"""Bytes of one answer of the worker."""
_LEAVE_S = 5.0
"""Time for the worker to send remaining tracing data."""


class ModelProcess:
    """A Chat. The process is started when first needed, and restarted after it was killed."""

    def __init__(self, spec: ModelSpec, limit: TimeLimit | None = None) -> None:
        """`limit`: for the whole run; without one, each call still has the model's timeout.
        Raises ModelFault if no model is named and the server lists none."""
        self._spec = spec
        self._limit = limit
        self._worker: _Worker | None = None
        self._name = spec.name
        if not spec.name:  # the name is part of the cache key
            self._connect()

    @property
    def name(self) -> str:
        return self._name

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        self._connect()
        if self._worker is None:  # the time limit passed while connecting
            raise self._late()
        document = {"request": request_document(request), "seconds": self._seconds()}
        return reply_from(self._answer(document)["reply"])

    def _connect(self) -> None:
        """Raises ModelFault. After an interrupt, the next call connects again."""
        if self._worker is not None:
            return
        self._seconds()
        try:
            self._start()
            self._name = str(self._answer({"connect": True})["name"])
        except BaseException:
            self._end()
            raise

    def _start(self) -> None:
        try:
            self._worker = _Worker()
        except OSError as error:  # no memory, too many processes or files, no such interpreter
            raise self._gone(f"could not be started ({error.strerror or error})") from None
        if self._worker.exchange({"spec": self._spec._asdict()}, _START_S) != {"loaded": True}:
            raise self._gone("could not be started")

    def _seconds(self) -> float:
        """Limit of one call: its timeout and the waits between retries. Raises ModelFault."""
        of_call = self._spec.timeout_s + self._spec.retries * LONGEST_WAIT_S
        if self._limit is None:
            return of_call
        if not self._limit.left:
            raise time_limit_fault(AskedModel(self._spec), self._limit.seconds)
        return min(of_call, self._limit.left)

    def _answer(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ModelFault. A worker that was interrupted or is late is killed."""
        assert self._worker is not None
        seconds = self._seconds()
        try:
            if self._limit is None:
                answer = self._worker.exchange(document, seconds)
            else:
                with self._limit.counted():
                    answer = self._worker.exchange(document, seconds)
        except BaseException:
            self._end()
            raise
        if answer is not None and self._worker.was_late:  # killed right after it answered
            self._end()
        elif answer is None:
            raise self._late() if self._worker.was_late else self._gone(self._worker.death())
        return _checked(answer)

    def _late(self) -> ModelFault:
        self._end()
        if self._limit is not None and not self._limit.left:
            return time_limit_fault(AskedModel(self._spec), self._limit.seconds)
        return fault_of(TimeoutError("timed out"), AskedModel(self._spec))

    def _gone(self, how: str) -> ModelFault:
        self._end()
        whom = AskedModel(self._spec).label
        line = f"the process that asks {whom} {how}"
        return ModelFault("client", one_line(scrub(f"{line}; try again, or another model")))

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    kind = answer.get("fault")
    if kind is None:
        return answer
    line = str(answer["message"])
    raise CantCallTools(line) if kind == "no_tools" else ModelFault(str(kind), line)


class _Worker:
    """A running process: reads one line of JSON, writes one line of JSON."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._process, self._answers = _with_own_pipe() if _HAS_OWN_PIPE else _with_stdout()
        self._release = weakref.finalize(self, _leave, self._process, self._answers, os.getpid())
        self._has_begun = False
        self.was_late = False

    def exchange(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """None if the process was late and killed, or died."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._expire)
        timer.daemon = True
        timer.start()
        try:
            _file(self._process.stdin).write(json.dumps(document).encode() + b"\n")
            _file(self._process.stdin).flush()
            line = self._next_line()
        except OSError:  # the process died
            line = b""
        finally:
            timer.cancel()
            timer.join()  # the thread would keep this object alive
        return _document(line)

    def _next_line(self) -> bytes:
        """Skips output before the mark: it was printed by modules that Python loads at start."""
        while not self._has_begun:
            line = self._answers.readline(_LONGEST_LINE)
            if not line:
                return b""
            self._has_begun = line == BEGIN
        return self._answers.readline(_LONGEST_LINE)

    def _expire(self) -> None:
        self.was_late = True
        self._process.kill()

    def kill(self) -> None:
        self._process.kill()
        self._release()

    def death(self) -> str:
        """How the process ended. Kills it first: it may only have closed its pipe."""
        self._process.kill()
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"ended ({how})"


def _with_own_pipe() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """The process, and the pipe with its answers. Raises OSError."""
    import subprocess

    ours, theirs = os.pipe()
    answers = os.fdopen(ours, "rb")
    try:
        process = _popen(theirs, subprocess.DEVNULL, pass_fds=(theirs,))
    except BaseException:
        answers.close()
        raise
    finally:
        os.close(theirs)  # an open copy here would hide the end of the process
    return process, answers


def _with_stdout() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    import subprocess

    process = _popen(1, subprocess.PIPE)
    return process, _file(process.stdout)


def _popen(answers_to: int, stdout: int, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    import subprocess

    # -P: nothing in the working folder is imported before `sys.path` is set to keet's own.
    command = [sys.executable, "-P", "-c", _CODE, json.dumps(_paths()), str(answers_to)]
    stderr = None if os.environ.get("KEET_DEBUG") else subprocess.DEVNULL
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, pass_fds=pass_fds
    )


def _paths() -> list[str]:
    """keet's module path. An empty entry means the working folder, which is replaced by keet's own
    folder: other modules in the working folder must not be imported."""
    home = str(Path(__file__).parents[3])
    return [path or home for path in sys.path]


def _document(line: bytes) -> dict[str, Any] | None:
    """None if the line is not a complete JSON object."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _file(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _leave(process: subprocess.Popen[bytes], answers: IO[bytes], owner: int) -> None:
    """Closes the worker's input, which tells it to end; kills it if it does not."""
    import subprocess

    if owner != os.getpid():  # a forked copy of keet does not own the worker
        return
    with suppress(OSError):
        _file(process.stdin).close()
    try:
        process.wait(_LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    answers.close()
