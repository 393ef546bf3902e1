"""Asks a model in a separate process, which keet can kill at any moment.

Timeouts of HTTP clients are per read: they do not end a server that sends a byte now and then, a
name server that hangs, or a reply that keeps a parser busy. Every provider has its own client, so
keet enforces the limit from outside by killing the process. Its memory is limited, too. Both limits
work for every provider that langchain supports.

The other side is process_child.py.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from keet.agent.model.messages import (
    AskedModel,
    ChatReply,
    ChatRequest,
    ModelFault,
    fault_of,
    reply_from,
    request_document,
    time_limit_fault,
)
from keet.agent.model.process_child import LEAVE_S, MARK
from keet.agent.model.settings import LONGEST_WAIT_S, ModelSpec, TimeLimit

if TYPE_CHECKING:
    import subprocess


_START_S = 120.0
"""Limit for loading the client's modules, which takes about 2 s on one core."""
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from keet.agent.model.process_child import serve; serve()"
)
_LONGEST_LINE = 64 * 2**20
"""Bytes of one answer of the worker."""


class ModelProcess:
    """A Chat. The process is started when first needed, and restarted after it was killed."""

    def __init__(self, spec: ModelSpec, limit: TimeLimit | None = None) -> None:
        """`limit`: for the whole run; without one, each call still has the model's timeout."""
        self.name = spec.name
        self._spec = spec
        self._asked = AskedModel(spec)
        self._limit = limit or TimeLimit(math.inf)
        self._worker: _Worker | None = None

    @classmethod
    def connected(cls, spec: ModelSpec, limit: TimeLimit | None) -> ModelProcess:
        """If no model is named, the server is asked which one it has: the name is part of the cache
        key. Raises ModelFault if it lists none."""
        process = cls(spec, limit)
        if not spec.name:
            process._answer(None)
        return process

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        return reply_from(self._answer(request_document(request))["reply"])

    def _answer(self, request: Mapping[str, Any] | None) -> dict[str, Any]:
        """To a request; None: only tell the model's name. Raises ModelFault. A worker that was
        interrupted, is late or died is ended; the next call starts another."""
        if not self._limit.left:
            raise time_limit_fault(self._asked, self._limit.seconds)
        waits = self._spec.retries * LONGEST_WAIT_S
        seconds = min(self._spec.timeout_s + waits, self._limit.left)
        try:
            worker = self._worker or self._started()
            with self._limit.counted():
                answer = worker.exchange({"request": request, "seconds": seconds}, seconds)
            if worker.was_late:  # perhaps right after it answered
                self._end()
            if answer is None and worker.was_late:
                if not self._limit.left:
                    raise time_limit_fault(self._asked, self._limit.seconds)
                raise fault_of(TimeoutError("timed out"), AskedModel(self._spec))
            if answer is None:
                raise self._worker_fault(worker.death())
        except BaseException:
            self._end()
            raise
        if kind := answer.get("fault"):
            raise ModelFault(str(kind), str(answer["message"]))
        self.name = str(answer["name"])
        return answer

    def _started(self) -> _Worker:
        try:
            self._worker = _Worker()
        except OSError as error:  # no memory, too many processes or files, no such interpreter
            how = f"could not be started ({error.strerror or error})"
            raise self._worker_fault(how) from None
        if self._worker.exchange(self._spec._asdict(), _START_S) != {"loaded": True}:
            raise self._worker_fault("could not be started")
        return self._worker

    def _worker_fault(self, how: str) -> ModelFault:
        line = f"the process that asks {self._asked.label} {how}; try again, or another model"
        return self._asked.fault("client", line)

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


class _Worker:
    """A running process, as keet sees it."""

    def __init__(self) -> None:
        """Raises OSError."""
        import subprocess

        # The module path is keet's own. -P, and no empty entry: nothing in the working folder is
        # imported.
        home = str(Path(__file__).parents[3])
        paths = json.dumps([path or home for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE, paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("KEET_DEBUG") else subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        pipes = self._input, self._output
        self._release = weakref.finalize(self, _end_worker, self._process, *pipes, os.getpid())
        self.was_late = False

    def exchange(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """None if the process was late and killed, or died."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._expire)
        timer.daemon = True
        timer.start()
        try:
            self._input.write(json.dumps(document).encode() + b"\n")
            self._input.flush()
            while (line := self._output.readline(_LONGEST_LINE)) and not line.startswith(MARK):
                pass
            answer = json.loads(line.removeprefix(MARK))
        except (OSError, ValueError):  # the process died
            answer = None
        finally:
            timer.cancel()
            timer.join()  # the thread would keep this object alive
        return answer if isinstance(answer, dict) else None

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


def _end_worker(
    process: subprocess.Popen[bytes], to: IO[bytes], answers: IO[bytes], owner: int
) -> None:
    """Closes the worker's input, which tells it to end; kills it if it does not."""
    import subprocess

    if owner != os.getpid():  # a forked copy of keet does not own the worker
        return
    with suppress(OSError):
        to.close()
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    answers.close()
