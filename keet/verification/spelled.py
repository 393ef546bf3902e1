"""Numbers in words, for texts by anyone: `ninety-one percent`, `ten times faster`, `half the time`.

Only what is surely an amount: `one` and `two` count everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.verification.disguise import ANY_WORD, value_of
from keet.verification.numbers import SaidNumber

_SHARE = re.compile(
    rf"\b(?P<words>(?:{ANY_WORD})(?:[\s-]+(?:{ANY_WORD}))*)[\s-]+(?:per\s?cent|%)(?!\w)",
    re.IGNORECASE,
)
_SPEED = r"(?:fast(?:er)?|quick(?:er)?|slow(?:er)?|long(?:er)?|shorter|speed|time|duration)\b"
_TIMES = re.compile(
    rf"\b(?P<words>(?:{ANY_WORD})(?:[\s-]+(?:{ANY_WORD}))*)\s+times(?=\s+(?:as\s+|the\s+)?{_SPEED})"
    rf"|\b(?P<word>twice|thrice|half)(?=\s+(?:as|the)\s+{_SPEED})",
    re.IGNORECASE,
)
_MULTIPLES = {"twice": 2.0, "thrice": 3.0, "half": 0.5}


def spelled_numbers(text: str) -> Iterator[SaidNumber]:
    """In no order."""
    for match in _SHARE.finditer(text):
        share = float(value_of(match["words"]))
        yield _said(match, share, 0.5 if share % 10 else 2.5, "%")
    for match in _TIMES.finditer(text):
        word = (match["word"] or "").lower()
        value = _MULTIPLES[word] if word else float(value_of(match["words"]))
        yield _said(match, value, min(0.5, value / 5), "x")


def _said(match: re.Match[str], value: float, half: float, unit: str) -> SaidNumber:
    return SaidNumber(match[0], match.start(), match.end(), value, half, unit)
