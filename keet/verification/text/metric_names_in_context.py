"""Finds words that name a metric only in context: `written` in a sentence about DRAM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from keet.catalog import metrics
from keet.verification.text.metric_names import (
    DRAM_TRAFFIC,
    STALL_SHARE,
    PhraseMeaning,
    Term,
    find_terms,
)

_BYTES = r"\d\s?[kKMGT]?i?B(?:ytes?)?"
_DRAM = re.compile(r"\b(?:DRAM|HBM|device memory)\b", re.IGNORECASE)
_OTHER_MEMORY = re.compile(
    r"\b(?:L1|L2|shared|local|global|host|texture|PCIe|NVLink|system)\b", re.IGNORECASE
)
_DONE_WITH_BYTES = re.compile(rf"{_BYTES}\s+(?:(?:are|is|were|was)\s+)?(?:read|written)\b")


class _Rule(NamedTuple):
    words: re.Pattern[str]
    """Its group `name` is the metric name; the whole match if there is no such group."""
    entry: PhraseMeaning


def _rule(pattern: str, *metric_ids: str, complement: bool = False) -> _Rule:
    return _Rule(
        re.compile(pattern, re.IGNORECASE), PhraseMeaning(metric_ids, complement=complement)
    )


_READ = _rule(
    r"\b(?:reads?|reading|loads|loaded|fetch(?:es|ed))\b",
    *("dram_bytes_read", "dram_read_bytes_per_second"),
)
_WRITTEN = _rule(
    r"\b(?:writes?|writing|written|wrote|stores|stored)\b",
    *("dram_bytes_written", "dram_write_bytes_per_second"),
)
_TRAFFIC = _rule(
    r"\b(?:DRAM|HBM|device memory) (?:traffic|bytes)\b"
    r"|\b(?:through|to and from) (?P<name>DRAM|HBM)\b",
    DRAM_TRAFFIC,
)
_BOTH_WAYS = _rule(r"\breads? and writes?\b(?: to DRAM\b)?", DRAM_TRAFFIC)
_ALLOCATED = _rule(r"\ballocat(?:ed|es)\b", "registers_allocated")
_MISS = {
    cache: _rule(r"\bmiss(?:es)?\b", f"{cache.lower()}_hit_rate_pct", complement=True)
    for cache in ("L1", "L2")
}
_LAUNCHED = (
    _rule(r"\b(?P<name>blocks?)(?= of [\d,]+ threads\b)", "grid_size"),
    _rule(r"\bblocks? of [\d,]+ (?P<name>threads)\b", "block_size"),
)
_ALLOWS = r"\b[^.;,:]{0,20}?\b(?P<name>(?:allow|permit|limit|fit)(?:s|ed)?)\b"
_LIMITS = (
    _rule(r"\bregisters?" + _ALLOWS, "block_limit_registers"),
    _rule(r"\bshared memory" + _ALLOWS, "block_limit_shared_memory"),
)
_STALLS = tuple(
    _rule(rf"\b{reason}s?\b", STALL_SHARE + reason, f"stall_{reason}", f"samples_{reason}")
    for reason in ("barrier", "drain", "membar")
)
_OF_STALLS = re.compile(r"\bstall\w*\b|\bsamples\b", re.IGNORECASE)
_OF_REGISTERS = re.compile(r"\bregisters?\b", re.IGNORECASE)
_SHARED = re.compile(r"\bshared\b|\bbytes?\b|\bkB\b", re.IGNORECASE)


@lru_cache(maxsize=8)
def terms_in(text: str) -> tuple[Term, ...]:
    """The metric names in a sentence. A name found by context replaces weak names that overlap
    it."""
    found = find_terms(text)
    added: list[Term] = []
    for term in _by_context(text):
        over = [other for other in (*found, *added) if _overlap(term, other)]
        if all(other.entry.weak or other.entry.part for other in over):
            found = [other for other in found if other not in over]
            added.append(term)
    return tuple(sorted([*found, *added]))


def _overlap(one: Term, other: Term) -> bool:
    return one.start < other.end and other.start < one.end


def _by_context(text: str) -> Iterator[Term]:
    for rule in _rules(text):
        for match in rule.words.finditer(text):
            name = "name" if match.re.groups and match["name"] else 0
            known = tuple(r for r in rule.entry.metric_ids if r in metrics() or _is_computed(r))
            entry = rule.entry._replace(metric_ids=known)
            yield Term(match.start(name), match.end(name), entry, 2)


def _is_computed(metric_id: str) -> bool:
    return metric_id == DRAM_TRAFFIC or metric_id.startswith(STALL_SHARE)


def _rules(text: str) -> Iterator[_Rule]:
    """Rules whose context the sentence has."""
    yield from (*_LAUNCHED, *_LIMITS)
    done = _DONE_WITH_BYTES.search(text)
    if not _OTHER_MEMORY.search(text) and (_DRAM.search(text) or done):
        if not done:
            yield from (_BOTH_WAYS, _TRAFFIC)
        yield from (_READ, _WRITTEN)
    if _OF_REGISTERS.search(text) and not _SHARED.search(text):
        yield _ALLOCATED
    caches = [cache for cache in _MISS if re.search(rf"\b{cache}\b", text)]
    yield from (_MISS[cache] for cache in caches if len(caches) == 1)
    if _OF_STALLS.search(text):
        yield from _STALLS
