"""One rule per opcode: its result as a polynomial, or `None` if that is not useful."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import cast

from keet.analysis.sass.instructions.instruction import Instruction, is_move
from keet.analysis.sass.polynomials.polynomial import (
    WORD,
    ZERO,
    Polynomial,
    Range,
    Symbol,
    add,
    number,
    range_of,
    scale,
)
from keet.analysis.sass.polynomials.symbols import EvaluationContext, Symbols

# --- rules by opcode (without the U of uniform ones)

Rule = Callable[[EvaluationContext, Instruction, int], Polynomial | None]


def _sources(
    of: EvaluationContext, each: Instruction, position: int, count: int
) -> list[Polynomial] | None:
    found: list[Polynomial] = []
    for operand in each.sources[:count]:
        polynomial = of.operand(operand, position)
        if polynomial is None:
            return None
        found.append(polynomial)
    return found if len(found) == count else None


def _sum(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    total = ZERO
    for operand in each.sources:
        if operand.kind == "predicate":
            continue
        polynomial = of.operand(operand, position)
        if polynomial is None:
            return None
        total = add(total, polynomial)
    return total


def _multiply_add(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    found = _sources(of, each, position, 3)
    if found is None:
        return None
    if each.has("HI"):
        return _high_product(of, each, found)
    modulo = _remainder(of, found)
    if modulo is not None:
        return modulo
    product = of.symbols.product(found[0], found[1])
    return add(product, found[2]) if product is not None else None


def _high_product(
    of: EvaluationContext, each: Instruction, found: list[Polynomial]
) -> Polynomial | None:
    """`(a * b) >> 32` by a constant is a division: by 2^32 / b."""
    for polynomial, other, operand in (
        (found[0], found[1], each.sources[1]),
        (found[1], found[0], each.sources[0]),
    ):
        factor = other.value
        bounds = range_of(polynomial)
        if (
            factor is None
            or operand.is_register
            or not (bounds.low is not None and bounds.low >= 0)
        ):
            continue
        if found[2].terms:
            return None
        magic = factor % WORD
        return _scaled(of.symbols, polynomial, magic, 32)
    return None


def _scaled(symbols: Symbols, polynomial: Polynomial, magic: int, shift: int) -> Polynomial:
    """`polynomial * magic >> shift`: a quotient. `_remainder` finds its divisor."""
    bounds = range_of(polynomial)
    low = bounds.low * magic >> shift if bounds.low is not None else None
    high = bounds.high * magic >> shift if bounds.high is not None else None
    return symbols.unknown("scaled", (polynomial,), Range(low, high), extra=(magic, shift))


def _remainder(of: EvaluationContext, found: list[Polynomial]) -> Polynomial | None:
    """`x - n * (x / n)`."""
    for quotient, factor in ((found[0], found[1]), (found[1], found[0])):
        count = factor.value
        symbol = next(iter(quotient.symbols), None)
        if count is None or symbol is None or symbol.kind != "scaled":
            continue
        if len(quotient.terms) != 1 or next(iter(quotient.terms)) != (symbol,):
            continue
        whole, magic, shift = _scaling(symbol)
        divisor = -count * next(iter(quotient.terms.values()))
        if add(whole, found[2], -1).terms or divisor <= 1:
            continue
        if abs(divisor * magic - (1 << shift)) <= divisor * (1 << max(0, shift - 31)):
            return of.symbols.remainder(whole, divisor)
    return None


def _shifted_sum(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    """LEA: `(a << s) + b`; LEA.HI: `(a >> (32 - s)) + b` with the high word as a third operand."""
    sources = [operand for operand in each.sources if operand.kind != "predicate"]
    last = sources[-1] if sources else None
    if last is None or last.kind != "immediate" or len(sources) < 3:
        return None
    first, second = of.operand(sources[0], position), of.operand(sources[1], position)
    if first is None or second is None:
        return None
    if not each.has("HI"):
        return add(second, scale(first, 1 << (last.value & 31)))
    bounds = range_of(first)
    is_positive = bounds.low is not None and bounds.low >= 0
    high_word = of.operand(sources[2], position) if len(sources) > 3 else ZERO
    if not is_positive or high_word is None or high_word.terms:
        return None
    return add(second, _shift_right(of, each, first, 32 - (last.value & 31)))


def _shift(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    """SHF: a funnel shift of two words; in compiled code, one of them is zero or a sign."""
    found = _sources(of, each, position, 3)
    if found is None:
        return None
    amount = found[1].value
    if amount is None:
        return _shift_by_variable(of, each, found)
    if each.has("L"):
        return scale(found[0], 1 << (amount & 31)) if not each.has("HI") else None
    if amount > 31 or each.has("U64", "S64"):
        return None  # the high word would have to be known
    if each.has("HI") and not found[0].terms:
        return _shift_right(of, each, found[2], amount & 31)
    return None


def _shift_right(
    of: EvaluationContext, each: Instruction, source: Polynomial, amount: int
) -> Polynomial:
    bounds = range_of(source)
    is_positive = bounds.low is not None and bounds.low >= 0
    if not is_positive and not each.has("S32", "S64"):
        high = (1 << (32 - amount)) - 1
        return of.symbols.unknown("shift", (source,), Range(0, high), extra=("R", amount))
    inner = _inner_scaled(source) if is_positive else None
    if inner is not None:
        polynomial, magic, shift = inner
        return _scaled(of.symbols, polynomial, magic, shift + amount)
    return of.symbols.shifted_right(source, amount)


def _shift_by_variable(
    of: EvaluationContext, each: Instruction, found: list[Polynomial]
) -> Polynomial | None:
    bounds = range_of(found[1])
    if each.has("L") and found[0].value is not None and bounds.high is not None:
        high = found[0].value << min(31, bounds.high)
        return of.symbols.unknown("shift", (found[1],), Range(0, high), extra=("L", found[0].key))
    return None


def _inner_scaled(polynomial: Polynomial) -> tuple[Polynomial, int, int] | None:
    if len(polynomial.terms) != 1 or next(iter(polynomial.terms.values())) != 1:
        return None
    product = next(iter(polynomial.terms))
    if len(product) != 1 or product[0].kind != "scaled":
        return None
    return _scaling(product[0])


def _scaling(symbol: Symbol) -> tuple[Polynomial, int, int]:
    """The parts of a `scaled` symbol: value, factor, and bits of the shift."""
    whole, (magic, shift) = cast("tuple[Polynomial, tuple[int, int]]", symbol.arguments)
    return whole, magic, shift


def _logic(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    operands = [operand for operand in each.sources if operand.kind != "predicate"]
    if len(operands) < 4 or operands[3].kind != "immediate":
        return None
    found: list[Polynomial] = []
    for operand in operands[:3]:
        polynomial = of.operand(operand, position)
        if polynomial is None:
            return None
        found.append(polynomial)
    return _lop3(of.symbols, found, operands[3].value)


def _extreme(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    """VIMNMX, IMNMX: the minimum if the predicate is true, else the maximum."""
    which = next((operand for operand in each.sources if operand.kind == "predicate"), None)
    found = _sources(of, each, position, 2)
    if found is None or which is None or which.name or not _is_signed_word(each, found):
        return None
    return of.symbols.extreme(found[0], found[1], is_min=not which.negated)


def _is_signed_word(each: Instruction, polynomials: list[Polynomial]) -> bool:
    """Whether the result equals that of signed integers: unsigned operands must be positive."""
    if any("x2" in modifier or modifier == "RELU" for modifier in each.modifiers):
        return False
    lows = [range_of(polynomial).low for polynomial in polynomials]
    return not each.has("U32") or all(low is not None and low >= 0 for low in lows)


def _add_extreme(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    which = next((operand for operand in each.sources if operand.kind == "predicate"), None)
    found = _sources(of, each, position, 3)
    if found is None or which is None or which.name or not _is_signed_word(each, found):
        return None
    return of.symbols.extreme(add(found[0], found[1]), found[2], is_min=not which.negated)


def _select(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    found = _sources(of, each, position, 2)
    which = next((operand for operand in each.sources if operand.kind == "predicate"), None)
    if found is None or which is None:
        return None
    if not which.name:
        return found[1] if which.negated else found[0]
    predicate = of.program.values.read[position].get(which.name)
    if predicate is None:
        return None
    first, second = (found[1], found[0]) if which.negated else (found[0], found[1])
    return of.symbols.either(first, second, (predicate, False), of.predicate_dependences(predicate))


def _move(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    found = _sources(of, each, position, 1)
    return found[0] if found else None


def _packed_constant(
    _of: EvaluationContext, each: Instruction, _position: int
) -> Polynomial | None:
    """`HFMA2 R, -RZ, RZ, 0, 3` loads two half-precision constants: it is used as a MOV."""
    if not is_move(each):
        return None
    words = 0
    for operand in each.sources[2:4]:
        number_text = operand.name or str(operand.value)
        try:
            value = float(number_text) * (-1 if operand.negated else 1)
            words = words << 16 | int.from_bytes(struct.pack(">e", value), "big")
        except (ValueError, OverflowError):
            return None
    return number(signed(words))


def _same_in_all_lanes(
    of: EvaluationContext, each: Instruction, position: int
) -> Polynomial | None:
    """SHFL: the same polynomial if it does not depend on the lane."""
    found = _sources(of, each, position, 1)
    if found is None:
        return None
    if not all(name.startswith("ctaid") for name in found[0].depends):
        return of.symbols.unknown("shuffled", (found[0],), range_of(found[0]), extra=position)
    return found[0]


def _absolute(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    found = _sources(of, each, position, 1)
    if found is None:
        return None
    bounds = range_of(found[0])
    if bounds.low is not None and bounds.low >= 0:
        return found[0]
    high = (
        max(abs(bounds.low), abs(bounds.high))
        if bounds.low is not None and bounds.high is not None
        else None
    )
    return of.symbols.unknown("abs", (found[0],), Range(0, high))


def _bits(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    """SGXT.U32: the lowest bits."""
    found = _sources(of, each, position, 2)
    if found is None or found[1].value is None or not each.has("U32") or found[1].value > 31:
        return None
    return of.symbols.masked(found[0], (1 << (found[1].value & 31)) - 1)


def _counted(of: EvaluationContext, each: Instruction, position: int) -> Polynomial | None:
    found = _sources(of, each, position, 1)
    return of.symbols.unknown("bits", tuple(found or ()), Range(-1, 32), extra=position)


RULES: Mapping[str, Rule] = {
    "IADD3": _sum,
    "IADD": _sum,
    "VIADD": _sum,
    "IADD2": _sum,
    "IMAD": _multiply_add,
    "LEA": _shifted_sum,
    "SHF": _shift,
    "LOP3": _logic,
    "VIMNMX": _extreme,
    "IMNMX": _extreme,
    "VIADDMNMX": _add_extreme,
    "SEL": _select,
    "HFMA2": _packed_constant,
    "MOV": _move,
    "R2UR": _move,
    "SHFL": _same_in_all_lanes,
    "IABS": _absolute,
    "SGXT": _bits,
    "POPC": _counted,
    "FLO": _counted,
}


def _rebuilt_extreme(
    symbols: Symbols, polynomials: tuple[Polynomial, ...], symbol: Symbol
) -> Polynomial:
    return symbols.extreme(polynomials[0], polynomials[1], is_min=symbol.kind == "min")


def _rebuilt_scaled(
    symbols: Symbols, polynomials: tuple[Polynomial, ...], symbol: Symbol
) -> Polynomial:
    _, magic, shift = _scaling(symbol)
    return _scaled(symbols, polynomials[0], magic, shift)


def _rebuilt(symbols: Symbols, polynomials: tuple[Polynomial, ...], symbol: Symbol) -> Polynomial:
    """The same operation on other polynomials, with the bounds of the operation."""
    return symbols.unknown(symbol.kind, polynomials, symbol.range, extra=symbol.arguments[-1])


REBUILD: Mapping[str, Callable[[Symbols, tuple[Polynomial, ...], Symbol], Polynomial]] = {
    "shr": lambda symbols, polynomials, symbol: symbols.shifted_right(
        polynomials[0], int(str(symbol.arguments[1]))
    ),
    "div": lambda symbols, polynomials, symbol: symbols.divided(
        polynomials[0], int(str(symbol.arguments[1]))
    ),
    "mod": lambda symbols, polynomials, symbol: symbols.remainder(
        polynomials[0], int(str(symbol.arguments[1]))
    ),
    "min": _rebuilt_extreme,
    "max": _rebuilt_extreme,
    "scaled": _rebuilt_scaled,
    "and": _rebuilt,
    "or": _rebuilt,
    "shift": _rebuilt,
    "table": _rebuilt,
}


# --- bitwise logic: LOP3 by its truth table

_ALL_BITS = WORD - 1
_COLUMNS = (0xF0, 0xCC, 0xAA)
"""The truth table's columns of the three inputs: bit `4a + 2b + c` of the table is the result."""


def _lop3(symbols: Symbols, polynomials: list[Polynomial], table: int) -> Polynomial | None:
    """The result of LOP3 with a truth table; `None` if nothing useful is known."""
    constants = [polynomial.value for polynomial in polynomials]
    varying = [place for place in range(3) if constants[place] is None and _matters(table, place)]
    fixed = [_ALL_BITS & (value or 0) for value in constants]
    if not varying:
        return number(_signed(_evaluate(table, fixed)))
    if len(varying) == 1:
        return _of_one(symbols, polynomials[varying[0]], table, fixed, varying[0])
    if len(varying) == 2:
        return _of_two(symbols, polynomials, table, fixed, (varying[0], varying[1]))
    none, every = _evaluate(table, [0, 0, 0]), _ALL_BITS
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
        bits = _ALL_BITS
        for place in range(3):
            bits &= words[place] if row >> (2 - place) & 1 else _ALL_BITS & ~words[place]
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
    ones = _evaluate(table, _with(fixed, **{f"p{place}": _ALL_BITS}))
    same = ones & ~zeros & _ALL_BITS
    inverse = zeros & ~ones & _ALL_BITS
    constant = zeros & ones
    if inverse:
        if inverse == _ALL_BITS:
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
        (a, b): _evaluate(
            table, _with(fixed, **{f"p{first}": _ALL_BITS * a, f"p{second}": _ALL_BITS * b})
        )
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


def signed(value: int) -> int:
    """Immediates above 2^31 are negative numbers: `VIADD R2, R2, 0xfffffffc` subtracts 4."""
    value &= 0xFFFFFFFF
    return value - WORD if value >= WORD // 2 else value
