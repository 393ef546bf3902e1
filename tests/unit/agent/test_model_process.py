"""The process that asks the model: what ends it, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keet.agent.model_process import ModelProcess
from keet.agent.settings import ModelSpec
from keet.agent.time_limit import TimeLimit, default_limit
from keet.agent.wire import (
    Fault,
    Message,
    Request,
    ToolCall,
    ToolSpec,
    request_document,
    request_from,
)
from tests.hostile_behaviours import Behaviour, Connection, answer, never_answers, reply
from tests.hostile_servers import serving

ASK = Request((Message("user", "Why?"),))
GOOD = Behaviour("good", reply(answer()))
SILENT = Behaviour("silent", never_answers)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123456789")


def spec(url: str, timeout_s: float = 600.0, retries: int = 0) -> ModelSpec:
    return ModelSpec("m", url, timeout_s, None, retries)


def first_good_then_silent(to: Connection) -> None:
    (reply(answer()) if to.number != 1 else never_answers)(to)


def children() -> list[int]:
    """Of this thread's process, without those that other tests keep."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.slow
def test_a_call_that_is_late_ends_and_the_next_one_is_answered() -> None:
    """One process, a new one after it was killed, and none in the end."""
    before = set(children())
    with serving(Behaviour("", first_good_then_silent)) as url:
        chat = ModelProcess(spec(url))
        assert "coalesced" in chat.ask(ASK).text
        assert chat.name == "m"
        chat._spec = spec(url, timeout_s=0.5)  # only where nobody answers: machines can be slow
        with pytest.raises(Fault, match=r"did not answer in 0\.5 s; try again") as caught:
            chat.ask(ASK)
        assert caught.value.kind == "timeout"
        chat._spec = spec(url)
        assert "coalesced" in chat.ask(ASK).text
    assert len(set(children()) - before) == 1
    del chat, caught
    assert set(children()) == before


@pytest.mark.slow
def test_the_limit_of_a_run_is_of_all_calls() -> None:
    limit = TimeLimit(3600.0)
    with serving(Behaviour("", first_good_then_silent)) as url:
        chat = ModelProcess(spec(url), limit)
        chat.ask(ASK)
        limit.seconds -= limit.left - 0.5
        for _ in range(2):
            with pytest.raises(
                Fault, match="s in all, the time limit of a run; raise --time-limit"
            ):
                chat.ask(ASK)
        with pytest.raises(Fault, match="time limit"):
            ModelProcess(spec(url), limit)


@pytest.mark.slow
def test_an_interrupt_ends_the_process() -> None:
    before = set(children())
    with serving(SILENT) as url:
        chat = ModelProcess(spec(url))
        timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            chat.ask(ASK)
        timer.join()
    assert set(children()) == before


_ORPHAN = """
import sys
from keet.agent.model_process import ModelProcess
from keet.agent.settings import ModelSpec
from keet.agent.wire import Message, Request
chat = ModelProcess(ModelSpec("m", sys.argv[1], 600.0, None))
print(chat._worker._process.pid, flush=True)
chat.ask(Request((Message("user", "Why?"),)))
"""


@pytest.mark.slow
def test_a_killed_keet_leaves_no_process() -> None:
    with serving(SILENT) as url:
        keet = subprocess.Popen([sys.executable, "-c", _ORPHAN, url], stdout=subprocess.PIPE)
        assert keet.stdout is not None
        worker = int(keet.stdout.readline())
        time.sleep(0.5)
        assert _lives(worker)
        keet.kill()
        keet.communicate()
        _wait_until(lambda: not _lives(worker))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _wait_until(holds: Callable[[], bool]) -> None:
    """It fails after a minute: that is a hang, whatever the machine does."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it still lives")


_WORKER = """
import json, sys
from keet.agent import model_worker, providers
class Greedy:
    name = "greedy"
    def ask(self, request):
        return providers.LangchainChat._ask_patiently(self, request)
model_worker.connect = lambda spec: greedy
from keet.agent.providers import LangchainChat, OWN_SERVER
class Model:
    def bind(self, **arguments):
        return self
    def invoke(self, messages):
        held = [bytearray(2**24) for _ in range(100)]
        raise AssertionError(len(held))
from keet.agent.settings import ModelSpec
greedy = LangchainChat(Model(), ModelSpec("greedy", None, 5.0, None, 0), OWN_SERVER)
model_worker.main()
"""


@pytest.mark.slow
def test_a_client_that_takes_too_much_memory() -> None:
    """Of any provider: its own client is not bounded, the process is."""
    request = request_document(ASK)
    lines = [
        {"spec": ModelSpec("greedy", None, 5.0, None)._asdict()},
        {"connect": True},
        {"request": request, "seconds": 9},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with subprocess.Popen(
        [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(text)
        worker.stdin.flush()
        loaded, name, answered = (json.loads(worker.stdout.readline()) for _ in range(3))
        worker.stdin.close()
    assert (loaded, name) == ({"loaded": True}, {"name": "greedy"})
    assert answered["fault"] == "too_large"
    assert "more memory than keet allows" in answered["message"]


def test_a_request_comes_back_from_its_document() -> None:
    call = ToolCall("c1", "read_source", {"line": 3}, "")
    request = Request(
        (
            Message("system", "a"),
            Message("assistant", "b", (call,)),
            Message("tool", "c", answers="c1"),
        ),
        (ToolSpec("read_source", "Lines.", {"type": "object"}),),
        {"type": "object"},
        99,
    )
    assert request_from(json.loads(json.dumps(request_document(request)))) == request


def test_only_waiting_counts() -> None:
    def clock() -> Iterator[float]:
        yield from (10.0, 12.0, 100.0, 109.0)

    times = clock()
    limit = TimeLimit(10.0, lambda: next(times))
    with limit.counted():
        pass
    assert limit.left == 8.0
    with pytest.raises(ValueError, match="x"), limit.counted():
        raise ValueError("x")
    assert limit.left == 0.0
    assert default_limit(240.0) == 960.0
