"""Polynomials of thread indices, block indices and loop counters, and their arithmetic.

A polynomial is a sum of terms, each a coefficient times a product of symbols. A value that is not a
polynomial becomes a new symbol with its dependences and its bounds, as far as they are known.
Arithmetic is that of integers: addresses and indices of real programs do not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

MOST_TERMS = 24
"""Polynomials with more terms are given up."""
MOST_FACTORS = 5
"""Factors of a product. Real addresses have up to two pitches, an index and two choices of path."""
WORD = 1 << 32


class Range(NamedTuple):
    """An interval with both ends included; `None`: not known."""

    low: int | None
    high: int | None

    @property
    def size(self) -> int | None:
        if self.low is None or self.high is None:
            return None
        return max(1, self.high - self.low + 1)

    @property
    def is_positive(self) -> bool:
        """Whether no value is below 0."""
        return self.low is not None and self.low >= 0


ANY = Range(None, None)


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """A quantity that varies, or a constant that is not in the report.

    `kind`: tid, ctaid, loop, param, join (a value at a loop's head, to be resolved), choice (0 or
    1), and the operations shr, and, div, mod, min, max, abs, or; opaque for the rest.
    """

    kind: str
    name: str
    range: Range = ANY
    depends: frozenset[str] = frozenset()
    """Names of thread and block indices and loops, `data` (loaded from memory), `path` (the path
    taken), `unknown`."""
    is_loose: bool = False
    """Whether few programs reach the ends of the range: a clamp, a remainder, a choice."""
    arguments: tuple[object, ...] = ()
    order: int = 0
    reach: Range = ANY
    """If the bounds are not known: a range with the largest possible number of values."""
    is_scattered: bool = False
    """Whether the values counted by `reach` may be any distance apart."""

    @property
    def counted(self) -> Range:
        """A range with as many values as the symbol; its ends may differ from the symbol's."""
        return self.range if self.range.size is not None else self.reach

    @property
    def is_uniform(self) -> bool:
        """The same for every thread of the launch: it depends only on parameters."""
        return not self.depends

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Symbol) -> bool:
        return self.order < other.order


Monomial = tuple[Symbol, ...]
_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Polynomial:
    """A polynomial. The empty product is the constant term."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[tuple[Monomial, int], ...]:
        return tuple(sorted(self.terms.items(), key=lambda item: [s.order for s in item[0]]))

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def value(self) -> int | None:
        """The number, if the polynomial is constant; else `None`."""
        return self.constant if not self.terms or set(self.terms) == {()} else None

    def without(self, symbol: Symbol) -> Polynomial:
        """The terms that lack a symbol."""
        return Polynomial({p: c for p, c in self.terms.items() if symbol not in p})

    def factor_of(self, symbol: Symbol) -> Polynomial:
        """What a symbol is multiplied by, of the terms that have it once."""
        once = {p: c for p, c in self.terms.items() if p.count(symbol) == 1}
        return Polynomial({tuple(s for s in p if s is not symbol): c for p, c in once.items()})

    @property
    def symbols(self) -> set[Symbol]:
        return {symbol for product in self.terms for symbol in product}

    @cached_property
    def depends(self) -> frozenset[str]:
        """Cached: needed for each value that is computed from this one."""
        return _NO_NAMES.union(*(symbol.depends for product in self.terms for symbol in product))

    def __str__(self) -> str:
        return text_of(self)


def number(value: int) -> Polynomial:
    return Polynomial({(): value}) if value else ZERO


ZERO = Polynomial({})


def of_symbol(symbol: Symbol) -> Polynomial:
    return Polynomial({(symbol,): 1})


def add(first: Polynomial, second: Polynomial, factor: int = 1) -> Polynomial:
    """`first + factor * second`."""
    terms = dict(first.terms)
    for product, coefficient in second.terms.items():
        value = terms.get(product, 0) + factor * coefficient
        if value:
            terms[product] = value
        else:
            terms.pop(product, None)
    return Polynomial(terms)


def scale(polynomial: Polynomial, factor: int) -> Polynomial:
    if factor == 1:
        return polynomial
    return (
        Polynomial({product: factor * c for product, c in polynomial.terms.items()})
        if factor
        else ZERO
    )


def multiply(first: Polynomial, second: Polynomial) -> Polynomial | None:
    """`None` if the product is too large to be useful."""
    for factor, other in ((first, second), (second, first)):
        if factor.value is not None:
            return scale(other, factor.value)
    terms: dict[Monomial, int] = {}
    for left, a in first.terms.items():
        for right, b in second.terms.items():
            product = tuple(sorted(left + right))
            if len(product) > MOST_FACTORS:
                return None
            terms[product] = terms.get(product, 0) + a * b
    if len(terms) > MOST_TERMS:
        return None
    return Polynomial({product: c for product, c in terms.items() if c})


def range_of(polynomial: Polynomial) -> Range:
    """An interval that contains all values, computed from the ranges of the symbols."""
    low: int | None = 0
    high: int | None = 0
    for product, coefficient in polynomial.terms.items():
        part = _product_range(product)
        ends = [None if end is None else end * coefficient for end in part]
        if coefficient < 0:
            ends.reverse()
        low = None if low is None or ends[0] is None else low + ends[0]
        high = None if high is None or ends[1] is None else high + ends[1]
    return Range(low, high)


def count_of(polynomial: Polynomial) -> int | None:
    """The largest number of values of a polynomial; `None` if a symbol has no bounds."""
    count = 1
    for symbol in polynomial.symbols:
        size = 1 if symbol.is_uniform else symbol.counted.size
        if size is None:
            return None
        count *= size
    return count


def _product_range(product: Monomial) -> Range:
    low, high = 1, 1
    for symbol in product:
        if symbol.range.low is None or symbol.range.high is None:
            if len(product) == 1:
                return symbol.range
            return ANY
        corners = [a * b for a in (low, high) for b in (symbol.range.low, symbol.range.high)]
        low, high = min(corners), max(corners)
    return Range(low, high)


def text_of(polynomial: Polynomial) -> str:
    """`4 tid.x + 65536 ctaid.y + 16`."""
    parts: list[str] = []
    for product, coefficient in polynomial.key:
        names = " ".join(symbol.name for symbol in product)
        if not names:
            parts.append(str(coefficient))
        elif coefficient in (1, -1):
            parts.append(names if coefficient == 1 else f"-{names}")
        else:
            parts.append(f"{coefficient} {names}")
    text = " + ".join(parts).replace("+ -", "- ") or "0"
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "..."


_LONGEST_NAME = 160
