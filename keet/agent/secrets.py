"""Keys stay out of everything that is printed, logged or written.

What is known to be a key (the environment says so) and what only looks like one are both replaced:
a text that lost a harmless word can still be read, a key that got out can't be called back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

KEY = "[key]"

_SHORTEST = 8
"""Shorter values are words and numbers: replacing them would spoil the text."""
_NAMES = re.compile(
    r"(?:API_?KEY|_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PAT|_AUTH)(?:_ID)?$", re.IGNORECASE
)
_LOOKS = re.compile(
    r"""
      \b(?:sk|pk|rk|gsk|fw|gh[opsu]|hf|r8|lsv2)[-_](?:(?:live|test|pt|sk)_)?
      (?=[A-Za-z]*\d)[A-Za-z0-9]{20,}[\w-]*       # a name of a function has words
    | \bhf_[A-Za-z]{30,}\b
    | \b(?:sk|pk|rk|gsk|xai|nvapi|pplx|fw|hf|r8)[-_]\w*\*{3,}[\w*]*    # as servers quote one
    | \b(?:xai|nvapi|pplx)-[\w-]{20,}
    | \bsk-(?=[\w*-]*[\d*])[\w*-]{8,}
    | \bgithub_pat_\w{20,}
    | \bAIza[\w-]{30,}
    | \bAKIA[0-9A-Z]{12,}
    | \beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*          # a JSON web token
    """,
    re.VERBOSE,
)
_AFTER = re.compile(
    r"""(?ix)
      (?P<header> \b(?:x-api-key|api-key|authorization)
        (?: ["']?\s*[:=] | ["'], ) \s* b?["']? (?:(?:bearer|basic|token)\s+)? ) [\w.~+/=*-]{8,}
    | (?P<bearer> \bbearer\s+ ) (?=[\w.~+/=*-]*\d) [\w.~+/=*-]{20,}
    | (?P<provided> \bapi\ key\ provided:\s* ) [^\s,;"']+
    | (?P<user> \b[a-z][a-z0-9+.-]*:// ) [^\s/@?\#"']+ (?=@)
    | (?P<query> [?&](?:[a-z_-]*(?:key|token|secret|password)|sig|signature|auth)= ) [^&\s"'\#]+
    """
)


def scrub(text: str, known: Sequence[str] | None = None) -> str:
    """The text without keys; `known`: those of the environment, where they were looked up."""
    for value in _known() if known is None else known:
        text = text.replace(value, KEY)
    text = _LOOKS.sub(KEY, text)
    return _AFTER.sub(lambda match: f"{match[match.lastgroup or 0]}{KEY}", text)


def scrub_document(value: Any, known: Sequence[str] | None = None) -> Any:
    """The same for each text in what will be JSON. Before it is JSON: escapes would hide a key."""
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


def _known() -> list[str]:
    """Values of the environment that are keys by the name of their variable, the longest first, so
    that a key which is part of another does not leave the rest."""
    return sorted(set(_credentials()), key=len, reverse=True)


def _credentials() -> Iterator[str]:
    for name, text in os.environ.items():
        value = text.strip()
        if len(value) >= _SHORTEST and _NAMES.search(name):
            yield value
            yield quote(value, safe="")
