"""Undoes escapes of HTML, URLs, JSON, C and e-mail."""

from __future__ import annotations

import json
import re
import sys
from html import unescape

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
