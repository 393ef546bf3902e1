"""Finds metric names in a text: the catalog's labels, ids, ncu names and synonyms.

Some words name a metric only in context: `written` in a sentence about DRAM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from keet.catalog import hardware_units, metric_named, metrics, stalls, synonyms

STALL_SHARE = "stall_share:"
"""Prefix of a stall reason: its share of the samples, or of a warp's cycles."""
TIME_SHARE = "time_share"
L1_ELAPSED = "l1_over_elapsed"
"""L1's share of its peak over elapsed cycles; ncu has it over active cycles only."""
ROOFLINE = "roofline:"
"""Prefix of the id of a ceiling of `keet roofline`: the share of its peak."""
DRAM_TRAFFIC = "dram_traffic"
"""Bytes read from and written to DRAM."""
NCU_NAME = "ncu:"
"""Prefix of an ncu metric name, which need not be in the catalog."""

_TOKEN = re.compile(r"[A-Za-z]\w*__\w+(?:\.\w+)*|(?!(?<=['’])s\b)[A-Za-z0-9_]+")
_OPTION = re.compile(r"(?<!\S)--[a-z][\w-]+")
"""An option of a command: `--warp-sampling-interval 6` states nothing."""
_GAP = re.compile(r"(?:[\s()/*_`-]|'s|’s)*")
"""What may separate two words of a name; not a comma or a full stop."""
_JOINS = {"and", "or", "both"}
_BEFORE_GENERIC = re.compile(
    r"(?:^|[^\w\s%]|\b(?:the|a|an|its|their|this|with|and|or|of|has|have|had|at|for|in|on|is|to|low"
    r"|high|good|poor|cache|overall|kernel|launch|while|whose|despite|but|from|lower|higher|limits"
    r"|reach|reaches|than|kernel's))\s*\Z",
    re.IGNORECASE,
)


_NOT_BEFORE_PART = re.compile(
    r"\b(?:in|from|to|into|through|via|past|per|a|an|each|hits?|miss(?:es)?|Nsight|active|idle)\s+\Z",
    re.I,
)
"""Before words that are not the measured unit: `requests to L2`, `Nsight Compute`."""
_AVERAGE = re.compile(r"\bAvg\.\s*\Z")
_FOR_EACH = re.compile(r"\s+Per\s+[A-Z]")
"""`Avg. Executed Instructions Per Scheduler` is not the number of instructions."""
_AFTER_PART = re.compile(
    r"['’s]*(?:\s*[^\w\s-]|\s+(?:\d|is|was|are|at|reach\w*|runs|idles?|sits?|stays?|and|or|with|while"
    r"|only|has|to|but|of|by|as|for|hits|works|stands|near|nearly|about|being|were|gets|does|peaks"
    r"|on|than|over|under|below|above|pipe|instead|operates|delivers|moves)\b|\s*\Z)",
    re.IGNORECASE,
)


class PhraseMeaning(NamedTuple):
    """The metrics that some words mean; the flags are those of synonyms.toml."""

    metric_ids: tuple[str, ...]
    complement: bool = False
    generic: bool = False
    verb: bool = False
    weak: bool = False
    part: bool = False
    spelled: str = ""
    """If set, only this spelling matches: `Wait`, not `wait`."""


class Term(NamedTuple):
    """A name of a metric in a text."""

    start: int
    end: int
    entry: PhraseMeaning
    words: int

    @property
    def metric_ids(self) -> tuple[str, ...]:
        """Catalog ids and the pseudo-ids above, the likeliest first."""
        return self.entry.metric_ids


class _Token(NamedTuple):
    word: str
    start: int
    end: int


def find_terms(text: str) -> list[Term]:
    """The metric names in `text`, at each position the longest."""
    text = _OPTION.sub(lambda match: "," * len(match[0]), text)
    tokens = [_Token(_normal(m[0]), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    terms: list[Term] = []
    index = 0
    while index < len(tokens):
        term = _at(text, tokens, index)
        if term is None:
            index += 1
            continue
        terms += _coordinated(text, tokens, index, term, terms)
        terms.append(term)
        index += term.words
    return sorted(terms)


def _normal(word: str) -> str:
    """Normal form for singular and plural, and for -ise and -ize."""
    if "__" in word:
        return word
    word = word.lower().replace("utilis", "utiliz")
    if word == "sms":
        return word  # a count, while `SM` means a share of its peak
    plural = len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural else word


def words_of(phrase: str) -> tuple[str, ...]:
    return tuple(_normal(match[0]) for match in _TOKEN.finditer(phrase))


def _at(text: str, tokens: list[_Token], index: int) -> Term | None:
    token = tokens[index]
    if "__" in token.word and token.word[0].isalpha():
        return Term(token.start, token.end, PhraseMeaning((NCU_NAME + token.word,)), 1)
    for count in range(min(_longest(), _run(text, tokens, index)), 0, -1):
        entry = _entries().get(tuple(t.word for t in tokens[index : index + count]))
        end = tokens[index + count - 1].end
        if entry is None or entry.spelled not in ("", text[token.start : end]):
            continue
        if _is_meant(entry, text[max(0, token.start - 24) : token.start], text[end:]):
            return Term(token.start, end, entry, count)
    return None


def _is_meant(entry: PhraseMeaning, before: str, behind: str) -> bool:
    """Whether the words around a short name allow it to be a metric name."""
    if _AVERAGE.search(before) and _FOR_EACH.match(behind):
        return False
    if entry.generic and not _BEFORE_GENERIC.search(before):
        return False
    return not entry.part or bool(not _NOT_BEFORE_PART.search(before) and _AFTER_PART.match(behind))


def _run(text: str, tokens: list[_Token], index: int) -> int:
    """How many words from here on may form a name."""
    count = 1
    for before, after in zip(tokens[index:], tokens[index + 1 :]):
        if count >= _longest() or not _GAP.fullmatch(text[before.end : after.start]):
            break
        count += 1
    return count


def _coordinated(
    text: str, tokens: list[_Token], index: int, term: Term, terms: list[Term]
) -> list[Term]:
    """`L1 and L2 hit rates`: the words after L2 apply to L1 too."""
    head = tuple(t.word for t in tokens[index + 1 : index + term.words])
    added: list[Term] = []
    while head and index >= 2:
        comma = "," in text[tokens[index - 1].end : tokens[index].start]
        step = 2 if tokens[index - 1].word in _JOINS else 1 if comma else 0
        entry = _entries().get((tokens[index - step].word, *head)) if step else None
        if entry is None:
            break
        index -= step
        first = tokens[index]
        terms[:] = [other for other in terms if other.end <= first.start]
        added.append(Term(first.start, first.end, entry, term.words))
    return added


@cache
def _entries() -> Mapping[tuple[str, ...], PhraseMeaning]:
    """Meanings by words; synonyms of the catalog take precedence over labels."""
    labels: dict[tuple[str, ...], list[str]] = {}
    for phrase, metric_id in (*_catalog_phrases(), *_unit_phrases()):
        labels.setdefault(phrase, []).append(metric_id)
    entries = {phrase: PhraseMeaning(tuple(metric_ids)) for phrase, metric_ids in labels.items()}
    entries |= dict(_stall_phrases())
    for synonym in synonyms().values():
        entry = PhraseMeaning(synonym.metrics, *synonym[3:])
        entries |= {words_of(phrase): entry for phrase in synonym.phrases}
    return entries


def _catalog_phrases() -> Iterator[tuple[tuple[str, ...], str]]:
    for spec in metrics().values():
        yield words_of(spec.id), spec.id
        label = words_of(spec.label)
        if len(label) > 1:  # `Threads`, `Selected`: ordinary words
            yield label, spec.id


def _unit_phrases() -> Iterator[tuple[tuple[str, ...], str]]:
    """keet's names for the share of a unit's peak: `L1 data stage (LSU) busy`."""
    for unit in hardware_units().values():
        label = words_of(unit.label)
        for spec in filter(None, map(metric_named, unit.share_of_peak)):
            yield (*label, "busy"), spec.id
            if len(label) > 1:  # `L1 data stage (LSU) is 65% busy`
                yield label, spec.id


def _stall_phrases() -> Iterator[tuple[tuple[str, ...], PhraseMeaning]]:
    for reason, stall in stalls().items():
        counted = (f"stall_{reason}", f"samples_{reason}")
        known = tuple(metric_id for metric_id in counted if metric_id in metrics())
        entry = PhraseMeaning((STALL_SHARE + reason, *known))
        label = words_of(stall.label)
        forms = [("stall", *label), (*label, "stall"), ("stalled", "on", *label)]
        if len(label) > 1:
            forms.append(label)
        else:
            yield label, entry._replace(weak=True, spelled=stall.label)
        yield from ((form, entry) for form in forms)


@cache
def _longest() -> int:
    return max(map(len, _entries()))


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
    terms = find_terms(text)
    added: list[Term] = []
    for term in _by_context(text):
        over = [
            other for other in (*terms, *added) if term.start < other.end and other.start < term.end
        ]
        if all(other.entry.weak or other.entry.part for other in over):
            terms = [other for other in terms if other not in over]
            added.append(term)
    return tuple(sorted([*terms, *added]))


def _by_context(text: str) -> Iterator[Term]:
    for rule in _rules(text):
        for match in rule.words.finditer(text):
            name = "name" if match.re.groups and match["name"] else 0
            known = tuple(
                id_
                for id_ in rule.entry.metric_ids
                if id_ in metrics() or id_ == DRAM_TRAFFIC or id_.startswith(STALL_SHARE)
            )
            entry = rule.entry._replace(metric_ids=known)
            yield Term(match.start(name), match.end(name), entry, 2)


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
