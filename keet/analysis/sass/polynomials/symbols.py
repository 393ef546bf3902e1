"""Makes symbols, and does the arithmetic on forms that is not polynomial: shifts, masks, clamps."""

from __future__ import annotations

from collections.abc import Iterable

from keet.analysis.sass.polynomials.polynomial import (
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


class Symbols:
    """Makes symbols, each once: equal operations on equal forms are the same symbol."""

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

    def _as_factor(self, form: Polynomial) -> Polynomial:
        """An expression of parameters with unknown parts in it is one unknown number."""
        if len(form.terms) < 2 or not all(symbol.is_uniform for symbol in form.symbols):
            return form
        if all(symbol.kind == "param" for symbol in form.symbols) and len(form.terms) <= 2:
            return form
        return of_symbol(self.make("uniform", text_of(form), key=form.key, arguments=(form,)))

    # --- operations that are not polynomials

    def shifted_right(self, form: Polynomial, bits: int) -> Polynomial:
        """`form >> bits`, rounding down."""
        return self._divided(form, 1 << bits, "shr", bits) if bits else form

    def _divided(self, form: Polynomial, divisor: int, kind: str, argument: int) -> Polynomial:
        whole, rest = _split(form, divisor)
        bounds = range_of(rest)
        if bounds.low is not None and bounds.high is not None:
            low, high = bounds.low // divisor, bounds.high // divisor
            if low == high:
                return add(whole, number(low))
        else:
            low = bounds.low // divisor if bounds.low is not None else None  # type: ignore[assignment]
            high = bounds.high // divisor if bounds.high is not None else None  # type: ignore[assignment]
        symbol = self.make(
            kind,
            f"({text_of(rest)} {'>>' if kind == 'shr' else '/'} {argument})",
            key=(rest.key, argument),
            range=Range(low, high),
            depends=rest.depends,
            is_loose=any(each.is_loose for each in rest.symbols),
            arguments=(rest, argument),
        )
        return add(whole, of_symbol(symbol))

    def divided(self, form: Polynomial, divisor: int) -> Polynomial:
        """`form / divisor` rounded down, for forms that are not negative."""
        return self._divided(form, divisor, "div", divisor)

    def remainder(self, form: Polynomial, divisor: int) -> Polynomial:
        """`form % divisor` for forms that are not negative."""
        _, rest = _split(form, divisor)
        bounds = range_of(rest)
        if (
            bounds.low is not None
            and bounds.high is not None
            and (bounds.low >= 0 and bounds.high < divisor)
        ):
            return rest
        high = divisor - 1
        if bounds.low is not None and bounds.low >= 0 and bounds.high is not None:
            high = min(high, bounds.high)
        is_power = divisor & (divisor - 1) == 0
        symbol = self.make(
            "mod",
            f"({text_of(rest)} mod {divisor})",
            key=(rest.key, divisor),
            range=Range(0, high),
            depends=rest.depends,
            is_loose=not is_power or any(each.is_loose for each in rest.symbols),
            arguments=(rest, divisor),
        )
        return of_symbol(symbol)

    def masked(self, form: Polynomial, mask: int) -> Polynomial:
        """`form & mask`, run of bits by run of bits."""
        mask %= WORD
        if mask == 0:
            return ZERO
        value = form.value
        if value is not None:
            return number(value & mask)
        low_bits = (mask & -mask).bit_length() - 1
        run = mask >> low_bits
        if run & (run + 1) == 0:
            top = low_bits + run.bit_length()
            inner = form if top == 32 else self.remainder(form, 1 << top)
            if low_bits == 0:
                return inner
            return scale(self.shifted_right(inner, low_bits), 1 << low_bits)
        lowest = _lowest_run(mask)
        if bin(mask).count("01") > _MOST_RUNS:
            return self.unknown("and", (form,), Range(0, mask), extra=mask)
        return add(self.masked(form, lowest), self.masked(form, mask & ~lowest))

    def chosen(
        self, first: Polynomial, second: Polynomial, key: object, depends: Iterable[str]
    ) -> Polynomial:
        """One of two forms, as `second + (first - second) * choice`."""
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
        for one, other, form in ((a, b, first), (b, a, second)):
            if is_min and one.high is not None and other.low is not None and one.high <= other.low:
                return form
            if (
                not is_min
                and one.low is not None
                and other.high is not None
                and (one.low >= other.high)
            ):
                return form
        bounds = _extreme_range(a, b, is_min=is_min)
        # Clamped by an unknown number, a form never takes more values than without.
        clamped = [each for each, by in ((a, second), (b, first)) if _is_unknown_number(by)]
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
        forms: tuple[Polynomial, ...],
        range: Range = ANY,  # noqa: A002
        *,
        extra: object = None,
        depends: Iterable[str] = (),
        reach: Range = ANY,
        is_scattered: bool = False,
    ) -> Polynomial:
        """A quantity of which only the dependences, and perhaps the bounds, are known."""
        names = {*depends}
        for form in forms:
            names |= form.depends
        symbol = self.make(
            kind,
            f"{kind}({', '.join(map(text_of, forms))})",
            key=(tuple(form.key for form in forms), extra),
            range=range,
            depends=names,
            is_loose=True,
            arguments=(*forms, extra),
            reach=reach,
            is_scattered=is_scattered,
        )
        return of_symbol(symbol)


def _is_unknown_number(form: Polynomial) -> bool:
    return not form.depends and form.value is None


_MOST_RUNS = 4


def _lowest_run(mask: int) -> int:
    """The lowest bits of a mask that stand together."""
    lowest = mask & -mask
    return mask & ~(mask + lowest)


def _extreme_range(a: Range, b: Range, *, is_min: bool) -> Range:
    pick = min if is_min else max
    both = [(a.low, b.low), (a.high, b.high)]
    sure = [pick(x, y) if x is not None and y is not None else None for x, y in both]
    known = [[end for end in pair if end is not None] for pair in both]
    low = sure[0] if is_min or not known[0] else max(known[0])
    high = sure[1] if not is_min or not known[1] else min(known[1])
    return Range(low, high)


def simplified(form: Polynomial, symbols: Symbols) -> Polynomial:
    """`x - 8 (x >> 3)` is `x mod 8`: quotients joined with what they were taken from."""
    for symbol in sorted(form.symbols):
        if symbol.kind not in ("shr", "div") or not isinstance(symbol.arguments[0], Polynomial):
            continue
        argument = int(str(symbol.arguments[1]))
        divisor = 1 << argument if symbol.kind == "shr" else argument
        for product, coefficient in list(form.terms.items()):
            if symbol not in product or product.count(symbol) > 1 or coefficient % divisor:
                continue
            others = Polynomial({tuple(s for s in product if s is not symbol): 1})
            whole = multiply(symbol.arguments[0], others)
            factor = -coefficient // divisor
            if whole is None or any(
                form.terms.get(p) != factor * c for p, c in whole.terms.items()
            ):
                continue
            left = multiply(symbols.remainder(symbol.arguments[0], divisor), others)
            if left is not None:
                rest = add(add(form, Polynomial({product: coefficient}), -1), whole, -factor)
                form = add(rest, left, factor)
    return form


def _hull(first: Polynomial, second: Polynomial) -> Range:
    a, b = range_of(first), range_of(second)
    return Range(
        None if a.low is None or b.low is None else min(a.low, b.low),
        None if a.high is None or b.high is None else max(a.high, b.high),
    )


def _split(form: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
    """`form = divisor * whole + rest`, with every divisible term in `whole`."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for product, coefficient in form.terms.items():
        quotient, left = divmod(coefficient, divisor)
        if product == () or left == 0:
            if quotient:
                whole[product] = quotient
            if left:
                rest[product] = left
        else:
            rest[product] = coefficient
    return Polynomial(whole), Polynomial(rest)
