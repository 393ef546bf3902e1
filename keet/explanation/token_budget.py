"""Counts tokens without a tokenizer, and composes a text within a number of tokens.

Tokenizers differ, and keet has none. The count is the largest of three estimates: by bytes, by
words, and by the parts of code and numbers. On keet's own contexts it is above the counts of all
tokenizers it was compared with (docs/decisions/0006-context.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

_BYTES_A_TOKEN = 3.5
_TOKENS_A_WORD = 1.35
_USUAL_BYTES = 3.4
_PARTS = re.compile(
    r"[A-Za-z]{1,5}|[0-9]|\n[ \t]*|[ \t]{2,}|[ \t](?=[0-9])|[^\sA-Za-z0-9]", re.ASCII
)
"""Parts that tokenizers do not join: pieces of words, digits (many join three) and the blank before
them, punctuation, indentation."""
_ELLIPSIS = " ..."


def count_tokens(text: str) -> int:
    """An upper bound of the tokens of English text, code and numbers."""
    return _tokens(_size(text))


_BITS = 40
"""Bits per count in a size."""


def _size(text: str) -> int:
    """Bytes of UTF-8, words and parts, packed into one integer. Sizes of lines add up to that of
    the text, because nothing that is counted spans a newline."""
    characters = len(text)
    length = characters if text.isascii() else _length(text)
    # A non-ASCII character may take a token per byte.
    parts = len(_PARTS.findall(text)) + length - characters
    return length | len(text.split()) << _BITS | parts << 2 * _BITS


def _length(text: str) -> int:
    return len(text.encode("utf-8", errors="backslashreplace"))


def _tokens(size: int) -> int:
    length, words, parts = (size >> bits & (1 << _BITS) - 1 for bits in (0, _BITS, 2 * _BITS))
    return math.ceil(max(length / _BYTES_A_TOKEN, words * _TOKENS_A_WORD, parts))


def guess_tokens(text: str) -> int:
    """A usual number of tokens: for planning, not an upper bound."""
    return math.ceil(_length(text) / _USUAL_BYTES)


class TextPiece(NamedTuple):
    """A part of a text that is dropped if it does not fit."""

    section: int
    """Its place in the text. Lists of pieces are ordered by importance."""
    text: str = ""
    lines: tuple[tuple[str, int], ...] = ()
    """Source lines to show, by file and number."""
    group: str = ""
    """If the first piece of a group does not fit, the others are dropped too."""
    needs: str = ""
    """A group of earlier pieces that this one needs to be understood."""


Compose = Callable[[int, Sequence[TextPiece]], str]
"""Composes the text of a section from its number and its pieces, which are ordered by
importance."""


class _Sizes(dict[str, int]):
    """Sizes of lines, each with the newline before it."""

    def __missing__(self, line: str) -> int:
        return self.setdefault(line, _size(f"\n{line}"))


def fit(pieces: Iterable[TextPiece], compose: Compose, budget: int) -> str:
    """The text of as many pieces as fit, the most important first. When a piece is added, only its
    section is composed again, and only new lines are counted."""
    chosen: dict[int, list[TextPiece]] = {}
    blocks: dict[int, str] = {}
    sizes, begun = _Sizes(), dict[str, bool]()
    for piece in pieces:
        if not (begun.get(piece.group, True) and begun.get(piece.needs, True)):
            begun.setdefault(piece.group, False)
            continue
        together = [*chosen.get(piece.section, ()), piece]
        more = blocks | {piece.section: compose(piece.section, together)}
        text = _joined(more)
        first, *others = text.split("\n")
        fits = _tokens(sum(map(sizes.__getitem__, others), _size(first))) <= budget
        if not (fits or begun):  # not even the first piece fits: cut it
            return cut(text, budget)
        if fits:
            chosen[piece.section], blocks = together, more
        begun.setdefault(piece.group, fits)
    return _joined(blocks)


def _joined(blocks: Mapping[int, str]) -> str:
    """The sections in their order."""
    return "\n\n".join(block for _, block in sorted(blocks.items()) if block) + "\n"


def cut(text: str, budget: int) -> str:
    """As many whole words as fit; empty if none fits."""
    words = text.split()
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(_shortened(words, middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    return _shortened(words, low)


def _shortened(words: Sequence[str], count: int) -> str:
    return " ".join(words[:count]) + _ELLIPSIS + "\n" if count else ""
