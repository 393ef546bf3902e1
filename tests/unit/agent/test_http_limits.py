"""Limits of the HTTP client against servers that send too much; in this process, for speed."""

from __future__ import annotations

import gzip
import json
import os
import ssl
import zlib
from functools import cache, partial

import pytest

from keet.agent.model.http_limits import (
    MOST_CALLS,
    RedirectRefused,
    UnusableReply,
    limit_http,
    reach_directly,
    reduced,
)
from keet.agent.model.messages import ChatMessage, ChatReply, ChatRequest, ModelFault
from keet.agent.model.providers import connect
from keet.agent.model.settings import ModelSpec
from tests.hostile_behaviours import (
    BEHAVIOURS,
    HIDDEN,
    Behaviour,
    Connection,
    answer,
    fails_with_key,
    redirects_elsewhere,
    whole,
)
from tests.hostile_servers import serving
from tests.rows import each_row

ASK = ChatRequest((ChatMessage("user", "Why?"),))
BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


one_context = cache(ssl.create_default_context)
"""To read certificates takes longer than all the rest."""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123456789abcdefXYZ")
    monkeypatch.setattr(ssl, "create_default_context", one_context)
    for name in ("httpx", "httpx2"):
        client = pytest.importorskip(name).Client
        monkeypatch.setattr(client, "send", client.send)  # restored afterwards
    limit_http()


def asked(behaviour: Behaviour, timeout_s: float = 600.0) -> ChatReply:
    with serving(behaviour) as url:
        name = "m" if behaviour.names_model else ""
        return connect(ModelSpec(name, url, timeout_s, None, retries=0)).ask(ASK)


def fault(behaviour: Behaviour, timeout_s: float = 600.0) -> ModelFault:
    with pytest.raises(ModelFault) as caught:
        asked(behaviour, timeout_s)
    assert caught.value.__context__ is None
    return caught.value


@pytest.mark.slow
def test_replies_that_are_too_large_or_unusable() -> None:
    wrong = []
    for name, kind in {
        "gzip bomb": "too_large",
        "deflate bomb": "too_large",
        "endless chunks": "too_large",
        "a body of 10**15 bytes": "too_large",
        "ten million models": "too_large",
        "gzip bomb in a failure": "server",
        "endless failure": "other",
        "redirects with a bomb": "bad_reply",
        "redirects in a circle": "bad_reply",
        "gzip in gzip": "bad_reply",
        "gzip that is none": "bad_reply",
        "zstd that nobody asked for": "bad_reply",
        "deep JSON": "bad_reply",
        "a number of 100,000 digits": "bad_reply",
        "choices that are texts": "bad_reply",
        "endless headers": "unreachable",
        "key as a model's name": "unknown_model",
    }.items():
        found = fault(BY_NAME[name])
        if found.kind != kind or ";" not in str(found) or len(str(found)) > 500:
            wrong.append((name, found.kind, str(found)))
    assert wrong == []


STATUSES = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")


@pytest.mark.slow
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("names_model", [True, False])
def test_redirects_to_another_port_are_refused(status: str, names_model: bool, wording) -> None:
    """The other server gets no connection: neither the prompt nor the key."""
    reached: list[float] = []
    with serving(Behaviour("another", lambda to: to.send(whole(answer()))), reached) as other:
        place = f"{other}/chat/completions?x=1"
        found = fault(
            Behaviour("redirects", redirects_elsewhere(place, status), names_model=names_model)
        )
    assert found.kind == "redirect"
    assert f" {other};" in str(found)
    assert f"--base-url {other} " in str(found)
    if status == STATUSES[0]:
        wording(str(found))
    assert reached == []


@each_row(
    "place",
    [
        "https://127.0.0.1:{own}/v1",
        "http://localhost:{own}/v1",
        "http://127.0.0.2:{own}/v1",
        "//localhost:{own}/v1",
        "http://user:word@127.0.0.1:{own}/v1",
        "http://127.0.0.1:{own}@localhost/v1",
        "http://localhost:{own}\\@127.0.0.1:{own}/v1",
        "ftp://127.0.0.1:{own}/v1",
    ],
)
def test_redirects_to_another_scheme_host_or_user_are_refused(place: str) -> None:
    requests: list[int] = []

    def send(to: Connection) -> None:
        requests.append(to.number)
        own = to.socket.getsockname()[1]
        redirects_elsewhere(place.replace("{own}", str(own)))(to)

    assert fault(Behaviour("redirects", send)).kind in ("redirect", "bad_reply", "other")
    assert requests == [0]


@each_row("place", ["/v1/again", "again", "http://127.0.0.1:{own}/v1/again"])
def test_redirects_within_the_server_are_followed(place: str) -> None:
    def send(to: Connection) -> None:
        own = str(to.socket.getsockname()[1])
        if to.number:
            assert "some-key" in to.key
            to.send(whole(answer()))
        else:
            redirects_elsewhere(place.replace("{own}", own))(to)

    assert "coalesced" in asked(Behaviour("redirects", send)).text


def test_other_clients_do_not_follow_redirects_either() -> None:
    """As the SDKs of other providers make them."""
    reached: list[float] = []
    other = Behaviour("another", lambda to: to.send(whole(answer())))
    for name in ("httpx", "httpx2"):
        client = pytest.importorskip(name).Client(follow_redirects=True, trust_env=False)
        with client, serving(other, reached) as place:
            with (
                serving(Behaviour("redirects", redirects_elsewhere(place))) as url,
                pytest.raises(RedirectRefused),
            ):
                client.post(url, json={})
            assert reached == []
            assert client.post(place, json={}).status_code == 200
            reached.clear()


@each_row("form", HIDDEN)
def test_a_reply_with_a_key_is_dropped(form: str) -> None:
    found = fault(BY_NAME[f"key: {form}"])
    assert found.kind == "key_in_reply"
    assert "OPENAI_API_KEY" in str(found)
    assert "some-key" not in str(found)


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
        assert "The accesses" in asked(Behaviour("good", lambda to: to.send(whole(answer())))).text


def test_a_server_on_this_machine_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would read the prompt and the key."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.setenv("no_proxy", "")
    reach_directly("http://127.0.0.1:1/v1")
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"
    reach_directly("https://models.example.org/v1")
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"
    assert "coalesced" in asked(Behaviour("good", lambda to: to.send(whole(answer())))).text


def test_invalid_token_counts_are_estimated() -> None:
    for behaviour in BEHAVIOURS:
        if behaviour.name.startswith("usage: "):
            reply = asked(behaviour)
            assert reply.spent.estimated, behaviour.name
            assert "coalesced" in reply.text, behaviour.name


def test_a_compressed_answer_is_decoded() -> None:
    def send(to: Connection) -> None:
        assert "identity" in to.head
        to.send(whole(gzip.compress(answer().encode()), "200 OK", "Content-Encoding: gzip"))

    assert "coalesced" in asked(Behaviour("gzip", send)).text


def test_unknown_encodings_are_passed_through() -> None:
    """The last is deflate without zlib around it, which some servers send."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = answer().encode()
    for encoding, sent in {
        "utf-8": body,
        "none": body,
        "deflate": raw.compress(body) + raw.flush(),
    }.items():
        said = whole(sent, "200 OK", f"Content-Encoding: {encoding}")
        assert "coalesced" in asked(Behaviour(encoding, lambda to, said=said: to.send(said))).text


def test_an_unknown_encoding_does_not_hide_an_error_status() -> None:
    for encoding in ("br", "gzip", "deflate", "gzip, gzip"):
        said = whole(b"\x0b\x02\x80no", "401 Unauthorized", f"Content-Encoding: {encoding}")
        found = fault(Behaviour(encoding, lambda to, said=said: to.send(said)))
        assert found.kind == "wrong_key", encoding


def test_thinking_is_not_cut_as_if_it_were_the_answer() -> None:
    long = "<think>" + "hm " * 16 * ASK.max_output + "</think>because"
    reply = asked(Behaviour("thinks", lambda to: to.send(whole(_said(long), "200 OK"))))
    assert reply.text == "because"
    assert not reply.cut


def _said(text: str) -> bytes:
    document = json.loads(answer())
    document["choices"][0]["message"]["content"] = text
    return json.dumps(document).encode()


def test_only_the_first_choice_is_kept() -> None:
    assert asked(BY_NAME["half a million choices"]).text == "x"


def test_tool_calls_are_limited() -> None:
    assert (
        len(asked(BY_NAME["a thousand calls of tools"]._replace(send=_later(1))).calls)
        == MOST_CALLS
    )
    for name in ("arguments of 1 MB", "deep arguments"):
        (call,) = asked(BY_NAME[name]._replace(send=_later(1, name))).calls
        assert call.arguments is None
        assert len(call.raw) < 20_000


def _later(number: int, name: str = "a thousand calls of tools"):
    """As the server behaves from the second step on."""
    send = BY_NAME[name].send
    return lambda to: send(to._replace(number=number))


def test_a_text_is_limited_by_the_requested_tokens() -> None:
    reply = asked(BY_NAME["a long line, names redacted"])
    assert reply.cut
    assert len(reply.text) == 16 * ASK.max_output


def test_replies_are_reduced_to_what_keet_reads() -> None:
    body = {
        "choices": [{"message": {"content": "a"}}] * 3,
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": None, "x": 1},
        },
        "error": None,
    }
    found = json.loads(reduced(json.dumps(body).encode()))
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert found == {**body, "choices": body["choices"][:1], "usage": counts}
    for odd in ({"total_tokens": "7"}, {"reasoning_tokens": None}, {"cached_tokens": 1.5}):
        sent = json.dumps({"usage": {**counts, **odd}}).encode()
        assert json.loads(reduced(sent)) == {"usage": counts}
    wrong = {"prompt_tokens": 5, "completion_tokens": "2"}
    assert json.loads(reduced(json.dumps({"usage": wrong}).encode())) == {"usage": None}
    for value in (5, "x", None, {"a": 1}, [5]):
        sent = json.dumps({"choices": value}).encode()
        assert json.loads(reduced(sent)) == {"choices": value}
    for text in (b"", b"null", b"[1, 2]", b"<html>", b"\xff\x00", b'{"a": ' + b"9" * 5000 + b"}"):
        assert reduced(text) == text
    with pytest.raises(UnusableReply):
        reduced(b"[" * 100_000)
