"""Decides whether a code span quotes the source (not a claim) or only looks like code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from keet.lazy_regex import regex
from keet.prose.number_words import COUNT, KNOWN_NAME, RATIO, WIDTHS
from keet.records import NamedTuple

_NOT_CODE = regex(
    r'"""[\s\S]*?(?:"""|\Z)|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"'
    r"|#(?!\s*(?:define|pragma|if|ifdef|ifndef|else|elif|endif|include|undef|error|line)\b)[^\n]*"
)
"""Comments and strings: they can contain claims."""
_TOKEN = regex(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+\w*|\d(?:[eE][-+]\d|[\w.])*|\S", re.ASCII)


_PERCENT = regex(r"\d\s*%(?!\s*[\w(])")
"""`82 %`: a remainder operator would be followed by an operand."""


_PLAIN_NUMBER = regex(r"[-+]?[\d,]+(?:\.\d+)?")
_ASSIGNED = regex(r"(?<![=<>!])=\s*\d")
"""`n = 32`: may be a value that the source does not have."""


class TokenizedCode(NamedTuple):
    """The source as tokens, for searching quotes."""

    text: str
    """One token per line, so that a search cannot start or end inside a token."""
    words: frozenset[str]


@lru_cache(maxsize=8)
def source_of(code: str) -> TokenizedCode:
    tokens = _TOKEN.findall(_NOT_CODE.sub(" ", code))
    return TokenizedCode(_joined(tokens), frozenset(tokens))


def _joined(tokens: Sequence[str]) -> str:
    return "\n".join(["", *tokens, ""])


def is_code(span: str, code: str, literals: frozenset[float], *, is_proposal: bool) -> bool:
    """It is in the source, or it has no other numbers than the source and the suggested edits.

    A plain number (`256`) is one of the sentence, whatever it stands in, except in a proposal.
    """
    source, tokens = source_of(code), _TOKEN.findall(span)
    numbers = {_number(token) for token in tokens if token[0].isdigit()}
    is_plain = bool(_PLAIN_NUMBER.fullmatch(span.strip()))
    if _joined(tokens) in source.text and not is_plain:
        return True
    if _PERCENT.search(span) or _ASSIGNED.search(span) or _in_words(span):
        return False
    # New code that uses known names: `COLS * (COLS + 1) / 2`.
    if is_plain:
        return is_proposal and numbers <= literals
    return not numbers or (not source.words.isdisjoint(tokens) and numbers <= literals)


def _in_words(span: str) -> bool:
    """`thirty percent`. `%` is the remainder in code, and `half` is a type."""
    plain = re.sub(r"\bhalf\b|%", " ", span)
    return bool(COUNT.search(plain) or RATIO.search(plain))


def _number(token: str) -> float:
    try:
        if token[:2].lower() == "0x":
            return float(int(token.rstrip("uUlL"), 16))
        return float(token.rstrip("uUlLfF").replace("'", ""))
    except (ValueError, OverflowError):
        return float("nan")


def is_known_name(name: str, source: TokenizedCode) -> bool:
    """A name without digits, a name of the source, or a well-known one: `L2`, `LDG.E.128`."""
    if name in source.words or not re.search(r"\d", name):
        return True
    if KNOWN_NAME.fullmatch(name):
        return True
    first, *rest = re.split(r"[._]+|::", name.strip("._:"))
    return _is_known_part(first) and all(_is_known_part(p) or p in WIDTHS for p in rest)


def _is_known_part(part: str) -> bool:
    upper = part.upper()
    return part.isalpha() or bool(KNOWN_NAME.fullmatch(part) or KNOWN_NAME.fullmatch(upper))
