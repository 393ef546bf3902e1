"""Scripts and transcripts as models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keet.agent.model import messages
from keet.agent.model.faults import KINDS
from keet.agent.model.scripted import ScriptedChat, open_script
from keet.agent.model.settings import ModelSpec
from keet.agent.model.transcript import Transcript
from keet.agent.open_model import open_chat
from tests.rows import each_row

ASK = messages.ChatRequest((messages.ChatMessage("user", "Why?"),))
TOOLS = (messages.ToolSpec("read_source", "Lines.", {"type": "object"}),)
SCHEMA = {"type": "object"}


def write(path: Path, *lines: object) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return str(path)


def test_a_script_from_end_to_end(tmp_path: Path) -> None:
    call = {"name": "read_source", "arguments": {"line": 3}}
    path = write(
        tmp_path / "script.jsonl",
        {"tool_calls": [call], "usage": {"input": 9, "output": 4}},
        {"content": [{"type": "text", "text": "be"}, {"type": "text", "text": "cause"}]},
        {"content": "cut", "cut": True},
        {"tool_calls": [{"name": "read_source", "arguments": "{bad"}]},
    )
    chat = open_chat(ModelSpec(f"scripted:{path}", None, 5.0, None))
    first = chat.ask(ASK._replace(tools=TOOLS, schema=SCHEMA))
    called = messages.ModelToolCall("call_1_0", "read_source", {"line": 3})
    assert first == ("", (called,), messages.TokenCount(9, 4), False, False)
    second = chat.ask(ASK)
    assert (second.text, second.spent.estimated) == ("because", True)
    assert chat.ask(ASK).cut
    assert chat.ask(ASK).calls == (messages.ModelToolCall("call_4_0", "read_source", None, "{bad"),)
    with pytest.raises(messages.ModelFault, match="used up after 4 replies; add") as caught:
        chat.ask(ASK)
    assert caught.value.kind == "script"
    assert chat.name == f"scripted:{path}"


FAULTS = "timeout unreachable rate_limit no_quota wrong_key unknown_model too_long server bad_reply other"


@each_row("kind", FAULTS.split())
def test_faults(kind: str) -> None:
    chat = ScriptedChat([{"fault": kind}, {"content": "so"}], "m")
    with pytest.raises(messages.ModelFault) as caught:
        chat.ask(ASK)
    assert caught.value.kind == kind
    assert kind in KINDS
    assert ";" in str(caught.value)
    assert chat.ask(ASK).text == "so"


def test_refusals_and_interrupts() -> None:
    chat = ScriptedChat([{"fault": "no_tools"}, {"fault": "interrupt"}], "m")
    with pytest.raises(messages.ModelFault, match="does not support tools"):
        chat.ask(ASK._replace(tools=TOOLS))
    with pytest.raises(KeyboardInterrupt):
        chat.ask(ASK)
    assert [len(request.tools) for request in chat.asked] == [1, 0]


def test_a_transcript_can_be_used_as_a_script(tmp_path: Path) -> None:
    calls = (
        messages.ModelToolCall("c1", "f", {"a": 1}),
        messages.ModelToolCall("c2", "g", None, "{"),
    )
    replies = [
        messages.ChatReply("", calls, messages.TokenCount(5, 6)),
        messages.ChatReply("because", (), messages.TokenCount(7, 8), cut=True),
    ]
    path = tmp_path / "run.jsonl"
    transcript = Transcript(path)
    transcript.start(model="m")
    for reply in replies:
        transcript.request("ask", ASK)
        transcript.reply(reply, 1)
    transcript.end("done", None)
    transcript.close()
    path.write_bytes(path.read_bytes()[:-5])
    chat = open_script(path)
    assert [chat.ask(ASK), chat.ask(ASK)] == replies


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["hello"], "line 1 is not a JSON object"),
        ([{"content": "a"}, "[1]"], "line 2 is not a JSON object"),
        ([{"fault": "flood"}], "unknown fault 'flood'"),
        ([{"tool_calls": [{"arguments": {}}]}], "not a script"),
        ([{"event": "reply"}], "incomplete reply"),
        (None, "can't be read"),
    ],
)
def test_a_file_that_is_not_a_script(tmp_path: Path, lines: list[object] | None, said: str) -> None:
    path = tmp_path / "script.jsonl"
    if lines:
        write(path, *lines)
    with pytest.raises(messages.ModelFault) as caught:
        open_script(path)
    assert caught.value.kind == "script"
    assert said in str(caught.value)
    assert "script.jsonl" in str(caught.value)
