"""Code as evidence and as advice: what its comments say is neither."""

from __future__ import annotations

import re

from keet.verification.disguise import promises_in_words, undisguised

_COMMENT = re.compile(
    r"(?://|#(?!\s*(?:pragma|define|if|endif|include|else|undef)))[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_LONGEST_LINE = 400
_FACTOR = re.compile(
    r"\d(?:\.\d+)?\s?(?:x\b|×|%|times\b|-?fold\b|[GTM]B/s\b|[nuµm]s\b)", re.IGNORECASE
)
"""What a comment in suggested code may not say: nobody checks it."""


def without_comments(code: str) -> str:
    """What a comment says is no fact of the code, nor code to be quoted."""
    return _COMMENT.sub(" ", _short_lines(code))


def without_promises(code: str) -> str:
    """Comments of suggested code may explain it, not praise it."""

    def kept(comment: re.Match[str]) -> str:
        said = undisguised(comment[0])
        return "" if _FACTOR.search(said) or promises_in_words(said) else comment[0]

    return _COMMENT.sub(kept, code)


def _short_lines(code: str) -> str:
    """A line without an end would take the patterns of constants hours."""
    return "\n".join(line[:_LONGEST_LINE] for line in code.splitlines())
