"""Kernel parameters by offset: types from the demangled name, names from the source.

The members of structs that are passed by value are found in the source, see `keet.source_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from keet.source_code.brackets import closing_bracket, split_commas
from keet.source_code.scanner import blanked
from keet.source_code.type_layouts import TYPE_WORDS, Layout, SourceTypes, builtin, pointer


class KernelParameter(NamedTuple):
    """A parameter, or a member of one that is a struct."""

    offset: int
    is_pointer: bool
    element: int
    """Bytes of an element behind a pointer; 0 if its type does not show them."""
    argument: int
    """The number of the parameter."""
    path: str
    """`.x` of a member, else empty."""


class Signature(NamedTuple):
    """The parameters of a kernel."""

    parameters: tuple[KernelParameter, ...]
    """Up to the first whose size is not known: after it, offsets are unknown."""
    is_whole: bool
    """Whether these are all."""

    @property
    def pointers(self) -> frozenset[str]:
        """Pointers, by `param+0x10`. Empty unless all parameters are known."""
        parameters = self.parameters if self.is_whole else ()
        return frozenset(
            f"param+{parameter.offset:#x}" for parameter in parameters if parameter.is_pointer
        )

    @property
    def element_sizes(self) -> Mapping[str, int]:
        """Bytes of an element behind each pointer, by `param+0x10`, where its type shows them."""
        typed = (parameter for parameter in self.parameters if parameter.element)
        return {f"param+{parameter.offset:#x}": parameter.element for parameter in typed}

    def names(self, function: str, sources: Iterable[str | None]) -> Mapping[str, str]:
        """The name of each parameter in the source, by `param+0x10`: `in`, `nodes.x`. Empty if
        names are missing."""
        argument_names = names(function, sources) if self.parameters else []
        if not argument_names or len(argument_names) <= self.parameters[-1].argument:
            return {}
        return {
            f"param+{parameter.offset:#x}": f"{argument_names[parameter.argument]}{parameter.path}"
            for parameter in self.parameters
            if argument_names[parameter.argument]
        }


def signature(demangled: str, sources: Iterable[str | None] = ()) -> Signature:
    """`sources`: texts that may define structs. They are only read if some are passed by value."""
    parameters: list[KernelParameter] = []
    offset = 0
    types: SourceTypes | None = None
    for argument, text in enumerate(_arguments(demangled)):
        layout = _layout(text)
        if layout is None:
            types = types or SourceTypes(sources)
            layout = types.layout(text)
        if layout is None:
            return Signature(tuple(parameters), is_whole=False)
        offset = -(-offset // layout.alignment) * layout.alignment
        parameters += (
            KernelParameter(offset + at, is_pointer, element, argument, path)
            for at, path, is_pointer, element in layout.members
        )
        if not layout.is_whole:
            return Signature(tuple(parameters), is_whole=False)
        offset += layout.size
    return Signature(tuple(parameters), is_whole=True)


def _arguments(demangled: str) -> list[str]:
    """The outermost parameter list, split at its commas. `T2` of a template is its argument."""
    before, inside = _last(demangled, "()")
    types = _split(_last(before, "<>")[1]) if before.endswith(">") else []

    def argument(match: re.Match[str]) -> str:
        number = int(match[1])
        return types[number - 1] if 0 < number <= len(types) else match[0]

    return [
        part if "..." in part else re.sub(r"(?<![\w:])T(\d{1,3})\b", argument, part)
        for part in _split(inside)
    ]


def _last(text: str, brackets: str) -> tuple[str, str]:
    """What is before the last pair of brackets, and what is in it."""
    end, depth = text.rfind(brackets[1]), 0
    for start in range(end, -1, -1):
        depth += (text[start] == brackets[1]) - (text[start] == brackets[0])
        if depth == 0:
            return text[:start], text[start + 1 : end]
    return "", ""


def _split(text: str) -> list[str]:
    return [part for part in split_commas(text, angles=True) if part != "void"]


def _layout(text: str) -> Layout | None:
    """None for a type that the compiler does not know by itself."""
    outside, depth = "", 0  # of template arguments: `std::array<char *, 2>` is no pointer
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        outside += letter if depth == 0 else ""
    if "*" in outside or "&" in outside:
        to, _, more = text.partition("*")
        is_one = "*" not in more and "(" not in text and "&" not in text
        return pointer(builtin(re.findall(r"\w+", to)) if is_one else None)
    return builtin(re.findall(r"\w+|::", text))


def names(function: str, sources: Iterable[str | None]) -> list[str]:
    """Parameter names of a function's definition in the source; empty if it is not found."""
    if not function:
        return []
    for text in sources:
        if function not in (text or ""):
            continue
        code = blanked("", text or "")
        calls = re.finditer(rf"\b{re.escape(function)}\s*(?=\()", code)
        for call in islice(calls, _MOST_CALLS):
            rest = code[call.end() : call.end() + _LONGEST_PARAMETERS]
            end = closing_bracket(rest, 0)
            if rest[end + 1 :].lstrip()[:1] == "{":
                return [_name_of(part) for part in _split(rest[1:end])]
    return []


_MOST_CALLS = 500
_LONGEST_PARAMETERS = 4000
"""Characters of a definition's parameters."""


def _name_of(declaration: str) -> str:
    """Empty for a parameter without a name."""
    text = declaration.partition("=")[0]
    inner = re.search(r"\(\s*[*&]\s*(\w+)", text)  # void (*f)(int), float (&tile)[4]
    if inner:
        return inner[1]
    words = re.findall(r"[A-Za-z_]\w*", text.partition("[")[0])
    return words[-1] if words and words[-1] not in TYPE_WORDS else ""
