"""Kernel parameters by offset: types from the demangled name, names from the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from keet.analysis.sass.instructions.opcodes import words

_SIZES = {
    "bool": 1,
    "char": 1,
    "short": 2,
    "__half": 2,
    "half": 2,
    "__nv_bfloat16": 2,
    "int": 4,
    "unsigned": 4,
    "float": 4,
    "long": 8,
    "double": 8,
    "__half2": 4,
    "half2": 4,
    "__nv_bfloat162": 4,
    "dim3": 12,
}
_ALIGNED = {"dim3": 4}
_VECTOR = re.compile(r"u?(char|short|int|long|longlong|float|double)([1-4])$")
_QUALIFIERS = words("const volatile restrict __restrict__ signed")


class KernelParameter(NamedTuple):
    offset: int
    is_pointer: bool
    type: str


def parameters(demangled: str) -> list[KernelParameter]:
    """Parameters up to the first of unknown size: after a struct by value, offsets are unknown."""
    found: list[KernelParameter] = []
    offset = 0
    for text in _arguments(demangled):
        size, alignment = _layout(text)
        if not size:
            break
        offset = -(-offset // alignment) * alignment
        found.append(KernelParameter(offset, _is_pointer(text), text.strip()))
        offset += size
    return found


def _arguments(demangled: str) -> list[str]:
    """The outermost parameter list, split at its commas."""
    end = demangled.rfind(")")
    if end < 0:
        return []
    depth = 0
    for start in range(end, -1, -1):
        depth += (demangled[start] == ")") - (demangled[start] == "(")
        if depth == 0:
            return _split(demangled[start + 1 : end])
    return []


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += letter in "(<[{"
        depth -= letter in ")>]}"
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    parts.append(current)
    return [part.strip() for part in parts if part.strip() not in ("", "void")]


def _is_pointer(text: str) -> bool:
    """Not a struct with pointers in its template arguments: `std::array<char *, 2>`."""
    depth = 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter in "*&" and depth == 0:
            return True
    return False


def _layout(text: str) -> tuple[int, int]:
    """Size and alignment in bytes; size 0 for an unknown type."""
    if _is_pointer(text):
        return 8, 8
    words = [word for word in re.findall(r"\w+", text) if word not in _QUALIFIERS]
    if not words:
        return 0, 1
    vector = _VECTOR.match(words[-1])
    if vector:
        size = _SIZES.get(vector[1].replace("longlong", "long"), 4)
        count = int(vector[2])
        return size * count, size * count if count in (1, 2, 4) else size
    if not all(word in _SIZES for word in words):
        return 0, 1
    named = [word for word in words if word not in ("unsigned", "int")]
    size = _SIZES[named[-1] if named else words[-1]]
    return size, _ALIGNED.get(words[-1], size)


def names(function: str, sources: Iterable[str | None]) -> list[str]:
    """Parameter names of a function's definition in the source; empty if it is not found."""
    if not function:
        return []
    for text in sources:
        if function not in (text or ""):
            continue
        code = _without_comments(text or "")
        calls = re.finditer(rf"\b{re.escape(function)}\s*\(", code)
        for found in islice(calls, _MOST_CALLS):
            rest = code[found.end() : found.end() + _LONGEST]
            inside = _inside(rest)
            if rest[len(inside) + 1 :].lstrip()[:1] == "{":
                return [_name_of(part) for part in _split(inside)]
    return []


_MOST_CALLS = 500
_LONGEST = 4000
"""Characters of a definition's parameters."""


def _inside(text: str) -> str:
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:place]
    return text


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?(?:\*/|\Z)", " ", text, flags=re.S)


def _name_of(declaration: str) -> str:
    """Empty for a parameter without a name."""
    text = declaration.partition("=")[0]
    inner = re.search(r"\(\s*[*&]\s*(\w+)", text)  # void (*f)(int), float (&tile)[4]
    if inner:
        return inner[1]
    words = re.findall(r"[A-Za-z_]\w*", text.partition("[")[0])
    return words[-1] if words and words[-1] not in (*_SIZES, *_QUALIFIERS) else ""


def pointer_names(
    demangled: str, function: str, sources: Iterable[str | None]
) -> Mapping[str, str]:
    """The name of each parameter in the source, by `param+0x10`; empty if names are missing."""
    layout = parameters(demangled)
    known = names(function, sources)
    if len(known) < len(layout):
        return {}
    return {
        f"param+{parameter.offset:#x}": name
        for parameter, name in zip(layout, known, strict=False)
        if name
    }


def pointers(demangled: str) -> frozenset[str]:
    """Pointer parameters, by `param+0x10`. Empty unless all parameters are known."""
    layout = parameters(demangled)
    if len(layout) < len(_arguments(demangled)):
        return frozenset()
    return frozenset(f"param+{each.offset:#x}" for each in layout if each.is_pointer)
