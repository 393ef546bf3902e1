"""Transcripts: written event by event, read back, without keys. Scripts and transcripts as models."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from keet.agent.model import messages
from keet.agent.model.messages import LINES
from keet.agent.model.settings import ModelSpec
from keet.agent.model.transcript import Transcript, read_transcript, replies_of, request_text
from keet.agent.open_model import ScriptedChat, open_chat, open_script
from keet.errors import UsageError
from keet.evidence import Evidence
from tests.rows import each_row

SECRET = "very-secret-value-1"
SYSTEM = messages.ChatMessage("system", "You explain kernels.")
ASKED = messages.ChatMessage("user", "Why?")
CALL = messages.ModelToolCall("c1", "read_source", {"line": 3})
BAD_CALL = messages.ModelToolCall("c2", "read_source", None, "{line")
CALLED = messages.ChatMessage("assistant", "", (CALL,))
TOLD = messages.ChatMessage("tool", "3: a[i] = b[j];", answers="c1")
TOOLS = (messages.ToolSpec("read_source", "Lines of the source.", {"type": "object"}),)
SCHEMA = {"type": "object", "properties": {"causes": {"type": "array"}}}
REPLY = messages.ChatReply(
    "because\u2028of [E3]", (CALL, BAD_CALL), messages.TokenCount(900, 40), cut=True
)
REQUEST = messages.ChatRequest((ASKED,))
EVIDENCE = Evidence("E3", "dram__bytes.sum", 12.5, "byte", "bytes")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "run.jsonl"


def run(path: Path) -> None:
    transcript = Transcript(path)
    transcript.event("start", model="openai:gpt-5", report=Path("a.ncu-rep"))
    transcript.request("ask", messages.ChatRequest((SYSTEM, ASKED), TOOLS, SCHEMA))
    transcript.reply(REPLY, 1.23456)
    transcript.event("tool", call=CALL, answer=TOLD.text, evidence=[EVIDENCE], seconds=0.01)
    transcript.request("ask", messages.ChatRequest((SYSTEM, ASKED, CALLED, TOLD), TOOLS, SCHEMA))
    transcript.reply(REPLY._replace(calls=()), 2)
    transcript.event("note", repair="two numbers are stray")
    transcript.event("end", outcome="done", usage=REPLY.spent)
    transcript.close()


def test_events_in_order_with_their_times(path: Path) -> None:
    """A request event has only new messages. Only the owner can read them."""
    path.parent.mkdir(parents=True)
    path.touch(0o644)
    run(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    events = read_transcript(path)
    words = [event["event"] for event in events]
    assert words == ["start", "request", "reply", "tool", "request", "reply", "note", "end"]
    assert all(event["at"].endswith("+00:00") and event["elapsed_s"] >= 0 for event in events)
    assert events[0]["report"] == "a.ncu-rep"
    assert events[2]["seconds"] == 1.235
    assert events[3]["evidence"][0]["metric"] == "dram__bytes.sum"
    assert events[-1]["usage"]["input_tokens"] == 900
    first, second = events[1], events[4]
    assert (first["kept"], len(first["messages"]), first["schema"]) == (0, 2, SCHEMA)
    assert first["tools"][0]["name"] == "read_source"
    assert second["kept"] == 2
    assert [message["role"] for message in second["messages"]] == ["assistant", "tool"]
    assert (second["tools"], second["schema"]) == ("as before", "as before")
    assert replies_of(path) == [REPLY, REPLY._replace(calls=())]


def test_a_new_phase_or_run_is_written_completely(path: Path) -> None:
    transcript = Transcript(path)
    for phase in "ab":
        transcript.request(phase, messages.ChatRequest((SYSTEM, ASKED)))
    transcript.request("a", messages.ChatRequest((SYSTEM, TOLD, ASKED), TOOLS))
    events = read_transcript(path)
    assert [event["kept"] for event in events] == [0, 0, 1]
    assert (len(events[2]["messages"]), events[2]["tools"][0]["name"]) == (2, "read_source")


def test_no_key_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    transcript = Transcript(path)
    transcript.event("start", note=f"x {SECRET}")
    asked = messages.ChatMessage("user", f"key {SECRET} and sk-abcdef123456")
    transcript.request("a", messages.ChatRequest((asked,)))
    transcript.reply(REPLY._replace(text=SECRET), 1)
    transcript.event("tool", call=CALL._replace(arguments={"a": SECRET}), answer=SECRET, x=SECRET)
    text = path.read_text()
    assert not any(part in text for part in (SECRET, "sk-abcdef"))
    assert text.count("[key]") == 7


def test_each_event_is_written_immediately(path: Path) -> None:
    """A process that dies without a word leaves what it did."""
    code = (
        "import os, sys; from pathlib import Path; from keet.agent.model.transcript import Transcript\n"
        "t = Transcript(Path(sys.argv[1])); t.event('start', a=1); t.event('note', b=2); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert [event["event"] for event in read_transcript(path)] == ["start", "note"]


def test_an_incomplete_last_line_is_skipped_and_a_broken_one_before_is_an_error(path: Path) -> None:
    run(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert [event["event"] for event in read_transcript(path)][-1] == "note"
    assert len(replies_of(path)) == 2
    lines = path.read_text().split("\n")
    lines[2] = lines[2][:30]
    path.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=r"run\.jsonl: line 3 is not an event .*; name another"):
        read_transcript(path)


@each_row(
    ("text", "said"),
    [
        *((text, "line 1") for text in ("hello", "[1]\n", '{"a": 1}\n', "[" * 100_000)),
        ('{"event": "reply", "text": "x"}\n', "line 1 is an incomplete reply"),
        (None, "can't be read"),
    ],
)
def test_a_file_that_is_not_a_transcript_is_an_error(
    path: Path, text: str | None, said: str
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said):
        replies_of(path)


def test_an_unwritable_path_does_not_fail_the_run(tmp_path: Path, path: Path) -> None:
    """No path writes nothing; `kept` is where something is."""
    (tmp_path / "file").touch()
    nowhere, none, good = map(Transcript, (tmp_path / "file" / "run.jsonl", None, path))
    for transcript in (nowhere, none, good):
        transcript.event("start", a=1)
    none.event("end", outcome="done", usage=None)
    assert "can't be written" in (nowhere.problem or "")
    assert (nowhere.kept, none.problem, good.kept) == (None, None, path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_does_not_fail_the_run() -> None:
    transcript = Transcript(Path("/dev/full"))
    transcript.event("start", a=1)
    transcript.event("note", b=2)
    assert transcript.problem
    assert stat.S_IMODE(Path("/dev/full").stat().st_mode) != 0o600 or os.getuid() != 0


def test_the_text_of_a_request_is_complete() -> None:
    text = request_text(messages.ChatRequest((SYSTEM, ASKED, CALLED, TOLD), TOOLS, SCHEMA, 700))
    told = ("--- tool (answers c1) ---", "--- tool read_source ---\nLines of the source.", "700")
    sent = (SYSTEM.text, ASKED.text, TOLD.text, "calls read_source", '{"line": 3}')
    assert [part for part in (*sent, *told, json.dumps(SCHEMA)) if part not in text] == []


def test_the_reading_step_of_older_runs_is_skipped(tmp_path: Path) -> None:
    """There the model was asked about the source first, by itself."""
    path = tmp_path / "old.jsonl"
    spent = {"input_tokens": 1, "output_tokens": 1, "estimated": False}
    lines: list[dict[str, object]] = [{"event": "start"}]
    for phase in ("read", "inspect"):
        lines += [{"event": "request", "phase": phase}]
        lines += [{"event": "reply", "text": phase, "calls": [], "spent": spent}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [reply.text for reply in replies_of(path)] == ["inspect"]


# --- scripts and transcripts as models


def write(path: Path, *lines: object) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return str(path)


def test_a_script_from_end_to_end(tmp_path: Path) -> None:
    usage = {"usage": {"input": 9, "output": 4}}
    path = write(
        tmp_path / "script.jsonl",
        {"tool_calls": [{"name": "read_source", "arguments": {"line": 3}}], **usage},
        {"content": [{"type": "text", "text": "be"}, {"type": "text", "text": "cause"}]},
        {"content": "cut", "cut": True},
        {"tool_calls": [{"name": "read_source", "arguments": "{bad"}]},
    )
    chat = open_chat(ModelSpec(f"scripted:{path}", None, 5.0, None))
    assert chat.name == f"scripted:{path}"
    first = chat.ask(REQUEST._replace(tools=TOOLS, schema=SCHEMA))
    called = CALL._replace(id="call_1_0")
    assert first == ("", (called,), messages.TokenCount(9, 4), False, False)
    second = chat.ask(REQUEST)
    assert (second.text, second.spent.estimated) == ("because", True)
    assert chat.ask(REQUEST).cut
    assert chat.ask(REQUEST).calls == (BAD_CALL._replace(id="call_4_0", raw="{bad"),)
    with pytest.raises(messages.ModelFault, match="used up after 4 replies; add") as caught:
        chat.ask(REQUEST)
    assert caught.value.kind == "script"


def test_faults_refusals_and_interrupts() -> None:
    for kind in LINES.keys() - {"no_tools"}:
        chat = ScriptedChat([{"fault": kind}, {"content": "so"}], "m")
        with pytest.raises(messages.ModelFault, match=";") as caught:
            chat.ask(REQUEST)
        assert (caught.value.kind, chat.ask(REQUEST).text) == (kind, "so")
    chat = ScriptedChat([{"fault": "no_tools"}, {"fault": "interrupt"}], "m")
    with pytest.raises(messages.ModelFault, match="does not support tools"):
        chat.ask(REQUEST._replace(tools=TOOLS))
    with pytest.raises(KeyboardInterrupt):
        chat.ask(REQUEST)
    assert [len(request.tools) for request in chat.asked] == [1, 0]


def test_a_transcript_can_be_used_as_a_script(path: Path) -> None:
    """Also one that was cut."""
    run(path)
    path.write_bytes(path.read_bytes()[:-5])
    chat = open_script(path)
    assert [chat.ask(REQUEST) for _ in range(2)] == [REPLY, REPLY._replace(calls=())]


@each_row(
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
    path.unlink(missing_ok=True)
    if lines:
        write(path, *lines)
    with pytest.raises(messages.ModelFault) as caught:
        open_script(path)
    told = str(caught.value)
    assert (caught.value.kind, said in told, path.name in told) == ("script", True, True)
