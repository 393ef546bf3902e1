"""Which array accesses of a source line are of a kind, by the memory of the arrays.

The report counts per line. If a line reads a table through an index, multiplies by a value in
registers and writes a result, only the source shows which access is the problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

ACCESS_BYTES: Mapping[float, int] = {2: 1, 4: 1, 8: 2, 16: 2, 32: 4, 64: 8, 128: 16}
"""Bytes per thread by ncu's codes in `memory_access_size_type`: bits from 32 up, but `LDG.U8` has 2
and `LDG.U16` has 8 in all reports seen."""

AccessKind = Literal["global", "scattered global", "shared", "local"]
"""Scattered: neighbouring threads do not access neighbouring bytes."""

_ACCESS = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*\[(?:[^\[\]]|\[[^\]]*\])*\]")
"""`a[i]`, `p.a[b[i]]`."""
_TYPE_WORD = re.compile(r"[\w:<>,*&]+")
_NO_TYPE = {"return", "else", "case", "delete", "throw", "extern", "goto"}
_LONGEST_LINE = 400
"""Characters of a line that are parsed, to bound the time for generated code."""


def accesses(line: str, text: str, kind: AccessKind | None) -> list[str]:
    """The accesses of the line that are of this kind; all of them if none is, or without a
    kind."""
    every = list(dict.fromkeys(_ACCESS.findall(line[:_LONGEST_LINE])))
    if kind is None or len(every) < 2:
        return every
    arrays = _declared(text)
    if kind in ("shared", "local"):
        return [each for each in every if _name(each) in arrays[kind]] or every
    on_chip = arrays["shared"] | arrays["local"]
    kept = [each for each in every if _name(each) not in on_chip]
    if kind == "scattered global":  # `a[b[i]]` or `a[i * n]`, not `a[i]`
        kept = [each for each in kept if is_gather([each]) or "*" in each] or kept
    return kept or every


def _declared(text: str) -> dict[AccessKind, set[str]]:
    """Names of arrays by memory, as far as single lines show it: `float part[4];`."""
    found: dict[AccessKind, set[str]] = {"shared": set(), "local": set()}
    for line in text.splitlines():
        head, bracket, rest = line[:_LONGEST_LINE].partition("[")
        words = head.split()
        if not bracket or len(words) < 2:
            continue
        name = words[-1].lstrip("*&")
        if "__shared__" in words:
            found["shared"].add(name)
        elif _is_type(words[:-1]) and rest.rpartition("]")[2].strip()[:1] in (";", "=", ",", ""):
            found["local"].add(name)
    return found


def _is_type(words: Sequence[str]) -> bool:
    """A type such as `const unsigned long long`; memory qualifiers begin with `__`."""
    plain = all(_TYPE_WORD.fullmatch(word) and not word.startswith("__") for word in words)
    return plain and words[0] not in _NO_TYPE


def is_gather(found: Sequence[str]) -> bool:
    """Whether the index is itself read from memory, so that swapping the threads' axes does not
    help."""
    return bool(found) and all("[" in each.partition("[")[2] for each in found)


def _name(access: str) -> str:
    return access.partition("[")[0]
