"""Counts tokens without a tokenizer.

Tokenizers differ, and keet has none. The count is the largest of three estimates: by bytes, by
words, and by the parts of code and numbers. On keet's own contexts it is above the counts of all
tokenizers it was compared with (docs/decisions/0006-context.md).
"""

from __future__ import annotations

import math
import re

_BYTES_A_TOKEN = 3.5
_TOKENS_A_WORD = 1.35
_USUAL_BYTES = 3.4
_PARTS = re.compile(
    r"[A-Za-z]{1,5}|[0-9]|\n[ \t]*|[ \t]{2,}|[ \t](?=[0-9])|[^\sA-Za-z0-9]", re.ASCII
)
"""Parts that tokenizers do not join: pieces of words, digits (many join three) and the blank before
them, punctuation, indentation."""


def count_tokens(text: str) -> int:
    """An upper bound of the tokens of English text, code and numbers."""
    return tokens_of(text_size(text))


_BITS = 40
"""Bits per count in a size."""


def text_size(text: str) -> int:
    """Bytes of UTF-8, words and parts, packed into one integer. Sizes of lines add up to that of
    the text, because nothing that is counted spans a newline."""
    characters = len(text)
    length = characters if text.isascii() else _length(text)
    # A non-ASCII character may take a token per byte.
    parts = len(_PARTS.findall(text)) + length - characters
    return length | len(text.split()) << _BITS | parts << 2 * _BITS


def _length(text: str) -> int:
    return len(text.encode("utf-8", errors="backslashreplace"))


def tokens_of(size: int) -> int:
    length, words, parts = (size >> bits & (1 << _BITS) - 1 for bits in (0, _BITS, 2 * _BITS))
    return math.ceil(max(length / _BYTES_A_TOKEN, words * _TOKENS_A_WORD, parts))


def guess_tokens(text: str) -> int:
    """A usual number of tokens: for planning, not an upper bound."""
    return math.ceil(_length(text) / _USUAL_BYTES)
