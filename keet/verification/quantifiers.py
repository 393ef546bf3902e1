"""Finds the words of a sentence that speak of several launches, or that choose some of them.

`all four launches`, `none of them`, `together`, `on average`, `the slowest launch`, `the others`.
`scope.py` finds out which launches are meant. Words about parts of a launch (`each warp`,
`all samples`) are not quantifiers in this sense.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.verification.numbers import ONES, TENS, value_of

QuantifierKind = Literal[
    "every",
    "all",
    "plural",
    "none",
    "not_every",
    "exactly",
    "at_least",
    "all_but",
    "most",
    "first",
    "last",
    "sum",
    "mean",
    "longest",
    "shortest",
    "ranked",
    "loose",
    "only",
    "unclear",
]
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
            inside = any(
                start < quantifier.end and quantifier.start < end for quantifier in quantifiers
            )
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
