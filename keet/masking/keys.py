"""Removes API keys from everything that is printed, logged, sent or written.

Both known keys (values in the environment) and text that looks like a key are replaced: a text that
lost a harmless word can still be read, a leaked key can't be taken back. Encoded keys in what a
server sent are found by encoded_keys.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keet.masking import may_look_like_key

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
    from keet.masking.shapes import looks, without

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
        if any(sign in value for sign in "&%=\\"):
            from keet.masking.escapes import unescaped

            if len(plain := unescaped(value)) >= SHORTEST_KEY:
                values[plain] = whose
    return {value: values[value] for value in sorted(values, key=len, reverse=True)}


def _credentials() -> Iterator[tuple[str, str]]:
    for name, text in os.environ.items():
        value = text.strip()
        # A repeated single character (`00000000`) is not a key, and is in many tables.
        if len(value) >= SHORTEST_KEY and len(set(value)) > 1 and _NAMES.search(name):
            yield value, f"the value of {name}"
