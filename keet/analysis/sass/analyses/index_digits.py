"""Indices of threads, blocks and loops, and the digits of them that addresses use.

`tid / 32` and `tid % 32` are two digits of one index. Together they have all its values; an address
with only one of them is the same for all values of the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.sass.polynomials.polynomial import Monomial, Polynomial, Symbol

Base = str | tuple[tuple[Monomial, int], ...]
"""The name of an index, or the key of a sum of indices whose digits are used."""


class Digit(NamedTuple):
    """`index / low % (high / low)`; `high` None: all the rest."""

    base: Base
    low: int
    high: int | None
    factor: int = 1
    """What the symbol is, in units of the digit."""


class Part(NamedTuple):
    """One digit of the execution: its number of values, and what it adds to the address."""

    base: Base
    low: int
    values: int
    """How many it has."""
    steps: Mapping[Monomial, int]


def digit_of(symbol: Symbol) -> Digit | None:
    """A symbol as a digit of an index, or of a sum of indices."""
    if symbol.kind in ("tid", "ctaid", "loop"):
        return Digit(symbol.name, 1, None)
    divisor = _divisor(symbol)
    whole = symbol.arguments[0] if symbol.arguments else None
    if divisor is None or not isinstance(whole, Polynomial):
        return None
    common = math.gcd(*whole.terms.values()) if whole.terms else 0
    if () in whole.terms or not common or divisor % common:
        return None
    is_rest = symbol.kind == "mod"
    if len(whole.terms) == 1:
        return _digit_of_digit(whole, divisor, is_rest=is_rest)
    base = tuple((product, times // common) for product, times in whole.key)
    if is_rest:
        return Digit(base, 1, divisor // common, common)
    return Digit(base, divisor // common, None)


def _digit_of_digit(whole: Polynomial, divisor: int, *, is_rest: bool) -> Digit | None:
    product, coefficient = next(iter(whole.terms.items()))
    inner = digit_of(product[0]) if len(product) == 1 else None
    if inner is None or coefficient < 0 or divisor % (coefficient * inner.factor):
        return None
    part = divisor // (coefficient * inner.factor)
    if not is_rest:
        return Digit(inner.base, inner.low * part, inner.high)
    high = inner.low * part
    if inner.high is not None:
        high = min(high, inner.high)
    return Digit(inner.base, inner.low, high, coefficient * inner.factor)


def _divisor(symbol: Symbol) -> int | None:
    if symbol.kind == "shr":
        return 1 << int(str(symbol.arguments[1]))
    if symbol.kind in ("div", "mod"):
        return int(str(symbol.arguments[1]))
    if symbol.kind == "scaled" and isinstance(symbol.arguments[1], tuple):
        magic, shift = symbol.arguments[1]
        divisor = round((1 << shift) / magic) if magic else 0
        if divisor and abs(divisor * magic - (1 << shift)) <= divisor * (1 << max(0, shift - 31)):
            return divisor
    return None


def unclamped(symbol: Symbol) -> Polynomial | None:
    """What a clamp to an unknown limit lets through."""
    if symbol.kind not in ("min", "max"):
        return None
    first, second = symbol.arguments[0], symbol.arguments[1]
    if not isinstance(first, Polynomial) or not isinstance(second, Polynomial):
        return None
    for inner, limit in ((first, second), (second, first)):
        if not limit.depends and inner.depends:
            return inner
    return None


def split_index(
    base: Base,
    extent: int,
    digits: Sequence[tuple[Digit, Monomial, int]],
    limited: Sequence[tuple[Digit, int]],
) -> list[Part] | None:
    """An index, cut where its digits begin and end."""
    for digit, count in limited:
        if digit.low == 1 and digit.high is None and count > 1:
            extent = min(extent, count)
    if extent == 1:
        return []
    cuts = {1}
    for digit in [digit for digit, _, _ in digits] + [digit for digit, _ in limited]:
        cuts |= {digit.low, digit.high or 1}
    ends = sorted(cut for cut in cuts if cut < extent)
    if any(high % low for low, high in pairwise(ends)):
        return None
    ends.append(-(-extent // ends[-1]) * ends[-1])
    parts = []
    for low, high in pairwise(ends):
        steps: dict[Monomial, int] = {}
        for digit, factor, coefficient in digits:
            if digit.low <= low and (digit.high is None or digit.high > low):
                steps[factor] = steps.get(factor, 0) + coefficient * (low // digit.low)
        is_one = any(
            count == 1 and digit.low <= low and (digit.high is None or digit.high > low)
            for digit, count in limited
        )
        used = {factor: step for factor, step in steps.items() if step}
        parts.append(Part(base, low, 1 if is_one else high // low, used))
    return parts
