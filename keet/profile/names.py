"""Kernel names: the three forms in the report, and a short form for tables.

A demangled name can have 10 kB of template arguments, and the plain function name does not
distinguish instantiations. The short name keeps the function and the short template arguments, and
replaces the rest: `gemm<float, 128, Layout<…>>`. It depends only on the name, so it is the same in
every report.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from keet.safe_text import shortened

_FOLDED = "…"
_MAX_ARGUMENTS = 40
"""Characters of template arguments that fit into a table column."""
_LONGEST_SHORT = 160
"""Characters. The longest short name seen in public reports has 82."""


class KernelName(NamedTuple):
    """The forms of a kernel's name."""

    function: str
    demangled: str
    mangled: str

    @property
    def short(self) -> str:
        return short_name(self.demangled or self.function)

    @property
    def full(self) -> str:
        return self.demangled or self.function or self.mangled


@lru_cache(maxsize=1024)
def short_name(demangled: str) -> str:
    """Fold `void ns::tile<float, 32, Op<A, B>>(float *)` to `tile<float, 32, Op<…>>`."""
    return shortened(_folded(demangled), _LONGEST_SHORT)


def _folded(demangled: str) -> str:
    name = _without_parameters(demangled.strip())
    if "[" in name:
        name = re.sub(_NUMBA_TAG, "", name)
    path = _split(name, "::")
    last = path[-1].strip()
    if not last or not (last[0].isalnum() or last[0] == "_"):
        return name  # lambdas and names made by the compiler: only the path distinguishes them
    head, bracket, rest = last.partition("<")
    head = head.split(" ")[-1]  # without the return type
    if not bracket:
        return head
    return head + _fold(rest.rsplit(">", 1)[0])


_NUMBA_TAG = r"\[(?:abi:)?v\d[^\]\s]*\]"
"""How Numba compiled a function, in a hundred characters."""


def template_arguments(demangled: str) -> tuple[str, ...]:
    """Of `void ns::tile<float, (int)32>(float *)`: `float`, `32`."""
    last = _split(_without_parameters(demangled.strip()), "::")[-1]
    _, bracket, rest = last.partition("<")
    if not bracket:
        return ()
    parts = (part.strip() for part in _split(rest.rsplit(">", 1)[0], ","))
    return tuple(_fold_argument(part) if part.startswith("(") else part for part in parts)


def _without_parameters(name: str) -> str:
    """Drop the parameter list: the last parenthesis that opens outside of template arguments."""
    depth = 0
    for index, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and index > 0 and name[index - 1] not in " :<,":
            return name[:index]
    return name


def _split(text: str, separator: str) -> list[str]:
    """Split where no bracket is open."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char in ">)]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, index):
            parts.append(text[start:index])
            start = index + len(separator)
    return [*parts, text[start:]]


def _fold(arguments: str) -> str:
    """Keep the first arguments, as many as fit into `_MAX_ARGUMENTS`."""
    kept: list[str] = []
    used = 0
    for argument in _split(arguments, ","):
        short = _fold_argument(argument.strip())
        used += len(short) + 2
        # CUTLASS kernels are all `Kernel2<one long name>`: always keep the first argument.
        if kept and used > _MAX_ARGUMENTS:
            kept.append(_FOLDED)
            break
        kept.append(short)
    return f"<{', '.join(kept)}>"


def _fold_argument(argument: str) -> str:
    # ncu writes integer arguments as `(int)32`: keep only the number.
    if argument.startswith("(") and ")" in argument and "<" not in argument:
        return argument.partition(")")[2] or argument
    head, bracket, _ = argument.partition("<")
    head = _split(head, "::")[-1]
    return f"{head}<{_FOLDED}>" if bracket else head


def file_name(path: str) -> str:
    """The file name of a Unix or Windows path."""
    return re.split(r"[\\/]", path)[-1]
