"""Parses numbers as ncu prints them: grouped by thousands, two decimals, in the user's locale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from keet.profile import Value

LONGEST_NUMBER = 40
"""Characters: ncu prints 64-bit numbers with separators in less."""

_GROUPING = re.compile(r"(?<=\d)[\u00a0\u202f'’ ](?=\d{3}(?!\d))")
"""Thousands separators that can't be decimal signs."""
_POINT = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)\.\d{1,2}|-?\d{1,3}(?:,\d{3}){2,}", re.A)
_COMMA = re.compile(r"-?(?:\d+|\d{1,3}(?:\.\d{3})+),\d{1,2}|-?\d{1,3}(?:\.\d{3}){2,}", re.A)
_GROUPED_BY_COMMA = re.compile(r"-?\d{1,3},\d{3}", re.A)
_GROUPED_BY_POINT = re.compile(r"-?\d{1,3}\.\d{3}", re.A)
_NUMBER = re.compile(r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(e[+-]?\d+)?", re.I | re.A)
_WITH_PARTS = re.compile(r"(\S+) \(.*\)")
_LIKE_A_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*", re.A)
_SWAPPED = str.maketrans(".,", ",.")


class Notation(Enum):
    """The decimal sign."""

    POINT = "point"
    COMMA = "comma"


def notation_of(texts: Iterable[str]) -> Notation | None:
    """The notation of a file's numbers; None if they contradict each other.

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
    """Without ncu's additions: `(!)` before an uncertain number, and instances after it."""
    text = text.strip().removeprefix("(!)").strip()
    with_parts = _WITH_PARTS.fullmatch(text)
    return _GROUPING.sub("", with_parts[1] if with_parts else text)


def printed_value(cell: str, notation: Notation = Notation.POINT) -> Value:
    """A cell as number, text or None: `1,234.50`, `CachePreferNone`, `n/a`."""
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


def is_malformed_number(value: Value) -> bool:
    """Whether a cell looks like a number, but not like one that ncu prints."""
    return isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(_plain(value)) is not None


def is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def whole(text: str | None) -> int | None:
    """The number of a stream or device; None if the text is not one."""
    return int(text) if text and len(text) < LONGEST_NUMBER and is_count(text) else None
