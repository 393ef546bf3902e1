"""Creates symbols for operations that do not give polynomials: shifts, masks, divisions, clamps.

Also what `Evaluation` gives to opcode rules, which it uses itself, and the shape of a launch with
its place in constant bank 0, where the code reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.operands import Operand
from keet.analysis.machine_code.polynomials.polynomial import (
    ANY,
    WORD,
    ZERO,
    Monomial,
    Polynomial,
    Range,
    Symbol,
    add,
    count_of,
    multiply,
    number,
    of_symbol,
    range_of,
    scale,
    text_of,
)

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
        for axis, size in enumerate(sizes or ()):
            words[start + 4 * axis] = size
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
            self._known[key] = Symbol(
                kind,
                name,
                range,
                frozenset(depends),
                is_loose,
                arguments,
                len(self._known),
                reach,
                is_scattered,
            )
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
        return self._divided(polynomial, 1 << bits, "shr", bits) if bits else polynomial

    def _divided(
        self, polynomial: Polynomial, divisor: int, kind: str, argument: int
    ) -> Polynomial:
        whole, rest = _split(polynomial, divisor)
        low, high = (None if end is None else end // divisor for end in range_of(rest))
        if low is not None and low == high:
            return add(whole, number(low))
        symbol = self.make(
            kind,
            f"({text_of(rest)} {'>>' if kind == 'shr' else '/'} {argument})",
            key=(rest.key, argument),
            range=Range(low, high),
            depends=rest.depends,
            is_loose=any(symbol.is_loose for symbol in rest.symbols),
            arguments=(rest, argument),
        )
        return add(whole, of_symbol(symbol))

    def divided(self, polynomial: Polynomial, divisor: int) -> Polynomial:
        """`polynomial / divisor` rounded down, for polynomials that are not negative."""
        return self._divided(polynomial, divisor, "div", divisor)

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
        return self.unknown(
            "min" if is_min else "max",
            (first, second),
            bounds,
            reach=reach,
            is_scattered=is_scattered,
        )

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
        names = {*depends}
        for polynomial in polynomials:
            names |= polynomial.depends
        symbol = self.make(
            kind,
            f"{kind}({', '.join(map(text_of, polynomials))})",
            key=(tuple(polynomial.key for polynomial in polynomials), extra),
            range=range,
            depends=names,
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
        if symbol.kind not in ("shr", "div") or not isinstance(symbol.arguments[0], Polynomial):
            continue
        argument = int(str(symbol.arguments[1]))
        divisor = 1 << argument if symbol.kind == "shr" else argument
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
    return Range(
        None if a.low is None or b.low is None else min(a.low, b.low),
        None if a.high is None or b.high is None else max(a.high, b.high),
    )


def _split(polynomial: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
    """`polynomial = divisor * whole + rest`, with every divisible term in `whole`."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for product, coefficient in polynomial.terms.items():
        quotient, left = divmod(coefficient, divisor)
        if product == () or left == 0:
            if quotient:
                whole[product] = quotient
            if left:
                rest[product] = left
        else:
            rest[product] = coefficient
    return Polynomial(whole), Polynomial(rest)


class EvaluationContext(Protocol):
    """An evaluation in progress; `Evaluation` implements it."""

    program: SassProgram
    symbols: Symbols
    loop_of_header: dict[int, Loop]
    not_taken: frozenset[tuple[int, int]]

    def polynomial(self, value: int) -> Polynomial: ...

    def operand(self, operand: Operand, position: int) -> Polynomial | None: ...

    def predicate_dependences(self, predicate: int) -> frozenset[str]: ...

    def resolved(self, polynomial: Polynomial, block: int, depth: int = 0) -> Polynomial: ...

    def resolved_names(self, depends: frozenset[str]) -> frozenset[str]: ...

    def counter(self, loop: Loop) -> Symbol: ...

    def trips(self, loop: Loop) -> tuple[int | None, bool]: ...
