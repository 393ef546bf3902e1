"""The process that asks the model: what ends it, and that nothing is left running."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from keet.agent.model import process as model_process
from keet.agent.model.messages import (
    ChatMessage,
    ChatReply,
    ChatRequest,
    ModelFault,
    ModelToolCall,
    TokenCount,
    ToolSpec,
    request_document,
    request_from,
)
from keet.agent.model.process import ModelProcess
from keet.agent.model.process_child import MARK
from keet.agent.model.settings import ModelOptions, ModelSpec, TimeLimit, shared_limit
from keet.agent.open_model import CachedChat, ReplyCache
from tests.hostile_behaviours import Behaviour, Connection, answer, never_answers, reply
from tests.hostile_servers import serving

ASK = ChatRequest((ChatMessage("user", "Why?"),))
SILENT = Behaviour("silent", never_answers)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123456789")


def spec(url: str, timeout_s: float = 600.0, retries: int = 0) -> ModelSpec:
    return ModelSpec("m", url, timeout_s, None, retries)


def good_and_silent_in_turn(to: Connection) -> None:
    (never_answers if to.number % 2 else reply(answer()))(to)


def children() -> list[int]:
    """Of this thread's process, without those that other tests keep."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.fixture
def none_is_left() -> Iterator[None]:
    before = set(children())
    yield
    gc.collect()
    assert set(children()) == before


@pytest.mark.slow
def test_a_late_call_is_ended_and_the_next_is_answered(none_is_left: None) -> None:
    """One process, a new one after it was killed, and none in the end. The time limit of a run
    covers the calls of all."""
    before, limit = set(children()), TimeLimit(3600.0)
    with serving(Behaviour("", good_and_silent_in_turn)) as url:
        chat = ModelProcess(spec(url), limit)
        assert "coalesced" in chat.ask(ASK).text
        assert chat.name == "m"
        chat._spec = spec(url, timeout_s=0.5)  # only where nobody answers: machines can be slow
        with pytest.raises(ModelFault, match=r"did not answer in 0\.5 s; try again") as caught:
            chat.ask(ASK)
        assert caught.value.kind == "timeout"
        chat._spec = spec(url)
        assert "coalesced" in chat.ask(ASK).text
        assert len(set(children()) - before) == 1
        limit.seconds -= limit.left - 0.5
        used_up = r"the time limit of .* s for all calls to .* is used up; raise --time-limit"
        for each in (chat, chat, ModelProcess(spec(url), limit)):
            with pytest.raises(ModelFault, match=used_up):
                each.ask(ASK)


@pytest.mark.slow
def test_an_interrupt_ends_the_process(none_is_left: None) -> None:
    with serving(SILENT) as url:
        timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ModelProcess(spec(url)).ask(ASK)
        timer.join()


_ORPHAN = """
import sys
from keet.agent.model.process import ModelProcess
from keet.agent.model.settings import ModelSpec
from keet.agent.model.messages import ChatMessage, ChatRequest
chat = ModelProcess(ModelSpec("m", sys.argv[1], 600.0, None))
chat._started()
print(chat._worker._process.pid, flush=True)
chat.ask(ChatRequest((ChatMessage("user", "Why?"),)))
"""


@pytest.mark.slow
def test_killing_keet_leaves_no_process() -> None:
    with serving(SILENT) as url:
        keet = subprocess.Popen([sys.executable, "-c", _ORPHAN, url], stdout=subprocess.PIPE)
        worker = int(keet.stdout.readline())
        time.sleep(0.5)
        assert _lives(worker)
        keet.kill()
        keet.communicate()
        while _lives(worker):
            time.sleep(0.1)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


# A process that does not start, or does not answer as it should


def fault_of_start(chat: ModelProcess) -> str:
    with pytest.raises(ModelFault) as caught:
        chat.ask(ASK)
    assert caught.value.kind == "client"
    assert "; try again, " in str(caught.value)
    return str(caught.value)


NOWHERE = ModelSpec("m", "http://127.0.0.1:9/v1", 600.0, None, 0)


def test_a_process_that_can_not_be_started(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    wording(fault_of_start(ModelProcess(NOWHERE)))
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


_SAYS = """
import os, sys
print("hello from site", flush=True)
os.write(1, b"no line feed")
os.write(1, {text!r})
sys.stdin.readline()
"""


def saying(line: bytes) -> str:
    return _SAYS.format(text=b"\n" + MARK + line)


def test_output_before_the_first_answer_is_skipped_and_nonsense_ends_the_process(
    none_is_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as of a site hook."""
    monkeypatch.setattr(model_process, "_CODE", saying(b'{"loaded": true}\n'))
    worker = model_process._Worker()
    assert worker.exchange({}, 600.0) == {"loaded": True}
    worker.kill()
    for nonsense in (b"hello\n", b"[1]\n", b"\xff\n", b'{"loaded"', b""):
        monkeypatch.setattr(model_process, "_CODE", saying(nonsense))
        assert "be started" in fault_of_start(ModelProcess(NOWHERE)), nonsense


def test_an_interrupt_during_the_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call begins anew."""
    worker = Mock(**{"exchange.side_effect": KeyboardInterrupt})
    monkeypatch.setattr(model_process, "_Worker", lambda: worker)
    chat = ModelProcess(NOWHERE)
    with pytest.raises(KeyboardInterrupt):
        chat.ask(ASK)
    assert chat._worker is None
    worker.kill.assert_called()


def test_a_cached_answer_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "_Worker", lambda: pytest.fail("it was started"))
    chat = ModelProcess(NOWHERE)
    cached = CachedChat(chat, ReplyCache(tmp_path / "c"), "r", "p")
    known = ChatReply("hi", (), TokenCount(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(chat, "ask", lambda request: known)
        cached.ask(ASK)
    assert cached.ask(ASK) == known._replace(cached=True)
    assert cached.name == "m"


_WORKER = """
from keet.agent.model import langchain_chat, process_child
langchain_chat.connect = lambda spec: greedy
from keet.agent.model.langchain_chat import LangchainChat, OWN_SERVER
class Model:
    def bind(self, **arguments):
        return self
    def invoke(self, messages):
        held = [bytearray(2**24) for _ in range(100)]
        raise AssertionError(len(held))
from keet.agent.model.settings import ModelSpec
greedy = LangchainChat(Model(), ModelSpec("greedy", None, 5.0, None, 0), OWN_SERVER)
process_child.serve()
"""


@pytest.mark.slow
def test_a_client_that_takes_too_much_memory(wording) -> None:
    """Of any provider: its own client is not bounded, the process is."""
    lines = [
        ModelSpec("greedy", None, 5.0, None)._asdict(),
        {"request": None, "seconds": 9},
        {"request": request_document(ASK), "seconds": 9},
    ]
    command = [sys.executable, "-c", _WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdin.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        worker.stdin.flush()
        said = (line for line in worker.stdout if line.startswith(MARK))
        loaded, name, answered = (json.loads(next(said).removeprefix(MARK)) for _ in range(3))
        worker.stdin.close()
    assert (loaded, name) == ({"loaded": True}, {"name": "greedy", "reply": None})
    assert answered["fault"] == "too_large"
    wording(answered["message"])


def test_a_request_comes_back_from_its_document() -> None:
    call = ModelToolCall("c1", "read_source", {"line": 3}, "")
    called, told = ChatMessage("assistant", "b", (call,)), ChatMessage("tool", "c", answers="c1")
    tools = (ToolSpec("read_source", "Lines.", {"type": "object"}),)
    request = ChatRequest((*ASK.messages, called, told), tools, {"type": "object"}, 99)
    assert request_from(json.loads(json.dumps(request_document(request)))) == request


def test_only_waiting_for_the_model_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((10.0, 12.0, 100.0, 109.0))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("keet.agent.model.settings.time", clock)
    limit = TimeLimit(10.0)
    with limit.counted():
        pass
    assert limit.left == 8.0
    with pytest.raises(ValueError, match="x"), limit.counted():
        raise ValueError("x")
    assert limit.left == 0.0


def test_the_default_limit_grows_with_the_calls() -> None:
    hosted, own = (ModelSpec("m", url, 240.0, None) for url in (None, "http://localhost/v1"))
    seconds = [shared_limit(hosted, calls).seconds for calls in (18, 900, 1)]
    assert seconds == [1080.0, 50 * 1080.0, 4 * 240.0]
    assert shared_limit(own, 18).seconds == 18 * 240.0
    plan = ModelOptions(NOWHERE)
    assert plan.limit().seconds == 3 * plan.limits.calls * 600.0
    assert plan.limit(7).seconds == 7 * plan.limits.calls * 600.0
    named = plan._replace(spec=plan.spec._replace(time_limit_s=9.0))
    assert named.limit(7).seconds == 9.0
