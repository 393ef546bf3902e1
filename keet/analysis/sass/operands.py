"""Operands of SASS instructions: registers, predicates, numbers, constants, memory."""

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
    """Of an immediate; the byte offset of a memory or constant operand."""
    negated: bool = False
    inverted: bool = False
    uniform: str = ""
    """Memory: the uniform register that is added to the base."""
    descriptor: str = ""
    """Memory: the uniform register of the descriptor, or of a matrix descriptor."""
    wide: bool = False
    """Memory: the base is a register pair."""
    bank: int = 0
    """Constant: the bank's number."""
    scale: int = 1
    """Memory: what the base register is multiplied by."""

    @property
    def is_register(self) -> bool:
        return self.kind == "register"


_REGISTER = re.compile(r"(U?R)(\d+|Z)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"U?P(?:\d|T|R)$")
_NUMBER = re.compile(r"-?0x[0-9a-fA-F]+$|-?\d+$")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(.*)\]")
_MEMORY = re.compile(r"(?:(g?desc)\[(UR\w+)\])?\s*\[(.*)\]$")
_MATRIX = re.compile(r"g?desc\[(UR\w+)\]")


@lru_cache(maxsize=20_000)
def parse_operand(text: str) -> Operand:  # noqa: PLR0911 - one form of operand after the other
    text = text.strip()
    negated = text.startswith(("-", "!"))
    if _NUMBER.match(text):
        return Operand("immediate", value=int(text, 0))
    bare = text.lstrip("-!~|+").replace("|", "")
    register = _REGISTER.match(bare)
    if register:
        name = register[1] + register[2]
        inverted = text.startswith("~")
        return Operand("register", "" if register[2] == "Z" else name, 0, negated, inverted)
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
            offset += int(part, 0)
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
