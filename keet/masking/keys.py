"""Removes API keys from everything that is printed, logged, sent or written.

Both known keys (values in the environment) and text that looks like a key are replaced: a text that
lost a harmless word can still be read, a leaked key can't be taken back. Keys in what a server
sent are also found where they are encoded (`key_in`): such a text is dropped as a whole.

Every pattern must take linear time: a server chooses the text that is searched.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import string
import struct
import sys
import unicodedata
import zlib
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from html import unescape
from itertools import islice, pairwise
from typing import Any

from keet.masking import may_look_like_key
from keet.masking.command_line import looks_by_itself

# --- escapes of HTML, URLs, JSON, C and e-mail

_PASSES = 4
"""How often escapes are undone as one decoding: JSON inside JSON, entities inside percent signs."""
_ESCAPE = re.compile(
    r"""
      &\#[0-9]{1,7};? | &\#[xX][0-9a-fA-F]{1,6};?
    | &[A-Za-z][A-Za-z0-9]{1,31}; | &(?:shy|nbsp|amp|lt|gt|quot)
    | %[0-9a-fA-F]{2} | =[0-9A-F]{2}
    | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
    | \\u[0-9a-fA-F]{4} | \\u\{[0-9a-fA-F]{1,6}\} | \\U[0-9a-fA-F]{8}
    | \\x[0-9a-fA-F]{2} | \\[0-7]{3} | \\[abefnrtv\\"'/]
    """,
    re.VERBOSE,
)


def unescaped(text: str) -> str:
    for _ in range(_PASSES):
        text, before = _ESCAPE.sub(_character, text), text
        if text == before:
            break
    return text


def _character(match: re.Match[str]) -> str:
    """The character that an escape means."""
    escape = match[0]
    if escape[0] == "&":
        return unescape(escape)
    if len(escape) == 12:  # a surrogate pair
        return str(json.loads(f'"{escape}"'))
    kind, digits, base = escape[0], escape[1:], 16
    if kind == "\\":
        kind = escape[1]
        digits, base = (digits, 8) if kind.isdigit() else (digits[1:].strip("{}"), 16)
        if kind not in "uUx01234567":
            return " " if kind.isalpha() else kind
    number = int(digits, base)
    return chr(number) if number <= sys.maxunicode else " "


# --- keys in plain text

KEY = "[key]"
SHORTEST_KEY = 8
"""Shorter values are ordinary words and numbers: replacing them would damage the text."""
_NAMES = re.compile(
    r"(?:API_?KEY|_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PAT|_AUTH)(?:_ID)?$", re.IGNORECASE
)
_of_urls: set[str] = set()


def scrub(text: str, known: Sequence[str] | None = None) -> str:
    """The text without keys. `known`: keys of the environment; None: look them up."""
    exact = [value for value in (known_keys() if known is None else known) if value in text]
    if not exact and not may_look_like_key(text):
        return text
    from keet.masking.command_line import looks, without

    spans = [match.span() for value in exact for match in re.finditer(re.escape(value), text)]
    return without(text, [*spans, *looks(text)], KEY)


def scrub_document(value: Any, known: Sequence[str] | None = None) -> Any:
    """The same for each text in a value, whose records of any kind become JSON types. Before it is
    encoded: escapes would hide a key."""
    known = list(known_keys()) if known is None else known
    if value is None or isinstance(value, int | float | bool):
        return value
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {
            scrub(str(name), known): scrub_document(part, known) for name, part in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [scrub_document(part, known) for part in value]
    return scrub(str(value), known)


def remember_url(url: str | None) -> None:
    """Treats the user name, the password and keys of the query in a URL as keys."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url or "")
        named = re.compile("(?i)key|token|secret|password|sig|auth")
        query = [value for name, value in parse_qsl(parts.query) if named.search(name)]
    except ValueError:
        return
    for part in (parts.username, parts.password, *query):
        if part and len(part) >= SHORTEST_KEY:
            _of_urls.update((part, unquote(part)))


def known_keys() -> dict[str, str]:
    """Values of environment variables whose names say that they are keys, and keys of URLs, the
    longest first, with whose they are. A key that contains an escape is also searched for in its
    unescaped form."""
    values = dict.fromkeys(_of_urls, "a key of --base-url") | dict(_credentials())
    for value, whose in list(values.items()):
        has_escapes = any(sign in value for sign in "&%=\\")
        if has_escapes and len(plain := unescaped(value)) >= SHORTEST_KEY:
            values[plain] = whose
    return {value: values[value] for value in sorted(values, key=len, reverse=True)}


def _credentials() -> Iterator[tuple[str, str]]:
    for name, text in os.environ.items():
        value = text.strip()
        # A repeated single character (`00000000`) is not a key, and is in many tables.
        if len(value) >= SHORTEST_KEY and len(set(value)) > 1 and _NAMES.search(name):
            yield value, f"the value of {name}"


# --- keys in what a server sent, plain or encoded

_SHORTEST_PART = 12
"""Letters and digits. Shorter parts of a key are not searched for."""
_LETTERS_ONLY = 24
"""Letters that a key without digits needs to be searched in encoded form. It must be in mixed case:
SORT_KEY may be `shared_memory`, and tokens of Hugging Face may have 34 letters and no digit."""
_STEP = 4
"""Letters and digits between the beginnings of two parts of a key that are searched for: every part
of `_SHORTEST_PART + _STEP - 1` (15) contains one of them."""
_CHANGES = 4
"""Changes between upper case, lower case and digits that make letters no words."""


def key_in(text: str) -> str | None:
    """Whose key a server's text contains, plain or encoded, in full or a long part; None: none.

    Keys that may be words (docs/agent.md) do not count where they are plain: `scrub` removes them.
    """
    known = known_keys()
    parts = {part: whose for value, whose in known.items() for part in _parts(value)}
    if parts:
        for view in _decodings(text):
            for part, whose in parts.items():
                if part in view:
                    return whose
    plain = unescaped(scrub(text, list(known)))
    if any(looks_by_itself(plain)):
        return "text that looks like a key"
    return next((whose for value, whose in known.items() if value in plain), None)


def quotable(text: str) -> str:
    """A server's text as it can be printed."""
    return "[removed: it contains a key]" if key_in(text) else scrub(text)


@lru_cache(maxsize=64)
def _parts(value: str) -> frozenset[bytes]:
    """Parts of the key as letters and digits, also backwards, each in every rotation of the
    alphabet (ROT13 is one). Empty for a word or number, which any text may contain."""
    held = "".join(char for char in value if char.isascii() and char.isalnum())
    has_digit = any(map(str.isdigit, held))
    is_long = len(held) >= _LETTERS_ONLY and held not in (held.lower(), held.upper())
    if len(held) < _SHORTEST_PART or held.isdigit() or not (has_digit or is_long):
        return frozenset()
    starts = {*range(0, len(held) - _SHORTEST_PART + 1, _STEP), len(held) - _SHORTEST_PART}
    parts = [held[at : at + _SHORTEST_PART] for at in starts]
    secrets = {letters(part) for part in parts if _is_no_word(part)} or {letters(held)}
    return frozenset(
        each.translate(rotation)
        for part in secrets
        for each in (part, part[::-1])
        for rotation in _ROTATIONS
    )


def _is_no_word(part: str) -> bool:
    kinds = [(char.isdigit(), char.isupper()) for char in part]
    has_both = part.isalnum() and not part.isalpha() and not part.isdigit()
    return has_both or sum(a != b for a, b in pairwise(kinds)) >= _CHANGES


_ALPHABET = string.ascii_lowercase.encode()
_ROTATIONS = [
    bytes.maketrans(_ALPHABET, _ALPHABET[at:] + _ALPHABET[:at]) for at in range(len(_ALPHABET))
]


_LEVELS = 2
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<[^<>]{0,256}>|\x1b\[[0-?]*+[ -/]*+[@-~]", re.DOTALL)
"""HTML comments and tags, terminal colours: they contain letters, but are not displayed."""
_BYTES = bytes(range(256))
_LETTERS = (string.ascii_letters + string.digits).encode()
_OTHERS = _BYTES.translate(None, _LETTERS)
_LOWER = _BYTES.lower()
_ROT13 = codecs.encode(_BYTES.decode("latin-1"), "rot13").encode("latin-1")
_READABLE = re.compile(r"[^\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]{12,}+")
"""Text of at least `_SHORTEST_PART` characters. Random bytes contain few such runs."""

_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_BASE64 = (_LETTERS + b"+/-_", _LETTERS)
"""The second without signs, which may be separators. A key gives few of them."""
_BASES = (
    (2, b"01", b"01"),
    (8, b"01234567", b"01234567"),
    (16, b"0123456789abcdef", b"0123456789abcdef"),
    (32, b"abcdefghijklmnopqrstuvwxyz234567", b"0123456789abcdefghijklmnopqrstuv"),
    (32, b"0123456789abcdefghijklmnopqrstuv", b"0123456789abcdefghijklmnopqrstuv"),
)
"""Base, digits in the text, the same digits as `int` reads them."""
_PREFIX = re.compile(rb"(?<![0-9a-z])0[xbo](?=[0-9a-f])")
_UNBROKEN = re.compile(rb"[!-~]{15,}+|(?:[!-~]\s++){15,}+")
"""In base 85, prose is digits, too: only long words, and single characters, are decoded."""
_BASE85 = (
    (string.digits + string.ascii_letters.swapcase() + "!#$%&()*+-;<=>?@^_`{|}~").encode(),
    bytes(range(33, 33 + 85)),
    (string.digits + string.ascii_letters + ".-:+=^!/*?&<>()[]{}@%$#").encode(),
)
"""As in git, Ascii85, Z85."""
_CODE = re.compile(rb"(?<![0-9])0*+([0-9]{2,3})(?![0-9])")
_BINARY_CODE = re.compile(rb"(?<![0-9])[01]{6,8}(?![0-9])")
_LONG_NUMBER = re.compile(rb"[0-9]{36,}+")
_THREE = re.compile(rb"[0-9]{3}")
_MOST_DIGITS = 1000
"""Of a number that is read as a whole."""
_PACKED = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")
"""How streams of gzip and zlib begin."""
_MOST_STREAMS = 80
_MOST_UNPACKED = 16 * 2**10


def _decodings(text: str) -> Iterator[bytes]:
    """The text and its decodings, as letters and digits in lower case, each once.

    A server that wants to show a key without its characters can write it in many ways. A text is
    decoded in every common way, and each result once more. Nothing guesses where an encoded part
    begins: all digits of an encoding in the text are decoded as one stream, from every bit offset,
    and what is not readable text afterwards is dropped. So separators and line breaks do not
    matter, and the time grows with the length of the text alone.
    """
    known: set[bytes] = set()
    for view in _views(_ascii(text), _LEVELS, set()):
        held = letters(view)
        if len(held) >= _SHORTEST_PART and held not in known:
            known.add(held)
            yield held


def letters(text: str | bytes) -> bytes:
    """Letters and digits in lower case; Unicode variants of a letter (NFKD) become the letter."""
    return (_ascii(text) if isinstance(text, str) else text).translate(_LOWER, _OTHERS)


def _ascii(text: str) -> bytes:
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return plain.encode("ascii", "ignore")


def _views(data: bytes, levels: int, known: set[tuple[bytes, int]]) -> Iterator[bytes]:
    """ROT13 and reversing do not count as levels: they are undone before each one."""
    if (data, levels) in known:
        return
    known.add((data, levels))
    yield data
    if levels:
        for respelled in (data, data.translate(_ROT13), data[::-1]):
            for view in _decoded(respelled):
                yield from _views(view, levels - 1, known)


def _decoded(data: bytes) -> Iterator[bytes]:
    """Once. Only what can be read, and differs."""
    plain = _ascii(unescaped(data.decode("ascii", "ignore")))
    shown = _MARKUP.sub("", plain.decode("ascii")).encode("ascii")
    yield from {plain, shown} - {data}
    for raw in _raw(data):
        for part in (raw, b"\n".join(_unpacked(raw))):
            text = part.replace(b"\0", b"").decode("utf-8", "replace")  # without those of UTF-16
            if readable := _ascii("\n".join(_READABLE.findall(text))):
                yield readable


def _raw(data: bytes) -> Iterator[bytes]:
    yield from _from_base64(data)
    lower = _PREFIX.sub(b" ", data.lower())
    for base, alphabet, digits in _BASES:
        yield from _from_bits(lower, base, alphabet, digits)
    words = b"".join(_UNBROKEN.findall(data))
    if words:
        for alphabet in _BASE85:
            yield from _from_base85(words, alphabet)
    yield from _from_numbers(data)


def _from_base64(data: bytes) -> Iterator[bytes]:
    for alphabet in _BASE64:
        digits = data.translate(_URL_SAFE, _BYTES.translate(None, alphabet))
        for offset in range(4):
            part = digits[offset:] + b"AAA"  # completes the last four
            yield a2b_base64(part[: len(part) // 4 * 4])


def _from_bits(data: bytes, base: int, alphabet: bytes, digits: bytes) -> Iterator[bytes]:
    translated = data.translate(bytes.maketrans(alphabet, digits), _BYTES.translate(None, alphabet))
    if len(translated) < _SHORTEST_PART:
        return
    number, size = int(translated, base), len(translated)  # linear: the base is a power of two
    for offset in range(0, 8, 4 if base == 16 else 1):
        yield (number << offset).to_bytes(size + 1, "big").lstrip(b"\0")


def _from_base85(words: bytes, alphabet: bytes) -> Iterator[bytes]:
    values = bytes.maketrans(alphabet, bytes(range(85)))
    digits = words.translate(values, _BYTES.translate(None, alphabet)) + b"\x54" * 4
    for offset in range(5):
        five = [iter(digits[offset:])] * 5
        numbers = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in zip(*five)]
        yield struct.pack(f">{len(numbers)}I", *[each if each < 2**32 else 0 for each in numbers])


def _from_numbers(data: bytes) -> Iterator[bytes]:
    """Character codes in decimal, octal or binary, also three digits each; one long number."""
    codes = _CODE.findall(data)
    if len(codes) >= _SHORTEST_PART:
        yield _characters(codes)
        yield _characters([code for code in codes if not code.strip(b"01234567")], 8)
    yield _characters(_BINARY_CODE.findall(data.replace(b"0b", b" ")), 2)
    numbers = _LONG_NUMBER.findall(data)
    for offset in range(3):
        yield _characters(each for number in numbers for each in _THREE.findall(number, offset))
    whole = (int(number[:_MOST_DIGITS]) for number in numbers)
    yield b"\n".join(each.to_bytes(each.bit_length() // 8 + 1, "big") for each in whole)


def _characters(codes: Iterable[bytes], base: int = 10) -> bytes:
    return bytes(code if code < 128 else 10 for code in (int(each, base) for each in codes))


def _unpacked(raw: bytes) -> Iterator[bytes]:
    """The beginning of each stream of gzip or zlib in it."""
    for mark in islice(_PACKED.finditer(raw), _MOST_STREAMS):
        part = raw[mark.start() : mark.start() + _MOST_UNPACKED]
        with suppress(zlib.error):
            yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(part, _MOST_UNPACKED)
