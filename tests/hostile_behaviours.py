"""What a broken or hostile model server may do, one function each.

A function gets the open connection and the request (its first line, its headers, its key), and
sends what it likes. `BEHAVIOURS` is the table that tests/test_hostile_servers.py goes through.
"""

import base64
import codecs
import gzip
import json
import socket
import string
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

Send = Callable[["Connection"], None]

SHORT, LONG = 3.0, 600.0
"""Seconds that a run may wait for the model: where the limit has to end it, and where not."""


class Connection(NamedTuple):
    socket: socket.socket
    head: str
    """The request line and the headers; empty where the request was not read."""
    number: int
    """Of the request, from 0."""
    body: bytes = b""

    @property
    def key(self) -> str:
        for line in self.head.splitlines():
            name, _, value = line.partition(":")
            if name.lower() == "authorization":
                return value.strip().removeprefix("Bearer ")
        return "no-key-was-sent"

    def send(self, *parts: bytes | Iterable[bytes]) -> None:
        """Iterables piece by piece: some never end."""
        for part in parts:
            for piece in [part] if isinstance(part, bytes) else part:
                self.socket.sendall(piece)


class Behaviour(NamedTuple):
    name: str
    send: Send
    seconds: float = LONG
    reads: bool = True
    """Whether the server reads the request first."""
    scheme: str = "http"
    names_model: bool = True
    """False: keet has to ask the server for its models."""
    options: tuple[str, ...] = ()
    asks: bool = False
    """`keet ask` in place of `keet explain`."""


# --- parts of replies


def head(status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(
    body: bytes | str, status: str = "200 OK", *headers: str, kind: str = "application/json"
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return head(status, f"Content-Length: {len(data)}", *headers, kind=kind) + data


def completion(content: Any, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


ANSWER = {"purpose": "It transposes.", "summary": "The accesses are not coalesced."}


def answer(**parts: Any) -> str:
    return json.dumps(completion(json.dumps({**ANSWER, **parts})))


def reply(
    text: str | bytes, status: str = "200 OK", *headers: str, kind: str = "application/json"
) -> Send:
    return lambda to: to.send(whole(text, status, *headers, kind=kind))


def drip(data: bytes, pause: float = 0.1) -> Iterator[bytes]:
    for at in range(len(data)):
        yield data[at : at + 1]
        time.sleep(pause)


def forever(piece: bytes, pause: float = 0.0) -> Iterator[bytes]:
    while True:
        yield piece
        time.sleep(pause)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = "Transfer-Encoding: chunked"


def bomb(window: int, megabytes: int = 2000) -> Iterator[bytes]:
    """A few MB that stand for many."""
    packer, zeros = zlib.compressobj(9, zlib.DEFLATED, window), bytes(2**20)
    for _ in range(megabytes):
        yield packer.compress(zeros)
    yield packer.flush()


def bombed(encoding: str, window: int, status: str = "200 OK", *headers: str) -> Send:
    return lambda to: to.send(head(status, f"Content-Encoding: {encoding}", *headers), bomb(window))


GZIP, DEFLATE = zlib.MAX_WBITS | 16, zlib.MAX_WBITS


# --- time


def never_answers(to: Connection) -> None:
    time.sleep(100)


def drips_headers(to: Connection) -> None:
    to.send(drip(head("200 OK", *(f"X-{n}: y" for n in range(200)))))


def drips_body(to: Connection) -> None:
    to.send(head("200 OK", "Content-Length: 100000"), drip(b" " * 100_000))


def drips_chunks(to: Connection) -> None:
    to.send(head("200 OK", CHUNKED), forever(chunk(b" "), 0.1))


def continues(to: Connection, pause: float) -> None:
    to.send(forever(b"HTTP/1.1 100 Continue\r\n\r\n", pause))


def redirects(to: Connection, pause: float = 0.0, place: str = "/v1/chat/completions") -> None:
    time.sleep(pause)
    to.send(whole(b"", "307 Temporary Redirect", f"Location: {place}?n={to.number}"))


def redirects_elsewhere(place: str, status: str = "307 Temporary Redirect") -> Send:
    """`{}` in the place: the key."""
    return lambda to: to.send(whole(b"", status, f"Location: {place.format(to.key)}"))


ELSEWHERE = "127.0.0.1:9"
PLACES = {
    "host": "http://localhost:9/v1/chat/completions",
    "scheme": "https://127.0.0.1/v1",
    "no scheme": f"//{ELSEWHERE}/v1",
    "user": f"http://127.0.0.1@{ELSEWHERE}/v1",
    "key": f"http://{ELSEWHERE}/{{}}",
}


def redirects_with_bomb(to: Connection) -> None:
    bombed("gzip", GZIP, "307 Temporary Redirect", "Location: /v1/again")(to)


def takes_its_time(to: Connection) -> None:
    """The first step is answered, the second one too late."""
    time.sleep(1.0 if to.number == 0 else 100)
    to.send(whole(answer()))


def lists_slowly(to: Connection) -> None:
    to.send(
        head("200 OK", CHUNKED), chunk(b'{"object": "list", "data": ['), forever(chunk(b" "), 0.1)
    )


def resets(to: Connection) -> None:
    to.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# --- size


def endless_headers(to: Connection) -> None:
    to.send(b"HTTP/1.1 200 OK\r\n", forever(b"X-Y: " + b"z" * 1000 + b"\r\n"))


def endless_chunks(to: Connection) -> None:
    to.send(head("200 OK", CHUNKED), forever(chunk(b'{"a": "' + b"z" * 60_000)))


def endless_error(to: Connection) -> None:
    to.send(head("400 Bad Request", CHUNKED), forever(chunk(b"api key " * 8000)))


def endless_list(to: Connection) -> None:
    item = json.dumps({"id": "m", "object": "model"}).encode() + b","
    to.send(head("200 OK", CHUNKED), chunk(b'{"data": ['), forever(chunk(item * 1000)))


def many_choices(to: Connection) -> None:
    body = json.dumps(completion("x"))
    to.send(whole(body[:-2] + ",{}" * 500_000 + "]}"))


def deep(levels: int = 100_000) -> str:
    return "[" * levels + "]" * levels


def content(text: str) -> Send:
    return reply(json.dumps(completion(text)))


def then(second: Send) -> Send:
    """A good answer to the first step, which is cheap to send on, and then something else."""
    return lambda to: reply(answer())(to) if to.number == 0 else second(to)


def usage(value: str) -> Send:
    return reply(answer()[:-1] + f', "usage": {value}}}')


def calls(*named: tuple[str, str]) -> Send:
    """Tool calls in every reply until tools are not offered any more."""
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, text) in enumerate(named)
    ]
    return reply(json.dumps(completion(None, tool_calls=made)))


# --- keys


def of_chars(form: str) -> Callable[[str], str]:
    """Each character of the key in this form."""
    return lambda key: "".join(form.format(ord(char)) for char in key)


def in_base64(key: str) -> str:
    return base64.b64encode(f"Bearer {key}".encode()).decode()


entities, percent, escapes = map(of_chars, ("&#{};", "%{:02x}", "\\u{:04x}"))


ROT5 = str.maketrans(
    string.ascii_letters,
    "".join(each[5:] + each[:5] for each in (string.ascii_lowercase, string.ascii_uppercase)),
)

HIDDEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "entities": entities,
    "entities in entities": lambda key: entities(key).replace("&", "&amp;"),
    "percent": percent,
    "escapes": escapes,
    "JSON in JSON": lambda key: json.dumps(json.dumps(escapes(key))),
    "base64": in_base64,
    "base 16": lambda key: key.encode().hex(),
    "zero width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "other case": str.swapcase,
    "lines": "\n".join,
    "tags": "<b></b>".join,
    "full width": lambda key: "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in key),
    "colours": "\x1b[1m".join,
    "backwards": lambda key: key[::-1],
    "ROT13": lambda key: codecs.encode(key, "rot13"),
    "ROT5": lambda key: key.translate(ROT5),
    "base 32": lambda key: base64.b32encode(key.encode()).decode(),
    "base 85": lambda key: base64.b85encode(key.encode()).decode(),
    "Ascii85": lambda key: base64.a85encode(key.encode()).decode(),
    "decimal": lambda key: " ".join(str(ord(char)) for char in key),
    "octal": lambda key: ", ".join(f"{ord(char):o}" for char in key),
    "binary": lambda key: " ".join(f"{ord(char):b}" for char in key),
    "bytes in C": lambda key: ", ".join(f"0x{ord(char):02x}" for char in key),
    "one number": lambda key: str(int.from_bytes(key.encode(), "big")),
    "base64 twice": lambda key: in_base64(in_base64(key)),
    "base64 of gzip": lambda key: base64.b64encode(gzip.compress(key.encode(), mtime=0)).decode(),
}


def says_key(hide: Callable[[str], str], to: Connection) -> None:
    key = hide(to.key)
    cause = {"finding": "uncoalesced_global", "text": f"Key {key}.", "because": [key], "file": key}
    edit = {"what": f"Use {key}.", "changes": [{"old": key, "new": f"x; // {key}"}], "risk": key}
    to.send(whole(answer(summary=f"The key is {key}.", causes=[cause], edits=[edit])))


def says_key_in_parts(to: Connection) -> None:
    half = len(to.key) // 2
    to.send(whole(answer(summary=["The key is", to.key[:half], to.key[half:]])))


def fails_with_key(status: str, hide: Callable[[str], str], to: Connection) -> None:
    to.send(whole(json.dumps({"error": {"message": f"refused: {hide(to.key)}"}}), status))


def redirects_to_key(to: Connection) -> None:
    to.send(whole(b"", "307 Temporary Redirect", f"Location: http://{to.key}.invalid/{to.key}"))


def lists_key(to: Connection) -> None:
    to.send(whole(json.dumps({"object": "list", "data": [{"id": to.key, "object": "model"}]})))


def calls_with_key(to: Connection) -> None:
    calls((to.key, json.dumps({"line": entities(to.key)})), ("read_source", to.key))(to)


def cites(text: str, **parts: Any) -> dict[str, Any]:
    return {"finding": "uncoalesced_global", "text": text, "because": [text[:40]], **parts}


def edit(old: str, new: str, count: int = 1) -> dict[str, Any]:
    changes = [{"file": "slow.cu", "line": n, "old": old, "new": new} for n in range(count)]
    return {"finding": "uncoalesced_global", "what": "Change it.", "changes": changes}


# As much as fits into the 40,000 characters of a reply.
EDITS = [edit("out[x] = in[y];\n" * 90, "x\n" * 200, count=4)] * 4
COMMENTS = [edit(" " * 7000, "/*" * 3000), edit("/" * 7000, "# " * 3000)]
REFERENCE = "{l2_hit_rate_pct}. {l2_hit_rate_pct > 3}. "
REFERENCES = [cites(REFERENCE * 60, because=["l2_hit_rate_pct * " * 90 + "1"])] * 8
NUMBERS = [cites("It is 5. " * 400, because=["9" * 40] * 8)] * 8

SLOW_TEXTS = {
    "fences": "```{" * 100_000,
    "braces": "{" * 400_000,
    "spaces": '{"summary": "x", "purpose": "y", "causes": [{"because": "}' + " " * 300_000 + '"}]}',
    "keys": "sk-" * 100_000,
    "schemes": "a." * 150_000,
    "tokens": "eyJ-" * 100_000,
}

# fmt: off
BEHAVIOURS = [
    Behaviour("never answers", never_answers, SHORT),
    Behaviour("never reads the request", never_answers, SHORT, reads=False),
    Behaviour("drips headers", drips_headers, SHORT),
    Behaviour("drips a body", drips_body, SHORT),
    Behaviour("drips chunks", drips_chunks, SHORT),
    Behaviour("drips events", lambda to: to.send(head(kind="text/event-stream"), forever(b": wait\n\n", 0.1)), SHORT),
    Behaviour("continues slowly", partial(continues, pause=0.1), SHORT),
    Behaviour("continues fast", partial(continues, pause=0.0), SHORT),
    Behaviour("TLS never answers", never_answers, SHORT, reads=False, scheme="https"),
    Behaviour("answers TLS in plain text", reply(answer()), scheme="https", reads=False),
    Behaviour("redirects in a circle", redirects),
    Behaviour("redirects slowly", partial(redirects, pause=2.0), SHORT),
    Behaviour("redirects with a bomb", redirects_with_bomb),
    *(Behaviour(f"redirects elsewhere: {name}", redirects_elsewhere(place)) for name, place in PLACES.items()),
    Behaviour("asks to retry in 30 years", reply("{}", "429 Slow", "Retry-After: 1000000000")),
    Behaviour("asks to retry too late", reply("{}", "429 Slow", "Retry-After: 25"), SHORT),
    Behaviour("asks to retry at no time", reply("{}", "429 Slow", "Retry-After: nan")),
    Behaviour("asks to retry before", reply("{}", "503 Busy", "Retry-After: -5")),
    Behaviour("answers the first step only", takes_its_time, SHORT),
    Behaviour("lists models slowly", lists_slowly, SHORT, names_model=False),
    Behaviour("a question, drips chunks", drips_chunks, SHORT, asks=True),
    Behaviour("a question, gzip bomb", bombed("gzip", GZIP), asks=True),
    Behaviour("closes", lambda to: None),
    Behaviour("resets", resets),
    Behaviour("closes within the body", lambda to: to.send(whole(answer())[:-20])),
    Behaviour("endless headers", endless_headers),
    Behaviour("a header of 10 MB", lambda to: to.send(head("200 OK", "X: " + "y" * 10**7))),
    Behaviour("gzip bomb", bombed("gzip", GZIP)),
    Behaviour("deflate bomb", bombed("deflate", DEFLATE)),
    Behaviour("gzip bomb in a failure", bombed("gzip", GZIP, "500 Failed")),
    Behaviour("gzip in gzip", reply(gzip.compress(gzip.compress(bytes(2**24))), "200 OK", "Content-Encoding: gzip, gzip")),
    Behaviour("gzip that is none", reply(b"\x1f\x8b garbage", "200 OK", "Content-Encoding: gzip")),
    Behaviour("zstd that nobody asked for", reply(b"(\xb5/\xfd", "200 OK", "Content-Encoding: zstd")),
    Behaviour("endless chunks", endless_chunks),
    Behaviour("a chunk of 2**64 bytes", lambda to: to.send(head("200 OK", CHUNKED), b"f" * 16 + b"\r\n", forever(b"x" * 60_000))),
    Behaviour("a body of 10**15 bytes", lambda to: to.send(head("200 OK", f"Content-Length: {10**15}"), forever(b"x" * 60_000))),
    Behaviour("endless failure", endless_error),
    Behaviour("ten million models", endless_list, names_model=False),
    Behaviour("half a million choices", many_choices),
    Behaviour("JSON that takes much memory", reply('{"choices": [' + ("[" * 400 + "]" * 400 + ",") * 2600 + "0]}")),
    Behaviour("deep JSON", reply(deep())),
    Behaviour("deep JSON in an answer", content('{"summary": ' + deep() + "}")),
    Behaviour("a number of 100,000 digits", reply(answer()[:-1] + f', "x": {"9" * 100_000}}}')),
    Behaviour("10,000 causes", then(content('{"summary": "x", "causes": [' + "{}," * 10**4 + "{}]}"))),
    Behaviour("an edit of 30 kB", then(reply(answer(edits=[edit("a" * 30_000, "b")])))),
    Behaviour("edits of many lines", then(reply(answer(edits=EDITS)))),
    Behaviour("comments of many kinds", then(reply(answer(edits=COMMENTS)))),
    Behaviour("1,000 claims", then(reply(answer(causes=[cites("x", claims=[{"kind": "bytes"}] * 10**3)])))),
    Behaviour("thousands of references", then(reply(answer(summary="{dram_bytes_read} " * 200, causes=REFERENCES)))),
    Behaviour("thousands of numbers", then(reply(answer(summary="1. 2. 3. " * 440, causes=NUMBERS)))),
    Behaviour("a text of 400 kB", then(reply(answer(summary="It waits. " * 40_000)))),
    Behaviour("a thousand calls of tools", then(calls(*[("read_source", '{"line": 1}')] * 1000))),
    Behaviour("arguments of 1 MB", then(calls(("lookup_metric", json.dumps({"name": "x" * 10**6}))))),
    Behaviour("deep arguments", then(calls(("read_source", '{"line": ' + "[" * 900 + "]" * 900 + "}")))),
    Behaviour("arguments that are odd", then(calls(("read_source", '{"line": 1e999, "file": null}'), ("occupancy_what_if", '{"block_size": -1, "registers": NaN}'), ("x" * 10**5, "[]")))),
    *(Behaviour(f"usage: {name}", usage(value)) for name, value in {"null": "null", "a list": "[1, 2]", "texts": '{"prompt_tokens": "many", "completion_tokens": "7"}', "negative": '{"prompt_tokens": -5, "completion_tokens": -7, "total_tokens": 0}', "fractions": '{"prompt_tokens": 1.5, "completion_tokens": 0.1, "total_tokens": 1.6}', "huge": '{"prompt_tokens": 1' + "0" * 300 + ', "completion_tokens": 1, "total_tokens": 1}', "no numbers": '{"prompt_tokens": NaN, "completion_tokens": Infinity, "total_tokens": null}',}.items()),
    Behaviour("a page", reply("<html>sign in</html>", kind="text/html")),
    Behaviour("nothing", reply("")),
    Behaviour("bytes", reply(bytes(range(256)) * 100)),
    Behaviour("no HTTP", lambda to: to.send(b"SSH-2.0-OpenSSH_9.6\r\n" * 1000)),
    Behaviour("status 999", reply("{}", "999 Odd")),
    Behaviour("no choices", reply('{"choices": null}')),
    Behaviour("choices that are texts", reply('{"choices": ["x", 1, null]}')),
    *(Behaviour(f"slow text: {name}", then(content(text))) for name, text in SLOW_TEXTS.items()),
    Behaviour("a long line, names redacted", content("x" * 400_000), options=("--redact", "names")),
    *(Behaviour(f"key: {name}", partial(says_key, hide)) for name, hide in HIDDEN.items()),
    Behaviour("key in two items", says_key_in_parts),
    Behaviour("key in HTTP 400", partial(fails_with_key, "400 Bad", entities)),
    Behaviour("key in HTTP 404", partial(fails_with_key, "404 None", percent)),
    Behaviour("key in HTTP 500", partial(fails_with_key, "500 Failed", in_base64)),
    Behaviour("key in a redirect", redirects_to_key),
    Behaviour("key in headers", lambda to: to.send(whole("no", "418 Teapot", f"X-Key: {to.key}", f"WWW-Authenticate: Bearer {to.key}"))),
    Behaviour("key as a model's name", lists_key, names_model=False),
    Behaviour("key in calls of tools", calls_with_key),
    Behaviour("key in JSON", partial(says_key, entities), options=("--format", "json")),
    Behaviour("key in Markdown", partial(says_key, entities), options=("--format", "markdown", "--verbose")),
]
# fmt: on
