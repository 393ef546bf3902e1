"""The clause around a number: whether it states a measurement, and which metric variant it
means."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import NamedTuple

from keet.verification.text.claims import Claim

NOT_MEASURED = re.compile(
    r"\b(?:would|could|should|might|may|can|expect\w*|estimat\w*|if|ideal(?:ly)?|target|goal"
    r"|potential\w*|possible|assum\w+|maximum|max|peak|theoretical(?:ly)?|limit|at best|capable"
    r"|hardware|optimal|of the available|called|defined|range|typical\w*|usual\w*|granularity"
    r"|consecutive|groups? of|recommend\w*|try|reduc(?:e|ing)|increas(?:e|ing)|raise|lower it)\b",
    re.IGNORECASE,
)
"""Words about possibilities or about what a GPU can do, not about what this launch did."""
_OF_PEAK = re.compile(r"\bof\s+(?:(?:its|the|their)\s+)?(?:\w+\s+)?peak\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:()]|\b(?:while|whereas|but|and)\b")


def clause_of(claim: Claim) -> str:
    """The clause of the number, extended to the metric name before it."""
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


def is_hypothetical(claim: Claim) -> bool:
    """Whether the clause, without the metric name, states a possibility."""
    text, clause = claim.sentence.text, clause_of(claim)
    if claim.term:
        clause = clause.replace(text[claim.term.start : claim.term.end], "")
    return _states_possibility(clause)


@lru_cache(maxsize=64)
def _states_possibility(clause: str) -> bool:
    return bool(NOT_MEASURED.search(_OF_PEAK.sub("", clause)))


# --- which variant of a metric the clause means


class _Qualifier(NamedTuple):
    words: re.Pattern[str]
    unless: re.Pattern[str] | None
    """If this matches too, `words` are ignored."""
    drops: re.Pattern[str]
    """Metric ids that are not meant."""


def _qualifier(words: str, drops: str, unless: str | None = None) -> _Qualifier:
    both = re.compile(unless, re.IGNORECASE) if unless else None
    return _Qualifier(re.compile(words, re.IGNORECASE), both, re.compile(drops))


_LOADS = r"\b(?:loads?|loading|reads?|reading)\b"
_STORES = r"\b(?:stores?|storing|writes?|writing)\b"
_ELAPSED = r"\b(?:over|of|in)\s+(?:the\s+|all\s+)?elapsed\b"
_ACTIVE = r"\bactive\s+cycles?\b"
_QUALIFIERS = (
    _qualifier(_LOADS, "_store", _STORES),
    _qualifier(_STORES, "_load", _LOADS),
    _qualifier(_ELAPSED, r"_active(?:_pct)?$|ipc_issued", _ACTIVE),
    _qualifier(_ACTIVE, "_elapsed", _ELAPSED),
    _qualifier(r"\A(?!.*\ballocat)", "^registers_allocated$"),
)


@lru_cache(maxsize=256)
def qualified(ids: tuple[str, ...], clause: str) -> tuple[str, ...]:
    """The metric ids that the clause may mean; all if it would exclude all."""
    for words, unless, drops in _QUALIFIERS:
        if words.search(clause) and not (unless and unless.search(clause)):
            ids = tuple(each for each in ids if not drops.search(each)) or ids
    return ids
