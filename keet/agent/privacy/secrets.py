"""Removes API keys from everything that is printed, logged, sent or written.

Both known keys (values in the environment) and text that looks like a key are replaced: a text that
lost a harmless word can still be read, a leaked key can't be taken back.

Every pattern must take linear time: a server chooses the text that is searched.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from keet.agent.privacy.decoded_text import DecodedText, Span, letters, seen, unescaped
from keet.lazy_regex import regex
from keet.masking.shapes import looks, without

KEY = "[key]"

_SHORTEST = 8
"""Shorter values are ordinary words and numbers: replacing them would damage the text."""
_LOOSE = 12
"""Letters and digits that a key needs to be searched with other characters between them: fewer
would match ordinary words."""
_LOOSE_LETTERS = 24
"""The same for a key without digits, which must be in mixed case: SORT_KEY may be `shared_memory`,
and tokens of Hugging Face may have 34 letters and no digit."""
_NAMES = regex(
    r"(?:API_?KEY|_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PAT|_AUTH)(?:_ID)?$", re.IGNORECASE
)
_NOTHING = regex("")
_BESIDE_BASE64 = regex(r"[A-Za-z0-9+/=_-]{0,4}")
"""Up to 3 characters on each side contain bits of the key."""
_of_urls: set[str] = set()


def scrub(text: str, known: Sequence[str] | None = None) -> str:
    """The text without keys. `known`: keys of the environment; None: look them up."""
    known = _known() if known is None else known
    spans = [*_exact(text, known), *looks(text)]
    plain = unescaped(text)
    if plain != text and (any(value in plain for value in known) or any(looks(plain))):
        view = DecodedText.of(text).unescaped()
        spans += map(view.origin, [*_exact(view.text, known), *looks(view.text)])
    return without(text, [*spans, *_loose(text, plain, known)], KEY)


def scrub_document(value: Any, known: Sequence[str] | None = None) -> Any:
    """The same for each text in a JSON-like value. Before it is encoded: escapes would hide a
    key."""
    known = _known() if known is None else known
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
    """Treats the user name and password in a URL as keys."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return
    for part in (parts.username, parts.password):
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


def _loose(text: str, plain: str, known: Sequence[str]) -> Iterator[Span]:
    """Keys with other characters between their letters, or in another encoding."""
    forms = [form for value in known for form in _forms(value)]
    if not forms:
        return
    for sight in (plain, seen(plain)):
        held = letters(sight)
        found = [form for form in forms if form[0] in held]
        if found:
            view = DecodedText.of(text).unescaped()
            view = (view if sight is plain else view.seen()).letters()
            for form, beside in found:
                for span in map(view.origin, _all(view.text, form)):
                    yield _with_rest(text, span, beside)


@lru_cache(maxsize=64)
def _forms(value: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The key, backwards, in base 16 and in base64, each as letters and digits; with a pattern for
    the characters beside it that contain parts of it."""
    if not _is_random(value):
        return ()
    data = value.encode(errors="replace")
    base64 = [_in_base64(data, offset) for offset in range(3)]
    forms = {letters(form): _NOTHING for form in (value, value[::-1], data.hex())}
    forms |= {letters(form): _BESIDE_BASE64 for form in base64}
    return tuple((form, beside) for form, beside in forms.items() if len(form) >= _LOOSE)


def _is_random(value: str) -> bool:
    """Not a word or number: those would be found in any text."""
    if not any(map(str.isalpha, value)):
        return False
    is_mixed = value != value.lower() and value != value.upper()
    return any(map(str.isdigit, value)) or (is_mixed and len(letters(value)) >= _LOOSE_LETTERS)


def _in_base64(data: bytes, offset: int) -> str:
    """After `offset` other bytes, without the characters that also depend on the neighbours."""
    end = (offset + len(data)) // 3 * 4
    return b64encode(bytes(offset) + data).decode()[(0, 2, 3)[offset] : end]


def _with_rest(text: str, span: Span, beside: re.Pattern[str]) -> Span:
    """Extends the span by the characters beside it that belong to the key, and by backslashes
    before it, which would escape the mark."""
    start, end = span
    before, after = beside.match(text[max(0, start - 4) : start][::-1]), beside.match(text, end)
    start -= before.end() if before else 0
    while start and text[start - 1] == "\\":
        start -= 1
    return start, after.end() if after else end


def _known() -> list[str]:
    """Values of environment variables whose names say that they are keys, the longest first. A key
    that contains an escape is also searched for in its unescaped form."""
    values = {*_credentials(), *_of_urls}
    plain = {each for value in values if len(each := unescaped(value)) >= _SHORTEST}
    return sorted(values | plain, key=len, reverse=True)


def _credentials() -> Iterator[str]:
    for name, text in os.environ.items():
        value = text.strip()
        # A repeated single character (`00000000`) is not a key, and is in many tables.
        if len(value) >= _SHORTEST and len(set(value)) > 1 and _NAMES.search(name):
            yield value
