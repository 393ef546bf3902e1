"""Numbers that no counter can have, and texts that are unsafe on a terminal."""

from __future__ import annotations

import math
from random import Random

from tests.encode import Scalar

NUMBERS: tuple[int | float, ...] = (
    *(0, 0.0, -0.0, math.nan, math.inf, -math.inf, -1.0, -1e18),
    *(5e-324, 1e-300, 1e-12, 1e20, 1e300, 1.7e308),
    *(2**31, 2**53 + 1, 2**63 - 1, 2**64 - 1),
)
TEXTS = (
    "",
    "n/a",
    "unknown",
    "12",
    "1e5",
    "\x1b]0;title\x07\x1b[2J",
    "\x9b31m",
    "a\u202eb\u2066c\u200f",
    "two\nlines\r\n",
    "tab\tand\0null",
    "[bold]markup[/bold] [/]",
    "`|*_<b>&amp;</b>`",
    "%s {0} {x!r}",
    "\ud83d\ude00 \u00e9\u0301 日本語",
)
_LONG = 1_000_000


def bad_number(rng: Random) -> int | float:
    return rng.choice(NUMBERS)


def bad_scalar(rng: Random) -> Scalar:
    """Mostly a number; sometimes a text, or no value at all."""
    drawn = rng.random()
    if drawn < 0.05:
        return None
    return rng.choice(TEXTS[:5]) if drawn < 0.12 else bad_number(rng)


def bad_text(rng: Random) -> str:
    """Sometimes a megabyte."""
    text = rng.choice(TEXTS)
    if rng.random() < 0.1:
        return (text or "x") * (_LONG // max(1, len(text)))
    return text + rng.choice(("", "x", "::y<int>(float*)"))


def near(rng: Random, value: object) -> Scalar:
    """A number that may be wrong by powers of ten, or below zero, where it was not before."""
    if isinstance(value, str) or value is None or not isinstance(value, int | float):
        return bad_number(rng)
    factor = rng.choice((-1.0, 1e-9, 1e-3, 0.1, 10.0, 1e3, 1e9))
    scaled = float(value) * factor
    return int(scaled) if isinstance(value, int) and 0 <= scaled < 2**63 else scaled
