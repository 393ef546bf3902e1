"""Words around a name that say which of its readings is meant: of loads, over elapsed cycles."""

from __future__ import annotations

import re
from functools import lru_cache

from keet.records import NamedTuple


class _Qualifier(NamedTuple):
    words: re.Pattern[str]
    unless: re.Pattern[str] | None
    """Where this is said too, the words decide nothing."""
    drops: re.Pattern[str]
    """Ids of readings that are not meant."""


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
    """The readings that the clause leaves; all of them where it would leave none."""
    for words, unless, drops in _QUALIFIERS:
        if words.search(clause) and not (unless and unless.search(clause)):
            ids = tuple(each for each in ids if not drops.search(each)) or ids
    return ids
