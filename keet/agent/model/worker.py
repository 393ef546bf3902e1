"""The process that asks a model (started by process.py): lines of JSON in, lines of JSON out.

It ends when its input ends, also while it waits for a server: if keet is killed, no process is
left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from keet.agent.model.bounded_client import refuse_redirects
from keet.agent.model.faults import AskedModel, fault_of
from keet.agent.model.langchain_chat import LangchainChat
from keet.agent.model.messages import ModelFault, reply_document, request_from
from keet.agent.model.process import BEGIN
from keet.agent.model.providers import announce_tracing, connect
from keet.agent.model.settings import ModelSpec, provider_of
from keet.agent.secrets import remember_url

MORE_BYTES = 192 * 2**20
"""Memory beyond what the loaded client takes (about 70 MB). A reply of the largest size, parsed as
JSON, takes half of it."""
_RUNS_MODELS = ("huggingface",)
"""Providers that may load a model into this process: their memory is not limited."""

Line = Mapping[str, Any]


def main(answers_to: int) -> None:
    """`answers_to`: file descriptor of the pipe that keet reads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # both processes get Ctrl-C; keet decides
    answers = _own(answers_to)
    inbox = _Inbox()
    with suppress(BrokenPipeError):
        _serve(inbox, answers)
    if announce_tracing() is None:
        os._exit(0)  # no tracing data is left to send


def _serve(inbox: _Inbox, answers: IO[bytes]) -> None:
    if (first := inbox.next()) is None:
        return
    spec = _spec(first["spec"])
    remember_url(spec.base_url)
    _load(spec)
    inbox.rest()
    _write(answers, {"loaded": True})
    chat: LangchainChat | None = None
    while (line := inbox.next()) is not None:
        try:
            if chat is None:
                chat = connect(spec)
                refuse_redirects()
                _limit_memory(spec)
                answer: Line = {"name": chat.name}
            else:
                answer = {"reply": _asked(chat, line)}
        except (ModelFault, MemoryError) as error:
            fault = fault_of(error, AskedModel(spec))
            answer = {"fault": fault.kind, "message": str(fault)}
        inbox.rest()
        _write(answers, answer)


def _asked(chat: LangchainChat, line: Line) -> Line:
    chat.seconds_left = line["seconds"]
    return reply_document(chat.ask(request_from(line["request"])))


class _Inbox:
    """The lines of stdin, read by a thread that ends the process when stdin is closed."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._is_busy = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Line | None:
        """None at the end of the input."""
        if not (line := self._lines.get()):
            return None
        self._is_busy.set()
        found: Line = json.loads(line)
        return found

    def rest(self) -> None:
        """Called before the answer is written: keet may close the input as soon as it has the
        answer, and a busy worker would exit at once and lose tracing data."""
        self._is_busy.clear()

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            self._lines.put(line)
        self._lines.put(b"")
        self._is_busy.wait()
        os._exit(1)


def _own(answers_to: int) -> IO[bytes]:
    """A private copy of the pipe: child processes do not inherit it, and prints go to stderr. The
    line feed ends what was printed to it before."""
    own = os.fdopen(os.dup(answers_to), "wb")  # copies made by `dup` are not inherited
    if answers_to != 1:
        os.close(answers_to)
    os.dup2(2, 1)
    own.write(b"\n" + BEGIN)
    own.flush()
    return own


def _write(answers: IO[bytes], document: Line) -> None:
    answers.write(json.dumps(document).encode() + b"\n")
    answers.flush()


def _spec(document: dict[str, Any]) -> ModelSpec:
    price = document["price"]
    return ModelSpec(**{**document, "price": tuple(price) if price else None})


def _load(spec: ModelSpec) -> None:
    """Imports the slow modules. A missing package is reported when the model is opened."""
    with suppress(ImportError):
        import langchain_openai  # noqa: F401

        if not spec.base_url:
            import langchain.chat_models  # noqa: F401


def _limit_memory(spec: ModelSpec) -> None:
    """On Linux only. Elsewhere only the size of replies is limited (bounded_client.py)."""
    if provider_of(spec.name) in _RUNS_MODELS and not spec.base_url:
        return
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        taken = int(status.split("VmData:")[1].split()[0]) * 1024
        most = taken + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
