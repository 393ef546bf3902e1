"""Numbers as ncu prints them: grouped by thousands, with two decimals, in the user's locale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from keet.patterns import regex
from keet.profile import Value

LONGEST_NUMBER = 40
"""Characters: ncu prints 64-bit numbers with separators in less."""

_GROUPING = regex(r"(?<=\d)[\u00a0\u202f'’ ](?=\d{3}(?!\d))")
"""Separators of thousands that can't be a decimal sign."""
_POINT = regex(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)\.\d{1,2}|-?\d{1,3}(?:,\d{3}){2,}", re.A)
_COMMA = regex(r"-?(?:\d+|\d{1,3}(?:\.\d{3})+),\d{1,2}|-?\d{1,3}(?:\.\d{3}){2,}", re.A)
_GROUPED_BY_COMMA = regex(r"-?\d{1,3},\d{3}", re.A)
_GROUPED_BY_POINT = regex(r"-?\d{1,3}\.\d{3}", re.A)
_NUMBER = regex(r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(e[+-]?\d+)?", re.I | re.A)
_WITH_PARTS = regex(r"(\S+) \(.*\)")
_LIKE_A_NUMBER = regex(r"[+-]?[\d.,]*\d[\d.,]*", re.A)
_SWAPPED = str.maketrans(".,", ",.")


class Notation(Enum):
    """What the decimal sign is."""

    POINT = "point"
    COMMA = "comma"


def notation_of(texts: Iterable[str]) -> Notation | None:
    """The notation of a file's numbers; None where they can't all be of one.

    ncu prints two decimals or none, and groups of three digits: `1.234` is a whole number of a
    locale with a decimal comma, unless other numbers of the file show that it is not.
    """
    clear: set[Notation] = set()
    likely: set[Notation] = set()
    for text in map(_plain, texts):
        if len(text) > LONGEST_NUMBER:
            continue
        if _POINT.fullmatch(text):
            clear.add(Notation.POINT)
        elif _COMMA.fullmatch(text):
            clear.add(Notation.COMMA)
        elif _GROUPED_BY_COMMA.fullmatch(text):
            likely.add(Notation.POINT)
        elif _GROUPED_BY_POINT.fullmatch(text):
            likely.add(Notation.COMMA)
    found = clear or likely or {Notation.POINT}
    return found.pop() if len(found) == 1 else None


def _plain(text: str) -> str:
    """Without what ncu adds: `(!)` before a number that is in doubt, its instances behind it."""
    text = text.strip().removeprefix("(!)").strip()
    with_parts = _WITH_PARTS.fullmatch(text)
    return _GROUPING.sub("", with_parts[1] if with_parts else text)


def printed_value(cell: str, notation: Notation = Notation.POINT) -> Value:
    """A cell as what it is: `1,234.50` is a number, `CachePreferNone` a text, `n/a` nothing."""
    text = _plain(cell)
    lower = text.lower()
    if lower in ("", "n/a", "no data"):
        return None
    if lower in ("nan", "-nan", "inf", "-inf"):
        return float(lower.replace("-nan", "nan"))
    number = text.translate(_SWAPPED) if notation is Notation.COMMA else text
    if len(number) > LONGEST_NUMBER or not _NUMBER.fullmatch(number):
        return cell
    plain = number.replace(",", "")
    return int(plain) if is_count(plain.lstrip("+-")) else float(plain)


def is_spoilt_number(value: Value) -> bool:
    """Whether a cell that must hold a number holds digits that are none of ncu's."""
    return isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(_plain(value)) is not None


def is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def whole(text: str | None) -> int | None:
    """The number of a stream or device; None for what is none."""
    return int(text) if text and len(text) < LONGEST_NUMBER and is_count(text) else None
