"""Which kernels are one function: names that differ only in numbers of template arguments."""

from __future__ import annotations

import re

from keet.patterns import regex
from keet.records import NamedTuple

_NUMBER = regex(
    r"(?<![\w.])(?:\((?:unsigned |signed |long |short )*(?:int|long|char|short|bool|size_t)\))?"
    r"(-?\d+)(?:[uUlL]*)(?![\w.])"
)
_ARGUMENTS = regex(r"<.*>", re.DOTALL)


class Family(NamedTuple):
    """A function, and the numbers that one instance of it has in its angle brackets."""

    name: str
    numbers: tuple[int, ...]


def family_of(kernel_full: str) -> Family:
    """`void gemm<(int)128, float>(T1 *)` is `void gemm<#, float>(T1 *)` with 128.

    Types stay in the name: another type is other work, and no point of the same curve.
    """
    numbers: list[int] = []

    def take(match: re.Match[str]) -> str:
        numbers.append(int(match[1]))
        return "#"

    name = _ARGUMENTS.sub(lambda found: _NUMBER.sub(take, found[0]), kernel_full)
    return Family(name, tuple(numbers))


def function_of(kernel_full: str) -> str:
    """Without its parameters: an edit may add one."""
    return family_of(kernel_full.replace("(anonymous namespace)::", "")).name.partition("(")[0]
