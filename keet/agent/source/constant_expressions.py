"""Values of constant expressions in C++, Python and Fortran: literals, arithmetic, casts, `sizeof`.

Only sizes that are the same on every CUDA platform are known.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Number = int | float

_LIMIT = 2**64
_LONGEST = 400
"""Characters of an expression."""
NUMBER = re.compile(
    r"(?<![\w.])(?:0[xX][0-9a-fA-F'_]+|0[bB][01'_]+|(?:\d[\d'_]*\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?)"
    r"(?:[uUlLzZfF]{0,3}|_\w+)(?![\w.])"
)
_TYPES_BY_SIZE = {
    1: "char bool int8_t uint8_t uchar __nv_fp8_e4m3",
    2: "short int16_t uint16_t ushort half __half __nv_bfloat16 nv_bfloat16 char2 uchar2",
    4: "int unsigned float int32_t uint32_t uint char4 uchar4 half2 __half2 __nv_bfloat162 short2",
    8: "double size_t int64_t uint64_t ptrdiff_t uintptr_t float2 int2 uint2 short4 ushort4",
    12: "float3 int3 uint3 dim3",
    16: "float4 int4 uint4 double2 longlong2 ulonglong2",
    32: "double4",
}
_SIZES = {name: size for size, names in _TYPES_BY_SIZE.items() for name in names.split()}
_FLOATS = frozenset({"float", "double", "half", "__half", "__nv_bfloat16", "nv_bfloat16"})
_SCALARS = frozenset(n for n in _SIZES if not re.search(r"[a-z0-9][234]$", n)) | {"long", "signed"}
_QUALIFIER = re.compile(
    r"\b(?:const(?:expr|init)?|static|inline|volatile|extern|struct|typename|std|__\w+__)\b|::"
)
_SCALAR = "|".join(sorted(_SCALARS))
_SIZEOF = re.compile(r"\bsizeof\s*\(([^()]*)\)")
_STATIC_CAST = re.compile(r"\bstatic_cast\s*<([^<>]*)>\s*(?=\()")
_BRACED = re.compile(rf"\b({_SCALAR})\s*\{{([^{{}}]*)\}}")
_C_CAST = re.compile(rf"\(\s*((?:(?:{_SCALAR})\s*)+)\)\s*(?:(?=\()|([\w.]+)(?!\s*[(<]))")
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
    ast.USub: lambda _, a: -a,
    ast.UAdd: lambda _, a: a,
    ast.Invert: lambda _, a: ~a,
}
_CALLS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << max(int(n) - 1, 0).bit_length(),
    **{name: float if name in _FLOATS else int for name in _SCALARS},
}


def number_of(text: str) -> Number | None:
    """The value of a literal; None for one that keet does not read."""
    plain = re.sub(r"(?<=[\d.])_[a-zA-Z]\w*$|['_]", "", text).lower()
    try:
        if plain.startswith(("0x", "0b")):
            value: Number = int(plain.rstrip("ulz"), 0)
        elif whole := re.fullmatch(r"(\d{1,20})[ulz]*", plain):
            value = int(whole[1], 8 if whole[1].startswith("0") else 10)
        else:
            value = float(re.sub(r"[fl]$", "", plain.replace("d", "e")))
    except ValueError:
        return None
    return value if value < _LIMIT else None


def evaluate(
    text: str, names: Mapping[str, Number], sizes: Mapping[str, int], *, python: bool = False
) -> Number | None:
    """None if the text alone does not determine the value."""
    if len(text) > _LONGEST or (not python and re.search(r"\*\s*\*|//", text)):
        return None
    try:
        tree = ast.parse(text.strip() if python else _as_python(text, sizes), mode="eval")
        value = _value(tree.body, names, python=python)
    except (SyntaxError, ValueError, TypeError, LookupError, ArithmeticError):
        return None
    except (RecursionError, MemoryError):
        return None
    # Unsigned arithmetic of C++ wraps around; this one does not.
    wraps = not python and value < 0 and re.search(r"\b\d[\w.']*[uU]|\bu\w*|\bsize", text)
    return None if wraps else value


def _as_python(text: str, sizes: Mapping[str, int]) -> str:
    """An expression of C++ or Fortran, with sizes, casts and literals as Python writes them."""
    text = _SIZEOF.sub(lambda match: str(type_size(match[1], sizes)), re.sub(r"\w+\s*::", "", text))
    text = _BRACED.sub(r"\1(\2)", _STATIC_CAST.sub(lambda match: _cast(match[1]), text))
    text = _C_CAST.sub(lambda m: _cast(m[1]) + (f"({m[2]})" if m[2] else ""), text)
    text = text.replace("true", "1").replace("false", "0")
    return NUMBER.sub(lambda match: str(number_of(match[0])), text)


def _cast(kind: str) -> str:
    words = set(_QUALIFIER.sub(" ", kind).split())
    return "float" if words & _FLOATS else "int" if words <= _SCALARS else "unknown"


def _value(node: ast.expr, names: Mapping[str, Number], *, python: bool) -> Number:
    """Raises an error if it is not constant."""
    result: Number
    match node:
        case ast.Constant(value=int() | float() as number):
            result = number + 0
        case ast.Name(id=name):
            result = names[name]
        case ast.UnaryOp(op=sign, operand=operand):
            result = _OPERATORS[type(sign)](0, _value(operand, names, python=python))
        case ast.BinOp(left=left, op=sign, right=right):
            a, b = (_value(each, names, python=python) for each in (left, right))
            result = _binary(sign, a, b, python=python)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=[]):
            result = _CALLS[name](*(_value(each, names, python=python) for each in args))
        case _:
            raise ValueError
    if not -_LIMIT < result < _LIMIT:
        raise OverflowError
    return result


def _binary(sign: ast.operator, a: Number, b: Number, *, python: bool) -> Number:
    if isinstance(sign, ast.LShift | ast.RShift | ast.Pow) and not 0 <= b <= 64:
        raise OverflowError
    if not isinstance(sign, ast.Div | ast.Mod):
        return _OPERATORS[type(sign)](a, b)
    if python or isinstance(a, float) or isinstance(b, float):
        return a / b if isinstance(sign, ast.Div) else a % b
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C rounds towards zero
    return quotient if isinstance(sign, ast.Div) else a - quotient * b


def type_size(text: str, sizes: Mapping[str, int]) -> int | None:
    """Bytes of a type; None if CUDA platforms differ (`long`) or it is not known."""
    if "*" in text or "&" in text:
        return 8 if text.rstrip().endswith("*") else None
    words = _QUALIFIER.sub(" ", text).split()
    if words.count("long") == 2 and set(words) <= {"long", "unsigned", "signed", "int"}:
        return 8
    if len(words) == 2 and words[0] in ("unsigned", "signed"):
        words = words[1:]
    return sizes.get(words[0]) or _SIZES.get(words[0]) if len(words) == 1 else None


def converted(value: Number, kind: str) -> Number | None:
    """The value in a variable of a type; None if it does not fit, or the type is not a number."""
    words = _QUALIFIER.sub(" ", kind).split()
    if words == ["auto"]:
        return value
    if not words or not _SCALARS.issuperset(words):
        return None
    if _FLOATS.intersection(words):
        return float(value)
    if words == ["bool"]:
        return int(bool(value))
    size = 8 if "long" in words else type_size(kind, {}) or 4
    is_unsigned = any(word.startswith(("u", "size")) for word in words)
    lowest = 0 if is_unsigned else -(2 ** (8 * size - 1))
    return int(value) if lowest <= value < lowest + 2 ** (8 * size) else None
