"""Expressions over named numbers: `dram_bytes / (N * 4 B)`, `l2_busy > 2 * dram_busy`.

Names are looked up by the caller. An expression is parsed once into a tree, which is evaluated with
units and printed with the label and value of each name: bytes / bytes is a ratio, bytes + time is
an error.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from keet.units import Quantity, base_unit, format_number, parse_unit, symbol

_DIMENSIONS: Mapping[str, tuple[Mapping[str, int], float]] = {
    "byte": ({"byte": 1}, 1.0),
    "bit": ({"byte": 1}, 0.125),
    "s": ({"s": 1}, 1.0),
    "cycle": ({"cycle": 1}, 1.0),
    "hz": ({"cycle": 1, "s": -1}, 1.0),
}
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
    dimensions: Counter[str] = Counter()
    things: Counter[str] = Counter()
    scale = float(10.0**parsed.power)
    for place, part in enumerate(parsed.kind.split("/")):
        sign = 1 if place == 0 else -1
        if part not in _DIMENSIONS:
            things[part] += sign
            continue
        powers, factor = _DIMENSIONS[part]
        scale *= factor**sign
        for name, power in powers.items():
            dimensions[name] += sign * power
    for plain in ("", "x", "1"):
        del things[plain]
    things["wavefront"] += things.pop("conflict", 0)  # a bank conflict is one more wavefront
    return UnitValue(number * scale, _powers(dimensions), _powers(things))


def _powers(found: Mapping[str, int]) -> Powers:
    return tuple(sorted((name, power) for name, power in found.items() if power))


def bare(number: float) -> UnitValue:
    """Raises ValueProblem for numbers that no report can contain."""
    return checked(UnitValue(number, is_bare=True))


def add(one: UnitValue, other: UnitValue, sign: int = 1) -> UnitValue:
    if sign < 0 and one.is_bare and one.number == 1 and other.is_percent:
        one = value_of(100, "%")  # the 1 in `1 - hit_rate` is 100 %, not 1 %
    one, other = _same_things(one, other)
    kept = one if one.has_dimension or one.things or one.is_percent else other
    return checked(
        kept._replace(number=one.number + sign * other.number, is_bare=_bare(one, other))
    )


def _same_things(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Raises ValueProblem if the values count different things."""
    if one.things and other.things and one.things != other.things:
        raise ValueProblem(f"{unit_name(one)} and {unit_name(other)} are different units")
    return alike(one, other)


def multiply(one: UnitValue, other: UnitValue) -> UnitValue:
    return _product(one, other, 1)


def divide(one: UnitValue, other: UnitValue) -> UnitValue:
    if not other.number:
        raise ValueProblem("it divides by zero")
    return _product(one, other, -1)


def power(one: UnitValue, other: UnitValue) -> UnitValue:
    if other.has_dimension or one.has_dimension or one.is_percent:
        raise ValueProblem("only plain numbers are raised to a power")
    try:
        raised = one.number**other.number
    except (OverflowError, ZeroDivisionError):
        raise ValueProblem("it is too large") from None
    if isinstance(raised, complex):
        raise ValueProblem("it is not a real number")
    return checked(UnitValue(raised, is_bare=_bare(one, other)))


def alike(one: UnitValue, other: UnitValue) -> tuple[UnitValue, UnitValue]:
    """Both in the same unit. A number without a unit takes the other's unit, except for bytes and
    time, where that would be a guess."""
    if one.is_bare and other.is_percent:
        return one._replace(number=one.number / 100, is_percent=True), other
    if other.is_bare and one.is_percent:
        return one, other._replace(number=other.number / 100, is_percent=True)
    shares = one.is_percent != other.is_percent and (one.things or other.things)
    if one.dimensions != other.dimensions or shares:
        raise ValueProblem(
            f"{unit_name(one)} and {unit_name(other)} are different units{_unit_hint(one, other)}"
        )
    return one, other


def _unit_hint(one: UnitValue, other: UnitValue) -> str:
    if not (one.is_bare or other.is_bare):
        return ""
    want = unit_name(other if one.is_bare else one)
    examples = {"B": "4 B", "s": "5 us", "B/s": "2 GB/s"}
    return f"; give the number a unit, as in {examples[want]}" if want in examples else ""


def _product(one: UnitValue, other: UnitValue, sign: int) -> UnitValue:
    dimensions = _combined(one.dimensions, other.dimensions, sign)
    if any(abs(degree) > _DEGREE for _, degree in dimensions):
        raise ValueProblem("its unit makes no sense")
    things = _combined(one.things, other.things, sign)
    if sign > 0 and one.has_dimension != other.has_dimension:
        # Sectors times bytes are bytes: the bytes are per sector.
        counted, amount = (other, one) if one.has_dimension else (one, other)
        things = things if amount.things else _combined(things, _over(counted.things), -1)
    number = one.number * other.number if sign > 0 else one.number / other.number
    percent = not (dimensions or things) and _is_share(one, other, sign)
    return checked(UnitValue(number, dimensions, things, percent, _bare(one, other)))


def _is_share(one: UnitValue, other: UnitValue, sign: int) -> bool:
    """Twice a share, half a share and a share of a share are shares."""
    return (one.is_percent and (sign > 0 or not other.is_percent)) or (
        sign > 0 and other.is_percent and not one.is_percent
    )


def _combined(one: Powers, other: Powers, sign: int) -> Powers:
    found = Counter(dict(one))
    for name, degree in other:
        found[name] += sign * degree
    return _powers(found)


def _bare(one: UnitValue, other: UnitValue) -> bool:
    return one.is_bare and other.is_bare


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
        return f"{_digits(100 * value.number, 1)}%"
    unit = _unit(value)
    if not unit:
        return format_number(round(value.number, 6))
    return str(Quantity(value.number, unit).to_base())


def _digits(number: float, places: int) -> str:
    if number and abs(number) < 0.05:
        return format_number(number)
    return f"{number:,.{places}f}"


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


def _over(powers: Powers) -> Powers:
    return tuple((name, degree) for name, degree in powers if degree > 0)


def _split(powers: Powers) -> tuple[list[str], list[str]]:
    over = [name for name, degree in powers for _ in range(degree)]
    return over, [name for name, degree in powers for _ in range(-degree)]


# --- parsing

_LONGEST_EXPRESSION = 300
"""Characters of an expression."""
_DEEPEST_NESTING = 20
_MOST_TOKENS = 100
_LINE = (
    r"@(?:[\w./+-]+:\d+(?:\.\.[\w./+-]+(?::\d+)?)?"  # one line, or one before and one after
    r"|(?:fn\d+\+)?0x[0-9a-fA-F]+|\w+)"  # an instruction; no line
)
_NAME = rf"[A-Za-z_]\w*(?:[.]\w+)*(?:{_LINE})?(?:#[\w.]+(?:-\d+(?:\.\d+)?)?)?"
_NUMBER = r"0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_THOUSANDS = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|"
_REST = (
    rf"{_NUMBER})|(?P<name>{_NAME})"
    r"|(?P<op><<|>=|<=|==|!=|~=|\*\*|[-+*/()<>~≈≥≤×÷%,]))"
)
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_THOUSANDS}{_REST}", re.ASCII)
_TOKEN_IN_BRACKETS = re.compile(rf"\s*(?:(?P<number>{_REST}", re.ASCII)
"""Inside calls, a comma separates arguments: `min(16,128)`."""
_SAME = {"≈": "~", "~=": "~", "≥": ">=", "≤": "<=", "×": "*", "÷": "/"}
_BINDS = {"<<": 0, "+": 1, "-": 1, "*": 2, "/": 2}
_COMPARISONS = (">", "<", ">=", "<=", "==", "!=", "~")
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


class Node(NamedTuple):
    """One operation, name or number of an expression."""

    kind: str
    """`number`, `name`, `call`, or the operator."""
    text: str = ""
    parts: tuple[Node, ...] = ()


def parse(text: str) -> Node:
    """Raises ValueProblem."""
    tokens = list(_tokens(text)) if len(text) <= _LONGEST_EXPRESSION else []
    if len(text) > _LONGEST_EXPRESSION or len(tokens) > _MOST_TOKENS:
        raise ValueProblem("it is too long")
    return _Parser(tokens).whole()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = depth = 0
    text = text.rstrip()
    while place < len(text):
        match = (_TOKEN_IN_BRACKETS if depth else _TOKEN).match(text, place)
        if match is None:
            raise ValueProblem(f"`{text[place : place + 20].strip()}` cannot be read")
        kind = str(match.lastgroup)
        found = match[kind]
        depth += (found == "(") - (found == ")")
        yield kind, _SAME.get(found, found)
        place = match.end()


class _Parser:
    """Recursive descent, with the precedence of Python."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    def whole(self) -> Node:
        left = self._binary()
        if (operator := self._next()) in _COMPARISONS:
            self._at += 1
            left = Node(operator, "", (left, self._binary()))
        if self._at < len(self._tokens):
            raise ValueProblem(f"`{self._tokens[self._at][1]}` is not expected there")
        return left

    def _binary(self, least: int = 0) -> Node:
        """Of operators that bind at least that tightly."""
        left = self._signed()
        while (binds := _BINDS.get(operator := self._next(), -1)) >= least:
            self._at += 1
            left = Node(operator, "", (left, self._binary(binds + 1)))
        return left

    def _signed(self) -> Node:
        if self._next() == "-":
            self._at += 1
            return Node("negative", "", (self._deeper(self._signed),))
        base = self._atom()
        if self._next() == "**":
            self._at += 1
            return Node("**", "", (base, self._deeper(self._signed)))
        return base

    def _deeper(self, inner: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            raise ValueProblem("it is nested too deeply")
        found = inner()
        self._depth -= 1
        return found

    def _atom(self) -> Node:
        kind, text = self._take()
        if kind == "number":
            return self._with_unit(text)
        if kind == "name":
            return self._call(text) if self._next() == "(" else Node("name", text)
        if text != "(":
            raise ValueProblem(f"`{text}` is not expected there")
        inner = self._deeper(self._binary)
        self._close()
        return Node("()", "", (inner,))

    def _with_unit(self, text: str) -> Node:
        unit = self._next()
        if unit == "%" or unit in UNITS or unit in _BINARY:
            self._at += 1
            return Node("number", f"{text} {unit}")
        return Node("number", text)

    def _call(self, name: str) -> Node:
        self._at += 1
        parts = [self._deeper(self._binary)]
        while self._next() == ",":
            self._at += 1
            parts.append(self._deeper(self._binary))
        self._close()
        return Node("call", name, tuple(parts))

    def _close(self) -> None:
        if self._next() != ")":
            raise ValueProblem("a closing bracket is missing")
        self._at += 1

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ValueProblem("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]


# --- values of names

_SHOWN_OPERATORS = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠", "~": "≈", "*": "×", "**": "^"}
ABOUT = 0.1
"""Relative difference up to which two numbers are about the same (`~`); assumed."""
_EQUAL = 0.005
"""Relative difference up to which they are equal: printed numbers are rounded."""
_SIZES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "half": 2, "__half": 2, "short": 2,
    "bfloat16": 2, "float": 4, "int": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "float2": 8,
    "half2": 4, "__half2": 4, "__nv_bfloat16": 2, "float3": 12, "uint2": 8,
    "uint4": 16, "uchar4": 4,
    "double": 8, "long": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8, "int2": 8, "double2": 16,
    "float4": 16, "int4": 16,
}  # fmt: skip


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


def evaluate(node: Node, lookup: Lookup) -> EvaluatedExpression:
    """Raises ValueProblem."""
    names = tuple(_names(node, lookup))
    if node.kind in _COMPARISONS:
        left, right = (_value(part, lookup) for part in node.parts)
        true = _holds(node.kind, *alike(left, right))
        text = _shown(_with_percent(node, left, right), lookup)
        return EvaluatedExpression(text, left, names, is_comparison=True, is_true=true)
    value = _value(node, lookup)
    if node.kind in ("name", "number"):
        return EvaluatedExpression(_shown(node, lookup), value, names)
    # The sentence uses the result; the computation follows in brackets.
    alone = value_text(value)
    return EvaluatedExpression(f"{alone} ({_shown(node, lookup)})", value, names, alone=alone)


def _with_percent(node: Node, left: UnitValue, right: UnitValue) -> Node:
    """`{l2_busy > 80}` compares with 80 %, and says so."""
    parts = [
        Node("number", f"{part.text} %")
        if part.kind == "number" and mine.is_bare and other.is_percent
        else part
        for part, mine, other in zip(node.parts, (left, right), (right, left))
    ]
    return node._replace(parts=tuple(parts))


def constants_of(node: Node) -> Iterator[float]:
    """Numbers that are written out, without their units: 4 of `4 KiB`."""
    if node.kind == "number":
        yield _number(node.text)
    for part in node.parts:
        yield from constants_of(part)


def has_influence(
    node: Node, lookup: Lookup, counts: Callable[[NamedValue], bool] = lambda _: True
) -> bool:
    """Whether the result depends on the values of its names: `x * 0 + 12` and `82 * x / x` do not.
    Found by trying other values; equal values are changed equally, because a report often has the
    same number under several names. `counts`: whether a name is one of those that matter."""
    outcomes = {_outcome(node, _varied(lookup, counts, salt)) for salt in range(4)}
    return len(outcomes) > 1


def is_telling(node: Node, lookup: Lookup) -> bool:
    """Whether a comparison would be false if one of its numbers were ten times larger or smaller:
    `grid_size > 0` says nothing about a grid."""

    def scaled(name: str, factor: float) -> Lookup:
        def found(other: str) -> NamedValue:
            known = lookup(other)
            value = known.value._replace(number=known.value.number * factor)
            return known._replace(value=value) if other == name else known

        return found

    names = {part.text for part in _every(node) if part.kind == "name"}
    others = [scaled(name, factor) for name in names for factor in (0.1, 10.0)]
    return any(not evaluate(node, other).is_true for other in others)


def _every(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from _every(part)


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


def _outcome(node: Node, lookup: Lookup) -> str:
    """Two digits: smaller changes do not count. For a comparison: the ratio of its sides."""
    try:
        numbers = [_value(part, lookup).number for part in _sides(node)]
    except ValueProblem as problem:
        return str(problem)
    if len(numbers) == 1:
        return f"{numbers[0]:.2g}"
    return f"{numbers[0] / numbers[1]:.2g}" if numbers[1] else f"{numbers[0]:.2g} to 0"


def _sides(node: Node) -> tuple[Node, ...]:
    return node.parts if node.kind in _COMPARISONS else (node,)


# --- evaluation


def _names(node: Node, lookup: Lookup) -> Iterator[NamedValue]:
    if node.kind == "name":
        yield lookup(node.text)
    if not (node.kind == "call" and node.text == "sizeof"):
        for part in node.parts:
            yield from _names(part, lookup)


_OPERATIONS: Mapping[str, Callable[[UnitValue, UnitValue], UnitValue]] = {
    "+": add,
    "-": lambda one, other: add(one, other, -1),
    "*": multiply,
    "/": divide,
    "**": power,
}


def _value(node: Node, lookup: Lookup) -> UnitValue:
    if node.kind == "number":
        return _literal(node.text)
    if node.kind == "name":
        return lookup(node.text).value
    if node.kind == "call" and node.text == "sizeof":
        return _size(node.parts)
    parts = [_value(part, lookup) for part in node.parts]
    return _called(node.text, parts) if node.kind == "call" else _computed(node.kind, parts)


def _computed(kind: str, parts: list[UnitValue]) -> UnitValue:
    if kind == "()":
        return parts[0]
    if kind == "negative":
        return parts[0]._replace(number=-parts[0].number)
    if kind == "<<":
        return multiply(parts[0], power(bare(2), parts[1]))
    operation = _OPERATIONS.get(kind)
    if operation is None:
        raise ValueProblem("a comparison has no value; use it on its own")
    return operation(*parts)


def _size(parts: tuple[Node, ...]) -> UnitValue:
    size = _SIZES.get(parts[0].text)
    if size is None or len(parts) > 1:
        raise ValueProblem(f"the size of `{parts[0].text}` is not known; give it in B")
    return value_of(size, "byte")


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
}


def _called(name: str, parts: list[UnitValue]) -> UnitValue:
    if name in ("min", "max"):
        return _extreme(name, parts)
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


def _extreme(name: str, parts: list[UnitValue]) -> UnitValue:
    found = parts[0]
    for other in parts[1:]:
        one, two = _same_things(found, other)
        found = one if (one.number <= two.number) == (name == "min") else two
    return found


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


def _shown(node: Node, lookup: Lookup) -> str:
    if node.kind == "number":
        return _shown_number(node.text)
    if node.kind == "name":
        named = lookup(node.text)
        place = f" at {named.where}" if named.where else ""
        return f"{named.label} {named.shown}{place}"
    if node.kind == "call" and node.text == "sizeof":
        return f"sizeof({node.parts[0].text})"
    return _joined(node, [_shown(part, lookup) for part in node.parts])


def _joined(node: Node, parts: list[str]) -> str:
    if node.kind == "call":
        return f"{node.text}({', '.join(parts)})"
    if node.kind == "()":
        return f"({parts[0]})"
    if node.kind == "negative":
        return f"-{parts[0]}"
    return f"{parts[0]} {_SHOWN_OPERATORS.get(node.kind, node.kind)} {parts[1]}"


def _shown_number(text: str) -> str:
    """`4 B` as it stands, long ones with separators."""
    number, _, unit = text.partition(" ")
    value = _number(number)
    digits = f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else number
    return f"{digits}%" if unit == "%" else f"{digits} {unit}".rstrip()
