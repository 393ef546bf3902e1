"""Polynomials of thread indices, block indices and loop counters, and their arithmetic.

A polynomial is a sum of terms, each a coefficient times a product of symbols. A value that is not a
polynomial becomes a new symbol with its dependences and its bounds, as far as they are known.
Arithmetic is that of integers: addresses and indices of real programs do not wrap.

Operations that do not give polynomials (shifts, masks, divisions, clamps) create symbols. Also what
`Evaluation` gives to opcode rules, which it uses itself, and the shape of a launch with its place
in constant bank 0, where the code reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.instruction import Operand

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
    1), and the operations shr, and, mod, min, max, abs, or; opaque for the rest.
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

    def only(self, wanted: Callable[[Monomial], bool]) -> Polynomial:
        """The terms with these products."""
        return Polynomial({p: c for p, c in self.terms.items() if wanted(p)})

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
    terms = {product: factor * c for product, c in polynomial.terms.items()}
    return Polynomial(terms) if factor else ZERO


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
            return symbol.range if len(product) == 1 else ANY
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


Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchShape:
    """The shape of a launch, and the offsets of its constants in bank 0."""

    grid: Dim3 | None
    block: Dim3 | None
    constants: Mapping[int, int]
    """Values of constant bank 0 by offset, as far as they are known."""
    parameters: int
    """Offset of the first kernel parameter in constant bank 0."""


def launch_shape(grid: Dim3 | None, block: Dim3 | None, capability: str | None) -> LaunchShape:
    """The offsets depend on the architecture; they were found in the code of each."""
    major = int(float(capability)) if capability and capability[:1].isdigit() else 9
    if major >= 10:
        shape_at, grid_at, parameters = 0x360, 0x370, 0x380
    else:
        shape_at, grid_at, parameters = 0x0, 0xC, 0x210 if major == 9 else 0x160
    words: dict[int, int] = {}
    for start, sizes in ((shape_at, block), (grid_at, grid)):
        words |= {start + 4 * axis: size for axis, size in enumerate(sizes or ())}
    return LaunchShape(grid, block, words, parameters)


class Symbols:
    """Creates symbols, each once: equal operations on equal polynomials give the same symbol."""

    def __init__(self) -> None:
        self._known: dict[object, Symbol] = {}

    def make(  # noqa: PLR0913 - the parts of a symbol
        self,
        kind: str,
        name: str,
        *,
        key: object = None,
        range: Range = ANY,  # noqa: A002 - what it is
        depends: Iterable[str] = (),
        is_loose: bool = False,
        arguments: tuple[object, ...] = (),
        reach: Range = ANY,
        is_scattered: bool = False,
    ) -> Symbol:
        key = (kind, name if key is None else key)
        if key not in self._known:
            names, order = frozenset(depends), len(self._known)
            parts = (range, names, is_loose, arguments, order, reach, is_scattered)
            self._known[key] = Symbol(kind, name, *parts)
        return self._known[key]

    def copy(self, symbol: Symbol, depends: frozenset[str]) -> Symbol:
        """The symbol with other dependences."""
        key = (symbol.kind, ("resolved", symbol.order))
        if key not in self._known:
            self._known[key] = replace(symbol, depends=depends, order=len(self._known))
        return self._known[key]

    def product(self, first: Polynomial, second: Polynomial) -> Polynomial | None:
        return multiply(self._as_factor(first), self._as_factor(second))

    def _as_factor(self, polynomial: Polynomial) -> Polynomial:
        """Replaces an expression of several parameters by one unknown number."""
        if len(polynomial.terms) < 2 or not all(symbol.is_uniform for symbol in polynomial.symbols):
            return polynomial
        are_parameters = all(symbol.kind == "param" for symbol in polynomial.symbols)
        if are_parameters and len(polynomial.terms) <= 2:
            return polynomial
        return of_symbol(
            self.make("uniform", text_of(polynomial), key=polynomial.key, arguments=(polynomial,))
        )

    # --- operations that are not polynomials

    def shifted_right(self, polynomial: Polynomial, bits: int) -> Polynomial:
        """`polynomial >> bits`, rounding down."""
        if not bits:
            return polynomial
        whole, rest = _split(polynomial, 1 << bits)
        low, high = (None if end is None else end >> bits for end in range_of(rest))
        if low is not None and low == high:
            return add(whole, number(low))
        symbol = self.make(
            "shr",
            f"({text_of(rest)} >> {bits})",
            key=(rest.key, bits),
            range=Range(low, high),
            depends=rest.depends,
            is_loose=any(symbol.is_loose for symbol in rest.symbols),
            arguments=(rest, bits),
        )
        return add(whole, of_symbol(symbol))

    def remainder(self, polynomial: Polynomial, divisor: int) -> Polynomial:
        """`polynomial % divisor` for polynomials that are not negative."""
        _, rest = _split(polynomial, divisor)
        bounds = range_of(rest)
        high = divisor - 1
        if bounds.is_positive and bounds.high is not None:
            if bounds.high < divisor:
                return rest
            high = min(high, bounds.high)
        is_power = divisor & (divisor - 1) == 0
        symbol = self.make(
            "mod",
            f"({text_of(rest)} mod {divisor})",
            key=(rest.key, divisor),
            range=Range(0, high),
            depends=rest.depends,
            is_loose=not is_power or any(symbol.is_loose for symbol in rest.symbols),
            arguments=(rest, divisor),
        )
        return of_symbol(symbol)

    def masked(self, polynomial: Polynomial, mask: int) -> Polynomial:
        """`polynomial & mask`, run of bits by run of bits."""
        mask %= WORD
        if mask == 0:
            return ZERO
        value = polynomial.value
        if value is not None:
            return number(value & mask)
        low_bits = (mask & -mask).bit_length() - 1
        run = mask >> low_bits
        if run & (run + 1) == 0:
            top = low_bits + run.bit_length()
            inner = polynomial if top == 32 else self.remainder(polynomial, 1 << top)
            if low_bits == 0:
                return inner
            return scale(self.shifted_right(inner, low_bits), 1 << low_bits)
        lowest = _lowest_run(mask)
        if bin(mask).count("01") > _MOST_RUNS:
            return self.unknown("and", (polynomial,), Range(0, mask), extra=mask)
        return add(self.masked(polynomial, lowest), self.masked(polynomial, mask & ~lowest))

    def either(
        self, first: Polynomial, second: Polynomial, key: object, depends: Iterable[str]
    ) -> Polynomial:
        """One of two polynomials, as `second + (first - second) * choice`."""
        if first.key == second.key:
            return first
        symbol = self.make(
            "choice", f"choice{key}", key=key, range=Range(0, 1), depends=depends, is_loose=True
        )
        product = self.product(add(first, second, -1), of_symbol(symbol))
        if product is None:
            return self.unknown("either", (first, second), _hull(first, second), extra=key)
        return add(second, product)

    def extreme(self, first: Polynomial, second: Polynomial, *, is_min: bool) -> Polynomial:
        """The smaller or larger of two."""
        a, b = range_of(first), range_of(second)
        for first_range, other, polynomial in ((a, b, first), (b, a, second)):
            low, high = (first_range, other) if is_min else (other, first_range)
            if low.high is not None and high.low is not None and low.high <= high.low:
                return polynomial
        bounds = _extreme_range(a, b, is_min=is_min)
        # Clamped by an unknown number, a polynomial never takes more values than without.
        sides = ((a, second), (b, first))
        clamped = [side for side, by in sides if not by.depends and by.value is None]
        reach = clamped[0] if clamped else ANY
        is_scattered = reach.size is None
        if is_scattered:
            counts = [count_of(first), count_of(second)]
            reach = ANY if None in counts else Range(0, sum(n or 0 for n in counts) - 1)
        kind = "min" if is_min else "max"
        return self.unknown(kind, (first, second), bounds, reach=reach, is_scattered=is_scattered)

    def unknown(  # noqa: PLR0913 - the parts of a symbol
        self,
        kind: str,
        polynomials: tuple[Polynomial, ...],
        range: Range = ANY,  # noqa: A002
        *,
        extra: object = None,
        depends: Iterable[str] = (),
        reach: Range = ANY,
        is_scattered: bool = False,
    ) -> Polynomial:
        """A new symbol: only its dependences, and perhaps its bounds, are known."""
        symbol = self.make(
            kind,
            f"{kind}({', '.join(map(text_of, polynomials))})",
            key=(tuple(polynomial.key for polynomial in polynomials), extra),
            range=range,
            depends=_NO_NAMES.union(depends, *(polynomial.depends for polynomial in polynomials)),
            is_loose=True,
            arguments=(*polynomials, extra),
            reach=reach,
            is_scattered=is_scattered,
        )
        return of_symbol(symbol)


_MOST_RUNS = 4


def _lowest_run(mask: int) -> int:
    """The lowest run of consecutive bits of a mask."""
    lowest = mask & -mask
    return mask & ~(mask + lowest)


def _extreme_range(a: Range, b: Range, *, is_min: bool) -> Range:
    pick = min if is_min else max
    both = [(a.low, b.low), (a.high, b.high)]
    sure = [pick(x, y) if x is not None and y is not None else None for x, y in both]
    known_ends = [[end for end in pair if end is not None] for pair in both]
    low = sure[0] if is_min or not known_ends[0] else max(known_ends[0])
    high = sure[1] if not is_min or not known_ends[1] else min(known_ends[1])
    return Range(low, high)


def simplified(polynomial: Polynomial, symbols: Symbols) -> Polynomial:
    """Replaces `x - 8 (x >> 3)` by `x mod 8`."""
    for symbol in sorted(polynomial.symbols):
        if symbol.kind != "shr" or not isinstance(symbol.arguments[0], Polynomial):
            continue
        divisor = 1 << int(str(symbol.arguments[1]))
        for product, coefficient in list(polynomial.terms.items()):
            if symbol not in product or product.count(symbol) > 1 or coefficient % divisor:
                continue
            others = Polynomial({product: 1}).factor_of(symbol)
            whole = multiply(symbol.arguments[0], others)
            factor = -coefficient // divisor
            if whole is None or any(
                polynomial.terms.get(p) != factor * c for p, c in whole.terms.items()
            ):
                continue
            left = multiply(symbols.remainder(symbol.arguments[0], divisor), others)
            if left is not None:
                rest = add(add(polynomial, Polynomial({product: coefficient}), -1), whole, -factor)
                polynomial = add(rest, left, factor)
    return polynomial


def _hull(first: Polynomial, second: Polynomial) -> Range:
    a, b = range_of(first), range_of(second)
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    return Range(low, None if a.high is None or b.high is None else max(a.high, b.high))


def _split(polynomial: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
    """`polynomial = divisor * whole + rest`, with every divisible term in `whole`."""
    whole = {
        product: coefficient // divisor
        for product, coefficient in polynomial.terms.items()
        if (coefficient // divisor and product == ()) or coefficient % divisor == 0
    }
    whole_part = Polynomial(whole)
    return whole_part, add(polynomial, whole_part, -divisor)


class EvaluationContext(Protocol):
    """What rules of opcodes need of an evaluation in progress; `Evaluation` implements it."""

    program: SassProgram
    symbols: Symbols

    def operand(self, operand: Operand, position: int) -> Polynomial | None: ...

    def predicate_dependences(self, predicate: int) -> frozenset[str]: ...
