"""Numbers and promises in a dress in which the check of numbers does not see them.

Spelled out, in digits of other scripts, glued to a word, behind characters of no width, in a link:
whoever wants a false number in an answer (a comment in the source may ask for it) would put it so.
Honest writers lose little: they are asked for plain digits and an id.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8}\d{0,2});")
_UNSEEN = {"Cf", "Cs"}
_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3]")
_LINK = re.compile(
    r"\w://|\bwww\.\w|\]\(\s*(?:\w+:|/|\.)|<\s*(?:img|a|script|iframe)\b", re.IGNORECASE
)
_MIXED = re.compile(r"[A-Za-z][\u0370-\u052f]|[\u0400-\u052f][A-Za-z]")
_POWER = re.compile(r"(?<=[A-Za-z)])[²³]")
"""`O(n²)`, `m²`: notation, no amount."""
_CODE = re.compile(r"`[^`\n]*`")
_SHARE = re.compile(
    r"(?P<token>[^\s,;]*\d[^\s,;]*)[\s\u00a0\u202f-]?(?P<unit>%|per\s?cent\b|pct\b)(?!\s?[\d(`])",
    re.IGNORECASE,
)
_UNIT_NAME = re.compile(r"\W*(?:L[012]|[A-Z]{2,4}\d+)\W*|\S*\[E\d+\]")
"""`the L1 % of peak`."""
_LISTED = re.compile(r"(?:[-*+•]\s+)?(\d+)[.)]\s")
_LONGEST_LIST = 12

_ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: n for n, word in enumerate(_ONES)}
_WORDS |= {word: 10 * n for n, word in enumerate(_TENS, 2)} | {"dozen": 12}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
ANY_WORD = "|".join([*_WORDS, *_SCALES])
_SPELLED = re.compile(
    rf"\b(?:a\s+)?((?:{ANY_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{ANY_WORD}))*)\b"
    r"(?:(?P<share>[\s-]+(?:%|per\s?cent\b|percentage))"
    r"|(?P<slower>\s+times\s+(?:slower|longer|higher|lower)\b)"
    r"|(?P<times>\s+times\s+(?:as|more|less|fewer|larger|the)\b))?",
    re.IGNORECASE,
)
_COUNTED = 12
"""Up to here, words count things of the code: `three loads a step`."""
_PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
    "tenth": 10,
}
_PART = "|".join(_PARTS)
_FRACTION = re.compile(
    rf"(?:\b(?:(?P<count>an?|the|{'|'.join(_ONES[1:10])})[\s-]+)?(?P<part>{_PART})s?\b"
    r"|(?P<top>\b\d+)\s?(?:/|\u2044|(?:out\s)?of)\s?(?P<bottom>\d+)\b)"
    r"(?:\s+of)?\s+(?:(?:its|their|the|all|this|that|every|total|kernel|run|memory|DRAM|HBM|L1|L2|"
    r"theoretical|available|issue|warp)\s+){0,4}"
    r"(?:peak|(?:run[- ]?)?time|duration|bandwidth|throughput|cycles|samples|stalls|roofline)\b",
    re.IGNORECASE,
)
_CLOSE = 5.0
"""Points by which `half of the samples` may miss the share that is cited for it."""

_MANY = rf"(?:{'|'.join(_ONES[2:])}|{'|'.join(_TENS)}|hundred|several|many|\d+(?:\.\d+)?)"
_BY_HOW_MUCH = (
    r"(?:twice|thrice|doubl\w+|tripl\w+|quadrupl\w+|halv\w+|half|\w+fold|orders?\s+of\s+magnitude"
    rf"|(?:third|quarter|fifth|tenth)s?|{_MANY}\s+times|factor\s+of)"
)
_HOW_FAST = (
    r"(?:fast(?:er)?|quick(?:er)?|speed(?:-?\s?ups?)?|run[- ]?time|(?:kernel|execution|elapsed|the|"
    r"its|less)\s+time|duration|performance|as\s+long|throughput)"
)
_PROMISE = re.compile(
    rf"\b{_BY_HOW_MUCH}\b[^.;]{{0,40}}\b{_HOW_FAST}\b|\b{_HOW_FAST}\b[^.;]{{0,40}}\b{_BY_HOW_MUCH}\b"
    rf"|\bspeed-?\s?ups?\s+of\s+(?:about\s+|some\s+)?{_MANY}\b",
    re.IGNORECASE,
)


_OUT_OF = re.compile(
    rf"\b(?:{'|'.join(_ONES[1:10])})\s+(?:in|out\s+of|of\s+every)\s+(?:{'|'.join(_ONES[2:13])})\b",
    re.IGNORECASE,
)


class Span(NamedTuple):
    start: int
    end: int


def undisguised(text: str) -> str:
    """As a reader sees it: without characters that have no width, entities read."""
    read = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    read = _SELECTORS.sub("", read)
    return "".join(char for char in read if unicodedata.category(char) not in _UNSEEN)


def promises_in_words(sentence: str) -> bool:
    """`twice as fast`, `halves the time`, in letters of any width."""
    return bool(_PROMISE.search(unicodedata.normalize("NFKC", sentence)))


def disguise(
    sentence: str, numbers: Collection[Span], known: Collection[int], shares: Iterable[float]
) -> str | None:
    """Why a sentence can't stand though no number in it is wrong.

    `numbers`: where the check saw one; `known`: constants; `shares`: percentages that are cited.
    """
    text = _CODE.sub(lambda match: " " * len(match[0]), sentence)
    if _LINK.search(text):
        return "a link shows nothing of this report; leave it out"
    if any(map(_is_strange, _POWER.sub("", text))):
        return "write numbers in plain digits, with their id"
    if _MIXED.search(text):
        return "a word has letters of two alphabets; write it plainly"
    found = next(_hidden(text, numbers, known, list(shares)), None)
    return found and f"{found}: write it as measured, in digits, with its id"


def _is_strange(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char) in ("Nd", "Nl", "No")


def _hidden(
    text: str, numbers: Collection[Span], known: Collection[int], shares: list[float]
) -> Iterator[str]:
    for match in _SHARE.finditer(text):
        seen = any(start < match.end() <= end for start, end in numbers)
        if not seen and not _UNIT_NAME.fullmatch(match["token"]):
            yield match[0]
    for match in _SPELLED.finditer(text):
        value = value_of(match[1])
        amount = value > _COUNTED or match["times"]
        if match["share"] or match["slower"] or (amount and value not in known):
            yield match[0]
    for match in _FRACTION.finditer(text):
        if not any(abs(share - 100 * _fraction(match)) <= _CLOSE for share in shares):
            yield match[0]
    yield from (match[0] for match in _OUT_OF.finditer(text))
    listed = _LISTED.match(text)
    if listed and int(listed[1]) > _LONGEST_LIST:
        yield listed[1]


def value_of(words: str) -> int:
    """`two hundred and fifty-six` is 256."""
    total, part = 0, 0
    for word in re.findall(r"[a-z]+", words.lower()):
        if word in _SCALES:
            part = max(1, part) * _SCALES[word]
            total, part = (total + part, 0) if _SCALES[word] > 100 else (total, part)
        else:
            part += _WORDS.get(word, 0)
    return total + part


def _fraction(match: re.Match[str]) -> float:
    if match["part"]:
        count = (match["count"] or "a").lower()
        return (_ONES.index(count) if count in _ONES else 1) / _PARTS[match["part"].lower()]
    return int(match["top"][:9]) / max(1, int(match["bottom"][:9]))
