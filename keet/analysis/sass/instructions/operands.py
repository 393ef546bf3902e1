"""Parses operands of SASS instructions: registers, predicates, numbers, constants, memory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Operand(NamedTuple):
    """`kind` is one of: register, predicate, immediate, float, constant, memory, special, other."""

    kind: str
    name: str = ""
    """Register or special register. For memory and constants: the base register, or ""."""
    value: int = 0
    """Value of an immediate; byte offset of a memory or constant operand."""
    negated: bool = False
    inverted: bool = False
    uniform: str = ""
    """Memory: the uniform register that is added to the base."""
    descriptor: str = ""
    """Memory: the uniform register of the descriptor, or of a matrix descriptor."""
    wide: bool = False
    """Memory: the base is a register pair. Register: two packed values, `R4.F32x2.HI_LO`."""
    bank: int = 0
    """Constant: the bank's number."""
    scale: int = 1
    """Memory: the factor of the base register."""

    @property
    def is_register(self) -> bool:
        return self.kind == "register"


_REGISTER = re.compile(r"(U?R)(\d{1,2}|1\d\d|2[0-4]\d|25[0-4]|Z)((?:\.\w+)*)$", re.ASCII)
"""R0 to R254: the hardware has no more."""
_INDIRECT = re.compile(r"(U?R\d+)\s+-?0x[0-9a-f]+$", re.ASCII)
"""The target of BRX: `R4 -0x110`."""
_PREDICATE = re.compile(r"U?P(?:\d|T|R)$", re.ASCII)
_NUMBER = re.compile(r"-?0x[0-9a-fA-F]+$|-?\d+$", re.ASCII)
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(.*)\]")
_MEMORY = re.compile(r"(?:(g?desc)\[(UR\w+)\])?\s*\[(.*)\]$")
_MATRIX = re.compile(r"(?:[gi]?desc|tmem|cx)\[(UR\w+)")


@lru_cache(maxsize=20_000)
def parse_operand(text: str) -> Operand:  # noqa: PLR0911 - one return per kind of operand
    text = text.strip()
    negated = text.startswith(("-", "!"))
    if _NUMBER.match(text):
        return Operand("immediate", value=_integer(text))
    bare = text.lstrip("-!~|+").replace("|", "")
    indirect = _INDIRECT.match(bare)
    register = _REGISTER.match(indirect[1] if indirect else bare)
    if register:
        name = register[1] + register[2]
        inverted = text.startswith("~")
        name = "" if register[2] == "Z" else name
        return Operand("register", name, 0, negated, inverted, wide=".F32x2" in register[3])
    if _PREDICATE.match(bare):
        return Operand("predicate", "" if bare in ("PT", "UPT") else bare, 0, negated)
    if bare.startswith("c["):
        return _constant(bare, negated=negated)
    memory = _MEMORY.match(bare)
    if memory:
        return _memory(memory[3], memory[2] or "")
    matrix = _MATRIX.match(bare)
    if matrix:
        return Operand("other", descriptor=matrix[1])
    if bare.startswith("SR"):
        return Operand("special", bare)
    if re.match(r"[\d.]+(e[+-]?\d+)?$|INF|QNAN", bare):
        return Operand("float", bare, 0, negated)
    return Operand("other", bare)


def _integer(text: str) -> int:
    return int(text, 16 if "x" in text else 10)


def _constant(text: str, *, negated: bool) -> Operand:
    found = _CONSTANT.match(text)
    if not found:
        return Operand("other", text)
    parts = _memory(found[2], "")
    base = parts.name or parts.uniform
    return Operand("constant", base, parts.value, negated, bank=int(found[1], 16))


def _memory(inside: str, descriptor: str) -> Operand:
    """`R4.64+UR8+0x10`, `R2.X4+0x100`, `UR4`, `0x20`."""
    base, uniform, offset, wide, scale = "", "", 0, False, 1
    for part in map(str.strip, re.split(r"(?<=[\w\]])\+", inside)):
        if _NUMBER.match(part):
            offset += _integer(part)
            continue
        found = _REGISTER.match(part)
        if not found:
            continue
        name = "" if found[2] == "Z" else found[1] + found[2]
        if found[1] == "UR":
            uniform = name or uniform
            continue
        base = name
        wide = ".64" in found[3]
        factor = re.search(r"\.X(\d+)", found[3])
        scale = int(factor[1]) if factor else 1
    return Operand(
        "memory", base, offset, uniform=uniform, descriptor=descriptor, wide=wide, scale=scale
    )
