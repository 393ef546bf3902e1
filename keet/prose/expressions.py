"""Expressions over named numbers: `dram_bytes / (N * 4 B)`, `l2_busy > 2 * dram_busy`.

Names are looked up by the caller. An expression is parsed once into a tree, which is evaluated with
units and printed with the label and value of each name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from keet.prose import values
from keet.prose.values import UnitValue, ValueProblem

# --- parsing

LONGEST = 300
"""Characters of an expression."""
_DEEPEST = 20
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
COMPARISONS = (">", "<", ">=", "<=", "==", "!=", "~")
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
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Node(NamedTuple):
    """One operation, name or number of an expression."""

    kind: str
    """`number`, `name`, `call`, or the operator."""
    text: str = ""
    parts: tuple[Node, ...] = ()


def parse(text: str) -> Node:
    """Raises ValueProblem."""
    tokens = list(_tokens(text)) if len(text) <= LONGEST else []
    if len(text) > LONGEST or len(tokens) > _MOST_TOKENS:
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
        if (operator := self._next()) in COMPARISONS:
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
        if self._depth > _DEEPEST:
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
        if unit == "%" or unit in UNITS or unit in BINARY:
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

_SHOWN = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠", "~": "≈", "*": "×", "**": "^"}
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
    if node.kind in COMPARISONS:
        left, right = (_value(part, lookup) for part in node.parts)
        true = _holds(node.kind, *values.alike(left, right))
        text = _shown(_with_percent(node, left, right), lookup)
        return EvaluatedExpression(text, left, names, is_comparison=True, is_true=true)
    value = _value(node, lookup)
    if node.kind in ("name", "number"):
        return EvaluatedExpression(_shown(node, lookup), value, names)
    # The sentence uses the result; the computation follows in brackets.
    alone = values.value_text(value)
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


def has_influence(node: Node, lookup: Lookup) -> bool:
    """Whether the result depends on the values of its names: `x * 0 + 12` and `82 * x / x` do not.
    Found by trying other values; equal values are changed equally, because a report often has the
    same number under several names."""
    outcomes = {_outcome(node, _varied(lookup, salt)) for salt in range(4)}
    return len(outcomes) > 1


def _varied(lookup: Lookup, salt: int) -> Lookup:
    def varied(name: str) -> NamedValue:
        named = lookup(name)
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
    return node.parts if node.kind in COMPARISONS else (node,)


# --- evaluation


def _names(node: Node, lookup: Lookup) -> Iterator[NamedValue]:
    if node.kind == "name":
        yield lookup(node.text)
    if not (node.kind == "call" and node.text == "sizeof"):
        for part in node.parts:
            yield from _names(part, lookup)


_OPERATIONS: Mapping[str, Callable[[UnitValue, UnitValue], UnitValue]] = {
    "+": values.add,
    "-": lambda one, other: values.add(one, other, -1),
    "*": values.multiply,
    "/": values.divide,
    "**": values.power,
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
        return values.multiply(parts[0], values.power(values.bare(2), parts[1]))
    operation = _OPERATIONS.get(kind)
    if operation is None:
        raise ValueProblem("a comparison has no value; use it on its own")
    return operation(*parts)


def _size(parts: tuple[Node, ...]) -> UnitValue:
    size = _SIZES.get(parts[0].text)
    if size is None or len(parts) > 1:
        raise ValueProblem(f"the size of `{parts[0].text}` is not known; give it in B")
    return values.value_of(size, "byte")


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
        raise ValueProblem(f"{name} takes a plain number, not {values.unit_name(parts[0])}")
    try:
        return parts[0]._replace(number=float(function(parts[0].number)))
    except (ValueError, OverflowError):
        raise ValueProblem(f"{name} of that has no value") from None


def _extreme(name: str, parts: list[UnitValue]) -> UnitValue:
    found = parts[0]
    for other in parts[1:]:
        one, two = values.same_things(found, other)
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
        return values.bare(_number(number))
    if unit in BINARY:
        return values.checked(values.value_of(_number(number) * BINARY[unit], "byte"))
    return values.checked(values.value_of(_number(number), UNITS.get(unit, unit)))


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
    return f"{parts[0]} {_SHOWN.get(node.kind, node.kind)} {parts[1]}"


def _shown_number(text: str) -> str:
    """`4 B` as it stands, long ones with separators."""
    number, _, unit = text.partition(" ")
    value = _number(number)
    digits = f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else number
    return f"{digits}%" if unit == "%" else f"{digits} {unit}".rstrip()
