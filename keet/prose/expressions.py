"""Expressions over named numbers: `dram_bytes / (N * 4 B)`, `l2_busy > 2 * dram_busy`.

Names are looked up by the caller. An expression is parsed once: a pattern finds names and numbers,
Python (`ast`) parses what is between them. It is evaluated with units, and printed with the label
and value of each name: bytes / bytes is a ratio, bytes + time is an error.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple

from keet.source_code.syntax import SIZES
from keet.units import Quantity, base_unit, format_number, parse_unit, symbol

_DIMENSIONS = ("byte", "cycle", "s")
"""Units with dimensions, in SI. All others count things (sectors, instructions)."""
_DEGREE = 4
"""Powers of a unit beyond this are a mistake."""
_LARGEST_VALUE = 1e30

Powers = tuple[tuple[str, int], ...]
"""Units with their powers, by name: bytes per second are `(("byte", 1), ("s", -1))`."""


class ValueProblem(Exception):
    """The expression has no value; the message says why."""


class UnitValue(NamedTuple):
    """A number with its unit."""

    number: float
    """In bytes, seconds and cycles; a percentage as a fraction."""
    dimensions: Powers = ()
    things: Powers = ()
    """What is counted, if anything: sectors, or sectors per request. Used to print the result and
    to reject sums of different things; `sectors * 32 B` is bytes."""
    is_percent: bool = False
    is_bare: bool = False
    """Written without a unit: it takes the unit of the value that it is compared with."""

    @property
    def has_dimension(self) -> bool:
        return bool(self.dimensions)

    @property
    def counts(self) -> str:
        """What is counted as a unit: `sector`, `sector/request`; empty for a plain number."""
        return "" if self.dimensions else _unit(self)


def value_of(number: float, unit: str) -> UnitValue:
    """A number in one of keet's units."""
    if unit == "%":
        return UnitValue(number / 100, is_percent=True)
    parsed = parse_unit(unit)
    over, *under = parsed.kind.replace("hz", "cycle/s").split("/")
    powers = Counter([over])
    powers.subtract(under)
    scale = 10.0**parsed.power * 0.125 ** powers["bit"]
    powers["byte"] += powers.pop("bit", 0)
    powers["wavefront"] += powers.pop("conflict", 0)  # a bank conflict is one more wavefront
    for plain in ("", "x", "1"):
        del powers[plain]
    dimensions = {name: powers.pop(name, 0) for name in _DIMENSIONS}
    return UnitValue(number * scale, _powers(dimensions), _powers(powers))


def _powers(degrees: Mapping[str, int]) -> Powers:
    return tuple(sorted((name, power) for name, power in degrees.items() if power))


def bare(number: float) -> UnitValue:
    """Raises ValueProblem for numbers that no report can contain."""
    return checked(UnitValue(number, is_bare=True))


def add(one: UnitValue, other: UnitValue, sign: int = 1) -> UnitValue:
    if sign < 0 and one.is_bare and one.number == 1 and other.is_percent:
        one = value_of(100, "%")  # the 1 in `1 - hit_rate` is 100 %, not 1 %
    one, other = _same_things(one, other)
    kept = one if one.has_dimension or one.things or one.is_percent else other
    number = one.number + sign * other.number
    return checked(kept._replace(number=number, is_bare=one.is_bare and other.is_bare))


def _same_things(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Raises ValueProblem if the values count different things."""
    if one.things and other.things and one.things != other.things:
        raise ValueProblem(f"{unit_name(one)} and {unit_name(other)} are different units")
    return alike(one, other)


def product(one: UnitValue, other: UnitValue, sign: int = 1) -> UnitValue:
    """Or, with the sign -1, the quotient."""
    if sign < 0 and not other.number:
        raise ValueProblem("it divides by zero")
    dimensions = _combined(one.dimensions, other.dimensions, sign)
    if any(abs(degree) > _DEGREE for _, degree in dimensions):
        raise ValueProblem("its unit makes no sense")
    things = _combined(one.things, other.things, sign)
    if sign > 0 and one.has_dimension != other.has_dimension:
        # Sectors times bytes are bytes: the bytes are per sector.
        counted, amount = (other, one) if one.has_dimension else (one, other)
        over = tuple((name, degree) for name, degree in counted.things if degree > 0)
        things = things if amount.things else _combined(things, over, -1)
    number = one.number * other.number if sign > 0 else one.number / other.number
    # Twice a share, half a share and a share of a share are shares.
    is_share = one.is_percent and not other.is_percent
    if sign > 0:
        is_share = one.is_percent or other.is_percent
    percent = not (dimensions or things) and is_share
    return checked(UnitValue(number, dimensions, things, percent, one.is_bare and other.is_bare))


def power(one: UnitValue, other: UnitValue) -> UnitValue:
    if other.has_dimension or one.has_dimension or one.is_percent:
        raise ValueProblem("only plain numbers are raised to a power")
    try:
        raised = one.number**other.number
    except (OverflowError, ZeroDivisionError):
        raise ValueProblem("it is too large") from None
    if isinstance(raised, complex):
        raise ValueProblem("it is not a real number")
    return checked(UnitValue(raised, is_bare=one.is_bare and other.is_bare))


def alike(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Both in the same unit. A number without a unit takes the other's unit, except for bytes and
    time, where that would be a guess."""
    if one.is_bare and other.is_percent:
        return one._replace(number=one.number / 100, is_percent=True), other
    if other.is_bare and one.is_percent:
        return one, other._replace(number=other.number / 100, is_percent=True)
    shares = one.is_percent != other.is_percent and (one.things or other.things)
    if one.dimensions == other.dimensions and not shares:
        return one, other
    problem = f"{unit_name(one)} and {unit_name(other)} are different units"
    want = unit_name(other if one.is_bare else one)
    examples = {"B": "4 B", "s": "5 us", "B/s": "2 GB/s"}
    if (one.is_bare or other.is_bare) and want in examples:
        problem += f"; give the number a unit, as in {examples[want]}"
    raise ValueProblem(problem)


def _combined(one: Powers, other: Powers, sign: int) -> Powers:
    degrees = Counter(dict(one))
    for name, degree in other:
        degrees[name] += sign * degree
    return _powers(degrees)


def checked(value: UnitValue) -> UnitValue:
    if not math.isfinite(value.number) or abs(value.number) > _LARGEST_VALUE:
        raise ValueProblem("it is too large")
    return value


# --- as text


def unit_name(value: UnitValue) -> str:
    """`B/s`, `%`, `sector`; `a plain number` for none."""
    if value.is_percent:
        return "%"
    unit = _unit(value)
    return symbol(base_unit(unit) if unit == "hz" else unit) if unit else "a plain number"


def value_text(value: UnitValue) -> str:
    """`537 MB`, `82.0%`, `31.4 sector/request`."""
    if value.is_percent:
        per_cent = 100 * value.number
        is_tiny = per_cent and abs(per_cent) < 0.05
        return f"{format_number(per_cent)}%" if is_tiny else f"{per_cent:,.1f}%"
    unit = _unit(value)
    if not unit:
        return format_number(round(value.number, 6))
    return str(Quantity(value.number, unit).to_base())


def _unit(value: UnitValue) -> str:
    """As keet writes units: numerator first, one slash per divisor. Empty for a plain number."""
    if dict(value.dimensions) == {"cycle": 1, "s": -1} and not value.things:
        return "hz"
    over, under = _split(value.dimensions)
    counted, per = _split(value.things)
    # Sectors times bytes per sector are bytes: counted things are printed only without a unit.
    over = over or (counted if len(counted) == 1 else [])
    per = per if len(per) == 1 else []  # `B/block/thread` would be read as bytes of a block
    if not over and not value.dimensions:
        return ""
    return "/".join(["*".join(over) or "1", *under, *per])


def _split(powers: Powers) -> tuple[list[str], list[str]]:
    over = [name for name, degree in powers for _ in range(degree)]
    return over, [name for name, degree in powers for _ in range(-degree)]


# --- parsing

_LONGEST_EXPRESSION = 300
"""Characters of an expression."""
_DEEPEST_NESTING = 20
_MOST_TOKENS = 100
UNITS = {
    "B": "byte", "KB": "Kbyte", "kB": "Kbyte", "MB": "Mbyte", "GB": "Gbyte", "TB": "Tbyte",
    "byte": "byte", "bytes": "byte", "ns": "ns", "us": "us", "ms": "ms", "s": "s",
    "Hz": "hz", "MHz": "Mhz", "GHz": "Ghz", "cycles": "cycle", "cycle": "cycle",
    "inst": "inst", "instructions": "inst", "sector": "sector", "sectors": "sector",
    "request": "request", "requests": "request", "wavefront": "wavefront", "block": "block",
    "wavefronts": "wavefront", "blocks": "block", "warp": "warp", "warps": "warp",
    "thread": "thread", "threads": "thread", "sample": "sample", "samples": "sample",
    "iteration": "iteration", "iterations": "iteration",
}  # fmt: skip
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LINE = (
    r"@(?:[\w./+-]+:\d+(?:\.\.[\w./+-]+(?::\d+)?)?"  # one line, or one before and one after
    r"|(?:fn\d+\+)?0x[0-9a-fA-F]+|\w+)"  # an instruction; no line
)
_NAME = rf"[A-Za-z_]\w*(?:[.]\w+)*(?:{_LINE})?(?:#[\w.]+(?:-\d+(?:\.\d+)?)?)?"
_NUMBER = r"0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_THOUSANDS = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|"
_REST = (
    rf"{_NUMBER})(?:\s*(?P<unit>%|(?:{'|'.join((*UNITS, *_BINARY))})(?![\w.#@])))?"
    rf"|(?P<size>sizeof\s*\([^()]*\))|(?P<name>{_NAME})(?P<call>\s*\()?"
    r"|(?P<op><<|>=|<=|==|!=|~=|\*\*|[-+*/()<>~≈≥≤×÷,]))"
)
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_THOUSANDS}{_REST}", re.ASCII)
_TOKEN_IN_BRACKETS = re.compile(rf"\s*(?:(?P<number>{_REST}", re.ASCII)
"""Inside calls, a comma separates arguments: `min(16,128)`."""
_SAME = {"≈": "~", "~=": "~", "≥": ">=", "≤": "<=", "×": "*", "÷": "/"}
_COMPARISONS = (">", "<", ">=", "<=", "==", "!=", "~")


class Token(NamedTuple):
    kind: Literal["number", "size", "name", "call", "op"]
    text: str
    """Of a number with its unit, `4 KiB`; of a call the function."""


class Side(NamedTuple):
    """Arithmetic: all of an expression, or what stands before or after its comparison."""

    tokens: tuple[Token, ...]
    tree: ast.expr
    """With the places of tokens instead of numbers and names: `_0 * _2`."""


class Expression(NamedTuple):
    sides: tuple[Side, ...]
    comparison: str = ""

    @property
    def tokens(self) -> list[Token]:
        return [token for side in self.sides for token in side.tokens]

    @property
    def kind(self) -> str:
        """`number` or `name` if it is only that."""
        first, *more = self.tokens
        return "" if more else first.kind

    @property
    def text(self) -> str:
        """Of a number or a name."""
        return self.tokens[0].text


def parse(text: str) -> Expression:
    """Raises ValueProblem."""
    tokens = list(_tokens(text.rstrip())) if len(text) <= _LONGEST_EXPRESSION else []
    if len(text) > _LONGEST_EXPRESSION or len(tokens) > _MOST_TOKENS:
        raise ValueProblem("it is too long")
    _check_order(tokens)
    at = next((n for n, token in enumerate(tokens) if token.text in _COMPARISONS), None)
    if at is None:
        return Expression((_side(tokens),))
    return Expression((_side(tokens[:at]), _side(tokens[at + 1 :])), tokens[at].text)


def _tokens(text: str) -> Iterator[Token]:
    place = depth = 0
    while place < len(text):
        match = (_TOKEN_IN_BRACKETS if depth else _TOKEN).match(text, place)
        if match is None:
            raise ValueProblem(f"`{text[place : place + 20].strip()}` cannot be read")
        kind, token = next((k, match[k]) for k in ("number", "size", "name", "op") if match[k])
        depth += token == "(" or bool(match["call"])
        depth -= token == ")"
        unit = f" {match['unit']}" if match["unit"] else ""
        yield Token("call" if match["call"] else kind, _SAME.get(token, token) + unit)  # type: ignore[arg-type]
        place = match.end()


def _check_order(tokens: Iterable[Token]) -> None:
    """Values and operators take turns, and brackets are closed: then Python can parse it."""
    open_brackets: list[str] = []
    is_value_next, compares = True, False
    for kind, text in tokens:
        if is_value_next:
            fits = kind != "op" or text in ("(", "-")
            is_value_next = kind in ("call", "op")
            open_brackets += [kind] if kind == "call" or text == "(" else []
        elif text == ")":
            fits = bool(open_brackets and open_brackets.pop())
        elif text in _COMPARISONS:
            fits = not open_brackets and not compares
            is_value_next = compares = True
        else:
            fits = kind == "op" and text != "(" and (text != "," or open_brackets[-1:] == ["call"])
            is_value_next = True
        if not fits:
            raise ValueProblem(f"`{text}` is not expected there")
        if len(open_brackets) > _DEEPEST_NESTING:
            raise ValueProblem("it is nested too deeply")
    if is_value_next:
        raise ValueProblem("it ends too early")
    if open_brackets:
        raise ValueProblem("a closing bracket is missing")


def _side(tokens: Sequence[Token]) -> Side:
    written = (
        token.text if token.kind == "op" else f"_{n}(" if token.kind == "call" else f"_{n}"
        for n, token in enumerate(tokens)
    )
    return Side(tuple(tokens), ast.parse(" ".join(written), mode="eval").body)


# --- values of names

ABOUT = 0.1
"""Relative difference up to which two numbers are about the same (`~`); assumed."""
_EQUAL = 0.005
"""Relative difference up to which they are equal: printed numbers are rounded."""
_SIZES = {**SIZES, "bfloat16": 2, "long": 8}


class NamedValue(NamedTuple):
    """The number that a name stands for."""

    value: UnitValue
    label: str
    """`L2 hit rate`; a constant of the source: its name."""
    shown: str
    """The value as printed."""
    ids: tuple[str, ...] = ()
    """Evidence; empty for facts of the source, the launch or the device."""
    where: str = ""
    """`flip.cu:31`, where the number belongs to one line."""


Lookup = Callable[[str], NamedValue]
"""Raises ValueProblem for an unknown name."""


class EvaluatedExpression(NamedTuple):
    """An expression with its value."""

    text: str
    """With labels and values, and the result."""
    value: UnitValue
    names: tuple[NamedValue, ...]
    is_comparison: bool = False
    is_true: bool = True
    alone: str = ""
    """For arithmetic: the result without the computation."""


def evaluate(expression: Expression, lookup: Lookup) -> EvaluatedExpression:
    """Raises ValueProblem."""
    names = tuple(lookup(token.text) for token in expression.tokens if token.kind == "name")
    values = [_value(side, lookup) for side in expression.sides]
    texts = [_shown(side.tokens, lookup) for side in expression.sides]
    if not expression.comparison:
        (value,), (text,) = values, texts
        if expression.kind in ("name", "number"):
            return EvaluatedExpression(text, value, names)
        # The sentence uses the result; the computation follows in brackets.
        alone = value_text(value)
        return EvaluatedExpression(f"{alone} ({text})", value, names, alone=alone)
    for at, (mine, other) in enumerate((values, values[::-1])):
        # `{l2_busy > 80}` compares with 80 %, and says so.
        is_number = [token.kind for token in expression.sides[at].tokens] == ["number"]
        texts[at] += "%" if is_number and mine.is_bare and other.is_percent else ""
    text = f" {_sign(expression.comparison)} ".join(texts)
    is_true = _holds(expression.comparison, *alike(*values))
    return EvaluatedExpression(text, values[0], names, is_comparison=True, is_true=is_true)


def constants_of(expression: Expression) -> Iterator[float]:
    """Numbers that are written out, without their units: 4 of `4 KiB`."""
    return (_number(token.text) for token in expression.tokens if token.kind == "number")


def has_influence(
    expression: Expression, lookup: Lookup, counts: Callable[[NamedValue], bool] = lambda _: True
) -> bool:
    """Whether the result depends on the values of its names: `x * 0 + 12` and `82 * x / x` do not.
    Found by trying other values; equal values are changed equally, because a report often has the
    same number under several names. `counts`: whether a name is one of those that matter."""
    outcomes = {_outcome(expression, _varied(lookup, counts, salt)) for salt in range(4)}
    return len(outcomes) > 1


def is_telling(expression: Expression, lookup: Lookup) -> bool:
    """Whether a comparison would be false if one of its numbers were ten times larger or smaller:
    `grid_size > 0` says nothing about a grid."""

    def scaled(name: str, factor: float) -> Lookup:
        def looked_up(other: str) -> NamedValue:
            known = lookup(other)
            value = known.value._replace(number=known.value.number * factor)
            return known._replace(value=value) if other == name else known

        return looked_up

    names = {token.text for token in expression.tokens if token.kind == "name"}
    others = [scaled(name, factor) for name in names for factor in (0.1, 10.0)]
    return any(not evaluate(expression, other).is_true for other in others)


def _varied(lookup: Lookup, counts: Callable[[NamedValue], bool], salt: int) -> Lookup:
    def varied(name: str) -> NamedValue:
        named = lookup(name)
        if not counts(named):
            return named
        number = named.value.number
        same = number if named.ids else name  # constants are not names of evidence
        factor = Random(f"{same} {salt}").uniform(0.1, 10.0)
        return named._replace(value=named.value._replace(number=(number or 1.0) * factor))

    return varied


def _outcome(expression: Expression, lookup: Lookup) -> str:
    """Two digits: smaller changes do not count. For a comparison: the ratio of its sides."""
    try:
        numbers = [_value(side, lookup).number for side in expression.sides]
    except ValueProblem as problem:
        return str(problem)
    if len(numbers) == 1:
        return f"{numbers[0]:.2g}"
    return f"{numbers[0] / numbers[1]:.2g}" if numbers[1] else f"{numbers[0]:.2g} to 0"


# --- evaluation


_OPERATIONS: Mapping[type[ast.operator], Callable[[UnitValue, UnitValue], UnitValue]] = {
    ast.Add: add,
    ast.Sub: lambda one, other: add(one, other, -1),
    ast.Mult: product,
    ast.Div: lambda one, other: product(one, other, -1),
    ast.Pow: power,
    ast.LShift: lambda one, other: product(one, power(bare(2), other)),
}


def _value(side: Side, lookup: Lookup) -> UnitValue:
    def value(node: ast.expr) -> UnitValue:
        match node:
            case ast.BinOp(left, operator, right):
                return _OPERATIONS[type(operator)](value(left), value(right))
            case ast.UnaryOp(operand=operand):
                positive = value(operand)
                return positive._replace(number=-positive.number)
            case ast.Call(ast.Name(place), arguments):
                return _called(side.tokens[int(place[1:])].text, [*map(value, arguments)])
            case ast.Name(place):
                kind, text = side.tokens[int(place[1:])]
                if kind == "name":
                    return lookup(text).value
                if kind == "number":
                    return _literal(text)
                name = text.partition("(")[2].removesuffix(")").strip()
                if name not in _SIZES:
                    raise ValueProblem(f"the size of `{name}` is not known; give it in B")
                return value_of(_SIZES[name], "byte")
        raise AssertionError(ast.dump(node))

    return value(side.tree)


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
}


def _called(name: str, parts: list[UnitValue]) -> UnitValue:
    if name in ("min", "max"):
        result = parts[0]
        for other in parts[1:]:
            one, two = _same_things(result, other)
            result = one if (one.number <= two.number) == (name == "min") else two
        return result
    if name == "abs" and len(parts) == 1:
        return parts[0]._replace(number=abs(parts[0].number))
    function = _FUNCTIONS.get(name)
    if function is None or len(parts) != 1:
        raise ValueProblem(f"there is no function `{name}`; use min, max, ceil or sizeof")
    if parts[0].has_dimension or parts[0].is_percent:
        # Rounded up to whole seconds or to all of 100 %, the result would say something else.
        raise ValueProblem(f"{name} takes a plain number, not {unit_name(parts[0])}")
    try:
        return parts[0]._replace(number=float(function(parts[0].number)))
    except (ValueError, OverflowError):
        raise ValueProblem(f"{name} of that has no value") from None


def _number(text: str) -> float:
    digits = text.partition(" ")[0].replace(",", "").replace("_", "")
    try:
        return float(int(digits, 16)) if digits[:2].lower() == "0x" else float(digits)
    except OverflowError:
        raise ValueProblem("it is too large") from None


def _literal(text: str) -> UnitValue:
    number, _, unit = text.partition(" ")
    if not unit:
        return bare(_number(number))
    if unit in _BINARY:
        return checked(value_of(_number(number) * _BINARY[unit], "byte"))
    return checked(value_of(_number(number), UNITS.get(unit, unit)))


def _holds(operator: str, left: UnitValue, right: UnitValue) -> bool:
    """Differences are relative to the larger number, because printed numbers are rounded."""
    a, b = left.number, right.number
    difference = abs(a - b) / max(abs(a), abs(b), 1e-300)
    if operator == "~":
        return difference <= ABOUT
    if operator in ("==", "!="):
        return (difference <= _EQUAL) == (operator == "==")
    if operator in (">=", "<="):
        return difference <= _EQUAL or (a > b if operator == ">=" else a < b)
    return a > b if operator == ">" else a < b


# --- as text


def _shown(tokens: Sequence[Token], lookup: Lookup) -> str:
    """With labels and values of names, and spaces around operators."""
    shown = ""
    for kind, text in tokens:
        if kind == "number":  # long ones with separators
            number, _, unit = text.partition(" ")
            value = _number(number)
            digits = f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else number
            shown += f"{digits}%" if unit == "%" else f"{digits} {unit}".rstrip()
        elif kind == "name":
            named = lookup(text)
            shown += f"{named.label} {named.shown}{f' at {named.where}' if named.where else ''}"
        elif kind != "op" or text in ("(", ")"):
            shown += text + "(" * (kind == "call")
        elif text == ",":
            shown += ", "
        else:
            is_sign = not shown or shown[-1] in "( -"
            shown += text if is_sign else f" {_sign(text)} "
    return shown


def _sign(operator: str) -> str:
    signs = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠", "~": "≈", "*": "×", "**": "^"}
    return signs.get(operator, operator)
