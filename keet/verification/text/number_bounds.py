"""Words before a number that make it a bound (`at most`) or approximate (`about`)."""

from __future__ import annotations

import re
from typing import Literal

Bound = Literal["above", "below"]

_HEDGE = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|ca\.)\s+|[~≈]\s?)\Z",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"(?:\b(?:over|above|(?:more|greater|higher|longer) than|at least|exceed(?:s|ed|ing)?|beyond"
    r"|between|(?:no|not) (?:less|fewer|lower|shorter) than)\s+(?:the\s+)?|(?:>=?|≥)\s?)\Z",
    re.IGNORECASE,
)
_BELOW = re.compile(
    r"(?:\b(?:under|below|(?<!no )(?<!not )(?:less|fewer|lower|shorter) than|at most|up to"
    r"|(?:no|not) (?:more|greater|higher|longer) than|only up to)\s+(?:the\s+)?"
    r"|(?:<=?|≤)\s?|\bbetween\s+[\d.,]+\s?\S{0,5}\s+and\s+)\Z",
    re.IGNORECASE,
)
_HEDGE_ENDS = (
    *("about", "around", "roughly", "approximately", "approx", "approx.", "nearly", "almost"),
    *("some", "circa", "ca.", "~"),
)
_BOUND_ENDS = (
    *("over", "above", "than", "least", "exceed", "exceeds", "exceeded", "exceeding", "beyond"),
    *("between", "under", "below", "most", "up to", "and", "<", "<=", ">", ">="),
)
"""Ends of the patterns above, tested first: most numbers have none, and then no pattern is
compiled."""


def bound_before(before: str) -> Bound | None:
    """`more than`, `at most`; `between 20 and 30 %` are two bounds."""
    if not _may_end(before, _BOUND_ENDS):
        return None
    if _BELOW.search(before):  # first, because `no more than` ends with `more than`
        return "below"
    return "above" if _ABOVE.search(before) else None


def is_hedged(before: str) -> bool:
    """`about`, `nearly`."""
    return _may_end(before, _HEDGE_ENDS) and _HEDGE.search(before) is not None


def _may_end(before: str, ends: tuple[str, ...]) -> bool:
    if not before.isascii():  # symbols, and letters with special upper case
        return True
    words = before.rstrip().lower().removesuffix("the").rstrip()
    return words.endswith(ends)
