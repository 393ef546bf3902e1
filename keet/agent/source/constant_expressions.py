"""Evaluates constant expressions of C++ and Python from their tokens, with the sizes of types.

Only sizes that are the same on every CUDA platform are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from keet.agent.source.code_parts import Token, after_angles, closing, split_commas, written
from keet.agent.source.cpp import declarators

Number = int | float

_LARGEST_VALUE = 2**64
_DEEPEST_NESTING = 60
_MOST_TOKENS = 400
_MOST_STEPS = 5000
"""Per expression: limits macros that expand to each other."""


class NotConstantError(Exception):
    """The expression has no value that the source alone determines; the message says why."""


class MacroFunction(NamedTuple):
    """A macro with parameters, or a function of one `return`."""

    parameters: Sequence[str]
    body: Sequence[Token]


class Scope(NamedTuple):
    names: Mapping[str, Number]
    sizes: Mapping[str, int]
    """Bytes of types that the source names."""
    macros: Mapping[str, MacroFunction]
    python: bool = False


def number_of(text: str) -> Number | None:
    """The value of a literal; None for one that keet does not read."""
    plain = re.sub(r"['_]", "", text).lower()
    try:
        if plain.startswith(("0x", "0b")):
            return (
                int(plain.rstrip("ulz"), 0) if len(plain) <= 20 + 50 * (plain[1] == "b") else None
            )
        if re.fullmatch(r"\d{1,20}[ulz]*", plain):
            digits = plain.rstrip("ulz")
            octal = digits.startswith("0") and len(digits) > 1 and digits.isdigit()
            return int(digits, 8) if octal else int(digits)
        value = float(re.sub(r"[fl]$", "", plain)) if len(plain) <= 40 else math.inf
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def evaluate(tokens: Sequence[Token], scope: Scope) -> Number:
    """Raises `NotConstantError`."""
    if len(tokens) > _MOST_TOKENS:
        raise NotConstantError("it is too long to be computed")
    return _Evaluator(scope).value_of(tokens)


_BINARY: dict[str, int] = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    ">": 7,
    "<=": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
    "//": 10,
    "**": 12,
}
_COMPARED: dict[str, Callable[[Number, Number], Number]] = {
    "||": lambda a, b: int(bool(a) or bool(b)),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << min(b, 64),
    ">>": lambda a, b: a >> min(b, 64),
    "//": lambda a, b: a // b,
}
_CALLS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << max(int(n) - 1, 0).bit_length(),
}
_CASTS = frozenset({"static_cast", "const_cast", "reinterpret_cast"})


class _Evaluator:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.steps = self.depth = self.casts = 0
        self.bound: list[Mapping[str, Number]] = []
        """Arguments of the macros that are being expanded."""

    def value_of(self, tokens: Sequence[Token]) -> Number:
        self.depth += 1
        if self.depth > _DEEPEST_NESTING:
            raise NotConstantError("it is nested too deeply")
        value, at = self._binary(tokens, 0, 0)
        if at < len(tokens) and tokens[at].text == "?":
            value, at = self._chosen(value, tokens, at)
        if at < len(tokens):
            raise self._refuse(tokens)
        self.depth -= 1
        return value

    def _chosen(self, condition: Number, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        colon = next((i for i in range(at, len(tokens)) if tokens[i].text == ":"), len(tokens))
        branch = tokens[at + 1 : colon] if condition else tokens[colon + 1 :]
        return self.value_of(branch), len(tokens)

    def _refuse(self, tokens: Sequence[Token]) -> NotConstantError:
        return NotConstantError(f"`{written(tokens[:24])[:80]}` is not a constant")

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise NotConstantError("it expands to too much")

    def _binary(self, tokens: Sequence[Token], at: int, least: int) -> tuple[Number, int]:
        """The operators that bind at least as tightly as `least`, from the left."""
        value, at = self._unary(tokens, at)
        while at < len(tokens) and (rank := _BINARY.get(tokens[at].text, -1)) >= max(least, 1):
            right, after = self._binary(tokens, at + 1, rank + 1)
            value = self._apply(tokens[at].text, value, right, tokens)
            at = after
        return value, at

    def _apply(self, sign: str, a: Number, b: Number, tokens: Sequence[Token]) -> Number:
        self._step()
        try:
            result = self._result(sign, a, b)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            raise self._refuse(tokens) from None
        if not math.isfinite(result) or abs(result) >= _LARGEST_VALUE:
            raise NotConstantError("its value is too large")
        return result

    def _result(self, sign: str, a: Number, b: Number) -> Number:
        if sign in _COMPARED:
            return _COMPARED[sign](a, b)
        if sign == "**":
            return a**b if isinstance(b, int) and 0 <= b <= 64 else math.inf
        whole = isinstance(a, int) and isinstance(b, int)
        if sign == "/":
            return a / b if self.scope.python or not whole else int(_truncated(a, b))
        if sign == "%":
            return a % b if self.scope.python or not whole else int(a - _truncated(a, b) * b)
        if not (isinstance(a, int) and isinstance(b, int)) or b < 0:
            raise ValueError
        return _OF_INTEGERS[sign](a, b)

    def _unary(self, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        self._step()
        self.casts += 1
        if self.casts > _DEEPEST_NESTING:
            raise NotConstantError("it is nested too deeply")
        signs: list[str] = []
        while at < len(tokens) and tokens[at].text in ("-", "+", "~", "!"):
            signs.append(tokens[at].text)
            at += 1
        value, at = self._primary(tokens, at)
        for sign in reversed(signs):
            value = self._signed(sign, value)
        self.casts -= 1
        return value, at

    def _signed(self, sign: str, value: Number) -> Number:
        if sign == "~":
            if not isinstance(value, int):
                raise NotConstantError("~ of a fraction")
            return ~value
        return {"-": -value, "+": value, "!": int(not value)}[sign]

    def _primary(self, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        if at >= len(tokens):
            raise self._refuse(tokens)
        token = tokens[at]
        if token.kind == "number":
            value = number_of(token.text)
            if value is None:
                raise self._refuse(tokens)
            return value, at + 1
        if token.text == "(":
            return self._parenthesis(tokens, at)
        if token.kind == "name":
            return self._named(tokens, at)
        raise self._refuse(tokens)

    def _parenthesis(self, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        end = closing(tokens, at)
        inner = tokens[at + 1 : end]
        if inner and self._is_type(inner) and end + 1 < len(tokens):
            value, after = self._unary(tokens, end + 1)
            return _converted(value, inner), after
        return self.value_of(inner), end + 1

    def _is_type(self, tokens: Sequence[Token]) -> bool:
        spelled = {token.text for token in tokens}
        if spelled in ({"long"}, {"unsigned", "long"}):
            return True
        return type_size(tokens, self.scope.sizes) is not None and "*" not in spelled

    def _named(self, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        while (
            at + 2 < len(tokens)
            and tokens[at + 1].text in ("::", ".")
            and self._qualifies(tokens, at)
        ):
            at += 2
        name = tokens[at].text
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if name == "sizeof":
            return self._size(tokens, at)
        if name in _CASTS and following == "<":
            end = after_angles(tokens, at + 1)
            kind = tokens[at + 2 : end - 1]
            value, after = self._primary(tokens, end)
            return _converted(value, kind), after
        if following == "(":
            end = closing(tokens, at + 1)
            return self._call(tokens[at : at + 1], tokens[at + 2 : end]), end + 1
        if following in (".", "->", "[", "<") and not self._compares(tokens, at):
            raise self._refuse(tokens)
        return self._lookup(name), at + 1

    def _qualifies(self, tokens: Sequence[Token], at: int) -> bool:
        """A namespace, or Python's module before a function that keet knows."""
        if tokens[at + 1].text == "::":
            return True
        return tokens[at].text in ("triton", "tl", "math") and tokens[at + 2].text in _CALLS

    def _compares(self, tokens: Sequence[Token], at: int) -> bool:
        return tokens[at + 1].text == "<"

    def _lookup(self, name: str) -> Number:
        for arguments in self.bound[-1:]:
            if name in arguments:
                return arguments[name]
        if name in ("true", "false", "True", "False"):
            return int(name.lower() == "true")
        if name not in self.scope.names:
            raise NotConstantError(f"`{name}` has no constant value")
        return self.scope.names[name]

    def _size(self, tokens: Sequence[Token], at: int) -> tuple[Number, int]:
        end = closing(tokens, at + 1) if at + 1 < len(tokens) else at
        size = type_size(tokens[at + 2 : end], self.scope.sizes) if end > at + 2 else None
        if size is None:
            raise NotConstantError(
                f"the size of `{written(tokens[at + 2 : end])[:40]}` is not known"
            )
        return size, end + 1

    def _call(self, name: Sequence[Token], inside: Sequence[Token]) -> Number:
        values = [self.value_of(argument) for argument in split_commas(inside)]
        if len(values) == 1 and self._is_type(name):
            return _converted(values[0], name)
        if name[0].text in _CALLS:
            try:
                return _CALLS[name[0].text](*values)
            except (TypeError, ZeroDivisionError, OverflowError):
                raise self._refuse(name) from None
        macro = self.scope.macros.get(name[0].text)
        if macro is None or len(macro.parameters) != len(values):
            raise NotConstantError(f"`{name[0].text}(...)` is not computed by keet")
        self.bound.append(dict(zip(macro.parameters, values)))
        value = self.value_of(macro.body)
        self.bound.pop()
        return value


def _truncated(a: Number, b: Number) -> Number:
    """Integer division as C does it: towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _converted(value: Number, kind: Sequence[Token]) -> Number:
    return float(value) if is_float_type(kind) else int(value)


_SIZES = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t", "uchar", "__nv_fp8_e4m3"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t", "ushort", "half", "__half", "char2"), 2),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "uchar2"), 2),
    **dict.fromkeys(("int", "unsigned", "float", "int32_t", "uint32_t", "uint", "char4"), 4),
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "uchar4", "short2", "ushort2"), 4),
    **dict.fromkeys(("double", "size_t", "int64_t", "uint64_t", "float2", "int2", "uint2"), 8),
    **dict.fromkeys(("ptrdiff_t", "uintptr_t", "ssize_t", "short4", "ushort4"), 8),
    **dict.fromkeys(("float3", "int3", "uint3", "dim3"), 12),
    **dict.fromkeys(("float4", "int4", "uint4", "double2", "longlong2", "ulonglong2"), 16),
    "double3": 24,
    "double4": 32,
}
_SPELLED = {"long long": 8, "unsigned long long": 8, "unsigned int": 4, "unsigned char": 1}
_SPELLED |= {"unsigned short": 2, "unsigned long long int": 8, "signed char": 1, "long long int": 8}
_FLOATS = frozenset({"float", "double", "half", "__half"})
_TYPE_FILLERS = frozenset({"const", "volatile", "signed", "std", "::", "struct", "typename", "tl"})


_SCALARS = frozenset(name for name in _SIZES if not re.search(r"\w[234]$", name))
_SCALARS |= {"long", "auto"}


def type_size(tokens: Sequence[Token], sizes: Mapping[str, int]) -> int | None:
    """Bytes of a type; None if CUDA platforms differ (`long`) or it is not known."""
    if any(token.text in ("*", "&") for token in tokens):
        return 8 if tokens[-1].text == "*" else None
    words = [token.text for token in tokens if token.text not in _TYPE_FILLERS]
    spelled = " ".join(words)
    if spelled in _SPELLED:
        return _SPELLED[spelled]
    if len(words) != 1:
        return None
    return sizes.get(words[0]) or _SIZES.get(words[0])


def is_float_type(tokens: Sequence[Token]) -> bool:
    return any(token.text in _FLOATS for token in tokens)


def is_integer_type(tokens: Sequence[Token]) -> bool:
    """Whether it is the type of an integer variable."""
    words = {token.text for token in tokens}
    if words & {"*", "&", "[", "<"} or words & _FLOATS:
        return False
    return bool(words & _SCALARS) and not words & {"half", "__half", "__nv_bfloat16", "dim3"}


def struct_size(tokens: Sequence[Token], sizes: Mapping[str, int]) -> int | None:
    """Bytes of a plain struct of members with known types; None for any other."""
    opened = next((at for at, token in enumerate(tokens) if token.text == "{"), None)
    if opened is None or [token.text for token in tokens[:opened]][:1] != ["struct"] or opened != 2:
        return None
    end = 0
    widest = 1
    for member in _members(tokens[opened + 1 : closing(tokens, opened)]):
        layout = _layout(member, sizes)
        if layout is None:
            return None
        for size, alignment in layout:
            end = -(-end // alignment) * alignment + size
            widest = max(widest, alignment)
    return -(-end // widest) * widest or None


def _members(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [member for member in found if member]


def _layout(member: Sequence[Token], sizes: Mapping[str, int]) -> list[tuple[int, int]] | None:
    """Size and alignment of each variable that a member declares."""
    if any(token.text in ("(", "{", ":", "static", "[", "&") for token in member):
        return None
    found: list[tuple[int, int]] = []
    for each in declarators(member):
        size = type_size(each.type, sizes)
        if size is None or (each.type and each.type[-1].text in sizes):
            return None  # a struct within a struct is aligned as its own members are
        found.append((size, _alignment(each.type, size)))
    return found or None


def _alignment(kind: Sequence[Token], size: int) -> int:
    """`float3` is aligned as `float`, `float4` as a whole."""
    return size // 3 if kind[-1].text.endswith("3") and size % 3 == 0 else min(size, 16)
