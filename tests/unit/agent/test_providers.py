"""Requests to a local server that imitates OpenAI's: replies, faults, retries."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import keet.agent.model
from keet.agent.model import langchain_chat
from keet.agent.model.langchain_chat import announce_tracing, connect
from keet.agent.model.messages import (
    KINDS,
    AskedModel,
    Chat,
    ChatMessage,
    ChatRequest,
    ModelFault,
    ModelToolCall,
    TokenCount,
    ToolSpec,
)
from keet.agent.model.settings import ModelSpec
from tests import hostile_behaviours
from tests.hostile_behaviours import Behaviour, Connection, Send, never_answers, reply, whole
from tests.hostile_servers import serving
from tests.rows import each_row

KEY = "my-own-secret-key-0123"
TOOLS = (ToolSpec("read_source", "Lines of the source.", {"type": "object", "properties": {}}),)
SCHEMA = {"type": "object", "properties": {"cause": {"type": "string"}}}
ASK = ChatRequest((ChatMessage("system", "You explain."), ChatMessage("user", "Why?")))
Answer = tuple[Any, ...] | Send
"""The status, the body, and headers if there are some."""


class Server:
    """Sends its answers, one per request; the last one is repeated."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(200, completion("because"))]
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""

    def send(self, to: Connection) -> None:
        listed = [{"id": name, "object": "model"} for name in ("first", "second")]
        answer: Answer = (200, {"object": "list", "data": listed})
        if to.head.startswith("POST"):
            self.asked.append(json.loads(to.body))
            self.keys.append(to.key)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer(to)
            return
        status, body, *headers = answer
        data = body if isinstance(body, bytes) else json.dumps(body)
        to.send(whole(data, f"{status} Said", *headers))


def completion(content: Any = None, reason: str = "stop", **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 90, "completion_tokens": 7, "total_tokens": 97}
    body = hostile_behaviours.completion(content, tool_calls=more.get("tool_calls"))
    body["choices"][0]["finish_reason"] = reason
    return body | ({} if more.get("no_usage") else {"usage": usage})


def call(name: str | None, arguments: str, id_: str | None = "c1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def failure(message: str, **more: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with serving(Behaviour("a good one", server.send)) as server.url:
        yield server


@pytest.fixture(autouse=True)
def key(local_http: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def chat_with(url: str, timeout_s: float = 600.0, name: str = "qwen") -> tuple[Chat, list[float]]:
    waits: list[float] = []
    chat = connect(ModelSpec(name, url, timeout_s, None))
    chat._sleep = waits.append  # type: ignore[assignment]
    return chat, waits


def fault_at(url: str, request: ChatRequest = ASK, timeout_s: float = 600.0) -> ModelFault:
    with pytest.raises(ModelFault) as caught:
        chat_with(url, timeout_s)[0].ask(request)
    fault = caught.value
    assert KEY not in "".join(traceback.format_exception(fault)) + repr(fault)
    assert ("\n" in str(fault), ";" in str(fault)) == (False, True), "it says what to do next"
    assert fault.__context__ is None, "nothing of the client's goes along"
    assert fault.kind in KINDS
    return fault


def test_a_request_and_its_reply(server: Server) -> None:
    chat = chat_with(server.url)[0]
    reply = chat.ask(ASK._replace(max_output=77))
    assert reply == ("because", (), TokenCount(90, 7), False, False)
    assert chat.name == "qwen"
    sent = server.asked[0]
    texts = [(each["role"], each["content"]) for each in sent["messages"]]
    assert texts == [("system", "You explain."), ("user", "Why?")]
    assert (sent["model"], sent["max_tokens"]) == ("qwen", 77)
    assert not {"temperature", "tools", "response_format", "max_completion_tokens"} & set(sent)
    assert server.keys == [KEY]


def test_a_conversation_with_tools(server: Server) -> None:
    said = completion(None, "tool_calls", tool_calls=[call("read_source", '{"line": 3}')])
    server.answers = [(200, said)]
    chat = chat_with(server.url)[0]
    reply = chat.ask(ASK._replace(tools=TOOLS))
    assert reply.calls == (ModelToolCall("c1", "read_source", {"line": 3}),)
    unreadable = ModelToolCall("c2", "read_source", None, "{line")
    called = ChatMessage("assistant", "let me see", (*reply.calls, unreadable))
    tools = (ChatMessage("tool", "a[i]", answers="c1"), ChatMessage("tool", "no", answers="c2"))
    chat.ask(ASK._replace(messages=(*ASK.messages, called, *tools), tools=TOOLS))
    assert server.asked[0]["tools"][0]["function"]["name"] == "read_source"
    assistant, first, second = server.asked[1]["messages"][2:]
    arguments = [json.loads(c["function"]["arguments"]) for c in assistant["tool_calls"]]
    assert arguments == [{"line": 3}, {"not_json": "{line"}]
    assert (first["role"], first["tool_call_id"], first["content"]) == ("tool", "c1", "a[i]")
    assert second["tool_call_id"] == "c2"


def test_calls_of_all_shapes(server: Server) -> None:
    for calls, expected in (
        ([call("f", "{bad")], [("c1", "f", None, "{bad")]),
        ([call("f", "")], [("c1", "f", {}, "")]),
        (
            [call("f", "{}", None), call("g", "[1]", None)],
            [("call_2_0", "f", {}, ""), ("call_2_1", "g", None, "not a JSON object: [1]")],
        ),
    ):
        server.answers = [(200, completion("", tool_calls=calls))]
        reply = chat_with(server.url)[0].ask(ASK._replace(tools=TOOLS))
        assert list(reply.calls) == [ModelToolCall(*each) for each in expected]


def test_text_in_blocks_with_thoughts_an_answer_that_was_cut_and_one_without_usage(
    server: Server,
) -> None:
    texts = ("<think>hm\n", "</think> be", "cause")
    blocks = [{"type": "text", "text": text} for text in texts]
    server.answers = [(200, completion(blocks)), (200, completion('{"cause": "beca', "length"))]
    chat = chat_with(server.url)[0]
    assert chat.ask(ASK).text == "because"
    reply = chat.ask(ASK._replace(schema=SCHEMA, tools=TOOLS))
    assert (reply.cut, reply.text) == (True, '{"cause": "beca')
    server.answers = [(200, completion("because of this", no_usage=True))]
    spent = chat.ask(ASK).spent
    assert spent.estimated
    assert 4 < spent.input_tokens < 40
    assert 2 < spent.output_tokens < 10
    assert chat.ask(ASK._replace(tools=TOOLS)).spent.input_tokens > spent.input_tokens + 10


def test_no_key_is_needed_at_a_server_of_ones_own(server: Server, monkeypatch, wording) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    chat_with(server.url)[0].ask(ASK)
    assert server.keys == ["none"]
    server.answers = [(401, failure("who are you?"))]
    wording(str(fault_at(server.url)))


def test_names_that_servers_list() -> None:
    def first(name: str) -> str | None:
        listed = SimpleNamespace(data=[SimpleNamespace(id=name)])
        models = SimpleNamespace(list=lambda **_: listed)
        model: Any = SimpleNamespace(root_client=SimpleNamespace(models=models))
        try:
            asked = AskedModel(ModelSpec("", "http://h/v1", 5.0, None))
            return langchain_chat._first_model(model, asked)
        except ModelFault:
            return None

    path = "/home/me/my models/Qwen (2.5) ~q4=k_m.gguf"
    good = ("C:\\models\\x.gguf", path, "模型-7b", "a" * 200)
    bad = ("a" * 201, "", "  ", "two\nlines", "\x1b[31mred", "sk-proj-Ab12_cd34-ef56GH78")
    assert [first(name) for name in (*good, *bad)] == [*good, *[None] * len(bad)]


def test_the_first_model_of_a_server_and_the_prefix_of_openai(server: Server) -> None:
    """The prefix is for LangChain alone."""
    for given, name, sent in (("", "first", "first"), ("openai:gpt-5", "openai:gpt-5", "gpt-5")):
        chat, _ = chat_with(server.url, name=given)
        chat.ask(ASK)
        assert (chat.name, server.asked[-1]["model"]) == (name, sent)


def test_a_proxy_of_openai(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server plays the proxy: no other one has this name."""
    monkeypatch.setenv("OPENAI_PROXY", server.url.removesuffix("/v1"))
    chat, _ = chat_with("http://models.invalid/v1")
    assert chat.ask(ASK).text == "because"
    assert chat_with("http://models.invalid/v1", name="")[0].name == "first"
    monkeypatch.setenv("OPENAI_API_BASE", "http://models.invalid/v1")
    hosted = connect(ModelSpec("openai:gpt-4o", None, 600.0, None))
    assert hosted.ask(ASK).text == "because"


# What servers refuse


def test_the_schema_is_sent_in_the_body(server: Server) -> None:
    """Where it is rejected, after a tool, it is a message of its own."""
    for tools in ((), TOOLS):
        chat_with(server.url)[0].ask(ASK._replace(schema=SCHEMA, tools=tools))
        held = server.asked[-1]["response_format"]
        assert held["type"] == "json_schema"
        assert (held["json_schema"]["schema"], held["json_schema"]["strict"]) == (SCHEMA, True)
    server.answers = [(400, failure("response_format")), (200, completion("{}"))]
    called = ChatMessage("assistant", "", (ModelToolCall("c", "read_source", {}),))
    talk = (*ASK.messages, called, ChatMessage("tool", "data", answers="c"))
    chat_with(server.url)[0].ask(ChatRequest(talk, schema=SCHEMA))
    tool, wish = server.asked[-1]["messages"][-2:]
    assert (tool["content"], wish["role"]) == ("data", "user")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "response_format json_schema is not supported"),
        (422, "response_format: extra fields not permitted"),
        (500, "Internal Server Error"),
        (400, "Cannot use custom grammar constraints with tools."),
    ],
)
def test_a_rejected_schema_is_sent_as_text(server: Server, status: int, message: str) -> None:
    request = ASK._replace(schema=SCHEMA, tools=TOOLS)
    server.answers = [(status, failure(message)), (200, completion("{}"))]
    chat, _ = chat_with(server.url)
    assert [chat.ask(request).text for _ in range(2)] == ["{}", "{}"]
    assert len(server.asked) == 3, "it is not tried again"
    for sent in server.asked[1:]:
        assert "response_format" not in sent
        assert json.dumps(SCHEMA) in sent["messages"][-1]["content"]
        assert sent["messages"][-1]["content"].startswith("Why?")
        assert sent["tools"]
    chat.ask(ASK._replace(schema=SCHEMA))
    assert "response_format" in server.asked[3], "without tools it may be taken"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
    ],
)
def test_rejected_tools_are_not_offered_again(server: Server, status: int, message: str) -> None:
    """The schema still is."""
    server.answers = [(status, failure(message))]
    chat, waits = chat_with(server.url)
    for request in (ASK._replace(tools=TOOLS), ASK._replace(tools=TOOLS, schema=SCHEMA)):
        with pytest.raises(ModelFault, match=r"does not support tools .*; name a model that can"):
            chat.ask(request)
    assert (len(server.asked), waits) == (1, []), "it is not tried again"
    server.answers = [(200, completion("so"))]
    assert chat.ask(ASK._replace(schema=SCHEMA)).text == "so"
    assert "response_format" in server.asked[-1]


def test_the_newer_name_of_the_limit(server: Server) -> None:
    said = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.answers = [(400, failure(said)), (200, completion("so"))]
    chat, _ = chat_with(server.url)
    for _ in range(2):
        chat.ask(ASK)
    assert ["max_completion_tokens" in sent for sent in server.asked] == [False, True, True]
    assert "max_tokens" not in server.asked[1]


# Faults


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (401, failure(f"Incorrect API key provided: {KEY}"), "wrong_key", "check OPENAI_API_KEY"),
        (403, failure("not allowed"), "wrong_key", "HTTP 403"),
        (404, failure("The model `qwen` does not exist"), "unknown_model", "check --model"),
        (404, b"<html>Not Found</html>", "unknown_model", "/v1"),
        (400, failure("x", code="context_length_exceeded"), "too_long", "too long"),
        (400, failure("This model's maximum context length is 4096 tokens."), "too_long", "4096"),
        (400, failure("the request exceeds the available context size."), "too_long", "too long"),
        (413, b"", "too_long", "too long"),
        (400, failure(f"bad thing {KEY}"), "other", "HTTP 400: [removed: it contains a key]"),
        (500, failure("broken"), "server", "HTTP 500: broken"),
        (504, b"", "timeout", "HTTP 504"),
        (429, failure("the quota is used up", code="insufficient_quota"), "no_quota", "billing"),
        (200, b'{"choices": nul', "bad_reply", "not a model's reply"),
        (200, {"hello": 1}, "bad_reply", "--base-url"),
        (200, {"choices": []}, "bad_reply", "not a model's reply"),
        (200, {"choices": None}, "bad_reply", "not a model's reply"),
        (200, {"choices": [{"message": None}]}, "bad_reply", "not a model's reply"),
        (200, {"error": {"message": f"no {KEY}"}}, "bad_reply", "[removed: it contains a key]"),
    ],
)
def test_faults_of_the_server(server: Server, status: int, body: Any, kind: str, said: str) -> None:
    server.answers = [(status, body)]
    fault = fault_at(server.url)
    assert (fault.kind, len(server.asked)) == (kind, 3 if kind == "server" else 1)
    assert said in str(fault)
    assert "qwen" in str(fault)
    assert len(str(fault)) < 500


def test_what_is_temporary_is_retried_after_its_wait(server: Server) -> None:
    slow = (429, failure("slow down"))
    server.answers = [(*slow, "Retry-After: 7"), slow, (200, completion("so"))]
    chat, waits = chat_with(server.url)
    assert chat.ask(ASK).text == "so"
    assert waits == [7.0, 1.0]
    server.answers = [(502, b"bad gateway"), (200, completion("so"))]
    assert chat.ask(ASK).text == "so"


def test_a_lasting_rate_limit_is_a_fault(server: Server) -> None:
    """A very long time is not waited for."""
    for header, calls in (("Retry-After-Ms: 1", 3), ("Retry-After: 3600", 1)):
        server.asked.clear()
        server.answers = [(429, failure("slow down"), header)]
        fault = fault_at(server.url, ASK._replace(schema=SCHEMA))
        assert (fault.kind, len(server.asked)) == ("rate_limit", calls)
        assert "slow down" in str(fault)


def test_a_server_that_hangs(server: Server, wording) -> None:
    server.answers = [never_answers]
    fault = fault_at(server.url, timeout_s=0.2)
    assert (fault.kind, len(server.asked)) == ("timeout", 1), "the user has waited once"
    wording(str(fault))


def test_a_closed_connection_and_https_to_a_plain_http_server(server: Server) -> None:
    server.answers = [lambda to: None]
    broken = fault_at(server.url)
    assert len(server.asked) == 3
    with serving(Behaviour("plain", reply("no TLS"), reads=False)) as url:
        tls = fault_at(url.replace("http:", "https:"))
    assert (broken.kind, tls.kind) == ("unreachable", "unreachable")
    assert "the connection broke" in str(broken)
    assert "TLS" in str(tls)


def test_no_server_listens_at_the_url() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        fault = fault_at(url)
        assert (fault.kind, "no server listens" in str(fault)) == ("unreachable", True)
        with pytest.raises(ModelFault, match="no server listens") as caught:
            connect(ModelSpec("", url, 5.0, None))  # which asks for the models
    assert caught.value.__context__ is None


def test_a_host_that_is_not_known(wording) -> None:
    fault = fault_at("http://no-such-host.invalid/v1")
    assert fault.kind == "unreachable"
    wording(str(fault))


def test_interrupts_are_not_caught(server: Server) -> None:
    chat, _ = chat_with(server.url)
    bind = Mock(side_effect=KeyboardInterrupt)
    chat._model = SimpleNamespace(bind=bind)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        chat.ask(ASK)


# Providers


@each_row(
    ("name", "kind", "said"),
    [
        ("openai:gpt-5", "no_key", "no key for openai:gpt-5: OPENAI_API_KEY is not set; set it"),
        ("gpt-5", "no_key", "OPENAI_API_KEY"),
        ("anthropic:claude-5", "not_installed", "pip install langchain-anthropic"),
        ("google_genai:gemini-3", "not_installed", "pip install langchain-google-genai"),
        ("nonsense", "no_provider", "nonsense does not name a known provider; write it as"),
        ("foo:bar", "no_provider", "or give --base-url"),
    ],
)
def test_faults_before_anything_is_sent(name: str, kind: str, said: str, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelFault) as caught:
        connect(ModelSpec(name, None, 5.0, None))
    assert (caught.value.kind, "\n" in str(caught.value)) == (kind, False)
    assert said in str(caught.value)


def test_openai_gets_a_larger_limit_if_its_model_can_think(server: Server, monkeypatch) -> None:
    """Thinking counts for the limit, so that there has to be room for it."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    chat = connect(ModelSpec("openai:gpt-5", None, 5.0, None))
    assert chat.ask(ASK._replace(schema=SCHEMA, tools=TOOLS)).text == "because"
    sent = server.asked[0]
    assert (sent["model"], sent["max_completion_tokens"]) == ("gpt-5", 10500)
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "temperature" not in sent
    said = "max_tokens is too large: 10500. This model supports at most 4096 completion tokens."
    server.answers = [(400, failure(said)), (200, completion("so"))]
    chat = connect(ModelSpec("openai:gpt-4-turbo", None, 5.0, None))
    assert chat.ask(ASK).text == "so"
    assert [each["max_completion_tokens"] for each in server.asked[1:]] == [10500, 2500]


def test_tracing_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert announce_tracing() is None
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    assert announce_tracing() is None
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_GATEWAY"):
        monkeypatch.setenv(name, "true")
    line = str(announce_tracing())
    assert "LangSmith" in line
    assert line.endswith("unset LANGCHAIN_TRACING_V2 LANGSMITH_TRACING LANGSMITH_GATEWAY")


def test_imports_are_lazy() -> None:
    """Only who asks a model pays for its client."""
    paths = [*Path(keet.agent.model.__path__[0]).glob("[a-z]*.py")]
    assert len(paths) > 5
    mine = ["keet.masking.keys", "keet.agent.redaction"]
    mine += [f"keet.agent.model.{path.stem}" for path in paths]
    code = (
        f"import sys\nfor name in {mine}: __import__(name)\n"
        "heavy = {n.split('.')[0] for n in sys.modules} & {'langchain', 'langchain_core', 'langchain_openai', 'openai', 'pydantic', 'httpx'}\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
