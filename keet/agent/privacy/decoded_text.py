"""Decodes a text as a terminal or browser would, and maps each character back to the original.

A key can be written so that its characters are not in the text: as HTML entities, percent-encoded,
with escapes of JSON or C, with invisible characters, in look-alike letters, or broken into lines.
Each decoding step undoes some of that. A key that is found in a decoded text is cut out of the
original.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import unescape

from keet.lazy_regex import regex

Span = tuple[int, int]

_PASSES = 4
"""How often a text is unescaped: JSON inside JSON, entities inside percent signs."""
_ESCAPE = regex(
    r"""
      &\#[0-9]{1,7};? | &\#[xX][0-9a-fA-F]{1,6};?
    | &[A-Za-z][A-Za-z0-9]{1,31}; | &(?:shy|nbsp|amp|lt|gt|quot)
    | %[0-9a-fA-F]{2}
    | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
    | \\u[0-9a-fA-F]{4} | \\u\{[0-9a-fA-F]{1,6}\} | \\U[0-9a-fA-F]{8}
    | \\x[0-9a-fA-F]{2} | \\[0-7]{3} | \\[abefnrtv\\"'/]
    """,
    re.VERBOSE,
)
_UNSEEN = regex(r"<!--.*?(?:-->|\Z)|<[^<>]{0,256}>|\x1b\[[0-?]*+[ -/]*+[@-~]", re.DOTALL)
"""HTML comments and tags, terminal colours: they contain letters, but are not displayed."""
_BETWEEN = regex(r"[\W_]+")
_LAST = 0x10FFFF


class DecodedText:
    """A text, and for each of its characters the span of the original that it comes from."""

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        self.text = text
        self._spans = spans

    def origin(self, found: Span) -> Span:
        """The span of the original for a span of this text."""
        start, end = found
        return self._spans[start][0], self._spans[end - 1][1]

    @classmethod
    def of(cls, text: str) -> DecodedText:
        return cls(text, [(at, at + 1) for at in range(len(text))])

    def _made(self, pieces: Iterable[tuple[str, int, int]]) -> DecodedText:
        """From pieces, each with the span of this text that it replaces."""
        text: list[str] = []
        spans: list[Span] = []
        for piece, start, end in pieces:
            text.append(piece)
            if end - start == len(piece):
                spans += self._spans[start:end]
            elif piece:
                spans += [self.origin((start, end))] * len(piece)
        return DecodedText("".join(text), spans)

    def unescaped(self) -> DecodedText:
        view = self
        for _ in range(_PASSES):
            view, before = view._made(_replaced(_ESCAPE, view.text)), view
            if view.text == before.text:
                break
        return view

    def seen(self) -> DecodedText:
        return self._made(_replaced(_UNSEEN, self.text))

    def letters(self) -> DecodedText:
        return self._made((letters(char), at, at + 1) for at, char in enumerate(self.text))


def unescaped(text: str) -> str:
    for _ in range(_PASSES):
        text, before = _ESCAPE.sub(_character, text), text
        if text == before:
            break
    return text


def seen(text: str) -> str:
    return _UNSEEN.sub("", text)


def letters(text: str) -> str:
    """Only letters and digits, in lower case; Unicode variants of a letter (NFKD) become the
    letter."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return _BETWEEN.sub("", plain).casefold()


def _replaced(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int]]:
    place = 0
    for match in pattern.finditer(text):
        yield text[place : match.start()], place, match.start()
        yield _character(match) if pattern is _ESCAPE else "", match.start(), match.end()
        place = match.end()
    yield text[place:], place, len(text)


def _character(match: re.Match[str]) -> str:
    """The character that an escape means."""
    escape = match[0]
    if escape[0] == "&":
        return unescape(escape)
    if escape[0] == "%":
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
    return chr(number) if number <= _LAST else " "
