"""Finds comparisons in a sentence: `exceeds`, `more than twice`, `is the highest`.

`relation_check` finds out which quantities are compared, and whether it is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.verification.claims import Claim
from keet.verification.numbers import (
    FRACTION,
    MULTIPLES,
    WORDS,
    Bound,
    bound_before,
    fraction_of,
    value_of,
)
from keet.verification.sentences import clause_around

RelationKind = Literal["more", "less", "ratio", "same", "close", "most", "least", "unclear"]
"""`ratio`: the first is a multiple of the second, without more or less."""

_ADVERB = (
    r"(?:(?:far|much|slightly|well|way|significantly|considerably|even|still|clearly|just)\s+)?"
)
_MORE = r"more|higher|larger|greater|bigger|busier|longer|slower|heavier|hotter|wider|deeper"
_LESS = r"less|fewer|lower|smaller|shorter|faster|quicker|idler|lighter|rarer|narrower"
_FACTOR = (
    rf"(?:(?P<times>(?<![\d.,])\d[\d,]{{0,14}}(?:\.\d+)?)\s?(?:x|×|times|-?fold)|(?P<words>{WORDS})(?:\s+times|-?fold)"
    rf"|(?P<multiple>twice|thrice|double|triple)|(?P<part>{FRACTION}))"
)
_HEDGE = r"(?:(?:about|around|roughly|approximately|nearly|almost|some|only|exactly)\s+)?"
_DIFFERENCE = (
    r"(?P<difference>(?<![\d.,])\d[\d,]{0,14}(?:\.\d+)?"
    r"\s?(?:%|points?|percentage points?|[a-zA-Z]{1,12})?)"
)
_BE = r"(?:is|are|was|were|lies?|stays?|remains?|sits?|falls?|runs?|stands?)"

_COMPARED = re.compile(
    rf"\b{_HEDGE}(?:{_FACTOR}\s+|{_DIFFERENCE}\s+)?{_ADVERB}"
    rf"(?:(?P<more>{_MORE})|(?P<less>{_LESS}))\b(?P<between>(?:[^.;:]|\.(?=\d)){{0,80}}?)\bthan\b",
    re.IGNORECASE,
)
_AS = re.compile(
    rf"\b{_HEDGE}{_FACTOR}\s+as\s+(?P<how>(?!wide|deep|well|soon)\w+)(?P<between>(?:\s+\w+){{0,4}}?)\s+as\b",
    re.IGNORECASE,
)
_MULTIPLE = re.compile(
    rf"\b{_HEDGE}{_FACTOR}\s+(?:of\s+(?!an?\b)|(?=(?:the|its|their|that|those|what)\b))",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:(?P<more>exceed(?:s|ed|ing)?|outnumber(?:s|ed)?|surpass(?:es|ed)?|outweigh(?:s|ed)?"
    r"|dominates? over|ahead of)|(?P<less>(?:lag|fall|trail)s? behind|falls? short of))\b",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"(?:\b(?i:{_BE})\s+|,\s*|{_DIFFERENCE}\s+){_ADVERB}(?:(?P<more>above)|(?P<less>below))\b"
    r"(?=\s+(?:the|that|those|its|[A-Z]|\w+_))"
)
_SAME = re.compile(
    r"\b(?P<close>(?:close|similar|comparable)\s+(?:to|with)|(?:almost|nearly|about|roughly)\s+"
    r"(?:equals?\b|(?:the same|equal|as)(?:\s+\w+)?\s+(?:as|to)))\b"
    r"|\b(?P<same>(?:the same|equal|identical)(?:\s+\w+)?\s+(?:as|to)|equals?|as\s+\w+\s+as)\b",
    re.IGNORECASE,
)
_BEST = re.compile(
    r"\b(?:(?P<most>(?:the|its|their)\s+(?:\w+\s+)?(?:highest|largest|longest|biggest|greatest|busiest"
    r"|slowest|hottest|heaviest|dominant|main|leading|top|most\s+(?:common|frequent|\w+ed))"
    r"|leads\s+the|tops\s+the|dominates?)"
    r"|(?P<least>(?:the|its|their)\s+(?:\w+\s+)?(?:lowest|smallest|shortest|least|fastest|quickest"
    r"|fewest)))\b(?!\s+(?:axis|axes|dimension|stage|slice)s?\b)",
    re.IGNORECASE,
)
"""Not `the fastest axis`, `the busiest stage`: these name a part, keet has no values to rank."""
_ANY = re.compile(
    r"th(?:an|ird)\b|est\b|half|quarter|\wth\b|twice|thrice|double|triple|times|fold|\d\s?[x×]|\bas\b"
    r"|exceed|outnumber|surpass|outweigh|ahead|behind|short|above|below|same|equal|identical|close"
    r"|similar|comparable|most|least|domina|main|lead|top",
    re.IGNORECASE,
)
"""Every comparison contains one of these: a fast test."""
_ORDINAL = re.compile(r"\b(?:second|third|fourth|next|one of the)\b", re.IGNORECASE)
_OF = re.compile(r"\bof\s+\Z", re.IGNORECASE)
_NOT = re.compile(r"\b(?:not|isn't|aren't|doesn't|don't|never|no|nor|neither)(?:\s+\w+)?\s*\Z")
_NUMBER_NEXT = re.compile(
    rf"\s*(?:about\s+|~\s?)?(?:\d|(?:{WORDS}|twice|thrice|double|triple|{FRACTION})\b)",
    re.IGNORECASE,
)
_SPEED = re.compile(r"\b(?:slower|faster|quicker|longer|shorter|long|fast|slow|quick)\b", re.I)
_FACTORS = ("times", "words", "multiple", "part")
_DOWN_HOW = ("few", "little", "small", "low", "short", "fast", "quick")
_LOOSE = 0.1
"""`twice` is 1.8 to 2.2 times."""


class Factor(NamedTuple):
    """How many times, or by how much."""

    value: float
    half: float
    bound: Bound | None
    unit: str = "x"
    """`x`, or the written unit of a difference; empty if it has none."""


class Relation(NamedTuple):
    start: int
    end: int
    kind: RelationKind
    factor: Factor | None = None
    is_negated: bool = False
    about_time: bool = False
    """`longer`, `faster`: about durations, unless the sentence names something else."""
    between: tuple[int, int] = (0, 0)
    """Span of words inside the comparison that name the metric: `higher L2 hit rate than`."""


def find_relations(text: str) -> list[Relation]:
    """In order, without those inside another."""
    relations: list[Relation] = []
    if not _ANY.search(text):
        return relations
    for relation in sorted(_all(text), key=lambda each: (each.start, -each.end)):
        if not relations or relation.start >= relations[-1].end:
            relations.append(relation)
    return relations


def _all(text: str) -> Iterator[Relation]:
    for match in _COMPARED.finditer(text):
        # `more than 60 %` is a bound
        if any(match[name] for name in _FACTORS) or not _NUMBER_NEXT.match(text, match.end()):
            yield _relation(match, "more" if match["more"] else "less")
    for match in _AS.finditer(text):
        down = match["how"].lower() in _DOWN_HOW
        yield _relation(match, "less" if down else "ratio")
    yield from (_relation(match, "ratio") for match in _MULTIPLE.finditer(text))
    for match in (*_VERB.finditer(text), *_BESIDE.finditer(text)):
        if not _NUMBER_NEXT.match(text, match.end()):
            yield _relation(match, "more" if match["more"] else "less")
    for match in _SAME.finditer(text):
        if not _NUMBER_NEXT.match(text, match.end()):
            yield _relation(match, "same" if match["same"] else "close")
    for match in _BEST.finditer(text):
        if _OF.search(text[max(0, match.start() - 6) : match.start()]):
            continue  # `the cycles of the longest one` does not say which one
        ordinal = _ORDINAL.search(text, max(0, match.start() - 12), match.end())
        yield _relation(match, "unclear" if ordinal else "most" if match["most"] else "least")


def _relation(match: re.Match[str], kind: RelationKind) -> Relation:
    text, groups = match.string, match.groupdict()
    return Relation(
        match.start(),
        match.end(),
        kind,
        _factor(match),
        bool(_NOT.search(text[max(0, match.start() - 20) : match.start()])),
        bool(_SPEED.search(match[0])),
        match.span("between") if groups.get("between") else (0, 0),
    )


def _factor(match: re.Match[str]) -> Factor | None:
    said = match.groupdict()
    name = next(
        (n for n in ("times", "words", "multiple", "part", "difference") if said.get(n)), ""
    )
    if not name:
        return None
    words = said[name]
    bound = bound_before(match.string[max(0, match.start(name) - 24) : match.start(name)])
    if name == "times":
        return Factor(*_digits(words), bound)
    if name == "difference":
        number, unit = re.fullmatch(r"([\d.,]+)\s?(.*)", words).groups()  # type: ignore[union-attr]
        return Factor(*_digits(number), bound, unit)
    if name == "words":
        value = float(value_of(words))
    else:
        value = MULTIPLES[words.lower()] if name == "multiple" else fraction_of(words)
    return Factor(value, value * _LOOSE, bound)


def _digits(number: str) -> tuple[float, float]:
    """The value, and half a unit of its last digit."""
    plain = number.replace(",", "")
    places = len(plain.partition(".")[2])
    return float(plain), 0.5 * 10.0**-places


NOT_MEASURED = re.compile(
    r"\b(?:would|could|should|might|may|can|expect\w*|estimat\w*|if|ideal(?:ly)?|target|goal"
    r"|potential\w*|possible|assum\w+|maximum|max|peak|theoretical(?:ly)?|limit|at best|capable"
    r"|hardware|optimal|of the available|called|defined|range|typical\w*|usual\w*|granularity"
    r"|consecutive|groups? of|recommend\w*|try|reduc(?:e|ing)|increas(?:e|ing)|raise|lower it)\b",
    re.IGNORECASE,
)
"""Words about possibilities or about what a GPU can do, not about what this launch did."""
_OF_PEAK = re.compile(r"\bof\s+(?:(?:its|the|their)\s+)?(?:\w+\s+)?peak\b", re.IGNORECASE)


def clause_of(claim: Claim) -> str:
    """The clause of the number, extended to the metric name before it."""
    text, number = claim.sentence.text, claim.number
    start, end = clause_around(text, number.start, number.end)
    if claim.term and claim.term.end <= number.start:
        start = min(start, claim.term.start)
    return text[start:end]


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


_LOADS = r"\b(?:loads?|loading|reads?|reading)\b"
_STORES = r"\b(?:stores?|storing|writes?|writing)\b"
_ELAPSED = r"\b(?:over|of|in)\s+(?:the\s+|all\s+)?elapsed\b"
_ACTIVE = r"\bactive\s+cycles?\b"
_QUALIFIERS = (
    (_LOADS, _STORES, "_store"),
    (_STORES, _LOADS, "_load"),
    (_ELAPSED, _ACTIVE, r"_active(?:_pct)?$|ipc_issued"),
    (_ACTIVE, _ELAPSED, "_elapsed"),
    (r"\A(?!.*\ballocat)", r"(?!)", "^registers_allocated$"),
)
"""Words; other words, with which the first ones say nothing; and the metric ids that are then not
meant."""


@lru_cache(maxsize=256)
def qualified(ids: tuple[str, ...], clause: str) -> tuple[str, ...]:
    """The metric ids that the clause may mean; all if it would exclude all."""
    for words, others, drops in _QUALIFIERS:
        if re.search(words, clause, re.I) and not re.search(others, clause, re.I):
            ids = tuple(id_ for id_ in ids if not re.search(drops, id_)) or ids
    return ids
