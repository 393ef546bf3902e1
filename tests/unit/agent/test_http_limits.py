"""Limits of the HTTP client against servers that send too much; in this process, for speed."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from functools import partial

import pytest

from keet.agent.model import http_limits
from keet.agent.model.langchain_chat import connect
from keet.agent.model.messages import ChatMessage, ChatReply, ChatRequest, ModelFault, ModelToolCall
from keet.agent.model.settings import ModelSpec
from tests.hostile_behaviours import (
    BEHAVIOURS,
    HIDDEN,
    Behaviour,
    Connection,
    answer,
    content,
    fails_with_key,
    redirects_elsewhere,
    reply,
    whole,
)
from tests.hostile_servers import serving
from tests.rows import each_row

ASK = ChatRequest((ChatMessage("user", "Why?"),))
BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}
ANSWER = answer().encode()
GOOD = reply(answer())


@pytest.fixture(autouse=True)
def key(local_http: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123456789abcdefXYZ")


def asked(behaviour: Behaviour, timeout_s: float = 600.0) -> ChatReply:
    with serving(behaviour) as url:
        name = "m" if behaviour.names_model else ""
        return connect(ModelSpec(name, url, timeout_s, None, retries=0)).ask(ASK)


def fault(behaviour: Behaviour, timeout_s: float = 600.0) -> ModelFault:
    with pytest.raises(ModelFault) as caught:
        asked(behaviour, timeout_s)
    assert caught.value.__context__ is None
    return caught.value


REPLIES = {
    "too_large": ("gzip bomb", "deflate bomb", "endless chunks", "a body of 10**15 bytes", "ten million models"),
    "server": ("gzip bomb in a failure",),
    "other": ("endless failure",),
    "bad_reply": (
        "redirects with a bomb", "redirects in a circle", "gzip in gzip", "gzip that is none",
        "zstd that nobody asked for", "deep JSON", "a number of 100,000 digits", "choices that are texts",
    ),
    "unreachable": ("endless headers",),
    "unknown_model": ("key as a model's name",),
}  # fmt: skip


@pytest.mark.slow
@each_row("kind, name", [(kind, name) for kind, names in REPLIES.items() for name in names])
def test_replies_that_are_too_large_or_unusable(kind: str, name: str) -> None:
    found = fault(BY_NAME[name])
    assert (found.kind, ";" in str(found), len(str(found)) <= 500) == (kind, True, True)


STATUSES = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")


@pytest.mark.slow
def test_redirects_to_another_port_are_refused(wording) -> None:
    """The other server gets no connection: neither the prompt nor the key."""
    for status, names_model in (*((status, True) for status in STATUSES), (STATUSES[1], False)):
        reached: list[float] = []
        with serving(Behaviour("another", GOOD), reached) as other:
            send = redirects_elsewhere(f"{other}/chat/completions?x=1", status)
            found = fault(Behaviour("redirects", send, names_model=names_model))
        assert (found.kind, reached) == ("redirect", [])
        assert f" {other};" in str(found)
        assert f"--base-url {other} " in str(found)
        if status == STATUSES[0]:
            wording(str(found))


ELSEWHERE = (
    *("https://127.0.0.1:{own}/v1", "http://localhost:{own}/v1", "http://127.0.0.2:{own}/v1"),
    *("//localhost:{own}/v1", "http://user:word@127.0.0.1:{own}/v1", "ftp://127.0.0.1:{own}/v1"),
    *("http://127.0.0.1:{own}@localhost/v1", "http://localhost:{own}\\@127.0.0.1:{own}/v1"),
)
WITHIN = ("/v1/again", "again", "http://127.0.0.1:{own}/v1/again")


@each_row("place", ELSEWHERE + WITHIN)
def test_redirects_within_the_server_are_followed_and_no_others(place: str) -> None:
    requests: list[str] = []

    def send(to: Connection) -> None:
        requests.append(to.key)
        own = str(to.socket.getsockname()[1])
        (GOOD if to.number else redirects_elsewhere(place.replace("{own}", own)))(to)

    if place in WITHIN:
        assert "coalesced" in asked(Behaviour("redirects", send)).text
        assert "some-key" in requests[1]
    else:
        assert fault(Behaviour("redirects", send)).kind in ("redirect", "bad_reply", "other")
        assert len(requests) == 1


def test_other_clients_do_not_follow_redirects_either() -> None:
    """As the SDKs of other providers make them."""
    for name in ("httpx", "httpx2"):
        reached: list[float] = []
        client = pytest.importorskip(name).Client(follow_redirects=True, trust_env=False)
        with client, serving(Behaviour("another", GOOD), reached) as place:
            elsewhere = Behaviour("redirects", redirects_elsewhere(place))
            with serving(elsewhere) as url, pytest.raises(http_limits.RedirectRefused):
                client.post(url, json={})
            assert reached == []
            assert client.post(place, json={}).status_code == 200


@each_row("form", HIDDEN)
def test_a_reply_with_a_key_is_dropped(form: str) -> None:
    found = fault(BY_NAME[f"key: {form}"])
    assert found.kind == "key_in_reply"
    assert ("OPENAI_API_KEY" in str(found), "some-key" in str(found)) == (True, False)


def test_a_key_in_tool_calls_and_errors() -> None:
    assert fault(BY_NAME["key in calls of tools"]).kind == "key_in_reply"
    for name in ("key in HTTP 400", "key in HTTP 404", "key in HTTP 500"):
        assert "[removed: " in str(fault(BY_NAME[name])), name
    coded = partial(fails_with_key, "500 Failed", HIDDEN["base64 twice"])
    assert "[removed: " in str(fault(Behaviour("coded", coded)))


def test_short_keys_do_not_drop_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """As servers without keys are given them."""
    for key in ("none", "EMPTY", "sk-1", "ollama", "token-abc", "coalesced", "not-needed"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        assert "The accesses" in asked(Behaviour("good", GOOD)).text


def test_a_server_on_this_machine_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would read the prompt and the key."""
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.setenv("no_proxy", "")
    for url in ("http://127.0.0.1:1/v1", "https://models.example.org/v1"):
        http_limits.reach_directly(url)
        assert os.environ["no_proxy"] == "example.org,127.0.0.1"
    assert "coalesced" in asked(Behaviour("good", GOOD)).text


def test_invalid_token_counts_are_estimated() -> None:
    for behaviour in (each for each in BEHAVIOURS if each.name.startswith("usage: ")):
        reply = asked(behaviour)
        assert (reply.spent.estimated, "coalesced" in reply.text) == (True, True), behaviour.name


def test_compressed_answers_are_decoded_and_unknown_encodings_passed_through() -> None:
    raw = zlib.compress(ANSWER)[2:-4]  # without zlib around it, as some servers send it
    bodies = {"gzip": gzip.compress(ANSWER), "utf-8": ANSWER, "none": ANSWER, "deflate": raw}
    for encoding, body in bodies.items():
        sent = whole(body, "200 OK", f"Content-Encoding: {encoding}")

        def send(to: Connection, sent: bytes = sent) -> None:
            assert "identity" in to.head
            to.send(sent)

        assert "coalesced" in asked(Behaviour(encoding, send)).text, encoding
    # and do not hide an error status
    for encoding in ("br", "gzip", "gzip, gzip"):
        said = whole(b"\x0b\x02\x80no", "401 Unauthorized", f"Content-Encoding: {encoding}")
        assert fault(Behaviour(encoding, lambda to, said=said: to.send(said))).kind == "wrong_key"


def test_thinking_is_not_cut_as_if_it_were_the_answer() -> None:
    long = "<think>" + "hm " * 16 * ASK.max_output + "</think>because"
    reply = asked(Behaviour("thinks", content(long)))
    assert (reply.text, reply.cut) == ("because", False)


def test_only_the_first_choice_is_kept_and_its_length_limited() -> None:
    assert asked(BY_NAME["half a million choices"]).text == "x"
    reply = asked(BY_NAME["a long line, names redacted"])
    assert (reply.cut, len(reply.text)) == (True, 16 * ASK.max_output)
    assert len(_calls_of("a thousand calls of tools")) == http_limits.MOST_CALLS
    for name in ("arguments of 1 MB", "deep arguments"):
        (call,) = _calls_of(name)
        assert (call.arguments, len(call.raw) < 20_000) == (None, True)


def _calls_of(name: str) -> tuple[ModelToolCall, ...]:
    """In the second step."""
    behaviour = BY_NAME[name]
    return asked(behaviour._replace(send=lambda to: behaviour.send(to._replace(number=1)))).calls


def test_replies_are_reduced_to_what_keet_reads() -> None:
    def reduced(document: object) -> object:
        return json.loads(http_limits.reduced(json.dumps(document).encode()))

    details = {"cached_tokens": None, "x": 1}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": details}
    choices = [{"message": {"content": "a"}}]
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    found = reduced({"choices": choices * 3, "usage": usage, "error": None})
    assert found == {"choices": choices, "usage": counts, "error": None}
    for odd in ({"total_tokens": "7"}, {"reasoning_tokens": None}, {"cached_tokens": 1.5}):
        assert reduced({"usage": {**counts, **odd}}) == {"usage": counts}
    wrong = {"prompt_tokens": 5, "completion_tokens": "2"}
    assert reduced({"usage": wrong}) == {"usage": None}
    for value in (5, "x", None, {"a": 1}, [5]):
        assert reduced({"choices": value}) == {"choices": value}
    for text in (b"", b"null", b"[1, 2]", b"<html>", b"\xff\x00", b'{"a": ' + b"9" * 5000 + b"}"):
        assert http_limits.reduced(text) == text
    with pytest.raises(http_limits.UnusableReply):
        http_limits.reduced(b"[" * 100_000)
