"""Removes comments of suggested code that state numbers which nobody checked."""

from __future__ import annotations

import re

from keet.evidence.free_numbers import Allowed, free_number

_COMMENT = re.compile(
    r"(?<![ \t])[ \t]*+(?:(?://|#(?!\s*(?:pragma|define|if|endif|include|else|elif|undef|line|error)))[^\n]*"
    r"|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""Including the blanks before it, matched from the first blank: matching from every blank would
take quadratic time."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def without_figures(code: str, source: str) -> str:
    """Removes comments that state shares, times, factors or speed-ups, except those that the source
    already has."""

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
