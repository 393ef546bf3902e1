"""Limits for the HTTP clients of the worker process: size of replies, redirects, proxies.

Every provider's package brings its own client, and most of them use httpx, which follows redirects
to any host and passes on all of a body. `limit_http` replaces `Client.send` for all of them: the
body is counted after decompression, and reduced to what keet reads (`reduced`) before Python
objects are made of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from keet.lazy import is_installed

MOST_BYTES = 2 * 2**20
"""Of a reply, after decompression. The longest answer that keet asks for (24,000 tokens in an
evaluation) is about 100 kB, or 600 kB with every character escaped; a list of models has up to 1
MB. JSON of this size takes at most 100 MB as Python objects (measured with deeply nested lists)."""
_MOST_OF_AN_ERROR = 64 * 2**10
"""Bytes that are read of a reply with an error status. keet quotes 200 characters of it."""
_REDIRECTS = 5
MOST_CALLS = 16
"""Tool calls per reply. keet runs 5 of them and tells the model which it did not run."""
_MOST_TOKENS = 10**8
"""Larger token counts are ignored: no context is that long."""
_MOST_PARTS = 64
"""Items of a list of parts in OpenAI's Responses API."""
_COUNTS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
"""Token counts that keet reads, under both sets of names that OpenAI uses."""
_OF_OPENAI = ("/chat/completions", "/responses", "/models")
"""Paths of OpenAI's API. Replies of other APIs are limited in size, but not reduced."""


class ReplyTooLarge(Exception):
    """The server sent more than `MOST_BYTES`."""


class UnusableReply(ValueError):
    """The server sent something that can't be decoded."""


class RedirectRefused(Exception):
    """The server redirects to another server; the message is the URL without query, user name and
    password. The prompt was not sent there."""


def limit_http(*, sizes: bool = True) -> None:
    """For the worker process only: it changes the modules. `sizes`: False for clients that may
    download a model."""
    for name in filter(is_installed, ("httpx", "httpx2")):
        client = import_module(name).Client
        client.send = _limited(client.send, sizes=sizes)


def _limited(plain: Callable[..., Any], *, sizes: bool) -> Callable[..., Any]:
    def send(client: Any, request: Any, **options: Any) -> Any:
        if not sizes:
            return _followed(partial(plain, client), request, options)
        # Compression saves nothing at this size. Compressed replies are still decoded.
        request.headers["Accept-Encoding"] = "identity"
        response = _followed(partial(plain, client), request, {**options, "stream": True})
        try:
            return _read(response, is_of_openai=request.url.path.endswith(_OF_OPENAI))
        finally:
            response.close()

    return send


def _followed(send: Callable[..., Any], request: Any, options: dict[str, Any]) -> Any:
    """The response, after redirects within the server. Raises RedirectRefused, UnusableReply."""
    for _ in range(_REDIRECTS + 1):
        response = send(request, **{**options, "follow_redirects": False})
        if response.next_request is None:
            return response
        response.close()
        new, old = response.next_request.url, request.url
        # https to http would send the prompt unencrypted, another port is another program, another
        # user name would replace the key. The URLs are compared as httpx reads them.
        is_same = (new.scheme, new.host, new.port) == (old.scheme, old.host, old.port)
        if not is_same or new.userinfo not in (b"", old.userinfo):
            path = new.path.removesuffix("/").removesuffix("/chat/completions")
            host = new.netloc.decode("ascii", "replace")
            raise RedirectRefused(f"{new.scheme}://{host}{path.removesuffix('/models')}")
        request = response.next_request
    raise UnusableReply(f"it redirects more than {_REDIRECTS} times")


def _read(response: Any, *, is_of_openai: bool) -> Any:
    """The same response with its body read, decoded and reduced. Of an error, only the beginning.

    httpx decodes pieces of 64 KiB, which gzip and deflate can expand to 64 MiB. Other encodings and
    several at once can expand much further: they are not decoded.
    """
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    encoding = str(response.headers.get("content-encoding", "")).strip().lower()
    is_decoded = encoding in ("gzip", "deflate")
    most = _MOST_OF_AN_ERROR if response.is_error else MOST_BYTES
    body = bytearray()
    try:
        for piece in response.iter_bytes() if is_decoded else response.iter_raw():
            body += piece
            if len(body) > most:
                break
    except import_module(type(response).__module__.partition(".")[0]).DecodingError:
        if not response.is_error:
            raise UnusableReply(f"it is not {encoding}") from None
    if len(body) > most and not response.is_error:
        raise ReplyTooLarge(f"more than {most:,} bytes")
    content = bytes(body[:most])
    return type(response)(
        status_code=response.status_code,
        headers=headers,
        content=reduced(content) if is_of_openai and not response.is_error else content,
        request=response.request,
    )


def reach_directly(url: str | None) -> None:
    """For the worker process only. A server on this machine is not asked through a proxy, which
    would read the prompt."""
    host = urlsplit(url or "").hostname or ""
    is_local = host == "localhost"
    with suppress(ValueError):
        is_local = is_local or ip_address(host).is_loopback
    if is_local:
        others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (others, host)))


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
    _shorten(document, {"choices": 1, "data": 1, "output": _MOST_PARTS})
    for choice in _list_of(document, "choices"):
        message = choice.get("message") if isinstance(choice, dict) else None
        _shorten(message, {"tool_calls": MOST_CALLS, "content": _MOST_PARTS})
        for call in _list_of(message, "tool_calls"):
            _mark_arguments(call)
    if "usage" in document:
        document["usage"] = _counts(document["usage"])
    return json.dumps(document).encode()


def _list_of(document: object, name: str) -> list[Any]:
    """Empty where there is none."""
    known = document.get(name) if isinstance(document, dict) else None
    return known if isinstance(known, list) else []


def _shorten(document: object, lengths: Mapping[str, int]) -> None:
    for name, most in lengths.items():
        del _list_of(document, name)[most:]


def _mark_arguments(call: object) -> None:
    """langchain rejects a whole reply if the arguments of a tool are a list or a word. As text that
    is not JSON they are an invalid call, which the model can correct."""
    function = call.get("function") if isinstance(call, dict) else None
    given = str(function.get("arguments") or "").strip() if isinstance(function, dict) else ""
    if isinstance(function, dict) and given and not given.startswith("{"):
        function["arguments"] = f"not a JSON object: {given}"


def _counts(usage: object) -> dict[str, int] | None:
    """None if one is not valid: keet estimates then."""
    if not isinstance(usage, dict):
        return None
    counts = {name: usage[name] for name in _COUNTS if name in usage}
    is_valid = all(map(is_count, counts.values()))
    return {**counts, "total_tokens": sum(counts.values())} if is_valid else None


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
