"""Brackets in source text, what commas separate outside of them, and how many bytes a value of a
type has, by its name (types made of others: `type_layouts`). Light: the analysis of every launch
imports it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

BRACKET = re.compile(r"[()\[\]{}]")
_MOST_IN_ANGLES = 2000
"""Characters."""


def split_commas(text: str, *, angles: bool = False) -> list[str]:
    """The parts between commas outside of brackets; with `angles`, outside of `<>` as well."""
    pieces, depth, start = [], 0, 0
    opening, closing = ("([{<", ")]}>") if angles else ("([{", ")]}")
    for at, sign in enumerate(text):
        depth += (sign in opening) - (sign in closing)
        if sign == "," and depth <= 0:
            pieces.append(text[start:at])
            start = at + 1
    return [piece.strip() for piece in (*pieces, text[start:]) if piece.strip()]


def closing_bracket(text: str, at: int) -> int:
    """Position of the bracket that closes the one at `at`; the end of the text if none does."""
    depth = 0
    for match in BRACKET.finditer(text, at):
        depth += 1 if match[0] in "([{" else -1
        if depth <= 0:
            return match.start()
    return len(text)


def after_angles(text: str, at: int) -> int:
    """Position after the template arguments that open at `at`; `at` itself if none do."""
    depth = nested = 0
    for index in range(at, min(len(text), at + _MOST_IN_ANGLES)):
        sign = text[index]
        nested += (sign in "([{") - (sign in ")]}")
        if nested < 0 or sign == ";" or (index == at and sign != "<"):
            return at
        depth += ((sign == "<") - (sign == ">" and text[index - 1] != "-")) if nested == 0 else 0
        if depth == 0:
            return index + 1
    return at


_TYPES_BY_SIZE = {
    1: "char bool int8_t uint8_t uchar __nv_fp8_e4m3",
    2: "short int16_t uint16_t ushort half __half __nv_bfloat16 nv_bfloat16 char2 uchar2",
    4: "int unsigned float int32_t uint32_t uint char4 uchar4 half2 __half2 __nv_bfloat162 short2",
    8: "double size_t int64_t uint64_t ptrdiff_t uintptr_t float2 int2 uint2 short4 ushort4",
    12: "float3 int3 uint3 dim3",
    16: "float4 int4 uint4 double2 longlong2 ulonglong2",
    32: "double4",
}
SIZES = {name: size for size, names in _TYPES_BY_SIZE.items() for name in names.split()}
"""Bytes of types that are the same on every CUDA platform."""
QUALIFIER = re.compile(
    r"\b(?:const(?:expr|init)?|static|inline|volatile|extern|struct|typename|std|__\w+__)\b|::"
)


def type_size(text: str, sizes: Mapping[str, int]) -> int | None:
    """Bytes of a type; None if CUDA platforms differ (`long`) or it is not known."""
    if "*" in text or "&" in text:
        return 8 if text.rstrip().endswith("*") else None
    words = QUALIFIER.sub(" ", text).split()
    if words.count("long") == 2 and set(words) <= {"long", "unsigned", "signed", "int"}:
        return 8
    if len(words) == 2 and words[0] in ("unsigned", "signed"):
        words = words[1:]
    return sizes.get(words[0]) or SIZES.get(words[0]) if len(words) == 1 else None
