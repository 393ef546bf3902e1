"""Undoes escapes of HTML, URLs, JSON, C and e-mail."""

from __future__ import annotations

import re
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
    if escape[0] in "%=":
        return chr(int(escape[1:], 16))
    kind = escape[1]
    if kind in "uUx":
        return _by_number(escape)
    if kind.isdigit():
        return chr(int(escape[1:], 8))
    return " " if kind.isalpha() else kind


def _by_number(escape: str) -> str:
    if len(escape) == 12:  # a surrogate pair
        high, low = int(escape[2:6], 16) - 0xD800, int(escape[8:], 16) - 0xDC00
        return chr(0x10000 + (high << 10) + low)
    number = int(escape[2:].strip("{}"), 16)
    return chr(number) if number <= 0x10FFFF else " "
