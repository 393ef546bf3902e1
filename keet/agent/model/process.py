"""Asks a model in a separate process, which keet can kill at any moment.

Timeouts of HTTP clients are per read: they do not end a server that sends a byte now and then, a
name server that hangs, or a reply that keeps a parser busy. Every provider has its own client, so
keet enforces the limit from outside by killing the process. Its memory is limited, too. Both limits
work for every provider that langchain supports.

Lines of JSON in, lines of JSON out: first the ModelSpec, then one request per line. Answers begin
with a mark, so that what Python or a library prints is not taken for one.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from keet.agent.model.faults import AskedModel, fault_of, time_limit_fault
from keet.agent.model.http_limits import limit_http, reach_directly
from keet.agent.model.messages import (
    ChatReply,
    ChatRequest,
    ModelFault,
    reply_document,
    reply_from,
    request_document,
    request_from,
)
from keet.agent.model.settings import LONGEST_WAIT_S, ModelSpec, TimeLimit, provider_of
from keet.ingest.typed_json import typed
from keet.masking.keys import remember_url

if TYPE_CHECKING:
    import subprocess

    from keet.agent.model.langchain_chat import LangchainChat

MARK = b"keet answers: "
_START_S = 120.0
"""Limit for loading the client's modules, which takes about 2 s on one core."""
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from keet.agent.model.process import serve; serve()"
)
_LONGEST_LINE = 64 * 2**20
"""Bytes of one answer of the worker."""
_LEAVE_S = 5.0
"""Time for the worker to send remaining tracing data."""
MORE_BYTES = 192 * 2**20
"""Memory beyond what the loaded client takes (about 70 MB). A reply of the largest size, parsed as
JSON, takes half of it."""
_RUNS_MODELS = ("huggingface",)
"""Providers that may download a model and load it into this process: it may be large."""


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
                raise fault_of(TimeoutError("timed out"), self._asked)
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
        process.wait(_LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    answers.close()


# --- in the worker


def serve() -> None:
    """The main function of the worker."""
    from keet.agent.model.langchain_chat import announce_tracing

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # both processes get Ctrl-C; keet decides
    answers = os.fdopen(os.dup(1), "wb")  # copies made by `dup` are not inherited
    os.dup2(2, 1)  # prints go to stderr
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_input, args=(lines,), daemon=True).start()
    with suppress(BrokenPipeError):
        _answer_lines(lines, answers)
    if announce_tracing() is None:
        os._exit(0)  # no tracing data is left to send


def _read_input(lines: SimpleQueue[bytes]) -> None:
    """Ends the process soon after its input, also while it waits for a server: if keet is killed,
    no process is left."""
    for line in sys.stdin.buffer:
        lines.put(line)
    lines.put(b"")
    time.sleep(_LEAVE_S)
    os._exit(1)


def _answer_lines(lines: SimpleQueue[bytes], answers: IO[bytes]) -> None:
    from keet.agent.model.langchain_chat import connect

    if not (first := lines.get()):
        return
    spec = typed(json.loads(first), ModelSpec)
    is_limited = bool(spec.base_url) or provider_of(spec.name) not in _RUNS_MODELS
    remember_url(spec.base_url)
    reach_directly(spec.base_url)
    _import_client(spec)
    limit_http(sizes=is_limited)
    _write(answers, {"loaded": True})
    chat: LangchainChat | None = None
    while line := lines.get():
        try:
            if chat is None:
                chat = connect(spec)
                if is_limited:
                    _limit_memory()
            asked = json.loads(line)
            chat.seconds_left = asked["seconds"]
            reply = None  # without a request, only the name is asked for
            if asked["request"]:
                reply = reply_document(chat.ask(request_from(asked["request"])))
            _write(answers, {"name": chat.name, "reply": reply})
        except (ModelFault, MemoryError) as error:
            fault = fault_of(error, AskedModel(spec))
            _write(answers, {"fault": fault.kind, "message": str(fault)})


def _write(answers: IO[bytes], document: Mapping[str, Any]) -> None:
    """The line feed ends what was printed to the pipe before."""
    answers.write(b"\n" + MARK + json.dumps(document).encode() + b"\n")
    answers.flush()


def _import_client(spec: ModelSpec) -> None:
    """Imports the slow modules. A missing package is reported when the model is opened."""
    with suppress(ImportError):
        import langchain_openai  # noqa: F401

        if not spec.base_url:
            import langchain.chat_models  # noqa: F401


def _limit_memory() -> None:
    """On Linux only. Elsewhere only the size of replies is limited (http_limits.py)."""
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        taken = int(status.split("VmData:")[1].split()[0]) * 1024
        most = taken + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
