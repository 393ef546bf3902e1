"""The clause that a number stands in, and whether it speaks of what was measured."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache

from keet.patterns import regex
from keet.verification.binding import Claim

NOT_MEASURED = regex(
    r"\b(?:would|could|should|might|may|can|expect\w*|estimat\w*|if|ideal(?:ly)?|target|goal"
    r"|potential\w*|possible|assum\w+|maximum|max|peak|theoretical(?:ly)?|limit|at best|capable"
    r"|hardware|optimal|of the available|called|defined|range|typical\w*|usual\w*|granularity"
    r"|consecutive|groups? of|recommend\w*|try|reduc(?:e|ing)|increas(?:e|ing)|raise|lower it)\b",
    re.IGNORECASE,
)
"""Words of what might be, or of what a GPU can do: no claim about what this launch did."""
_OF_PEAK = regex(r"\bof\s+(?:(?:its|the|their)\s+)?(?:\w+\s+)?peak\b", re.IGNORECASE)
_CLAUSE_END = regex(r"[,;:()]|\b(?:while|whereas|but|and)\b")


def clause_of(claim: Claim) -> str:
    """What stands around the number, up to where its name begins."""
    text, number = claim.sentence.text, claim.number
    ends = _clause_ends(text)
    before = bisect_right(ends, number.start, key=lambda span: span[1])
    behind = bisect_left(ends, number.end, key=lambda span: span[0])
    start = ends[before - 1][1] if before else 0
    end = ends[behind][0] if behind < len(ends) else len(text)
    if claim.term and claim.term.end <= number.start:
        start = min(start, claim.term.start)
    return text[start:end]


@lru_cache(maxsize=8)
def _clause_ends(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(match.span() for match in _CLAUSE_END.finditer(text))


def might_be(claim: Claim) -> bool:
    """Whether the clause, its metric's name aside, speaks of what might be."""
    text, clause = claim.sentence.text, clause_of(claim)
    if claim.term:
        clause = clause.replace(text[claim.term.start : claim.term.end], "")
    return _says_might_be(clause)


@lru_cache(maxsize=64)
def _says_might_be(clause: str) -> bool:
    return bool(NOT_MEASURED.search(_OF_PEAK.sub("", clause)))
