"""The HTTP client for servers that speak like OpenAI's: no reply is larger than a stated bound.

httpx decompresses whole chunks, reads the body of every redirect, and hands all of it on. Here the
body is read in pieces, decompressed in pieces, and counted after decompression. What is left of it
is reduced to what keet reads (reply_shape.py) before any object is made of it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from keet.agent.reply_shape import UnusableReply, reduced

MOST_BYTES = 2 * 2**20
"""Of a reply, decompressed. The longest answer that keet asks for (24,000 tokens in an evaluation)
is about 100 kB, or 600 kB with every character escaped; a list of models has up to 1 MB. JSON of
this size takes at most 100 MB as Python objects (measured with deeply nested lists)."""
_MOST_OF_AN_ERROR = 64 * 2**10
"""Of a reply with an error status: the rest is not read. keet quotes 200 characters of it."""
_REDIRECTS = 5
_PIECE = 64 * 2**10
_WINDOW = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


class ReplyTooLarge(Exception):
    """The server sent more than `MOST_BYTES`."""


class ReplyTimeout(TimeoutError):
    """The body took longer than the timeout of a call."""


def bounded_client(timeout_s: float) -> Any:
    """A client for `openai.OpenAI` and `ChatOpenAI`. The timeout is of one request, to its last
    byte: a server that sends a byte now and then does not extend it."""
    from openai import DefaultHttpxClient

    class BoundedClient(DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            ends = time.monotonic() + timeout_s
            # Compression saves nothing at this size. A server that uses it anyway is understood.
            request.headers["Accept-Encoding"] = "identity"
            options |= {"stream": True, "follow_redirects": False}
            response = self._followed(super().send(request, **options), options)
            try:
                return _read(response, ends)
            finally:
                response.close()

        def _followed(self, response: Any, options: dict[str, Any]) -> Any:
            """The client builds the next request, and leaves the key out of one to another host."""
            for _ in range(_REDIRECTS):
                if response.next_request is None:
                    return response
                response.close()
                response = super().send(response.next_request, **options)
            if response.next_request is None:
                return response
            response.close()
            raise UnusableReply(f"it redirects more than {_REDIRECTS} times")

    return BoundedClient()


def _read(response: Any, ends: float) -> Any:
    """The same response with its body read, decoded and reduced."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    pieces = decoded(_in_time(response.iter_raw(), ends), _encoding(response))
    body = _beginning(pieces) if response.is_error else reduced(_whole(pieces))
    return type(response)(
        status_code=response.status_code, headers=headers, content=body, request=response.request
    )


def _encoding(response: Any) -> str:
    return str(response.headers.get("content-encoding", "")).strip().lower() or "identity"


def _in_time(pieces: Iterable[bytes], ends: float) -> Iterator[bytes]:
    for piece in pieces:
        if time.monotonic() > ends:
            raise ReplyTimeout("timed out")
        yield piece


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """In pieces of bounded size, however much a few bytes stand for. Raises UnusableReply."""
    if encoding == "identity":
        yield from pieces
        return
    if encoding not in _WINDOW:
        raise UnusableReply(f"it is encoded as {encoding[:40]}, which nobody asked for")
    decoder = zlib.decompressobj(_WINDOW[encoding])
    try:
        for piece in pieces:
            rest = piece
            while rest and not decoder.eof:
                yield decoder.decompress(rest, _PIECE)
                rest = decoder.unconsumed_tail
        yield decoder.flush()
    except zlib.error:
        raise UnusableReply(f"it is no {encoding}") from None


def _whole(pieces: Iterable[bytes]) -> bytes:
    """Raises ReplyTooLarge."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MOST_BYTES:
            raise ReplyTooLarge(f"more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _beginning(pieces: Iterable[bytes]) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) >= _MOST_OF_AN_ERROR:
            break
    return bytes(body[:_MOST_OF_AN_ERROR])
