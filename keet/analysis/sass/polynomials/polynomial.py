"""Integer quantities as polynomials of what varies: thread and block indices, loop counters.

A form is a sum of coefficient x product of symbols. What cannot be written so becomes a symbol of
its own that remembers what it depends on and between which bounds it lies, as far as is known.
Arithmetic is that of whole numbers: addresses and indices of real programs do not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from keet.records import NamedTuple, dataclass, field

MOST_TERMS = 24
"""A form with more terms is of no use to anybody."""
MOST_FACTORS = 5
"""Two pitches, an index, and two choices of paths: as much as real addresses have."""
WORD = 1 << 32


class Range(NamedTuple):
    """Both ends included; `None`: not known."""

    low: int | None
    high: int | None

    @property
    def size(self) -> int | None:
        if self.low is None or self.high is None:
            return None
        return max(1, self.high - self.low + 1)


ANY = Range(None, None)


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """Something that varies, or a constant that the report does not tell.

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
    """The range is a bound that few programs reach: a clamp, a remainder, a choice."""
    arguments: tuple[object, ...] = ()
    order: int = 0
    reach: Range = ANY
    """Where the bounds are not known: a range with as many values as it can take at most."""
    is_scattered: bool = False
    """The values counted by `reach` may lie anywhere apart."""

    @property
    def counted(self) -> Range:
        """A range to count values by; its ends need not be those of the symbol."""
        return self.range if self.range.size is not None else self.reach

    @property
    def is_uniform(self) -> bool:
        """The same for every thread of the launch: made of parameters alone."""
        return not self.depends

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Symbol) -> bool:
        return self.order < other.order


Monomial = tuple[Symbol, ...]
_NOTHING: frozenset[str] = frozenset()


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
        """The number, if the form is one."""
        return self.constant if not self.terms or set(self.terms) == {()} else None

    @property
    def symbols(self) -> set[Symbol]:
        return {symbol for product in self.terms for symbol in product}

    @cached_property
    def depends(self) -> frozenset[str]:
        """Asked for many times of each form: as often as a later value is made of it."""
        return _NOTHING.union(*(symbol.depends for product in self.terms for symbol in product))

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


def scale(form: Polynomial, factor: int) -> Polynomial:
    if factor == 1:
        return form
    return (
        Polynomial({product: factor * c for product, c in form.terms.items()}) if factor else ZERO
    )


def multiply(first: Polynomial, second: Polynomial) -> Polynomial | None:
    """`None` where the product is too large to be useful."""
    for one, other in ((first, second), (second, first)):
        if one.value is not None:
            return scale(other, one.value)
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


def range_of(form: Polynomial) -> Range:
    """The least interval that holds the form, given the ranges of its symbols one by one."""
    low: int | None = 0
    high: int | None = 0
    for product, coefficient in form.terms.items():
        part = _product_range(product)
        ends = [None if end is None else end * coefficient for end in part]
        if coefficient < 0:
            ends.reverse()
        low = None if low is None or ends[0] is None else low + ends[0]
        high = None if high is None or ends[1] is None else high + ends[1]
    return Range(low, high)


def count_of(form: Polynomial) -> int | None:
    """How many values a form can take at most; `None` where a symbol has no bounds."""
    count = 1
    for symbol in form.symbols:
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


def text_of(form: Polynomial) -> str:
    """`4 tid.x + 65536 ctaid.y + 16`."""
    parts: list[str] = []
    for product, coefficient in form.key:
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
