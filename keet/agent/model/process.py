"""A model that is asked in a process of its own, which keet can end at any moment.

Timeouts of HTTP clients are per read: a server that sends a byte now and then, a name server that
hangs, or a reply that keeps a parser busy is not ended by them. Every provider has a client of its
own, so the limit is held from outside: the process is killed. Its memory is limited, too
(worker.py). Both hold for every provider that langchain knows.
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
from keet.agent.model.settings import ModelSpec
from keet.agent.model.time_limit import LONGEST_WAIT_S, TimeLimit
from keet.agent.privacy.secrets import scrub
from keet.errors import one_line

if TYPE_CHECKING:
    import subprocess

_START_S = 120.0
"""For the client's modules to be loaded, about 2 s on one core. No server is involved."""
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from keet.agent.model.worker import main; main(int(sys.argv[2]))"
)
_HAS_OWN_PIPE = os.name == "posix"
"""Elsewhere a process inherits no pipe but the standard ones, and answers come by its stdout."""
BEGIN = b"keet: answers begin\n"
_LONGEST_LINE = 64 * 2**20
"""Bytes of an answer of the worker, whose own replies are bounded."""
_LEAVE_S = 5.0
"""For the worker to send what tracing has not sent yet."""


class ModelProcess:
    """A Chat. The process is started when it is first needed, and again after it was ended."""

    def __init__(self, spec: ModelSpec, limit: TimeLimit | None = None) -> None:
        """`limit`: of the run; without one, every call still has the timeout of the model.
        Raises ModelFault: the server was asked for the name of its model, and gave none."""
        self._spec = spec
        self._limit = limit
        self._worker: _Worker | None = None
        self._name = spec.name
        if not spec.name:  # cached answers are found by the name of the model
            self._connect()

    @property
    def name(self) -> str:
        return self._name

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        self._connect()
        if self._worker is None:  # it connected when its time was up, and was ended
            raise self._late()
        document = {"request": request_document(request), "seconds": self._seconds()}
        return reply_from(self._answer(document)["reply"])

    def _connect(self) -> None:
        """Raises ModelFault. What is interrupted on the way is begun anew by the next call."""
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
        """For one call: its timeout, and the waits between its retries. Raises ModelFault."""
        of_call = self._spec.timeout_s + self._spec.retries * LONGEST_WAIT_S
        if self._limit is None:
            return of_call
        if not self._limit.left:
            raise time_limit_fault(AskedModel(self._spec), self._limit.seconds)
        return min(of_call, self._limit.left)

    def _answer(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ModelFault. The worker that was interrupted, or is late, is not asked again."""
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
        if answer is not None and self._worker.was_late:  # it answered at the last moment
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
    """A running process: one line of JSON goes in, one comes out."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._process, self._answers = _with_own_pipe() if _HAS_OWN_PIPE else _with_stdout()
        self._release = weakref.finalize(self, _leave, self._process, self._answers, os.getpid())
        self._has_begun = False
        self.was_late = False

    def exchange(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """None: the process is late, and killed, or it is dead."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._expire)
        timer.daemon = True
        timer.start()
        try:
            _file(self._process.stdin).write(json.dumps(document).encode() + b"\n")
            _file(self._process.stdin).flush()
            line = self._next_line()
        except OSError:  # it died while the request was written
            line = b""
        finally:
            timer.cancel()
            timer.join()  # it keeps this object alive
        return _document(line)

    def _next_line(self) -> bytes:
        """What comes before the mark was printed by what Python loads when it starts."""
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
        """Of a process that has died, or is about to: its pipe is closed, or it talks nonsense."""
        self._process.kill()
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"ended ({how})"


def _with_own_pipe() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """The process, and where its answers come from. Raises OSError."""
    import subprocess

    ours, theirs = os.pipe()
    answers = os.fdopen(ours, "rb")
    try:
        process = _popen(theirs, subprocess.DEVNULL, pass_fds=(theirs,))
    except BaseException:
        answers.close()
        raise
    finally:
        os.close(theirs)  # a copy here would hide that the process has ended
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
    """Where keet finds modules. An empty path stands for the working folder, which may hold keet
    itself, and else nothing that keet wants."""
    home = str(Path(__file__).parents[3])
    return [path or home for path in sys.path]


def _document(line: bytes) -> dict[str, Any] | None:
    """None: it is no answer of a worker, or only a part of one."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _file(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _leave(process: subprocess.Popen[bytes], answers: IO[bytes], owner: int) -> None:
    """The end of its input tells the worker to end. One that does not is killed."""
    import subprocess

    if owner != os.getpid():  # a forked copy of keet: the worker is not its own
        return
    with suppress(OSError):  # what was not written yet can't be
        _file(process.stdin).close()
    try:
        process.wait(_LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    answers.close()
