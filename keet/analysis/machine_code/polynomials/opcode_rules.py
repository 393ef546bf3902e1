"""One rule per opcode: its result as a polynomial, or `None` if that is not useful."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, cast

from keet.analysis.machine_code.instructions.instruction import Instruction, is_move
from keet.analysis.machine_code.polynomials.polynomial import (
    WORD,
    ZERO,
    EvaluationContext,
    Polynomial,
    Range,
    Symbol,
    Symbols,
    add,
    number,
    range_of,
    scale,
)

# --- rules by opcode (without the U of uniform ones)


class Step(NamedTuple):
    """An instruction in its place."""

    of: EvaluationContext
    instruction: Instruction
    position: int


Rule = Callable[..., Polynomial | None]
"""Of a step and the values of its first sources."""


def result_of(of: EvaluationContext, instruction: Instruction, position: int) -> Polynomial | None:
    """What an instruction computes. None: there is no rule, or an operand is no integer."""
    count, rule = RULES.get(instruction.base, (0, None))
    if rule is None:
        return None
    sources = instruction.numbers if count is None else instruction.sources[:count]
    values = [of.operand(operand, position) for operand in sources]
    if None in values or len(values) < (count or 0):
        return None
    return rule(Step(of, instruction, position), *values)


def _multiply_add(
    step: Step, first: Polynomial, second: Polynomial, third: Polynomial
) -> Polynomial | None:
    if step.instruction.has("HI"):
        return _high_product(step, first, second, third)
    modulo = _remainder(step, first, second, third)
    if modulo is not None:
        return modulo
    product = step.of.symbols.product(first, second)
    return add(product, third) if product is not None else None


def _high_product(
    step: Step, first: Polynomial, second: Polynomial, third: Polynomial
) -> Polynomial | None:
    """`(a * b) >> 32` by a constant is a division: by 2^32 / b."""
    for factor, other, operand in (
        (first, second, step.instruction.sources[1]),
        (second, first, step.instruction.sources[0]),
    ):
        if other.value is not None and not operand.is_register and range_of(factor).is_positive:
            quotient = _scaled(step.of.symbols, factor, other.value % WORD, 32)
            return None if third.terms else quotient
    return None


def _scaled(symbols: Symbols, polynomial: Polynomial, magic: int, shift: int) -> Polynomial:
    """`polynomial * magic >> shift`: a quotient. `_remainder` finds its divisor."""
    low, high = (None if end is None else end * magic >> shift for end in range_of(polynomial))
    return symbols.unknown("scaled", (polynomial,), Range(low, high), extra=(magic, shift))


def _remainder(
    step: Step, first: Polynomial, second: Polynomial, third: Polynomial
) -> Polynomial | None:
    """`x - n * (x / n)`."""
    for quotient, factor in ((first, second), (second, first)):
        symbol = next(iter(quotient.symbols), None)
        if factor.value is None or symbol is None or symbol.kind != "scaled":
            continue
        if [*quotient.terms] != [(symbol,)]:
            continue
        whole, magic, shift = _scaling(symbol)
        divisor = -factor.value * quotient.terms[symbol,]
        if add(whole, third, -1).terms or divisor <= 1:
            continue
        if is_divisor(divisor, magic, shift):
            return step.of.symbols.remainder(whole, divisor)
    return None


def _shifted_sum(step: Step, *values: Polynomial) -> Polynomial | None:
    """LEA: `(a << s) + b`; LEA.HI: `(a >> (32 - s)) + b` with the high word as a third operand."""
    if len(values) < 3 or step.instruction.numbers[-1].kind != "immediate":
        return None
    first, second, *high_word, _ = values
    amount = step.instruction.numbers[-1].value & 31
    if not step.instruction.has("HI"):
        return add(second, scale(first, 1 << amount))
    if not range_of(first).is_positive or (high_word and high_word[0].terms):
        return None
    return add(second, _shift_right(step, first, 32 - amount))


def _shift(step: Step, low: Polynomial, by: Polynomial, high: Polynomial) -> Polynomial | None:
    """SHF: a funnel shift of two words; in compiled code, one of them is zero or a sign."""
    instruction, amount = step.instruction, by.value
    if amount is None:
        return _shift_by_variable(step, low, by)
    if instruction.has("L"):
        return scale(low, 1 << (amount & 31)) if not instruction.has("HI") else None
    if amount > 31 or instruction.has("U64", "S64"):
        return None  # the high word would have to be known
    return (
        _shift_right(step, high, amount & 31) if instruction.has("HI") and not low.terms else None
    )


def _shift_right(step: Step, source: Polynomial, amount: int) -> Polynomial:
    symbols, is_positive = step.of.symbols, range_of(source).is_positive
    if not is_positive and not step.instruction.has("S32", "S64"):
        high = (1 << (32 - amount)) - 1
        return symbols.unknown("shift", (source,), Range(0, high), extra=("R", amount))
    symbol = next(iter(source.symbols), None)
    if is_positive and symbol and symbol.kind == "scaled" and source.terms == {(symbol,): 1}:
        polynomial, magic, shift = _scaling(symbol)
        return _scaled(symbols, polynomial, magic, shift + amount)
    return symbols.shifted_right(source, amount)


def _shift_by_variable(step: Step, value: Polynomial, by: Polynomial) -> Polynomial | None:
    most = range_of(by).high
    if not step.instruction.has("L") or value.value is None or most is None:
        return None
    bounds = Range(0, value.value << min(31, most))
    return step.of.symbols.unknown("shift", (by,), bounds, extra=("L", value.key))


def _scaling(symbol: Symbol) -> tuple[Polynomial, int, int]:
    """The parts of a `scaled` symbol: value, factor, and bits of the shift."""
    whole, (magic, shift) = cast("tuple[Polynomial, tuple[int, int]]", symbol.arguments)
    return whole, magic, shift


def is_divisor(divisor: int, magic: int, shift: int) -> bool:
    """Whether `x * magic >> shift` is `x / divisor`."""
    return abs(divisor * magic - (1 << shift)) <= divisor * (1 << max(0, shift - 31))


def _extreme(step: Step, *values: Polynomial) -> Polynomial | None:
    """VIMNMX, IMNMX: the minimum if the predicate is true, else the maximum; VIADDMNMX: of a sum
    and a number. As of signed integers: unsigned operands must be positive."""
    instruction = step.instruction
    which = instruction.predicate
    if which is None or which.name or is_packed(instruction):
        return None
    if instruction.has("U32") and not all(range_of(value).is_positive for value in values):
        return None
    *summed, last = values
    return step.of.symbols.extreme(reduce(add, summed), last, is_min=not which.negated)


def is_packed(instruction: Instruction) -> bool:
    """Whether it computes with two halves of a word, or with 0 as the least result."""
    return any("x2" in modifier or modifier == "RELU" for modifier in instruction.modifiers)


def _select(step: Step, first: Polynomial, second: Polynomial) -> Polynomial | None:
    of, which = step.of, step.instruction.predicate
    if which is None:
        return None
    if which.negated:
        first, second = second, first
    if not which.name:
        return first
    predicate = of.program.values.read[step.position].get(which.name)
    if predicate is None:
        return None
    return of.symbols.either(first, second, (predicate, False), of.predicate_dependences(predicate))


def _packed_constant(step: Step) -> Polynomial | None:
    """`HFMA2 R, -RZ, RZ, 0, 3` loads two half-precision constants: it is used as a MOV."""
    if not is_move(step.instruction):
        return None
    words = b""
    for operand in step.instruction.sources[2:4]:
        try:
            value = float(operand.name or operand.value)
            words += struct.pack(">e", -value if operand.negated else value)
        except (ValueError, OverflowError):
            return None
    return number(signed(int.from_bytes(words, "big")))


def _shuffled(step: Step, value: Polynomial) -> Polynomial:
    """SHFL: the same polynomial if it does not depend on the lane."""
    if all(name.startswith("ctaid") for name in value.depends):
        return value
    return step.of.symbols.unknown("shuffled", (value,), range_of(value), extra=step.position)


def _absolute(step: Step, value: Polynomial) -> Polynomial:
    low, high = range_of(value)
    if low is not None and low >= 0:
        return value
    most = max(abs(low), abs(high)) if low is not None and high is not None else None
    return step.of.symbols.unknown("abs", (value,), Range(0, most))


def _bits(step: Step, value: Polynomial, count: Polynomial) -> Polynomial | None:
    """SGXT.U32: the lowest bits."""
    if count.value is None or not step.instruction.has("U32") or count.value > 31:
        return None
    return step.of.symbols.masked(value, (1 << (count.value & 31)) - 1)


def _counted(step: Step) -> Polynomial:
    counted = (step.of.operand(each, step.position) for each in step.instruction.sources[:1])
    values = tuple(value for value in counted if value is not None)
    return step.of.symbols.unknown("bits", values, Range(-1, 32), extra=step.position)


OPERATIONS = ("shr", "mod", "min", "max", "scaled", "and", "or", "shift", "table")
"""Kinds of symbols whose operation is known."""


def rebuilt(symbols: Symbols, parts: Sequence[Polynomial], symbol: Symbol) -> Polynomial:
    """The operation of a symbol on other polynomials, with the bounds of the operation."""
    kind, argument = symbol.kind, symbol.arguments[-1]
    if kind == "shr":
        return symbols.shifted_right(parts[0], cast("int", argument))
    if kind == "mod":
        return symbols.remainder(parts[0], cast("int", argument))
    if kind in ("min", "max"):
        return symbols.extreme(parts[0], parts[1], is_min=kind == "min")
    if kind == "scaled":
        return _scaled(symbols, parts[0], *_scaling(symbol)[1:])
    return symbols.unknown(kind, tuple(parts), symbol.range, extra=argument)


# --- bitwise logic: LOP3 by its truth table

_ALL_BITS = WORD - 1
_INPUTS = (4, 2, 1)
"""Bit `4a + 2b + c` of the table is the result for the bits a, b and c of the inputs."""


def truth_table(table: int) -> tuple[list[int], Callable[..., int]]:
    """Which of the three inputs of LOP3 matter, and the result by these."""
    ones = {row for row in range(8) if table >> row & 1}
    used = [place for place in range(3) if {row ^ _INPUTS[place] for row in ones} != ones]
    rows = [row for row in ones if not row & ~sum(_INPUTS[place] for place in used)]

    def function(*values: int) -> int:
        result = 0
        for row in rows:
            bits = -1
            for value, place in zip(values, used, strict=True):
                bits &= value if row & _INPUTS[place] else ~value
            result |= bits
        return result

    return used, function


def _logic(step: Step, *values: Polynomial) -> Polynomial | None:
    """Where bits of the result are those of one input, or of inputs without a bit in common."""
    if len(values) < 4 or step.instruction.numbers[3].kind != "immediate":
        return None
    symbols, table = step.of.symbols, step.instruction.numbers[3].value
    used, function = truth_table(table)
    varying = [values[place] for place in used if values[place].value is None]

    def result(*bits: int) -> int:
        """With these bits for the inputs that vary."""
        left = iter(bits)
        words = (values[place].value for place in used)
        return function(*(next(left) if word is None else word for word in words)) & _ALL_BITS

    if not varying:
        return number(signed(result()))
    none, every = result(*[0] * len(varying)), result(*[-1] * len(varying))
    if len(varying) == 1:
        return _of_one(symbols, varying[0], table, none, every)
    if len(varying) == 2:
        results = none, result(0, -1), result(-1, 0), every
        return _of_two(symbols, varying[0], varying[1], table, results)
    return _bounded(symbols, varying, table, function(0, 0, 0) & _ALL_BITS, _ALL_BITS)


def _of_one(
    symbols: Symbols, polynomial: Polynomial, table: int, zeros: int, ones: int
) -> Polynomial | None:
    """Every bit of the result is 0, 1, the bit of the polynomial, or its inverse. `zeros`, `ones`:
    the result if all of its bits are."""
    same, inverse, constant = ones & ~zeros, zeros & ~ones, zeros & ones
    if inverse == _ALL_BITS:
        return add(number(-1), polynomial, -1)
    if inverse:
        return _bounded(symbols, [polynomial], table, zeros, zeros | ones)
    return add(symbols.masked(polynomial, same), number(signed(constant)))


def _of_two(
    symbols: Symbols,
    one: Polynomial,
    other: Polynomial,
    table: int,
    results: tuple[int, int, int, int],
) -> Polynomial | None:
    """Each bit is from one polynomial or the other, or combined if they have no bit in common.
    `results`: if the bits of the two are 00, 01, 10 and 11."""
    neither, of_other, of_one, of_both = results
    always = neither & of_other & of_one & of_both
    first = ~neither & ~of_other & of_one & of_both
    second = ~neither & of_other & ~of_one & of_both
    either = ~neither & of_other & of_one
    possible = neither | of_other | of_one | of_both
    is_other = bool(possible & ~(always | first | second | either))
    if is_other or (either and _may_clash(symbols, one, other, either)):
        return _bounded(symbols, [one, other], table, neither, possible)
    total = add(symbols.masked(one, first | either), symbols.masked(other, second | either))
    return add(total, number(signed(always)))


def _may_clash(symbols: Symbols, one: Polynomial, other: Polynomial, bits: int) -> bool:
    """Whether two polynomials may both have one of the bits set."""
    first, second = symbols.masked(one, bits), symbols.masked(other, bits)
    return bool(first.terms and second.terms) and not _apart(first, second)


def _apart(first: Polynomial, second: Polynomial) -> bool:
    """Whether two polynomials never have a bit in common: one is below the other's lowest bit."""
    for low, high in ((first, second), (second, first)):
        common = math.gcd(*high.terms.values())
        bounds = range_of(low)
        if bounds.is_positive and bounds.high is not None and bounds.high < (common & -common):
            return True
    return False


def _bounded(
    symbols: Symbols, polynomials: list[Polynomial], table: int, always: int, possible: int
) -> Polynomial | None:
    """An unknown combination of the polynomials' bits and of constants.

    `always`: the result if all polynomials are 0; `possible`: the bits that may be set at all.
    """
    extra = (table, always, possible)
    highs = [bounds.high for bounds in map(range_of, polynomials) if bounds.is_positive]
    known = [high for high in highs if high is not None]
    low_bits = (1 << max(known, default=0).bit_length()) - 1
    top = always | (possible & low_bits)
    if len(known) < len(polynomials) or top >= WORD // 2:
        return symbols.unknown("logic", tuple(polynomials), extra=extra)
    return symbols.unknown("or", tuple(polynomials), Range(0, top), extra=extra) if top else ZERO


def signed(value: int) -> int:
    """Immediates above 2^31 are negative numbers: `VIADD R2, R2, 0xfffffffc` subtracts 4."""
    value &= 0xFFFFFFFF
    return value - WORD if value >= WORD // 2 else value


RULES: Mapping[str, tuple[int | None, Rule]] = {
    **dict.fromkeys(
        ("IADD3", "IADD", "VIADD", "IADD2"), (None, lambda _, *all_: reduce(add, all_, ZERO))
    ),
    "IMAD": (3, _multiply_add),
    "LEA": (None, _shifted_sum),
    "SHF": (3, _shift),
    "LOP3": (None, _logic),
    **dict.fromkeys(("VIMNMX", "IMNMX"), (2, _extreme)),
    "VIADDMNMX": (3, _extreme),
    "SEL": (2, _select),
    "HFMA2": (0, _packed_constant),
    **dict.fromkeys(("MOV", "R2UR"), (1, lambda _, value: value)),
    "SHFL": (1, _shuffled),
    "IABS": (1, _absolute),
    "SGXT": (2, _bits),
    **dict.fromkeys(("POPC", "FLO"), (0, _counted)),
}
"""How many of its sources an opcode computes with (None: all but predicates), and its rule."""
