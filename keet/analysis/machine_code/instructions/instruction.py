"""Parses a SASS instruction: opcode, guard, operands, and the registers it reads and writes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from keet.analysis.machine_code.instructions.opcodes import Role, role_of, words
from keet.analysis.machine_code.instructions.operands import (
    Operand,
    Registers,
    access_bytes,
    destinations,
    effects,
    parse_operand,
)

LONGEST = 1000
"""Characters of text that are parsed. The longest real instruction has about 100."""


class Instruction(NamedTuple):
    """One instruction. Registers are named as in the text; RZ, URZ, PT and UPT are left out."""

    address: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    role: Role
    guard: tuple[str, bool] | None
    """The predicate under which it runs, and whether it is negated."""
    operands: tuple[Operand, ...]
    writes: Registers
    reads: Registers
    """All registers that are read, except the guard; a register pair is two registers."""
    target: int | None
    """Address of a branch, call or convergence point."""

    @property
    def memory(self) -> Operand | None:
        """The memory operand; of an asynchronous copy, the one in global memory (the last)."""
        operands = [operand for operand in self.operands if operand.kind == "memory"]
        return operands[-1] if operands else None

    @property
    def sources(self) -> tuple[Operand, ...]:
        """The operands after the destinations."""
        return self.operands[destinations(self.opcode, self.operands) :]

    @property
    def base(self) -> str:
        """The opcode, also of its uniform form: `IMAD` of `UIMAD`."""
        return self.opcode.removeprefix("U")

    @property
    def immediates(self) -> list[int]:
        """The numbers among its sources."""
        return [operand.value for operand in self.sources if operand.kind == "immediate"]

    @property
    def numbers(self) -> tuple[Operand, ...]:
        """The sources that are no predicates."""
        return tuple(operand for operand in self.sources if operand.kind != "predicate")

    def has(self, *modifiers: str) -> bool:
        return any(modifier in self.modifiers for modifier in modifiers)

    @property
    def is_barrier(self) -> bool:
        """Whether a warp waits in it for the block's or the cluster's others. BAR.ARV only
        arrives."""
        waits = self.opcode == "BAR" and self.has("SYNC", "RED")
        return waits or self.opcode == "UCGABAR_WAIT"

    @property
    def width(self) -> int:
        """Bytes per thread of a memory access."""
        return access_bytes(self.opcode, self.modifiers)


_GUARD = re.compile(r"@(!?)(U?P[0-9T]+)\s+")
_SPLIT = re.compile(r",\s*(?![^\[]*\])")
_TARGETED = words("BRA BRX JMP JMX CALL BSSY RET WARPSYNC BRXU UBRA UCALL")


def parse(address: int, text: str) -> Instruction:
    """Never fails: an instruction that keet does not know has the role `UNKNOWN`."""
    return _parsed(text[:LONGEST].strip())._replace(address=address)


@lru_cache(maxsize=20_000)
def _parsed(text: str) -> Instruction:
    rest = text.rstrip(" ;")
    guard = None
    match = _GUARD.match(rest)
    if match:
        rest = rest[match.end() :]
        guard = (match[2], bool(match[1])) if match[2] not in ("PT", "UPT") else None
    head, _, tail = rest.partition(" ")
    opcode, *modifiers = head.split(".")
    mods = tuple(modifiers)
    tail = tail.strip()
    operands = tuple([parse_operand(part) for part in _SPLIT.split(tail)]) if tail else ()
    writes, reads = effects(opcode, mods, operands)
    target = _target(opcode, tail)
    return Instruction(
        0, text, opcode, mods, role_of(opcode), guard, operands, writes, reads, target
    )


def _target(opcode: str, tail: str) -> int | None:
    if opcode not in _TARGETED:
        return None
    last = tail.replace(",", " ").split()[-1:]
    return int(last[0], 16) if last and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", last[0]) else None


def is_move(instruction: Instruction) -> bool:
    """MOV, or arithmetic with zeros that copies one operand unchanged."""
    if instruction.role is Role.MOVE:
        return True
    if instruction.opcode == "CS2R":
        return any(operand.name == "SRZ" for operand in instruction.sources)
    zeros = [is_zero(operand) for operand in instruction.sources[:2]]
    if instruction.opcode in ("IMAD", "UIMAD"):
        return zeros == [True, True] and not instruction.has("X", "WIDE", "HI")
    if instruction.opcode in ("HFMA2", "HFMA2_32I"):
        return zeros == [True, True]
    if instruction.opcode in ("IADD3", "UIADD3"):
        others = [operand for operand in instruction.sources[:3] if not is_zero(operand)]
        return (
            len(others) <= 1
            and not any(o.negated or o.inverted for o in others)
            and (not instruction.has("X"))
        )
    return False


def is_zero(operand: Operand) -> bool:
    return (operand.is_register and not operand.name) or (
        operand.kind == "immediate" and operand.value == 0
    )
