"""The launches that a quantified sentence is about, and how their values are combined.

`find_quantifiers` finds the words of a sentence that speak of several launches, or that choose some
of them: `all four launches`, `none of them`, `together`, `on average`, `the slowest launch`, `the
others`. Words about parts of a launch (`each warp`, `all samples`) are not quantifiers in this
sense. `scope_of` finds out which launches are meant, only if keet knows all words of the sentence:
with an unknown word (`except`, `twice`, `not`) its numbers are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from keet.profile import Launch
from keet.verification.claims import Where, in_order
from keet.verification.metric_names import TIME_SHARE, Term
from keet.verification.numbers import ONES, TENS, TextNumber, value_of
from keet.verification.sentences import Span, Spanned, blanked
from keet.verification.subjects import LaunchName

QuantifierKind = Literal[
    "every", "all", "plural", "none", "not_every", "exactly", "at_least", "all_but", "most",
    "first", "last", "sum", "mean", "longest", "shortest", "ranked", "loose", "only", "unclear",
]  # fmt: skip
"""`plural`: launches without a quantifier. `first`, `last`: that many launches. `ranked`: `the
highest IPC of the three launches`. keet does not evaluate the last three: `loose`
changes nothing if the sentence is about one launch, `only` if the report has one launch only."""


class Quantifier(NamedTuple):
    start: int
    end: int
    kind: QuantifierKind
    number: int | None = None
    """How many launches the claim is about: 2 in `two of the four launches`."""
    of: int | None = None
    """How many launches the text says there are: 4 in `two of the four launches`."""
    noun: Literal["launch", "kernel", ""] = ""
    """What the words count; empty if they do not say it."""


_NUMERAL = rf"\b(?:\d{{1,6}}|{'|'.join(sorted((*ONES, *TENS), key=len, reverse=True))})\b"
_ONE = r"(?:(?:kernel\s+)?(?:launch|invocation|call|execution)|kernel)\b"
_MANY = r"(?:(?:kernel\s+)?(?:launches|invocations|calls|executions)|kernels)\b"
_ANY = rf"(?:{_MANY}|{_ONE})"
_SORT = r"(?:(?:profiled|measured|recorded|individual|GPU|single|different)\s+)?"
_THE = r"(?:(?:the|these|those|its|their)\s+)?"
_SET = rf"(?:of\s+)?{_THE}(?:{_NUMERAL}\s+)?{_SORT}"
_OF_SET = rf"\s+{_SET}(?:{_ANY}|of\s+(?:them|these|those)\b)"
_CHOSEN = (
    rf"(?:est|er)(?:[\s-]running)?\s+(?:(?:of|among)\s+(?:all|both|them|{_SET})\s*(?:{_SET}{_MANY})?"
    rf"|{_SORT}{_ANY}(?:\s+of\s+(?:all|both|them|the\s+{_NUMERAL}))?|one\b)"
)
_ORDER = (
    r"next|previous|following|preceding|subsequent|initial|final|middle|opening|closing|penultimate"
    r"|remaining|other|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d{1,6}(?:st|nd|rd|th)"
)
_KIND = (
    r"(?!(?:the|an?|this|that|these|those|its|our|your|their|my|whose|which|of|in|on|at|for|by|per|to|from"
    r"|with|and|or|but|if|when|as|than|is|are|was|were|has|have|had|does|do|not|so|then|it|we|you|i"
    r"|takes?|needs?|uses?|cuda|gpu|profiled|measured|recorded|same|whole|launch|kernel|given|actual"
    r"|own|current|present|\w+-bound|bound)\b)[a-z][\w-]*"
)
"""A word before `kernel` or `launch` that may choose one of several."""
_LAUNCHED_UNIT = r"[\d,.]*\s+(?:\w+\s+)?(?:blocks?|threads?|CTAs?|warps?|waves?|grids?|kernels?)\b"
_LAUNCHED = (
    rf"\s+(?:only\s+|just\s+|about\s+|nearly\s+)?(?:\d|an?\b|one\b|two\b|few){_LAUNCHED_UNIT}"
)
"""After the verb: `sum_blocks launches only 264 blocks`."""
_MEASURED = r"[\d.,]|\s*(?:%|[nuµμm]?s\b|[kKMGT]?i?B\b|x\b|blocks|threads|warps|registers|cycles)"
_PHRASES: tuple[tuple[QuantifierKind, str], ...] = (
    ("longest", rf"(?:slow|long){_CHOSEN}"),
    ("shortest", rf"(?:fast|quick|short){_CHOSEN}"),
    (
        "ranked",
        rf"(?:\w+est|most|least)\b[^.,;:()]{{0,40}}?\s(?:of|among|across)\s+"
        rf"(?:all|both|them|{_SET}|all\s+{_SET})\s*{_MANY}",
    ),
    ("all_but", rf"all\s+(?:but|except(?:\s+for)?)\s+{_NUMERAL}(?:\s+{_SET}{_ANY})?"),
    ("all_but", rf"all\s+{_SET}{_MANY},?\s+(?:but|except(?:\s+for)?)\s+{_NUMERAL}"),
    ("not_every", rf"not\s+(?:every|each|all)(?:\s+one)?{_OF_SET}"),
    ("none", rf"(?:none|neither|not\s+one){_OF_SET}|no\s+(?:single\s+)?{_ANY}"),
    ("none", rf"not\s+a\s+(?:single\s+)?{_ONE}"),
    ("at_least", rf"at\s+least\s+{_NUMERAL}{_OF_SET}"),
    ("exactly", rf"(?:exactly|only|just)\s+{_NUMERAL}{_OF_SET}"),
    ("first", rf"first\s+{_NUMERAL}\s+{_SORT}{_MANY}"),
    ("last", rf"(?:last|final)\s+{_NUMERAL}\s+{_SORT}{_MANY}"),
    (
        "exactly",
        rf"{_NUMERAL}\s+(?:out\s+)?of\s+(?:the|these|those)\s+(?:{_NUMERAL}\s+)?{_SORT}{_MANY}",
    ),
    ("most", rf"(?<!at )most{_OF_SET}"),
    ("every", rf"(?:every|each)(?:\s+single)?(?:\s+one)?{_OF_SET}|per[\s-]+{_ONE}"),
    ("all", rf"(?:all|both){_OF_SET}"),
    (
        "sum",
        r"together|altogether|combined|in\s+(?:total|all|sum|aggregate|combination)|summed(?:\s+up)?",
    ),
    ("sum", r"a\s+total\s+of|totals?|(?:the\s+)?sums?(?:\s+(?:of|up))?|adds?\s+up"),
    ("mean", r"on\s+average|averag(?:e|es|ed|ing)|mean|avg\.?"),
    ("unclear", rf"(?<!between ){_MANY}\s+#?\d+(?!{_LAUNCHED_UNIT})"),
    ("plural", rf"(?<!traffic between )(?:{_NUMERAL}\s+)?{_SORT}{_MANY}(?!{_LAUNCHED})"),
    (
        "unclear",
        r"both|none|neither|either|nobody|never|no\s+one|not\s+(?:every|each|all)|except(?:ing|\s+for)?|besides"
        r"|(?:apart|aside)\s+from|exclud\w+|save\s+for|other\s+than|others|rest|remainder|former|latter"
        rf"|second|(?:{_ORDER})\s+(?:{_ANY}|runs?\b|times?\b|ones?\b|{_NUMERAL})|another\s+{_ONE}"
        r"|(?<=the\s)(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)(?!\s+of\b)"
        r"|half\s+of\s+(?:them|these|all)|ditto|likewise|(?:twice|thrice)(?!\s+(?:as|the|its|that)\b)|launched\s+\w+\s+times"
        rf"|{_ONE}\s+(?:number|no\.?|nr\.?)?\s*{_NUMERAL}(?<!\d)"
        r"|(?:so|as)\s+(?:do|does|did)"
        r"|(?:two|three|four|five|six|seven|eight|nine|ten)(?=\s+(?:of|have|take|need|run|are|reach)\b)"
        r"|from\s+(?:the\s+)?(?:end|last|back|bottom)|to[\s-]+(?:the\s+)?last|last\s+but\s+one"
        r"|from\s{2,}on(?:wards?)?|runner-up|(?:no|nr)\.\s*\d+"
        rf"|(?:launch\s+#?|#)\d+\s*(?:to|through|until|and|or|&|-|–|—)\s*\d+(?!{_MEASURED})",
    ),
    (
        "ranked",
        rf"(?:\w+est|(?:most|least)\s+\w+|best|worst)\s+(?:{_SORT}{_ANY}|one\b|of\s+(?:the|all|them|both)\b)",
    ),
    (
        "only",
        r"only|sole(?:ly)?|single|alone|first|last|another|majority|minority|most|some|any"
        r"|(?:few|many|several)(?=\s+(?:of|take|have|need|are|run|reach|use)\b)"
        rf"|(?:one|an?)\s+(?:single\s+)?{_ONE}|one\s+of\s+(?:them|these|the)"
        r"|nothing\s+(?:but|else|has|takes|is|exceeds|runs|needs|reaches|in)"
        rf"|{_ONE}\s+(?:with|(?:that|which)\s+(?:has|is|takes|uses))\s+the\s+(?:\w+est|most|least)",
    ),
    (
        "loose",
        r"[Σ∑Ø⌀∀]|always|throughout|everywhere|consistently|uniformly|invariably|universally|whole"
        r"|entire(?:ty|ly)?|overall|median|aggregated?|cumulative(?:ly)?|collective(?:ly)?|joint(?:ly)?"
        r"|everything|anything|everyone|each|every|all|totall?(?:ing|ed)|accumulated?|added|across\s+the\s+board"
        r"|without\s+exception|whichever|whatever|whoever|regardless|no\s+matter|typical(?:ly)?"
        r"|durations|occupancies|runtimes|run\s+times|execution\s+times|grid\s+sizes|block\s+sizes"
        r"|max\.?|min\.?|(?:tops|bottoms|peaks|maxes)\s+(?:out\s+)?at|capped|bounded|limited\s+to|(?:upper|lower)\s+(?:limit|bound)"
        r"|(?:best|worst)[\s-]case|at\s+(?:best|worst|the\s+(?:most|least))|surpass(?:es|ed)?|hot\s?spot|stays?|remains?|constant(?:ly)?"
        r"|or\s+(?:better|worse|less|more|lower|higher|above|below|longer|shorter|fewer)"
        r"|from\s+[\d.,]+\s*\S*\s+(?:up|down)\s+to|the\s+one\s+with|end[\s-]to[\s-]end|start\s+to\s+finish|busy\s+for"
        rf"|GPU(?:\s+busy)?\s+time|(?:\A\W*|(?:the|an?|this|that|its)\s+)(?:{_KIND}\s+){{1,3}}{_ONE}"
        r"|rang(?:e|es|ing)\s+(?:from|between)|var(?:y|ies|ying)|spans|maxim(?:um|al)|minim(?:um|al)"
        r"|(?:high|low|larg|small|long|short|slow|fast|bigg|great)est|pair|trio|quartet|duo|lot|bunch|group"
        r"|(?:the|this|that)\s+(?:program|application|app|report|profile|session|workload|run|set|sequence"
        r"|series|benchmark|job|capture)(?=\s+(?:takes?|took|lasts?|needs?|runs?|spends?)\b)",
    ),
)
"""The earlier ones win over later ones that overlap them."""

_PARTS = (
    r"thread|warp|lane|block|CTA|SM|SMSP|multiprocessor|scheduler|sub-?partition|sector|request"
    r"|wavefront|transaction|cycle|sample|instruction|inst|byte|load|store|access(?:es)?|read|write"
    r"|line|column|element|iteration|loop|stall|reason|state|pipe|pipeline|unit|level|cache|stage"
    r"|slice|bank|conflict|register|word|slot|tile|pass(?:es)?|wave|cluster|barrier|branch(?:es)?"
    r"|operation|flop|GPU|pointer|array|matrix|vector|buffer|opcode|address(?:es)?|peak|traffic"
    r"|bandwidth|capacity|ceiling|dimension|axis|digit|partition|queue|atomic|fetch(?:es)?|spill"
    r"|chip|device|cause|shape|wait|side|estimate|rule"
    r"|finding|precision|hardware|(?<=the )time|(?<=its )time"
)
_SORTS = (
    r"the|its|this|that|these|those|their|such|full|active|eligible|executed|issued|idle|resident|warp"
    r"|thread|global|local|shared|memory|load|store|excess(?:ive)?|L1|L2|DRAM|hit|source|hot|inner"
    r"|outer|issue|stall|long|short|scoreboard|FP32|FP64|FP16|integer|tensor|cache|data|bank|possible"
    r"|elapsed|SM|GPU|consecutive|neighbou?ring|separate|different|given|same|other|partial|complete"
    r"|theoretical|available|used|written|atomic|uniform|single|one|\d[\d,.]*|matrix|math|address"
    r"|two|three|four|eight|sixteen|thirty-two|dependent|main|hardware|longest"
)
_OF_PART_WORDS = rf"[\s-]+(?:of\s+)?(?:(?:{_SORTS})[\s-]+){{0,4}}(?:{_PARTS})s?\b"
_OF_PART = re.compile(_OF_PART_WORDS, re.IGNORECASE)
"""After a word that is about parts of a launch."""
_EACH_PART = re.compile(rf",?\s+(?:each|every|an?){_OF_PART_WORDS}", re.IGNORECASE)
"""`On average, each warp spends`."""
_HEDGED = re.compile(
    r"\s+(?:about\s+|some\s+|~\s?)?(?:\d|an?\b|half\b|slightly|partly)", re.IGNORECASE
)
"""After `only` and `some` that qualify a number."""
_BOUND = re.compile(r"\b(?:at|the|as|so|too)\s+\Z", re.IGNORECASE)
_LASTS = re.compile(
    r"\s+(?:\d|but\s+not\s+least|about|for|more|less|at|over|under|between|roughly|exactly)",
    re.IGNORECASE,
)
_WHILE = re.compile(r"\bwhile\s+\Z", re.IGNORECASE)
_REPRESENTS = re.compile(r"\b(?:represents?|stands?\s+for)\s+\Z", re.IGNORECASE)
"""`it represents 2 launches`: how often a kernel was launched, not what is claimed."""
_AS_UNIT = re.compile(r"(?:\bper|\ba|/|\d)\s*\Z", re.IGNORECASE)


@lru_cache(maxsize=8)
def find_quantifiers(text: str) -> tuple[Quantifier, ...]:
    """In order, without overlaps."""
    quantifiers: list[Quantifier] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            inside = any(start < q.end and q.start < end for q in quantifiers)
            if not inside and not _is_harmless(kind, match):
                quantifiers.append(_quantifier(kind, match))
    return tuple(sorted(quantifiers))


_PATTERNS = tuple(
    (kind, re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)) for kind, words in _PHRASES
)


def _is_harmless(kind: QuantifierKind, match: re.Match[str]) -> bool:  # noqa: PLR0911
    """Whether the word is about parts of a launch, qualifies a number, or numbers the arguments."""
    text, word = match.string, match[0].lower()
    before, end = text[max(0, match.start() - 8) : match.start()], match.end()
    if kind in ("loose", "only", "unclear", "mean", "ranked") and _OF_PART.match(text, end):
        return True
    if kind == "mean" and _EACH_PART.match(text, end):
        return True
    if word in ("only", "some"):
        return bool(_HEDGED.match(text, end))
    if word == "most":
        return bool(_BOUND.search(before))
    if word == "others":
        return bool(_WHILE.search(before))
    if word.startswith("per") and "→" in text:  # a change of one kernel
        return True
    if kind == "plural" and _REPRESENTS.search(text[max(0, match.start() - 16) : match.start()]):
        return True
    if word == "last" and _LASTS.match(text, end):
        return True
    if word in ("first", "second", "last"):
        counts = not before.strip() and text[end : end + 1] in (",", ":")
        return counts or (word == "second" and bool(_AS_UNIT.search(before)))
    return False


_NUMBER = re.compile(_NUMERAL, re.IGNORECASE)
_TWO = re.compile(r"both|neither|\w+er(?=[\s-])(?<!together)", re.IGNORECASE)


def _quantifier(kind: QuantifierKind, match: re.Match[str]) -> Quantifier:
    words = match[0].lower()
    said = [int(each) if each.isdigit() else value_of(each) for each in _NUMBER.findall(words)]
    count = of = None
    if kind == "all_but" and words.split()[1] not in ("but", "except"):
        said.reverse()
    if kind in ("all_but", "exactly", "at_least", "first", "last"):
        count, *said = said
    elif _TWO.match(words) and not said:
        said = [2]
    if said and said[-1] != 1:  # `each one of the launches`
        of = said[-1]
    return Quantifier(match.start(), match.end(), kind, count, of, _noun(words))


def _noun(words: str) -> Literal["launch", "kernel", ""]:
    if re.search(r"launch|invocation|call|execution", words):
        return "launch"
    return "kernel" if "kernel" in words else ""


_RANKED = ("longest", "shortest", "ranked")
_HARMLESS = ("every", "all", "plural", "sum", "mean", "loose", *_RANKED)
"""Kinds that change nothing if the sentence is about one launch."""
_AGGREGATES = ("sum", "mean", "longest", "shortest")
_WORDS = """a an the of in on at to for by and be been being has have had is are was were take takes
taken took taking need needs needed require requires use uses used run runs ran last lasts lasted
spend spends spent get gets reach reaches reached achieve achieves achieved show shows read reads
write writes written move moves moved transfer transfers execute executes executed issue issues
issued launched amount amounts come comes long time its their they there report respectively s"""
_KNOWN_WORDS = frozenset(_WORDS.split())
"""Words that change nothing about what is claimed."""
_BEFORE_NUMBER = re.compile(
    r"(?:(?:about|around|roughly|nearly|almost|exactly|approximately|just|only|over|above|under|below"
    r"|at\s+least|at\s+most|up\s+to|between|exceeds?|(?:(?:no|not)\s+)?(?:more|less|fewer|greater"
    r"|higher|lower|longer|shorter)\s+than)\s+)+\Z|[~≈<>≤≥=]+\s*\Z",
    re.IGNORECASE,
)
_RESTRICTED = re.compile(
    r"[`*\s]*\b(of|with|over|above|below|under|between|at|on|from|by|up|more|less|longer|shorter)\b",
    re.IGNORECASE,
)
"""After the launches: words that choose some of them, as in `all launches of 256 blocks`."""
_WORD = re.compile(r"[^\W\d_]+(?:['’]\w+)?")
_AFTER = re.compile(r"[`*\s]*(?:of|for|in|from)\s+(?:the\s+)?(?:kernel\s+)?[`*]*", re.IGNORECASE)
_BEFORE = re.compile(r"[`*]*(?:['’]s?)?\s+(?:the\s+)?(?:own\s+)?", re.IGNORECASE)
_LISTED = re.compile(
    r"[`*]*\s*(?:,|,?\s*(?:\b(?:and(?:\s+also)?|plus|as\s+well\s+as|(?:together|along)\s+with)\b|[&+]))"
    r"\s*(?:the\s+|of\s+|for\s+)?[`*]*",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"[`*]*\s*(?:\b(?:to|through|until|or|nor|via)\b|[-–—/])\s*(?:the\s+|launch\s+)?[`*]*",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:()]|\b(?:while|whereas)\b")
_ASIDE = re.compile(r"\([^()]*\)")
_STOP = re.compile(r"[,;:()]")


class Scope(NamedTuple):
    """Several launches, and how their values are combined."""

    how: QuantifierKind
    """How their values are combined. `all`: each of them, or their sum; the words do not say
    which."""
    sets: tuple[tuple[Launch, ...], ...] = ()
    """The launches. Several sets if the words leave open which one is meant: then a claim has to
    be true for each of them."""
    number: int | None = None
    """How many of them, for `exactly`, `at_least` and `all_but`."""
    quantifiers: tuple[Quantifier, ...] = ()
    named: bool = False
    """The sentence names the launches."""
    own: tuple[Span, ...] = ()
    """Clauses about a launch of their own: `, of which A takes 5 us`."""

    def governs(self, number: Spanned) -> bool:
        return not any(span.start <= number.start < span.end for span in self.own)


class Sentence(NamedTuple):
    """What a sentence says."""

    text: str
    names: Sequence[LaunchName]
    terms: Sequence[Term]
    numbers: Sequence[TextNumber]
    quantifiers: Sequence[Quantifier]


class Domains(NamedTuple):
    """The launches that a sentence without names may be about."""

    report: tuple[Launch, ...]
    selected: tuple[Launch, ...]
    topic: tuple[Launch, ...] | None
    """Of the sentence before."""
    title: tuple[Launch, ...] | None
    """Of the heading."""


def scope_of(sentence: Sentence, domains: Domains) -> Scope | None:
    """None: the sentence is about single launches, or about one launch only."""
    quantifiers = [q for q in sentence.quantifiers if not _is_part_of_name(q, sentence)]
    sentence = sentence._replace(quantifiers=quantifiers)
    if not quantifiers:
        return _of_list(sentence)
    own = tuple(_own_clauses(sentence))
    if own and not _without(sentence, own).numbers:  # `A takes 5 us, as do all launches`
        own = ()
    scope = _resolved(_without(sentence, own) if own else sentence, domains)
    return scope._replace(own=own) if scope else None


def _own_clauses(sentence: Sentence) -> Iterator[Span]:
    """Clauses with a number and one launch, and without a quantifier."""
    ends = [0, *(m.end() for m in _CLAUSE_END.finditer(sentence.text)), len(sentence.text)]
    for start, end in pairwise(ends):
        names = [n for n in sentence.names if start <= n.start < end]
        said = any(start <= n.start < end for n in sentence.numbers)
        free = not any(start <= q.start < end for q in sentence.quantifiers)
        if said and free and len(names) == 1 and len(names[0].launches) == 1:
            yield Span(start, end)


def _without(sentence: Sentence, clauses: Sequence[Span]) -> Sentence:
    def outside(spans: Sequence[Where]) -> list[Where]:
        return [s for s in spans if not any(c.start <= s.start < c.end for c in clauses)]

    text, names, terms, numbers, quantifiers = sentence
    parts = outside(names), outside(terms), outside(numbers), outside(quantifiers)
    return Sentence(blanked(text, clauses), *parts)


def _resolved(sentence: Sentence, domains: Domains) -> Scope | None:
    quantifiers = sentence.quantifiers
    if _is_about_one(sentence, domains):
        return None
    how, first = _combination(quantifiers)
    unclear = Scope("unclear", quantifiers=tuple(quantifiers))
    if how == "unclear" or not _is_understood(sentence):
        return unclear
    named = _named(sentence)
    if named is None:
        return unclear
    sets = [named] if named else _unnamed(domains)
    sets = [_counted(launches, quantifiers) for launches in sets]
    fitting = tuple(launches for launches in sets if launches)
    if not fitting:
        return unclear
    return Scope(how, fitting, first.number, tuple(quantifiers), bool(named))


def _is_part_of_name(quantifier: Quantifier, sentence: Sentence) -> bool:
    """`the first launch`, `each load request`; but `total time` is a sum."""
    if any(n.start <= quantifier.start < n.end for n in sentence.names):
        return True
    around = [
        term
        for term in sentence.terms
        if term.start <= quantifier.start
        and quantifier.end <= term.end
        and (term.start, term.end) != (quantifier.start, quantifier.end)
    ]
    if sentence.text[quantifier.start : quantifier.end].lower() == "both":
        return _joins_terms(quantifier, sentence)
    if quantifier.kind != "sum":
        return bool(around)
    return any(t.metric_ids[0] == TIME_SHARE or t.metric_ids[0].endswith("_total") for t in around)


def _joins_terms(both: Quantifier, sentence: Sentence) -> bool:
    """`both L1 and L2 are above 60 %`: two metrics, not two launches."""
    behind = [term for term in sentence.terms if term.start >= both.end][:2]
    if len(behind) < 2 or behind[0].metric_ids == behind[1].metric_ids:
        return False
    between = (
        sentence.text[both.end : behind[0].start],
        sentence.text[behind[0].end : behind[1].start],
    )
    joint = " ".join(_ASIDE.sub("", between[1]).split())
    return between[0].strip() in ("", "the") and joint in ("and", "and the")


def _of_list(sentence: Sentence) -> Scope | None:
    """`A and B take 5 us`: both of them. Lists of as many numbers are compared one by one."""
    text, names = sentence.text, sentence.names
    if any(_RANGE.fullmatch(text, a.end, b.start) for a, b in pairwise(names)):
        return Scope("unclear")
    joined = [_are_listed(text, a, b) for a, b in pairwise(names)]
    if not any(joined):
        return None
    paired = in_order(text, sentence.numbers, names)
    members = [n for n, a, b in zip(names, [False, *joined], [*joined, False]) if a or b]
    own = []
    for number in sentence.numbers:
        before = [name for name in names if name.start < number.start]
        if number in paired or (before[-1] if before else names[0]) not in members:
            own.append(number)
    launches = _union(members)
    if len(launches) < 2 or len(own) == len(sentence.numbers):
        return None
    spans = tuple(Span(number.start, number.end) for number in own)
    return Scope("all", (launches,), named=True, own=spans)


def _union(names: Iterable[LaunchName]) -> tuple[Launch, ...]:
    return tuple(dict.fromkeys(launch for name in names for launch in name.launches))


def _is_about_one(sentence: Sentence, domains: Domains) -> bool:  # noqa: PLR0911
    quantifiers, named = sentence.quantifiers, _union(sentence.names)
    if any(_is_set_apart(sentence, name) for name in sentence.names):
        return False
    if len(named) == 1 and all(q.kind in _RANKED for q in quantifiers):
        return bool(_counted(domains.report, quantifiers))
    alone = len(domains.report) == 1
    harmless = (*_HARMLESS, "only") if alone else _HARMLESS
    if any(q.kind not in harmless or (q.of or 1) > 1 for q in quantifiers):
        return False
    if len(named) == 1:
        return not any(q.noun for q in quantifiers)
    if named or alone:
        return alone
    if any(q.noun for q in quantifiers):
        return False
    about = domains.title or (domains.selected if domains.topic is None else ())
    if len(about) == 1:
        return True
    return len(domains.topic or ()) == 1 and bool(_IT.search(sentence.text))


def _is_set_apart(sentence: Sentence, name: LaunchName) -> bool:
    """`all but K`, `after K`, `K included`: the sentence is about others, or about more."""
    before, behind = sentence.text[: name.start], sentence.text[name.end :]
    return bool(_APART_BEFORE.search(before) or _APART_BEHIND.match(behind))


_APART_BEFORE = re.compile(
    r"\b(?:but|without|after|before|until|since|including|included|like|following|ignoring|omitting"
    r"|skipping|excluding|excluded|except|besides|beyond|beside|unlike|leaving\s+out|with|plus|minus"
    r"|less|from|than)\s*:?\s+(?:for\s+)?(?:the\s+)?(?:launch|kernel)?[\s`'\"*]*$",
    re.IGNORECASE,
)
_APART_BEHIND = re.compile(
    r"[\s`'\"*]*,?\s*(?:is\s+|was\s+)?(?:included|excluded|aside|apart|omitted|ignored|left\s+out)\b",
    re.IGNORECASE,
)
_IT = re.compile(r"\b(?:it|its|(?:the|this)\s+(?:kernel|launch))\b", re.IGNORECASE)


def _combination(  # noqa: PLR0911
    quantifiers: Sequence[Quantifier],
) -> tuple[QuantifierKind, Quantifier]:
    """How values are combined, and the quantifier that says so."""
    subsets = [q for q in quantifiers if q.kind in ("first", "last")]
    groups = [q for q in quantifiers if q.kind in ("all", "plural")]
    aggregates = [q for q in quantifiers if q.kind in _AGGREGATES]
    rest = [q for q in quantifiers if q not in (*subsets, *groups, *aggregates)]
    unclear: tuple[QuantifierKind, Quantifier] = "unclear", quantifiers[0]
    if len(groups) + len(subsets) > 1:
        return unclear
    per_launch = all(q.kind == "every" for q in rest)
    if aggregates:
        kinds = {q.kind for q in aggregates}
        is_mean = kinds == {"mean"} and per_launch and len(rest) <= 1 and not (rest and groups)
        if len(kinds) > 1 or (rest and not is_mean):
            return unclear
        return aggregates[0].kind, aggregates[0]
    if not rest:
        return "all", (*groups, *subsets)[0]
    if len(rest) > 1 or rest[0].kind in ("loose", "only", "unclear", "ranked"):
        return unclear
    if groups or subsets:  # `12 us per launch for the first two launches`
        return ("every", rest[0]) if per_launch else unclear
    return rest[0].kind, rest[0]


def _is_understood(sentence: Sentence) -> bool:
    """Whether keet knows all words besides names, metrics, numbers and quantifiers."""
    _, names, terms, numbers, quantifiers = sentence
    spans: list[Spanned] = [*names, *terms, *numbers, *quantifiers, *_bounds(sentence)]
    rest = blanked(sentence.text, spans)
    return _KNOWN_WORDS.issuperset(_WORD.findall(rest.lower())) and not _is_restricted(sentence)


def _bounds(sentence: Sentence) -> Iterator[Span]:
    for number in sentence.numbers:
        first = max(0, number.start - 32)
        if match := _BEFORE_NUMBER.search(sentence.text[first : number.start]):
            yield Span(first + match.start(), number.start)


def _is_restricted(sentence: Sentence) -> bool:
    ends = {q.end for q in sentence.quantifiers if q.noun} | {n.end for n in sentence.names}
    starts = {n.start for n in sentence.names} | {q.start for q in sentence.quantifiers}
    for end in ends:
        match = _RESTRICTED.match(sentence.text, end)
        behind = _AFTER.match(sentence.text, end)
        if match and starts.isdisjoint((end, match.start(1), behind.end() if behind else -1)):
            return True
    return False


def _named(sentence: Sentence) -> tuple[Launch, ...] | None:
    """The launches that the sentence names, maybe none. None: keet does not know which of the
    names the quantifier is about."""
    names, text = sentence.names, sentence.text
    if not names:
        return ()
    if not all(_LISTED.fullmatch(text, a.end, b.start) for a, b in pairwise(names)):
        return None
    counted = [q for q in sentence.quantifiers if q.noun or q.kind in ("all", "every")]
    first, last = names[0], names[-1]
    for q in sentence.quantifiers:
        if any(q.start <= name.start < q.end for name in names):  # `the three relax launches`
            return _union(names)
        follows = q.end <= first.start and _AFTER.fullmatch(text, q.end, first.start)
        leads = last.end <= q.start and _BEFORE.fullmatch(text, last.end, q.start)
        if follows or (leads and q.noun):
            return _union(names)
    if not _leads(sentence, first):
        return None
    apart = any(_STOP.search(text, last.end, q.start) for q in counted if q.start > last.end)
    return None if apart or any(q.start < first.start for q in counted) else _union(names)


def _are_listed(text: str, one: LaunchName, two: LaunchName) -> bool:
    """Not `normalise, launch 2`, which are one launch."""
    same = set(one.launches) & set(two.launches)
    return not same and _LISTED.fullmatch(text, one.end, two.start) is not None


def _leads(sentence: Sentence, name: LaunchName) -> bool:
    """Whether the sentence begins with the name."""
    before = blanked(sentence.text, sentence.quantifiers)[: name.start]
    words = _WORD.findall(before.lower())
    return {"the", "kernel", "kernels", "launch", "both", "for", "in"}.issuperset(words)


def _unnamed(domains: Domains) -> list[tuple[Launch, ...]]:
    about = domains.topic or domains.title
    sets = [domains.report, *([about] if about else [])]
    if domains.selected != domains.report:
        sets.append(domains.selected)
    return list(dict.fromkeys(sets))


def _counted(launches: tuple[Launch, ...], quantifiers: Sequence[Quantifier]) -> tuple[Launch, ...]:
    """The launches that the quantifiers leave; none if the text states another count."""
    for q in quantifiers:
        size = len({x.name for x in launches}) if q.noun == "kernel" else len(launches)
        if q.of is not None and q.of != size:
            return ()
        if q.noun == "kernel" and size != len(launches) and q.kind not in (*_AGGREGATES, *_RANKED):
            return ()
        if q.kind in ("first", "last"):
            if not q.number or q.number > len(launches):
                return ()
            launches = launches[: q.number] if q.kind == "first" else launches[-q.number :]
    return launches
