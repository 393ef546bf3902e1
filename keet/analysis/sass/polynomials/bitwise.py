"""Bitwise logic on polynomials: evaluates LOP3 by its truth table."""

from __future__ import annotations

from keet.analysis.sass.polynomials.polynomial import (
    WORD,
    ZERO,
    Polynomial,
    Range,
    add,
    number,
    range_of,
)
from keet.analysis.sass.polynomials.symbols import Symbols

ALL = WORD - 1
_COLUMNS = (0xF0, 0xCC, 0xAA)
"""The truth table's columns of the three inputs: bit `4a + 2b + c` of the table is the result."""


def lop3(symbols: Symbols, polynomials: list[Polynomial], table: int) -> Polynomial | None:
    """The result of LOP3 with a truth table; `None` if nothing useful is known."""
    constants = [polynomial.value for polynomial in polynomials]
    varying = [place for place in range(3) if constants[place] is None and _matters(table, place)]
    fixed = [ALL & (value or 0) for value in constants]
    if not varying:
        return number(_signed(_evaluate(table, fixed)))
    if len(varying) == 1:
        return _of_one(symbols, polynomials[varying[0]], table, fixed, varying[0])
    if len(varying) == 2:
        return _of_two(symbols, polynomials, table, fixed, (varying[0], varying[1]))
    none, every = _evaluate(table, [0, 0, 0]), ALL
    return _bounded(symbols, [polynomials[place] for place in varying], table, none, every)


def _signed(value: int) -> int:
    return value - WORD if value >= WORD // 2 else value


def _matters(table: int, place: int) -> bool:
    column = _COLUMNS[place]
    return any(
        bool(table >> row & 1) != bool(table >> (row ^ (4 >> place)) & 1)
        for row in range(8)
        if column >> row & 1
    )


def _evaluate(table: int, words: list[int]) -> int:
    result = 0
    for row in range(8):
        if not table >> row & 1:
            continue
        bits = ALL
        for place in range(3):
            bits &= words[place] if row >> (2 - place) & 1 else ALL & ~words[place]
        result |= bits
    return result


def _with(words: list[int], **bits: int) -> list[int]:
    changed = list(words)
    for name, value in bits.items():
        changed[int(name[1:])] = value
    return changed


def _of_one(
    symbols: Symbols, polynomial: Polynomial, table: int, fixed: list[int], place: int
) -> Polynomial | None:
    """Every bit of the result is 0, 1, the bit of the polynomial, or its inverse."""
    zeros = _evaluate(table, _with(fixed, **{f"p{place}": 0}))
    ones = _evaluate(table, _with(fixed, **{f"p{place}": ALL}))
    same = ones & ~zeros & ALL
    inverse = zeros & ~ones & ALL
    constant = zeros & ones
    if inverse:
        if inverse == ALL:
            return add(number(-1), polynomial, -1)
        return _bounded(symbols, [polynomial], table, zeros, zeros | ones)
    if constant & same:
        return None
    return add(symbols.masked(polynomial, same), number(_signed(constant)))


def _of_two(
    symbols: Symbols,
    polynomials: list[Polynomial],
    table: int,
    fixed: list[int],
    places: tuple[int, int],
) -> Polynomial | None:
    """Each bit is from one polynomial or the other, or combined if they have no bit in common."""
    first, second = places
    results = {
        (a, b): _evaluate(table, _with(fixed, **{f"p{first}": ALL * a, f"p{second}": ALL * b}))
        for a in (0, 1)
        for b in (0, 1)
    }
    masks = {"first": 0, "second": 0, "either": 0, "other": 0, "one": 0}
    for bit in range(32):
        bits = [results[key] >> bit & 1 for key in ((0, 0), (0, 1), (1, 0), (1, 1))]
        column = (bits[0], bits[1], bits[2], bits[3])
        name = {
            (0, 0, 1, 1): "first",
            (0, 1, 0, 1): "second",
            (0, 1, 1, 1): "either",
            (0, 1, 1, 0): "either",
            (1, 1, 1, 1): "one",
            (0, 0, 0, 0): "",
        }.get(column, "other")
        if name:
            masks[name] |= 1 << bit
    one, other = polynomials[first], polynomials[second]
    clash = masks["either"] and _may_clash(symbols, one, other, masks["either"])
    if masks["other"] or clash:
        possible = results[0, 0] | results[0, 1] | results[1, 0] | results[1, 1]
        return _bounded(symbols, [one, other], table, results[0, 0], possible)
    total = add(
        symbols.masked(one, masks["first"] | masks["either"]),
        symbols.masked(other, masks["second"] | masks["either"]),
    )
    return add(total, number(_signed(masks["one"])))


def _may_clash(symbols: Symbols, one: Polynomial, other: Polynomial, bits: int) -> bool:
    """Whether two polynomials may both have one of the bits set."""
    first, second = symbols.masked(one, bits), symbols.masked(other, bits)
    return bool(first.terms and second.terms) and not _apart(first, second)


def _apart(first: Polynomial, second: Polynomial) -> bool:
    """Whether two polynomials never have a bit in common: one is below the other's lowest bit."""
    for low, high in ((first, second), (second, first)):
        bounds = range_of(low)
        if bounds.low is None or bounds.low < 0 or bounds.high is None:
            continue
        step = _lowest_bit(high)
        if bounds.high < step:
            return True
    return False


def _lowest_bit(polynomial: Polynomial) -> int:
    """The largest power of two that divides every coefficient."""
    together = 0
    for coefficient in polynomial.terms.values():
        together |= coefficient & -coefficient
    return together & -together if together else WORD


def _bounded(
    symbols: Symbols, polynomials: list[Polynomial], table: int, always: int, possible: int
) -> Polynomial | None:
    """An unknown combination of the polynomials' bits and of constants.

    `always`: the result if all polynomials are 0; `possible`: the bits that may be set at all.
    """
    extra = (table, always, possible)
    highs = []
    for polynomial in polynomials:
        bounds = range_of(polynomial)
        if bounds.low is None or bounds.low < 0 or bounds.high is None:
            return symbols.unknown("logic", tuple(polynomials), extra=extra)
        highs.append(bounds.high)
    low_bits = (1 << max(highs, default=0).bit_length()) - 1
    top = always | (possible & low_bits)
    if top >= WORD // 2:
        return symbols.unknown("logic", tuple(polynomials), extra=extra)
    return symbols.unknown("or", tuple(polynomials), Range(0, top), extra=extra) if top else ZERO
