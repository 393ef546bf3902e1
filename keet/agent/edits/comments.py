"""Comments of suggested code: they may explain it, not state figures that nobody checks."""

from __future__ import annotations

import re

from keet.patterns import regex
from keet.prose.free_numbers import Allowed, free_number

_COMMENT = regex(
    r"(?<![ \t])[ \t]*+(?:(?://|#(?!\s*(?:pragma|define|if|endif|include|else|elif|undef|line|error)))[^\n]*"
    r"|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""With the blanks before it, from the first of them: a search from each would take the square of
their number."""
_NUMBER = regex(r"\d+(?:\.\d+)?")


def without_figures(code: str, source: str) -> str:
    """Without comments that state shares, times, factors or speed-ups, except those of the source:
    an edit must not take away what its author wrote."""

    def kept(comment: re.Match[str]) -> str:
        words = comment[0].strip().strip("/*#").strip()
        is_own = comment[0].strip() in source
        return comment[0] if is_own or not _states_figures(words) else ""

    return _COMMENT.sub(kept, code)


def _states_figures(words: str) -> bool:
    sizes = frozenset(float(number) for number in _NUMBER.findall(words)[:50])
    allowed = Allowed(literals=sizes, is_proposal=True)
    flat = " ".join(words.replace("`", "'").split())
    return free_number(flat, allowed, compares=False) is not None
