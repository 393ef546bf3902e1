"""Finds numbers in words: `ninety-one percent`, `ten times faster`, `a quarter of a wave`.

Only with a unit or a comparison: `one` and `two` alone may count anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.verification.text.number_bounds import bound_before
from keet.verification.text.numbers import TextNumber

ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: n for n, word in enumerate(ONES)}
_WORDS |= {word: 10 * n for n, word in enumerate(TENS, 2)} | {"dozen": 12}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
ANY_WORD = "|".join([*_WORDS, *_SCALES])
WORDS = rf"(?:a\s+)?(?:{ANY_WORD})(?:[\s-]+(?:{ANY_WORD})){{0,5}}"
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
FRACTION = rf"(?:(?:an?|one|two|three|four|five|nine)\s+)?(?:{'|'.join(PARTS)})s?"

_SHARE = re.compile(rf"\b(?P<words>{WORDS})[\s-]+(?:per\s?cent|%)(?!\w)", re.IGNORECASE)
_SPEED = r"(?:fast(?:er)?|quick(?:er)?|slow(?:er)?|long(?:er)?|shorter|speed|time|duration)\b"
_TIMES = re.compile(
    rf"\b(?P<words>{WORDS})\s+times(?=\s+(?:as\s+|the\s+)?{_SPEED})"
    rf"|\b(?P<word>twice|thrice|half)(?=\s+(?:as|the)\s+{_SPEED})",
    re.IGNORECASE,
)
_OF_UNIT = re.compile(rf"\b(?P<part>{FRACTION})\s+(?:of\s+)?an?\s+(?P<unit>wave)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?P<word>one|two|three|four)\s+(?P<unit>sector)s?\b", re.IGNORECASE)
_MULTIPLES = {"twice": 2.0, "thrice": 3.0, "half": 0.5}


def spelled_numbers(text: str) -> Iterator[TextNumber]:
    """In no particular order."""
    for match in _SHARE.finditer(text):
        share = float(value_of(match["words"]))
        yield _said(match, share, 0.5 if share % 10 else 2.5, "%")
    for match in _TIMES.finditer(text):
        word = (match["word"] or "").lower()
        value = _MULTIPLES[word] if word else float(value_of(match["words"]))
        yield _said(match, value, min(0.5, value / 5), "x")
    for match in _OF_UNIT.finditer(text):
        value = fraction_of(match["part"])
        yield _said(match, value, value / 10, match["unit"].lower())
    for match in _COUNTED.finditer(text):
        yield _said(match, float(value_of(match["word"])), 0.05, match["unit"].lower())


def _said(match: re.Match[str], value: float, half: float, unit: str) -> TextNumber:
    bound = bound_before(match.string[max(0, match.start() - 24) : match.start()])
    return TextNumber(match[0], match.start(), match.end(), value, half, unit, bound=bound)


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


def fraction_of(words: str) -> float:
    """`three quarters` is 0.75."""
    *count, part = re.findall(r"[a-z]+", words.lower())
    return (value_of(count[0]) or 1 if count else 1) / PARTS[_singular(part)]


def _singular(part: str) -> str:
    return "half" if part == "halves" else part.removesuffix("s")
