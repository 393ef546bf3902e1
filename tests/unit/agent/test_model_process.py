"""The process that asks the model: what ends it, and that nothing is left running."""

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

from keet.agent.model import process as model_process
from keet.agent.model.cache import Cache, CachedChat
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
from keet.agent.model.process import MARK, ModelProcess
from keet.agent.model.settings import ModelSpec, TimeLimit, default_limit
from keet.agent.options import ModelOptions
from tests.hostile_behaviours import Behaviour, Connection, answer, never_answers, reply
from tests.hostile_servers import serving

ASK = ChatRequest((ChatMessage("user", "Why?"),))
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
def test_a_late_call_is_ended_and_the_next_is_answered() -> None:
    """One process, a new one after it was killed, and none in the end."""
    before = set(children())
    with serving(Behaviour("", first_good_then_silent)) as url:
        chat = ModelProcess(spec(url))
        assert "coalesced" in chat.ask(ASK).text
        assert chat.name == "m"
        chat._spec = spec(url, timeout_s=0.5)  # only where nobody answers: machines can be slow
        with pytest.raises(ModelFault, match=r"did not answer in 0\.5 s; try again") as caught:
            chat.ask(ASK)
        assert caught.value.kind == "timeout"
        chat._spec = spec(url)
        assert "coalesced" in chat.ask(ASK).text
    assert len(set(children()) - before) == 1
    del chat, caught
    assert set(children()) == before


@pytest.mark.slow
def test_the_time_limit_of_a_run_covers_all_calls() -> None:
    limit = TimeLimit(3600.0)
    with serving(Behaviour("", first_good_then_silent)) as url:
        chat = ModelProcess(spec(url), limit)
        chat.ask(ASK)
        limit.seconds -= limit.left - 0.5
        for _ in range(2):
            with pytest.raises(
                ModelFault,
                match=r"the time limit of .* s for all calls to .* is used up; raise --time-limit",
            ):
                chat.ask(ASK)
        with pytest.raises(ModelFault, match="time limit"):
            ModelProcess(spec(url), limit).ask(ASK)


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
    while not holds():
        time.sleep(0.1)


# A process that does not start, or does not answer as it should


def fault_of_start(chat: ModelProcess) -> str:
    with pytest.raises(ModelFault) as caught:
        chat.ask(ASK)
    assert caught.value.kind == "client"
    assert "; try again, " in str(caught.value)
    return str(caught.value)


def test_a_process_that_can_not_be_started(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    said = fault_of_start(ModelProcess(spec("http://127.0.0.1:9/v1")))
    wording(said)
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


def test_output_before_the_first_answer_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(children())
    monkeypatch.setattr(model_process, "_CODE", saying(b'{"loaded": true}\n'))
    worker = model_process._Worker()
    assert worker.exchange({}, 600.0) == {"loaded": True}
    worker.kill()
    assert set(children()) == before


def test_a_process_that_sends_nonsense_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(children())
    for nonsense in (b"hello\n", b"[1]\n", b"\xff\n", b'{"loaded"', b""):
        monkeypatch.setattr(model_process, "_CODE", saying(nonsense))
        chat = ModelProcess(spec("http://127.0.0.1:9/v1"))
        assert "be started" in fault_of_start(chat), nonsense
    assert set(children()) == before


@pytest.mark.slow
def test_output_of_a_site_hook_is_not_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = 'import os\nprint("hello from site", flush=True)\nos.write(1, b"no line feed")\n'
    (tmp_path / "sitecustomize.py").write_text(hook, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with serving(GOOD) as url:
        assert "coalesced" in ModelProcess(spec(url)).ask(ASK).text


def test_an_interrupt_during_the_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call begins anew."""

    class Interrupted:
        was_killed = False

        def exchange(self, document: object, seconds: float) -> None:
            raise KeyboardInterrupt

        def kill(self) -> None:
            Interrupted.was_killed = True

    monkeypatch.setattr(model_process, "_Worker", Interrupted)
    chat = ModelProcess(spec("http://127.0.0.1:9/v1"))
    with pytest.raises(KeyboardInterrupt):
        chat.ask(ASK)
    assert chat._worker is None
    assert Interrupted.was_killed


def test_a_cached_answer_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "_Worker", lambda: pytest.fail("it was started"))
    chat = ModelProcess(spec("http://127.0.0.1:9/v1"))
    cached = CachedChat(chat, Cache(tmp_path / "c"), report_sha256="r", prompt_version="p")
    known = ChatReply("hi", (), TokenCount(1, 2))
    monkeypatch.setattr(chat, "ask", lambda request: known)
    cached.ask(ASK)
    monkeypatch.undo()
    monkeypatch.setattr(model_process, "_Worker", lambda: pytest.fail("it was started"))
    assert cached.ask(ASK) == known._replace(cached=True)
    assert cached.name == "m"


_WORKER = """
from keet.agent.model import process, providers
providers.connect = lambda spec: greedy
from keet.agent.model.langchain_chat import LangchainChat, OWN_SERVER
class Model:
    def bind(self, **arguments):
        return self
    def invoke(self, messages):
        held = [bytearray(2**24) for _ in range(100)]
        raise AssertionError(len(held))
from keet.agent.model.settings import ModelSpec
greedy = LangchainChat(Model(), ModelSpec("greedy", None, 5.0, None, 0), OWN_SERVER)
process.serve()
"""


@pytest.mark.slow
def test_a_client_that_takes_too_much_memory(wording) -> None:
    """Of any provider: its own client is not bounded, the process is."""
    request = request_document(ASK)
    lines = [
        ModelSpec("greedy", None, 5.0, None)._asdict(),
        {"request": None, "seconds": 9},
        {"request": request, "seconds": 9},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with subprocess.Popen(
        [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(text.encode())
        worker.stdin.flush()
        said = (line for line in worker.stdout if line.startswith(MARK))
        loaded, name, answered = (json.loads(next(said).removeprefix(MARK)) for _ in range(3))
        worker.stdin.close()
    assert (loaded, name) == ({"loaded": True}, {"name": "greedy", "reply": None})
    assert answered["fault"] == "too_large"
    wording(answered["message"])


def test_a_request_comes_back_from_its_document() -> None:
    call = ModelToolCall("c1", "read_source", {"line": 3}, "")
    request = ChatRequest(
        (
            ChatMessage("system", "a"),
            ChatMessage("assistant", "b", (call,)),
            ChatMessage("tool", "c", answers="c1"),
        ),
        (ToolSpec("read_source", "Lines.", {"type": "object"}),),
        {"type": "object"},
        99,
    )
    assert request_from(json.loads(json.dumps(request_document(request)))) == request


def test_only_waiting_for_the_model_counts() -> None:
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


def test_the_default_limit_grows_with_the_calls() -> None:
    assert default_limit(240.0, 18, is_own=False) == 1080.0
    assert default_limit(240.0, 900, is_own=False) == 50 * 1080.0
    assert default_limit(240.0, 1, is_own=False) == 4 * 240.0
    assert default_limit(600.0, 18, is_own=True) == 18 * 600.0
    plan = ModelOptions(spec("http://127.0.0.1:9/v1"))
    assert plan.limit().seconds == 3 * plan.limits.calls * 600.0
    assert plan.limit(7).seconds == 7 * plan.limits.calls * 600.0
    named = plan._replace(spec=plan.spec._replace(time_limit_s=9.0))
    assert named.limit(7).seconds == 9.0
