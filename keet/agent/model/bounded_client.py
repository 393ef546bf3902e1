"""HTTP client for OpenAI-compatible servers that limits the size of replies.

httpx decompresses whole chunks, follows redirects to any host, and passes on all of a body. Here
the body is read and decompressed in pieces, and counted after decompression. It is reduced to what
keet reads (`reduced`) before Python objects are made of it.
"""

from __future__ import annotations

import json
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

from keet.optional_packages import is_installed

MOST_BYTES = 2 * 2**20
"""Of a reply, after decompression. The longest answer that keet asks for (24,000 tokens in an
evaluation) is about 100 kB, or 600 kB with every character escaped; a list of models has up to 1
MB. JSON of this size takes at most 100 MB as Python objects (measured with deeply nested lists)."""
_MOST_OF_AN_ERROR = 64 * 2**10
"""Bytes that are read of a reply with an error status. keet quotes 200 characters of it."""
_REDIRECTS = 5
_PIECE = 64 * 2**10
_WINDOW = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_KEEPALIVE = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPALIVE": 60,  # the same on macOS
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 120_000,
}
"""Seconds of silence before a connection is probed, seconds between probes, probes without an
answer that end it, and milliseconds until what was sent has to be confirmed: the values of
langchain's own client. A firewall forgets a connection on which nothing is sent for minutes, and a
model may think for so long."""


class ReplyTooLarge(Exception):
    """The server sent more than `MOST_BYTES`."""


class ReplyTimeout(TimeoutError):
    """The body took longer than the timeout of a call."""


class RedirectRefused(Exception):
    """The server redirects to another server; the message is the URL without query, user name and
    password. The prompt was not sent there."""


def bounded_client(timeout_s: float, url: str | None, proxy: str | None = None) -> Any:
    """A client for `openai.OpenAI` and `ChatOpenAI`. The timeout is for one request, to its last
    byte: a server that sends a byte now and then does not extend it. `url`: of the server; None:
    the provider's. `proxy`: its URL; None: from HTTPS_PROXY and similar variables."""
    from openai import DefaultHttpxClient

    class BoundedClient(DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            ends = time.monotonic() + timeout_s
            # Compression saves nothing at this size. Compressed replies are still decoded.
            request.headers["Accept-Encoding"] = "identity"
            response = _followed(super().send, request, {**options, "stream": True})
            try:
                return _read(response, ends)
            finally:
                response.close()

    return BoundedClient(**_connection(url, proxy))


def refuse_redirects() -> None:
    """The same rule for redirects in the clients of other providers, if they use httpx. For the
    worker process only: it changes the module."""
    for name in filter(is_installed, ("httpx", "httpx2")):
        client = import_module(name).Client
        client.send = _following_within_server(client.send)


def _following_within_server(plain: Callable[..., Any]) -> Callable[..., Any]:
    def send(client: Any, request: Any, **options: Any) -> Any:
        return _followed(partial(plain, client), request, options)

    return send


def _followed(send: Callable[..., Any], request: Any, options: dict[str, Any]) -> Any:
    """The response, after redirects within the server. Raises RedirectRefused, UnusableReply."""
    for _ in range(_REDIRECTS + 1):
        response = send(request, **{**options, "follow_redirects": False})
        if response.next_request is None:
            return response
        response.close()
        if not _is_same_server(response.next_request.url, request.url):
            raise RedirectRefused(_shown(response.next_request.url))
        request = response.next_request
    raise UnusableReply(f"it redirects more than {_REDIRECTS} times")


def _is_same_server(new: Any, old: Any) -> bool:
    """https to http would send the prompt unencrypted, another port is another program, another
    user name would replace the key. The URLs are compared as httpx reads them."""
    is_same = (new.scheme, new.host, new.port) == (old.scheme, old.host, old.port)
    return is_same and new.userinfo in (b"", old.userinfo)


def _shown(url: Any) -> str:
    """As --base-url takes it."""
    path = url.path.removesuffix("/").removesuffix("/chat/completions").removesuffix("/models")
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}{path}"


def _connection(url: str | None, proxy: str | None) -> dict[str, Any]:
    """Without a transport if the environment names a proxy: a client with its own transport would
    ignore it. A server on this machine is reached directly: a proxy would read the prompt."""
    from urllib.request import getproxies

    if not proxy and not _is_local(url) and any(name != "no" for name in getproxies()):
        return {}
    httpx = _httpx()
    options = _kept_alive()
    transport = httpx.HTTPTransport(proxy=proxy or None, socket_options=options)
    return {"transport": transport, "trust_env": False}


def _is_local(url: str | None) -> bool:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _httpx() -> Any:
    """The HTTP module that openai uses: `httpx`, or `httpx2` in newer releases."""
    from openai import DefaultHttpxClient

    return import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])


def _kept_alive() -> list[tuple[int, int, int]]:
    """The keep-alive options that this system supports."""
    found = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    with socket.socket() as probe:
        for name, value in _KEEPALIVE.items():
            option = (socket.IPPROTO_TCP, getattr(socket, name, -1), value)
            with suppress(OSError):
                probe.setsockopt(*option)
                found.append(option)
    return found


def _read(response: Any, ends: float) -> Any:
    """The same response with its body read, decoded and reduced."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    encoding = str(response.headers.get("content-encoding", "")).strip().lower() or "identity"
    pieces = decoded(_in_time(response.iter_raw(), ends), encoding)
    body = _of_error(pieces) if response.is_error else reduced(_text(_whole(pieces), encoding))
    return type(response)(
        status_code=response.status_code, headers=headers, content=body, request=response.request
    )


def _text(body: bytes, encoding: str) -> bytes:
    """Returns the body. Raises UnusableReply if its encoding is unknown and it is not text."""
    if encoding not in ("identity", *_WINDOW):
        try:
            body.decode()
        except UnicodeDecodeError:
            line = f"it is encoded as {encoding[:40]}, which was not requested"
            raise UnusableReply(line) from None
    return body


def _in_time(pieces: Iterable[bytes], ends: float) -> Iterator[bytes]:
    for piece in pieces:
        if time.monotonic() > ends:
            raise ReplyTimeout("timed out")
        yield piece


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Decompresses in pieces of limited size. Bytes with an unknown encoding (such as "utf-8") are
    passed through. Raises UnusableReply."""
    if encoding not in _WINDOW:
        yield from pieces
        return
    taken = iter(pieces)
    head = _head(taken)
    decoder = zlib.decompressobj(_window(encoding, head))
    try:
        for piece in chain([head], taken):
            rest = piece
            while rest and not decoder.eof:
                yield decoder.decompress(rest, _PIECE)
                rest = decoder.unconsumed_tail
        yield decoder.flush()
    except zlib.error:
        raise UnusableReply(f"it is not {encoding}") from None


def _head(pieces: Iterator[bytes]) -> bytes:
    """At least two bytes, if the body has them."""
    head = b""
    while len(head) < 2 and (piece := next(pieces, None)) is not None:
        head += piece
    return head


def _window(encoding: str, head: bytes) -> int:
    """Some servers send deflate without the two header bytes of zlib."""
    is_zlib = len(head) < 2 or (head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0)
    return _WINDOW[encoding] if encoding != "deflate" or is_zlib else -zlib.MAX_WBITS


def _whole(pieces: Iterable[bytes]) -> bytes:
    """Raises ReplyTooLarge."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MOST_BYTES:
            raise ReplyTooLarge(f"more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _of_error(pieces: Iterable[bytes]) -> bytes:
    """The beginning of the body of an error, as far as it can be decoded."""
    body = bytearray()
    with suppress(UnusableReply):
        for piece in pieces:
            body += piece
            if len(body) >= _MOST_OF_AN_ERROR:
                break
    return bytes(body[:_MOST_OF_AN_ERROR])


MOST_CALLS = 16
"""Tool calls per reply. keet runs 5 of them and tells the model which it did not run."""
_MOST_TOKENS = 10**8
"""Larger token counts are ignored: no context is that long."""
_MOST_PARTS = 64
"""Items of a list of parts in OpenAI's Responses API."""
_READ = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
"""Token counts that keet reads, under both sets of names that OpenAI uses."""
_LISTS = {"choices": 1, "data": 1, "output": _MOST_PARTS}


class UnusableReply(ValueError):
    """The server sent something that can't be decoded."""


def reduced(body: bytes) -> bytes:
    """A JSON object is reduced to its first choice, valid counts and short lists. Anything else is
    left as it is: the client reports what is wrong with it. Raises UnusableReply.

    Clients make objects of everything in a reply: a million empty choices become gigabytes, and a
    token count that is a string fails the whole answer.
    """
    try:
        document = json.loads(body)
    except RecursionError:
        raise UnusableReply("its JSON is nested too deeply") from None
    except ValueError:
        return body
    if not isinstance(document, dict):
        return body
    for name, most in _LISTS.items():
        if isinstance(document.get(name), list):
            document[name] = document[name][:most]
    if "usage" in document:
        document["usage"] = _counts(document["usage"])
    if isinstance(document.get("choices"), list):
        for choice in document["choices"]:
            _reduce_choice(choice)
    return json.dumps(document).encode()


def _reduce_choice(choice: object) -> None:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return
    for name, most in (("tool_calls", MOST_CALLS), ("content", _MOST_PARTS)):
        if isinstance(message.get(name), list):
            message[name] = message[name][:most]


def _counts(usage: object) -> dict[str, Any] | None:
    """The valid counts; None if one that keet reads is not valid: keet estimates then."""
    if not isinstance(usage, dict) or not all(is_count(usage.get(name, 0)) for name in _READ):
        return None
    counts = {name: usage[name] for name in usage if name.endswith("_tokens")}
    details = {name: _details(usage[name]) for name in usage if name.endswith("_tokens_details")}
    return {**_details(counts), **details}


def _details(found: object) -> Mapping[str, int]:
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if is_count(value)}


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
