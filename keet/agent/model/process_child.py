"""The process that asks a model for keet (process.py).

Lines of JSON in, lines of JSON out: first the ModelSpec, then one request per line. Answers begin
with a mark, so that what Python or a library prints is not taken for one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from keet.agent.model.http_limits import limit_http, reach_directly
from keet.agent.model.messages import AskedModel, ModelFault, fault_of, reply_document, request_from
from keet.agent.model.settings import ModelSpec, provider_of
from keet.masking.keys import remember_url
from keet.report.typed_json import typed

if TYPE_CHECKING:
    from keet.agent.model.langchain_chat import LangchainChat

MARK = b"keet answers: "
LEAVE_S = 5.0
"""Time for the process to send remaining tracing data."""
_MORE_BYTES = 192 * 2**20
"""Memory beyond what the loaded client takes (about 70 MB). A reply of the largest size, parsed as
JSON, takes half of it."""
_RUNS_MODELS = ("huggingface",)
"""Providers that may download a model and load it into this process: it may be large."""


def serve() -> None:
    """The main function of the process."""
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
    time.sleep(LEAVE_S)
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
        most = taken + _MORE_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
