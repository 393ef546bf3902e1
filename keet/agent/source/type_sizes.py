"""Sizes of C++ types in bytes that are the same on every CUDA platform."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keet.agent.source.cpp_statements import declarators
from keet.agent.source.tokens import Token, closing

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
