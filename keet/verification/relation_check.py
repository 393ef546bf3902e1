"""Finds comparisons in a sentence (`DRAM is busier than L2`, `Drain is the largest stall`), and
checks them.

Both sides are looked up by their names in the sentence, in the launches that it is about. A
comparison that keet does not understand is not checked, so it is neither confirmed nor
contradicted. What a sentence asserts without comparing (`is DRAM bound`) is checked against the
known facts of the launches: see `fact_check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple

from keet.catalog import stalls
from keet.documents.verify import ClaimVerdict, RelationDocument
from keet.evidence import Sentence, constant
from keet.explanation.known_facts import KnownFact
from keet.profile import Launch
from keet.units import Quantity
from keet.verification.claims import Claim
from keet.verification.fact_check import Judgement, assertions_in, judge_words
from keet.verification.metric_names import (
    STALL_SHARE,
    TIME_SHARE,
    PhraseMeaning,
    Term,
    find_terms,
    terms_in,
)
from keet.verification.numbers import (
    FRACTION,
    MULTIPLES,
    WORDS,
    Bound,
    bound_before,
    fraction_of,
    value_of,
)
from keet.verification.report_values import ReportValue, ReportValues
from keet.verification.sentences import SentenceSpan, clause_around
from keet.verification.verdicts import agrees, is_count, same_kind

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
    name = next((name for name in (*_FACTORS, "difference") if said.get(name)), "")
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


_NOT_THESE = re.compile(
    r"\b(?:would|could|might|may|should|can|if|expect\w*|estimat\w*|forecast|potential\w*|ideal\w*"
    r"|necessary|needed|after|before|previous\w*|baseline|original|old|usual\w*|typical\w*)\b",
    re.IGNORECASE,
)
"""Words of comparisons with something that is not in the report."""
_CLAUSE = re.compile(r";|\b(?:while|whereas|but|because)\b|\.\s", re.IGNORECASE)
_CLAUSE_END = re.compile(rf"[,:]\s|{_CLAUSE.pattern}", re.IGNORECASE)
_REACH = 70
"""Characters after a comparison in which its second side is searched."""
_WHOLES = {"samples_total", TIME_SHARE}
"""Totals that shares refer to; never one side of a comparison."""
_PARTED = re.compile(r"\b(?:are|is|were|was)\b")
_CLOSE, _FAR = 0.15, 0.5
"""Relative differences up to which two numbers are close, and from which they are not."""
_EQUAL = 0.02
_MOST_PAIRS = 160_000
"""Pairs of launches, at most, for which a comparison is checked."""
_NOT_UNDERSTOOD = "not checked: keet does not know which two quantities are compared"
OPEN = "not checked: matched to no known fact"
_OPPOSITES = {"confirmed", "contradicted"}


class _Side(NamedTuple):
    terms: Sequence[Term]
    """The likeliest first."""
    launches: tuple[Launch, ...]
    """Empty if the sentence names none."""
    text: str
    said: tuple[Claim, ...]
    is_part: bool = False
    """A part of the other side, maybe in other units: conflicts of wavefronts."""


_Pair = tuple[ReportValue, ReportValue]
_Verdict = tuple[ClaimVerdict, str]
"""With the reason."""


FactsOf = Callable[[Launch], Sequence[KnownFact]]
"""The known facts of a launch."""
_MOST_LAUNCHES = 8
"""Launches, at most, whose facts are looked up for a sentence that names none."""


class RelationChecker:
    def __init__(self, facts: ReportValues, facts_of: FactsOf | None = None) -> None:
        self._facts, self._facts_of = facts, facts_of

    def check(
        self, sentence: SentenceSpan, claims: Sequence[Claim], spoken_of: Sequence[Launch]
    ) -> list[RelationDocument]:
        """`spoken_of`: the launches if the sentence names none. Positions are relative to the
        sentence."""
        text = sentence.text
        compared = []
        for relation in () if _NOT_THESE.search(text) else find_relations(text):
            verdict = self._verdict(relation, text, claims, spoken_of)
            if verdict or claims or terms_in(text):  # else the sentence is not about metrics
                verdict = verdict or ("not_found", _NOT_UNDERSTOOD)
                compared.append(_document(text, relation.start, relation.end, verdict))
        return self._with_words(text, compared, _subjects(text, self._facts, spoken_of))

    def _with_words(
        self, text: str, compared: list[RelationDocument], launches: Sequence[Launch]
    ) -> list[RelationDocument]:
        """With what the sentence asserts in words. A fact decides what the units do not."""
        facts_of = self._facts_of
        if facts_of is None or len(launches) > _MOST_LAUNCHES or not assertions_in(text):
            return compared
        judged = [judge_words(text, facts_of(launch)) for launch in launches]
        words = [_of_words(text, each) for each in zip(*judged)]
        kept = []
        for relation in compared:
            start, end = relation.start, relation.end
            overlapping = (word for word in words if start < word.end and word.start < end)
            same = [word for word in overlapping if word.verdict != "not_found"]
            if any({word.verdict, relation.verdict} == _OPPOSITES for word in same):
                words = [word for word in words if word not in same]  # measured in other ways
                kept.append(replace(relation, verdict="not_found", reason=_NOT_UNDERSTOOD))
            elif not same:
                kept.append(relation)
        return [*kept, *words]

    def _verdict(
        self, relation: Relation, text: str, claims: Sequence[Claim], spoken_of: Sequence[Launch]
    ) -> _Verdict | None:
        """None: keet does not know what is compared."""
        if relation.kind == "unclear":
            return None
        if relation.kind in ("most", "least"):
            return _check_ranking(relation, text, self._facts, spoken_of)
        left, right = self._sides(relation, text, claims)
        pairs = self._pairs(relation, left, right, spoken_of)
        verdicts = [verdict for pair in pairs if (verdict := _judge(relation, pair)) is not None]
        # Else it is true for one launch and false for another.
        return verdicts[0] if len({verdict for verdict, _ in verdicts}) == 1 else None

    def _sides(self, relation: Relation, text: str, claims: Sequence[Claim]) -> tuple[_Side, _Side]:
        begin = max((m.end() for m in _CLAUSE.finditer(text, 0, relation.start)), default=0)
        after = _CLAUSE_END.search(text, relation.end)
        end = min(relation.end + _REACH, after.start() if after else len(text))
        terms = list(filter(_is_operand, terms_in(text)))
        before = [term for term in terms if begin <= term.start < relation.start][::-1]
        first, last = relation.between
        inside = [term for term in terms if first <= term.start < last]
        behind = [term for term in terms if relation.end <= term.start < end]
        cut = _PARTED.search(text, relation.end, end)
        if behind and cut and not (before or inside):
            # `half of the wavefronts are conflicts`: conflicts are half of the wavefronts
            before = [term for term in behind if term.start >= cut.end()]
            behind = [term for term in behind if term.start < cut.start()]
            part = self._side(before, text, (relation.end, end), claims)
            return part._replace(is_part=True), part._replace(terms=behind)
        return (
            self._side([*before, *inside], text, (begin, relation.start), claims),
            self._side(behind, text, (relation.end, end), claims),
        )

    def _side(
        self, terms: Sequence[Term], text: str, span: tuple[int, int], claims: Sequence[Claim]
    ) -> _Side:
        names = self._facts.launches.named_in(text[slice(*span)])
        launches = dict.fromkeys(launch for name in names for launch in name.launches)
        said = tuple(claim for claim in claims if span[0] <= claim.number.start < span[1])
        return _Side(terms, tuple(launches), text[slice(*span)], said)

    def _pairs(
        self, relation: Relation, left: _Side, right: _Side, spoken_of: Sequence[Launch]
    ) -> Iterator[list[_Pair]]:
        """Value pairs for each launch that the sentence is about, or for each pair of launches."""
        ones = left.launches or tuple(spoken_of)
        if len(ones) * len(right.launches) > _MOST_PAIRS:
            return  # the sentence does not say which of them
        for one in ones:
            others = [other for other in right.launches if other != one] or [one]
            for other in others:
                yield self._of_launches(relation, left, right, one, other)

    def _of_launches(
        self, relation: Relation, left: _Side, right: _Side, one: Launch, other: Launch
    ) -> list[_Pair]:
        duration = [Term(0, 0, PhraseMeaning(("duration",)), 1)] if relation.about_time else []
        for first in (*left.terms, *duration):
            seconds = right.terms or _elliptic(first, left, right)
            if one != other and not right.terms:
                seconds = [first]
            for second in seconds:
                if one == other and first.metric_ids == second.metric_ids:
                    continue
                ours, theirs = self._read(first, left, one), self._read(second, right, other)
                if pairs := _compatible(ours, theirs, is_part=left.is_part):
                    return pairs
            if one == other and not right.terms and right.said:
                ours = self._read(first, left, one)
                return list(product(ours[:1], _literal(right, ours)))
        return []

    def _read(self, term: Term, side: _Side, launch: Launch) -> list[ReportValue]:
        ids = qualified(term.metric_ids, side.text)
        values = self._facts.read(ids, launch, complement=term.entry.complement)
        said = [claim.number for claim in side.said if claim.term and claim.term[:2] == term[:2]]
        exact = [r for r in values if any(agrees(n, r.quantity, lenient=True) for n in said)]
        return exact or values


def _of_words(text: str, judged: Sequence[Judgement]) -> RelationDocument:
    """One assertion, judged by the facts of each launch: all of them must agree."""
    said, facts = judged[0].assertion, [each.fact for each in judged if each.fact]
    verdicts = {each.holds for each in judged}
    holds = verdicts.pop() if len(verdicts) == 1 else None
    verdict: ClaimVerdict = "confirmed" if holds else "not_found"
    verdict = "contradicted" if holds is False else verdict
    reason = facts[0].text if facts and holds is not None else OPEN
    relation = _document(text, said.start, said.end, (verdict, reason))
    return replace(relation, end=said.end, topic=said.topic)


def _document(text: str, start: int, end: int, verdict: _Verdict) -> RelationDocument:
    said = text[start:end].strip()
    return RelationDocument(
        text=said,
        start=start,
        end=start + len(said),
        sentence=text,
        verdict=verdict[0],
        reason=verdict[1],
    )


def _is_operand(term: Term) -> bool:
    """Whether a term can be compared: not weak words, except stalls, and not totals."""
    is_stall = term.metric_ids[0].startswith(STALL_SHARE)
    return (is_stall or not term.entry.weak) and not _WHOLES.intersection(term.metric_ids)


def _elliptic(first: Term, left: _Side, right: _Side) -> list[Term]:
    """`half of the theoretical one` after `achieved occupancy`: the noun is implied."""
    nouns = re.findall(r"[A-Za-z]+", left.text)
    for word in re.findall(r"[A-Za-z]+", right.text)[:4]:
        for noun in reversed(nouns):
            terms = find_terms(f"{word} {noun}")
            if len(terms) == 1 and terms[0].words == 2 and terms[0].metric_ids != first.metric_ids:
                return terms
    return []


def _literal(side: _Side, ours: Sequence[ReportValue]) -> list[ReportValue]:
    """The first number of a side without a metric name: `than the 32 of a full warp`."""
    number = side.said[0].number
    unit = number.unit or (ours[0].quantity.unit if ours else "")
    if number.shape or not ours or not same_kind(unit, ours[0].quantity.unit):
        return []
    return [ReportValue(number.text, Quantity(number.value, unit), None, None)]


def _compatible(
    ours: Sequence[ReportValue], theirs: Sequence[ReportValue], *, is_part: bool = False
) -> list[_Pair]:
    """Pairs of values with compatible units, the likeliest first, all in the unit of the first. If
    both names have several values, they are paired one by one."""
    several = len(ours) > 1 and len(theirs) > 1
    both = zip(ours, theirs) if several else product(ours, theirs)
    pairs = []
    for pair in both:
        unit, other = (value.quantity.unit for value in pair)
        if same_kind(unit, other) or (is_part and is_count(unit) and is_count(other)):
            pairs.append(pair)
    return [pair for pair in pairs if pair[0].quantity.unit == pairs[0][0].quantity.unit]


def _judge(relation: Relation, pairs: Sequence[_Pair]) -> _Verdict | None:
    """By the likeliest pair; contradicted only if no other pair makes it true."""
    holds = [_surely_holds(relation, a, b) for a, b in pairs]
    if not pairs or holds[0] is None:
        return None
    reason = Sentence("; ").join(map(str, pairs[0]))
    right = [hold is not relation.is_negated for hold in holds if hold is not None]
    if right[0]:
        return "confirmed", reason
    return None if any(right) else ("contradicted", reason)


def _surely_holds(relation: Relation, first: ReportValue, second: ReportValue) -> bool | None:
    """None if the rounding of an export leaves it open."""
    a, b = first.quantity.value, second.quantity.value
    holds = _holds(relation, a, b)
    off = first.rounding, second.rounding
    if not any(off):
        return holds
    ends = product((a - off[0], a + off[0]), (b - off[1], b + off[1]))
    return holds if {_holds(relation, x, y) for x, y in ends} == {holds} else None


def _holds(relation: Relation, a: float, b: float) -> bool | None:
    """None: neither surely true nor surely false."""
    factor = relation.factor
    if relation.kind in ("same", "close"):
        off = abs(a - b) / max(abs(a), abs(b), 1e-30)
        limit = _CLOSE if relation.kind == "close" else _EQUAL
        return True if off <= limit else False if off >= _FAR or relation.kind == "same" else None
    down = relation.kind == "less"
    if factor is None:
        return a < b if down else a > b
    if factor.unit == "x":
        over, under = (b, a) if down else (a, b)
        return _is(factor, over / under) if under else None
    return _differs(factor, b - a if down else a - b, b)


def _differs(factor: Factor, difference: float, whole: float) -> bool | None:
    """A difference in the unit of both, or in per cent of the second."""
    if factor.unit == "%":
        return any(_is(factor, each) for each in (difference, 100 * difference / (whole or 1)))
    if factor.unit in ("", "points", "point", "percentage points", "percentage point"):
        return _is(factor, difference)
    return None


def _is(factor: Factor, value: float) -> bool:
    if factor.bound == "above":
        return value >= factor.value - 1e-9
    if factor.bound == "below":
        return value <= factor.value + 1e-9
    return abs(value - factor.value) <= factor.half * 1.001


_STALL_NOUN = re.compile(r"\s*(?:\w+\s+)?stall|\s*reason", re.IGNORECASE)
_LAUNCH_NOUN = re.compile(
    r"(?:[^.;]{0,40}?\bof (?:all|the|these|those)\b[^.;]{0,12}?)?"
    r"\b(?:launch(?:es)?|kernels?|all|run)\b",
    re.IGNORECASE,
)
_UNIT_NOUNS = (
    (
        re.compile(r"\s*(?:\w+\s+)?pipe(?:line)?s?\b", re.IGNORECASE),
        ("FMA pipe", "ALU pipe", "FP64 pipe", "FP16 pipe", "tensor pipe", "LSU pipe", "XU pipe"),
    ),
    (
        re.compile(r"\s*(?:hardware |memory )?(?:unit|level)s?\b", re.IGNORECASE),
        ("DRAM throughput", "L2 throughput", "L1 throughput"),
    ),
)
"""What is ranked: by the first metric of each name, the share of its peak over elapsed cycles."""
_NO_STALL = "selected"
_UNSURE = ("L1 throughput", STALL_SHARE + "not_selected")
"""These may not belong to a ranking. Small metric sets have L1 over active cycles only, which is
not comparable with the others; and not everybody calls it a stall if a warp was ready to run."""
_TIME = re.compile(r"longest|slowest|shortest|fastest|quickest", re.IGNORECASE)


class _Ranked(NamedTuple):
    """Values by name, and the name that the text ranks first."""

    values: Mapping[str, float]
    said: str
    unsure: Collection[str] = ()


def _check_ranking(
    relation: Relation, text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> _Verdict | None:
    """None: keet does not know what is ranked."""
    ranked = _ranked(relation, text, facts, spoken_of)
    if ranked is None or ranked.said not in ranked.values or len(ranked.values) < 2:
        return None
    values, said = ranked.values, ranked.said
    order = sorted(values, key=lambda name: values[name], reverse=relation.kind == "most")
    words = [
        Sentence("{name} {n:.4g}", name=name, n=constant(values[name], "", name))
        for name in order[:3]
    ]
    is_first = values[said] == values[order[0]]
    if not is_first:
        # The rounding of an export may hide the order.
        close = abs(values[said] - values[order[0]]) <= max(0.02 * abs(values[order[0]]), 0.1)
        best = next(name for name in order if name not in ranked.unsure or name == said)
        is_printed = any(launch.is_printed for launch in facts.launches.of_each_kernel)
        if said == best or (close and is_printed):
            return None
    reason = Sentence("in order: {words}", words=Sentence(", ").join(words))
    return "confirmed" if is_first is not relation.is_negated else "contradicted", reason


def _ranked(
    relation: Relation, text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> _Ranked | None:
    behind = text[relation.end :]
    units = next((names for noun, names in _UNIT_NOUNS if noun.match(behind)), ())
    if _STALL_NOUN.match(behind):
        labels = {STALL_SHARE + reason: stall.label for reason, stall in stalls().items()}
    elif units:
        labels = {find_terms(name)[0].metric_ids[0]: name for name in units}
    elif _LAUNCH_NOUN.match(behind):
        return _ranked_launches(relation, text, facts)
    else:
        return None
    launches = _subjects(text, facts, spoken_of)
    named = _nearest(relation, text, lambda term: term.metric_ids[0] in labels)
    if named is None or len(launches) != 1:
        return None
    values = {
        label: shares[0].quantity.value
        for id_, label in labels.items()
        if id_ != STALL_SHARE + _NO_STALL and (shares := facts.read([id_], launches[0]))
    }
    unsure = [label for id_, label in labels.items() if {id_, label}.intersection(_UNSURE)]
    return _Ranked(values, labels[named.metric_ids[0]], unsure)


def _ranked_launches(relation: Relation, text: str, facts: ReportValues) -> _Ranked | None:
    names = [name for name in facts.launches.named_in(text) if len(name.launches) == 1]
    before = [name for name in names if name.start < relation.start] or names
    term = _nearest(relation, text, lambda term: not (term.entry.weak or term.entry.verb))
    is_time = _TIME.search(text, relation.start, relation.end)
    if not before or (term is None and not is_time):
        return None
    ids = ("duration",) if is_time or term is None else qualified(term.metric_ids, text)
    values = {
        f"#{launch.id}": measured[0].quantity.value
        for launch in facts.launches
        if (measured := facts.read(ids, launch))
    }
    return _Ranked(values, f"#{before[-1].launches[0].id}")


def _subjects(text: str, facts: ReportValues, spoken_of: Sequence[Launch]) -> Sequence[Launch]:
    named = [launch for name in facts.launches.named_in(text) for launch in name.launches]
    return list(dict.fromkeys(named)) or spoken_of


def _nearest(relation: Relation, text: str, fits: Callable[[Term], bool]) -> Term | None:
    """The name that the text ranks first: the nearest on either side."""
    return min(
        filter(fits, terms_in(text)),
        key=lambda term: max(relation.start - term.end, term.start - relation.end),
        default=None,
    )
