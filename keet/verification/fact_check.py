"""Checks what a sentence asserts in words against the known facts of a launch.

`DRAM is saturated`, `no bank conflicts`, `almost all loads miss L1`: each assertion has a topic of
`keet.explanation.known_facts` and what is said of it. The fact supports it, contradicts it, or
leaves it open. Clauses that state a possibility, a proposal or another run assert nothing. What
keet does not understand is no assertion: a true sentence must not be contradicted. The phrases are
in `assertions.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from keet.explanation.known_facts import KnownFact


class Assertion(NamedTuple):
    topic: str
    said: tuple[str, ...]
    """One of these; several where the words leave it open."""
    start: int
    end: int
    is_negated: bool = False


class Judgement(NamedTuple):
    assertion: Assertion
    holds: bool | None
    """None: no fact decides it."""
    fact: KnownFact | None = None


def judge_words(text: str, facts: Sequence[KnownFact]) -> list[Judgement]:
    """Every assertion of a sentence, in its order."""
    by_topic = {fact.topic: fact for fact in facts}
    return [_judge(each, by_topic) for each in assertions_in(text)]


def _judge(each: Assertion, facts: Mapping[str, KnownFact]) -> Judgement:
    if each.topic == "no_unit":
        return _judge_all_units(each, facts)
    fact = facts.get(each.topic)
    if each.topic == "limiter" and _RESOURCE in each.said:
        return _judge_registers(each, facts)
    if fact is None:
        return Judgement(each, None)
    verdicts = [fact.judge(_named(said, fact)) for said in each.said]
    holds = True if True in verdicts else False if {*verdicts} == {False} else None
    return Judgement(each, None if holds is None else holds is not each.is_negated, fact)


_RESOURCE = "registers"
"""No unit that can be busy: it limits a kernel through its occupancy."""


def _judge_registers(each: Assertion, facts: Mapping[str, KnownFact]) -> Judgement:
    """`limited by registers` is wrong where they neither limit the occupancy nor are spilled. Else
    it is open whether that limits the kernel."""
    limit, spills = facts.get("occupancy.limit"), facts.get("spills")
    is_free = limit is not None and limit.judge(_RESOURCE) is False
    if is_free and spills is not None and spills.judge("none"):
        most = facts.get("occupancy.theoretical")
        return Judgement(each, each.is_negated, most if most and most.judge("full") else limit)
    return Judgement(each, None, limit)


def _named(said: str, fact: KnownFact) -> str:
    """`line 43` is `slow.cu:43`, if the fact names such a line."""
    lines = (line for line in (*fact.true, *fact.open) if said[:1] == ":" and line.endswith(said))
    return next(lines, said)


def _judge_all_units(each: Assertion, facts: Mapping[str, KnownFact]) -> Judgement:
    """`no unit is near its peak`."""
    loads = [fact for topic, fact in facts.items() if topic.startswith("load.")]
    high = [fact for fact in loads if fact.judge("high")]
    if high:
        return Judgement(each, False, high[0])
    none = bool(loads) and all(fact.judge("busy") is not True for fact in loads)
    return Judgement(each, True if none else None, facts.get("busiest_unit"))


# --- clauses

_REFERENCE = re.compile(r"`[^`]*`|\{[^{}]*\}")
_CLAUSE_END = re.compile(
    r";|:(?!\d)|,(?!\d)|\.\s|[()]|\s[-–—]\s|\b(?:but|while|whereas|although|though|because|since|so"
    r"|which|yet|even though|despite|however)\b",
    re.IGNORECASE,
)
_POSSIBLE = re.compile(
    r"\b(?:would|could|might|may|should|can|if|expect\w*|estimat\w*|forecast\w*|potential\w*"
    r"|ideal(?!ly coal)\w*|once|unless|whether|likely|probably|perhaps|possibly|suspect\w*"
    r"|looks?|seems?|appears?|takes? \w+(?: \w+)? for|blames?|guess\w*|suggests?|as if"
    r"|hypothes\w*|assum\w+|must|need(?:s|ed)? to|to (?:avoid|reduce|remove|prevent|hide|raise|keep"
    r"|make|use)|(?:after|with) (?:the|this|that) (?:edit|fix|change|patch)|will|no longer"
    r"|previous\w*|originally|in general|typically|usually means|means that|watch for)\b",
    re.IGNORECASE,
)
_TOO = re.compile(r"\b(?:too \w+|not enough)\b[^,;]* to \w+", re.IGNORECASE)
"""`too few warps to hide the latency` is a statement."""
_PROPOSAL = re.compile(
    r"\W*(?:or |(?:and |then |instead )?(?:use|pad|stage|move|replace|reduce|add|tile|keep|try|make"
    r"|consider|let|raise|lower|split|fuse|check|avoid|swap|store|load|transpose|compute|increase"
    r"|decrease|launch|give|assign|sort|unroll|hoist|cache|remove|drop|read|write|put|swizzle|look"
    r"|verify|compare|profile|measure|set|go|deal|collect|combine|copy|merge|prefetch|change|turn"
    r"|allocate|pass|precompute|bring)\b)"
    r"(?!\s+(?:is|are|was|were|and stores|hit|miss|imbalance)\b)",
    re.IGNORECASE,
)


def assertions_in(text: str) -> list[Assertion]:
    assertions = [
        each._replace(start=each.start + begin, end=each.end + begin)
        for begin, clause in _asserting_clauses(text)
        for rule in _rules()
        for each in rule.find(clause)
    ]
    return sorted(assertions, key=lambda each: each.start)


def is_about_run(text: str) -> bool:
    """Whether a clause says how the launch ran: where it waited, what was busy, what memory did.
    What the code computes, proposals and possibilities are not."""
    words = {name: re.compile(each, re.IGNORECASE) for name, each in _data()["run"].items()}
    plain = re.sub(r"[\w./-]+\.\w+:\d+", " ", text)
    for _, clause in _asserting_clauses(plain, words["hypothetical"]):
        is_code = words["code"].search(clause) or not words["hardware"].search(clause)
        if words["behaviour"].search(clause) or not is_code:
            return True
    return False


def _asserting_clauses(
    text: str, possible: re.Pattern[str] = _POSSIBLE
) -> Iterator[tuple[int, str]]:
    """With their positions. References and code are blanked."""
    plain = _REFERENCE.sub(lambda match: "_" * len(match[0]), text)
    if re.match(r"\W*(?:if|when|suppose)\b", plain, re.IGNORECASE) or plain.rstrip().endswith("?"):
        return
    if _PROPOSAL.match(plain):  # only its reason is about the measured run
        reason = re.search(r"\b(?:because|since)\b", plain)
        plain = " " * reason.start() + plain[reason.start() :] if reason else ""
    yield from ((begin, plain[begin:end]) for begin, end in _clauses(plain, possible))


def _clauses(text: str, possible: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Those that assert something."""
    begin = 0
    for match in (*_CLAUSE_END.finditer(text), None):
        end = match.start() if match else len(text)
        clause = text[begin:end]
        is_possible = possible.search(clause) and not _TOO.search(clause)
        if clause.strip() and not is_possible and not _PROPOSAL.match(clause):
            yield begin, end
        begin = match.end() if match else end


# --- rules


class _Rule:
    """An entry of `assertions.toml`."""

    def __init__(self, entry: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._topic: str = entry["topic"]
        self._words = re.compile("|".join(map(re.escape, entry["if"].split())), re.IGNORECASE)
        self._entry, self._data = entry, data
        self._read = _READERS.get(entry.get("reader", ""), self._plain)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        words = {
            **self._data["words"],
            **self._entry.get("words", {}),
            "unit": _any(self._data["units"]),
        }
        words |= {name: _any(table) for name, table in self._data["tables"].items()}

        def filled(pattern: str) -> str:
            return re.sub(r"<<(\w+)>>", lambda match: filled(words[match[1]]), pattern)

        return [re.compile(filled(each), re.IGNORECASE) for each in self._entry["patterns"]]

    def find(self, clause: str) -> Iterator[Assertion]:
        if not self._words.search(clause):
            return
        taken: list[tuple[int, int]] = []
        for pattern in self._patterns:
            for match in pattern.finditer(clause):
                start, end = match.span()
                # `occupancy is limited by registers`: not what limits the kernel
                other = self._entry.get("unless_before", r"(?!)")
                is_of_other = re.search(other, clause[:start], re.IGNORECASE)
                if not is_of_other and not any(a < end and start < b for a, b in taken):
                    taken.append((start, end))
                    yield from self._read(self._topic, match)

    def _plain(self, topic: str, match: re.Match[str]) -> Iterator[Assertion]:
        groups = {name: words for name, words in match.groupdict().items() if words}
        negated = "neg" in groups or is_negated(match.string, match.start())
        negated = negated and not self._entry.get("is_whole")
        units = _units_in(groups.get("units", ""), self._data["units"])
        if units and topic.startswith("busiest"):
            for unit in units:
                yield Assertion(_ranked(groups.get("rank", "")), (unit,), *match.span(), negated)
            return
        topic += ".theoretical" if groups.get("kind", "").lower().startswith("theo") else ""
        topic += groups.get("level", "").lower()
        negated = negated or bool(
            units and re.search(r"\bneither\b", match.string[: match.end()], re.I)
        )
        said = self._said(groups)
        for name in [f"{topic}{unit.lower()}" for unit in units] or [topic]:
            if said:
                yield Assertion(name, said, *match.span(), negated)

    def _said(self, groups: Mapping[str, str]) -> tuple[str, ...]:
        for name, words in groups.items():
            if name == "place":
                return (words.rpartition("/")[2] if ":" in words else f":{words.split()[-1]}",)
            if name in self._data["tables"]:
                table = self._data["tables"][name].items()
                ids = (ids for ids, pattern in table if re.fullmatch(pattern, words, re.I))
                units = _units_in(words, self._data["units"])[:1]
                return tuple(next(ids, "").split()) or tuple(units)
            if name not in _RESERVED:
                return (name,)
        return ()


_RESERVED = ("neg", "units", "kind", "level", "rank")


def _any(table: Mapping[str, str]) -> str:
    return f"(?:{'|'.join(table.values())})"


def _units_in(words: str, units: Mapping[str, str]) -> list[str]:
    """In their order."""
    matches = re.finditer(
        "|".join(rf"\b(?P<{name}>{p})\b" for name, p in units.items()), words, re.I
    )
    return [match.lastgroup for match in matches if match.lastgroup]


def _ranked(noun: str) -> str:
    if re.search("memory|level", noun, re.IGNORECASE):
        return "busiest_memory_level"
    return "busiest_pipe" if "pipe" in noun.lower() else "busiest_unit"


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("assertions.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(_Rule(entry, _data()) for entry in _data()["rules"])


# --- negation and degree

_NOT = re.compile(
    r"(?:\b(?:no|not|never|without|none of(?: the)?|neither|nor|zero|free (?:of|from)|lacks?"
    r"|absence of|avoid(?:s|ed|ing)|nowhere|by no means|cannot|instead of|rather than|hardly"
    r"|barely|rarely|seldom)|n't)\b(?P<between>(?:\s+[\w%/'-]+){0,4}?)\s*\Z",
    re.IGNORECASE,
)
_STOPS = re.compile(r"\b(?:is|are|and|or|that|only|just|merely)\b", re.IGNORECASE)
_NO_SUBJECT = re.compile(
    r"\b(?:no|none of the|neither)\s+[\w-]+(?:\s+[\w-]+)?\s+(?:is|are|was|were|gets?)\s+"
    r"(?:\w+\s+)?\Z",
    re.IGNORECASE,
)
"""`no registers are`."""
_NOT_AFTER = re.compile(
    r"\s*(?:\w+\s+){0,2}?(?:(?:is|are|was|were)(?: not|n't) (?:there|present|used|seen|observed"
    r"|found|measured|visible)|(?:do|does|did)(?: not|n't) (?:occur|happen|exist|appear|arise|show)"
    r"|(?:is|are) (?:absent|zero|nil|unused)|never (?:occurs?|happens?)|plays? no role|-?free\b)"
    r"|\s+(?:no|nothing|none|zero)\b",
    re.IGNORECASE,
)
_IMPLIED = re.compile(
    r"\s*(?:\w+\s+){0,2}?(?:is|are|was|were|do|does|did|has|have)(?:\s+not|n't)\b", re.IGNORECASE
)
"""`are not hidden`, `are not the problem`: they may be there, or not."""
_NEITHER = re.compile(r"\b(?:neither|nor)\b", re.IGNORECASE)
_HAS_NEITHER = re.compile(
    r"\b(?:uses?|has|have|shows?|there (?:is|are)|executes?|needs?|suffers from|sees|with)"
    r"\s+neither\b",
    re.IGNORECASE,
)
_LITTLE = (
    r"\b(?:hardly any|almost no|nearly no|few|little|negligible|minor|small|rare|rarely|barely"
    r"|hardly|insignificant|slight|slightly|virtually no|practically no)\b"
)
_MANY = re.compile(
    r"\b(?:heav(?:y|ily)|severe(?:ly)?|massive(?:ly)?|mostly|most|many|large(?:ly)?|strong(?:ly)?|huge"
    r"|serious(?:ly)?|excessive(?:ly)?|dominat\w+|bad(?:ly)?|extreme(?:ly)?|rampant|widespread)\b",
    re.IGNORECASE,
)


def is_negated(clause: str, start: int) -> bool:
    """Whether a negation right before applies. `not only` does not negate."""
    match = _NOT.search(clause[:start])
    if match is not None and not _STOPS.search(match["between"]):
        return True
    return bool(_NO_SUBJECT.search(clause[:start]))


def _degree(match: re.Match[str]) -> tuple[str, bool]:
    """What is said of an amount, and whether that is negated. Empty: nothing. `any`: a number in
    the clause says how much."""
    clause, words = match.string, match[0].lower()
    before, after = clause[max(0, match.start() - 40) : match.start()], clause[match.end() :]
    said, negated = "some", False
    if words.startswith(("no ", "without ")) or "free" in words or re.match(r"-?free", after):
        said = "none"
    elif re.search(r"\bnot (?:only|just|merely)\s*\Z", before, re.IGNORECASE):
        said = "some"
    elif re.search(rf"{_LITTLE}(?:\s+\w+)?\s*\Z", before, re.I) or re.match(
        rf"\s*(?:is|are)\s+(?:\w+\s+)?{_LITTLE}", after, re.I
    ):
        said = "few"
    elif re.search(r"(?:\bor|/|\bshuffles and)\s*\Z", before, re.IGNORECASE):
        said = ""  # one of several things, perhaps not this one
    elif (_IMPLIED.match(after) and not _NOT_AFTER.match(after)) or (
        _NEITHER.search(before) and not _HAS_NEITHER.search(clause)
    ):
        said = ""
    else:
        negated = is_negated(clause, match.start()) or bool(_NOT_AFTER.match(after))
        if _MANY.search(before[-25:]) or _MANY.match(after[:30].lstrip()):
            said = "many"
        elif negated:
            said, negated = "none", False
        elif re.search(r"_{2,}\s*\Z", before) or re.match(r"\s*\(?_{2,}", after):
            said = ""  # the number beside it says how much
        elif re.search(r"\d%|__|\d x\b", clause):
            said = "any"
    return said, negated


# --- readers of rules whose groups do not say it alone


def _amount(topic: str, match: re.Match[str]) -> Iterator[Assertion]:
    said, negated = _degree(match)
    rest = match.string[: match.start()] + match.string[match.end() :]
    if re.fullmatch(r"\W*(?:and)?\W*", rest):
        return  # an item of a list
    if topic.startswith("uses.") and said == "many" and not negated:
        said = "some"
    if said:
        yield Assertion(topic, (said,), *match.span(), negated)


_SUBSET = re.compile(
    r"\b(?:of|from|to) (?:_+|the (?!loads|reads|accesses|requests|sectors|traffic|data)\w+)\b|:\d"
    r"|\bline\b"
)
"""Words about some of the accesses."""


def _hits(topic: str, match: re.Match[str]) -> Iterator[Assertion]:
    groups = {"verb": "hit", "what": "", "neg": "", **match.groupdict()}
    is_hit = groups["verb"].lower().startswith("hit") is not bool(groups["seldom"])
    quantified = any(groups[name] for name in ("all", "most", "seldom"))
    is_vague = _SUBSET.search(match.string) or (groups["what"] or "").lower() in ("they", "data")
    if quantified or not is_vague:
        said = f"{'all' if groups['all'] else 'most'}_{'hit' if is_hit else 'miss'}"
        negated = bool(groups["neg"]) or (
            not quantified and is_negated(match.string, match.start())
        )
        for level in filter(None, (match["level"], groups.get("second"))):
            yield Assertion(f"{topic}{level.lower()}", (said,), *match.span(), negated)


_GENERIC = re.compile(r"\b(?:the|all|its|both|most|global|memory)\s.*s\Z|\b(?:every|each)\s", re.I)


def _coalescing(topic: str, match: re.Match[str]) -> Iterator[Assertion]:
    groups = match.groupdict()
    is_load, is_store = (
        bool(re.search(kind, match["what"], re.I)) for kind in ("load|read", "store|write")
    )
    if is_load is not is_store:
        topic += ".loads" if is_load else ".stores"
    said = next(
        name for name, words in groups.items() if words and name not in ("subject", "what", "neg")
    )
    if said == "some_scattered":
        amount, negated = _degree(match)
        said = {"none": "coalesced", "few": "", "": ""}.get(amount, said)
        if said and not negated:
            yield Assertion(topic, (said,), *match.span())
        return
    negated = bool(groups["neg"]) or is_negated(match.string, match.start())
    if not _SUBSET.search(match.string) and _GENERIC.search(f"{match['subject']}{match['what']}"):
        yield Assertion(topic, (said,), *match.span(), negated)
    elif (said == "scattered") is not negated:
        yield Assertion(topic, ("some_scattered",), *match.span())


def _balance(topic: str, match: re.Match[str]) -> Iterator[Assertion]:
    """Blocks may be uneven although SMs are not."""
    groups = match.groupdict()
    if groups.get("imbalance"):
        said, negated = _degree(match)
        is_even = said in ("none", "few") or negated
        if not said:
            return
    else:
        negated = bool(groups["neg"] or groups["bad"]) or is_negated(match.string, match.start())
        is_even = bool(groups["even"]) is not negated
    said = "even" if is_even else "uneven" if groups.get("blocks") else "uneven_sms"
    yield Assertion(topic, (said,), *match.span())


def _busier(topic: str, match: re.Match[str]) -> Iterator[Assertion]:
    units = [_units_in(match[name], _data()["units"])[0] for name in ("units", "other")]
    negated = bool(match["neg"]) or is_negated(match.string, match.start())
    yield Assertion(topic, (">".join(units),), *match.span(), negated)


_READERS = {
    "busier": _busier,
    "amount": _amount,
    "hits": _hits,
    "coalescing": _coalescing,
    "balance": _balance,
}
