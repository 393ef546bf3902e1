"""Text that keeps to a number of tokens, whichever model reads it.

Tokenizers differ, and keet brings none. The count here is the largest of three: what prose costs
by its bytes and by its words, and what code and numbers cost by their parts. On keet's own contexts
it is above the counts of the tokenizers it was held against (docs/decisions/0006-context.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_BYTES_A_TOKEN = 3.5
_TOKENS_A_WORD = 1.35
_USUAL_BYTES = 3.4
_PARTS = re.compile(
    r"[A-Za-z]{1,5}|[0-9]|\n[ \t]*|[ \t]{2,}|[ \t](?=[0-9])|[^\sA-Za-z0-9]", re.ASCII
)
"""What tokenizers do not join: pieces of words, digits (many join three) and the blank before them,
signs, indents."""
_ELLIPSIS = " ..."


def count_tokens(text: str) -> int:
    """At least as many as a tokenizer would make of English, code and numbers."""
    raw = text.encode("utf-8", errors="backslashreplace")
    by_bytes = len(raw) / _BYTES_A_TOKEN
    by_words = len(text.split()) * _TOKENS_A_WORD
    # A sign beyond ASCII may take a token for each of its bytes.
    by_parts = len(_PARTS.findall(text)) + len(raw) - len(text)
    return math.ceil(max(by_bytes, by_words, by_parts))


def guess_tokens(text: str) -> int:
    """About as many as a tokenizer would make: for a plan, not for a promise."""
    return math.ceil(len(text.encode("utf-8", errors="backslashreplace")) / _USUAL_BYTES)


class Piece(NamedTuple):
    """A part of a text that may be left out."""

    section: int
    """Where it stands; the order of a list of pieces is that of their worth."""
    text: str = ""
    lines: tuple[tuple[str, int], ...] = ()
    """Source lines to show, by file and number."""
    group: str = ""
    """Where there is no room for the first of a group, the others make no sense."""
    needs: str = ""
    """A group of earlier pieces without which this one would mislead."""


Compose = Callable[[Sequence[Piece]], str]


def fit(pieces: Iterable[Piece], compose: Compose, budget: int) -> str:
    """The text of as many pieces as there is room for, the worthiest first."""
    chosen: list[Piece] = []
    begun: dict[str, bool] = {}
    for piece in pieces:
        if not (begun.get(piece.group, True) and begun.get(piece.needs, True)):
            continue
        fits = count_tokens(compose([*chosen, piece])) <= budget
        if not (fits or chosen):  # not even the first one: a part of it is better than nothing
            return cut(compose([piece]), budget)
        chosen += [piece] * fits
        begun.setdefault(piece.group, fits)
    return compose(chosen)


def cut(text: str, budget: int) -> str:
    """The words that there is room for, in whole; nothing where there is no room for one."""
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
