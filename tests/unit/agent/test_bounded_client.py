"""Limits of the HTTP client against servers that send too much; in this process, for speed."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import zlib
from collections.abc import Iterator
from functools import cache

import pytest

from keet.agent.model import bounded_client
from keet.agent.model.bounded_client import MOST_BYTES, decoded
from keet.agent.model.messages import ChatMessage, ChatReply, ChatRequest, ModelFault
from keet.agent.model.providers import connect
from keet.agent.model.reply_reduction import MOST_CALLS, UnusableReply, reduced
from keet.agent.model.settings import ModelSpec
from tests.hostile_behaviours import BEHAVIOURS, Behaviour, Connection, answer, drips_chunks, whole
from tests.hostile_servers import serving

ASK = ChatRequest((ChatMessage("user", "Why?"),))
BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


one_context = cache(ssl.create_default_context)
"""To read certificates takes longer than all the rest."""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key-0123456789")
    monkeypatch.setattr(ssl, "create_default_context", one_context)


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


def test_a_body_sent_byte_by_byte_ends_with_the_timeout() -> None:
    found = fault(Behaviour("drips", drips_chunks), timeout_s=0.5)
    assert found.kind == "timeout"
    assert "did not answer in 0.5 s" in str(found)


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


def test_connections_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As langchain's own client keeps them. With a proxy of the environment, httpx makes them."""
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"no": "localhost"})
    options = bounded_client.bounded_client(5.0)._transport._pool._socket_options
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
    assert (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60) in options
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://127.0.0.1:9"})
    client = bounded_client.bounded_client(5.0)
    assert any("Proxy" in type(each._pool).__name__ for each in client._mounts.values() if each)


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


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_decoding_in_pieces(encoding: str) -> None:
    text = json.dumps(list(range(50_000))).encode() + bytes(300_000)
    packed = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)
    for size in (1, 7, 4096, len(packed)):
        found = list(decoded(pieces(packed, size), encoding))
        assert b"".join(found) == text
        assert max(map(len, found)) <= bounded_client._PIECE


def test_a_decompression_bomb_stops_at_the_size_limit() -> None:
    """Large expansions are decoded in small steps."""
    packed = zlib.compress(bytes(64 * 2**20), 9)
    taken = 0
    for piece in decoded([packed], "deflate"):
        taken += len(piece)
        if taken > MOST_BYTES:
            break
    assert taken <= MOST_BYTES + bounded_client._PIECE


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
    assert found == {
        **body,
        "choices": body["choices"][:1],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"x": 1}},
    }
    counts = {"prompt_tokens": 5, "completion_tokens": 2}
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
