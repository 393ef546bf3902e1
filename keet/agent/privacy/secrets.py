"""Removes API keys from everything that is printed, logged, sent or written.

Both known keys (values in the environment) and text that looks like a key are replaced: a text that
lost a harmless word can still be read, a leaked key can't be taken back. What a server sent is also
searched for encoded keys (`key_in`), and is dropped as a whole if it has one.

Every pattern must take linear time: a server chooses the text that is searched.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from keet.agent.privacy.decodings import SHORTEST, decodings, letters, unescaped
from keet.masking.shapes import Span, looks, looks_by_itself, without

KEY = "[key]"

_SHORTEST = 8
"""Shorter values are ordinary words and numbers: replacing them would damage the text."""
_LETTERS_ONLY = 24
"""Letters that a key without digits needs to be searched in encoded form. It must be in mixed case:
SORT_KEY may be `shared_memory`, and tokens of Hugging Face may have 34 letters and no digit."""
_STEP = 4
"""Letters and digits between the beginnings of two parts of a key that are searched for: every part
of `SHORTEST + _STEP - 1` (15) contains one of them."""
_CHANGES = 4
"""Changes between upper case, lower case and digits that make letters no words."""
_NAMES = re.compile(
    r"(?:API_?KEY|_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PAT|_AUTH)(?:_ID)?$", re.IGNORECASE
)
_KEY_NAME = re.compile(r"(?i)key|token|secret|password|sig|auth")
_of_urls: set[str] = set()


def scrub(text: str, known: Sequence[str] | None = None) -> str:
    """The text without keys. `known`: keys of the environment; None: look them up."""
    known = list(_known()) if known is None else known
    return without(text, [*_exact(text, known), *looks(text)], KEY)


def key_in(text: str) -> str | None:
    """Whose key a server's text contains, plain or encoded, in full or a long part; None: none.

    Keys that may be words (docs/agent.md) do not count where they are plain: `scrub` removes them.
    """
    known = _known()
    parts = {part: whose for value, whose in known.items() for part in _parts(value)}
    if parts:
        for view in decodings(text):
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


def scrub_document(value: Any, known: Sequence[str] | None = None) -> Any:
    """The same for each text in a JSON-like value. Before it is encoded: escapes would hide a
    key."""
    known = list(_known()) if known is None else known
    if isinstance(value, str):
        return scrub(value, known)
    if isinstance(value, Mapping):
        return {
            scrub(str(name), known): scrub_document(part, known) for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrub_document(part, known) for part in value]
    return value


def remember_url(url: str | None) -> None:
    """Treats the user name, the password and keys of the query in a URL as keys."""
    try:
        parts = urlsplit(url or "")
        query = [value for name, value in parse_qsl(parts.query) if _KEY_NAME.search(name)]
    except ValueError:
        return
    for part in (parts.username, parts.password, *query):
        if part and len(part) >= _SHORTEST:
            _of_urls.update((part, unquote(part)))


# --- where keys are


def _exact(text: str, known: Sequence[str]) -> Iterator[Span]:
    for value in known:
        yield from _all(text, value)


def _all(text: str, value: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + len(value))


@lru_cache(maxsize=64)
def _parts(value: str) -> frozenset[bytes]:
    """Parts of the key as letters and digits, also backwards, each in every rotation of the
    alphabet (ROT13 is one). Empty for a word or number, which any text may contain."""
    held = "".join(char for char in value if char.isascii() and char.isalnum())
    if not _is_random(held):
        return frozenset()
    starts = {*range(0, len(held) - SHORTEST + 1, _STEP), len(held) - SHORTEST}
    parts = [held[at : at + SHORTEST] for at in starts]
    found = {letters(part) for part in parts if _is_no_word(part)} or {letters(held)}
    return frozenset(
        each.translate(rotation)
        for part in found
        for each in (part, part[::-1])
        for rotation in _ROTATIONS
    )


def _is_random(held: str) -> bool:
    if len(held) < SHORTEST or held.isdigit():
        return False
    is_mixed = held != held.lower() and held != held.upper()
    return any(map(str.isdigit, held)) or (is_mixed and len(held) >= _LETTERS_ONLY)


def _is_no_word(part: str) -> bool:
    kinds = [(char.isdigit(), char.isupper()) for char in part]
    has_both = part.isalnum() and not part.isalpha() and not part.isdigit()
    return has_both or sum(a != b for a, b in pairwise(kinds)) >= _CHANGES


_ALPHABET = string.ascii_lowercase.encode()
_ROTATIONS = [
    bytes.maketrans(_ALPHABET, _ALPHABET[at:] + _ALPHABET[:at]) for at in range(len(_ALPHABET))
]


def _known() -> dict[str, str]:
    """Values of environment variables whose names say that they are keys, and keys of URLs, the
    longest first, with whose they are. A key that contains an escape is also searched for in its
    unescaped form."""
    values = dict.fromkeys(_of_urls, "a key of --base-url") | dict(_credentials())
    plain = {unescaped(value): whose for value, whose in values.items()}
    values |= {value: whose for value, whose in plain.items() if len(value) >= _SHORTEST}
    return {value: values[value] for value in sorted(values, key=len, reverse=True)}


def _credentials() -> Iterator[tuple[str, str]]:
    for name, text in os.environ.items():
        value = text.strip()
        # A repeated single character (`00000000`) is not a key, and is in many tables.
        if len(value) >= _SHORTEST and len(set(value)) > 1 and _NAMES.search(name):
            yield value, f"the value of {name}"
