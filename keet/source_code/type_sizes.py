"""How many bytes a value of a type has, by its name; types made of others: `type_layouts`."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
