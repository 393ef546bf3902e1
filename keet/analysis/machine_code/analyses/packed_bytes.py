"""Words that are taken apart into bytes for integer arithmetic.

A shift and a mask take one byte out of a word. The GPU has instructions for four bytes at a time
(absolute differences, dot products), and masks and multiplications do the rest. So of words of
which most bytes are taken out for integer arithmetic, the extractions would go, and the arithmetic
on single bytes would serve four at a time.

The same holds for words whose bytes are rearranged at length for such an instruction.

Bytes that are needed one by one are left out: those that become addresses (tables, histograms) or
floats (quantised weights), or that are stored or exchanged on their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.limits import BYTES
from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Readers, SassProgram
from keet.analysis.machine_code.flow.values import Kind, SsaValue
from keet.analysis.machine_code.instructions.instruction import Instruction, is_move, is_zero
from keet.analysis.machine_code.instructions.opcodes import Role

_TAKEN_APART = 3
"""Bytes that are taken out of a word that is taken apart: the fourth is often a check or unused."""
_BYTE_MASK, _BYTE_BITS = 0xFF, 8
_SUMS = ("IADD3", "IADD", "VIADD", "LEA")
_LANEWISE = (*_SUMS, "IABS", "VIMNMX", "IMNMX", "VABSDIFF", "VIADDMNMX", "ISETP")
_SUMMED = (*_SUMS, "IMAD", "IABS")
"""Readers that a packed instruction includes: it sums absolute differences, or products."""
_SINGLE_BYTE_ROLES = (Role.CONVERSION, Role.FLOAT, Role.STORE, Role.ATOMIC, Role.SHUFFLE, Role.LOAD)
"""Readers that need each byte on its own."""


class PackedBytes(NamedTuple):
    extractions: frozenset[int]
    """Positions that take bytes out of words or move them, and differences, absolute values and
    products of bytes that are summed, which a packed instruction includes: none would be left."""
    arithmetic: frozenset[int]
    """Positions of other integer arithmetic on single bytes: a quarter would be left."""
    repacked: Mapping[int, float] = {}
    """By position: the share that would go of shifts, masks and permutations that rearrange bytes
    for packed instructions."""

    @property
    def gone(self) -> dict[int, float]:
        """By position: the share that would go."""
        single = dict.fromkeys(self.arithmetic, 1 - 1 / BYTES)
        return {**self.repacked, **single, **dict.fromkeys(self.extractions, 1.0)}


NONE = PackedBytes(frozenset(), frozenset())


def packed_bytes(program: SassProgram, purposes: Sequence[Purpose]) -> PackedBytes:
    single_bytes = _Bytes(program, purposes)
    return (single_bytes.result() if single_bytes.taken else NONE)._replace(
        repacked=_repacked(program)
    )


_PACKED = ("IDP", "VABSDIFF4")
_REARRANGES = ("SHF", "LOP3", "PRMT", "LEA", "VIADD")
_USUAL_PREPARATION = 2
"""Instructions that often prepare an operand: a funnel shift, or a shift and a mask."""


def _repacked(program: SassProgram) -> dict[int, float]:
    """The compiler finds packed instructions for products of single bytes, but takes words apart
    and puts them together again: whole words would be operands as they are."""
    values = program.values
    packed = [position for position in program.ran if program.code[position].opcode in _PACKED]
    operands = [
        values.read[position][operand.name]
        for position in packed
        for operand in program.code[position].sources[:2]
        if operand.name in values.read[position]
    ]

    def rearranges(value: SsaValue) -> bool:
        instruction = program.code[value.position]
        is_shift = instruction.opcode == "IMAD" and (instruction.has("SHL") or is_move(instruction))
        return value.kind is Kind.DEFINITION and (instruction.opcode in _REARRANGES or is_shift)

    def following(index: int) -> Collection[int]:
        value = values.all[index]
        is_end = value.kind is Kind.DEFINITION and not rearranges(value)
        return () if is_end else values.behind(value)

    behind = (values.all[index] for index in reached(operands, following))
    rearranging = {value.position for value in behind if rearranges(value)}
    executed = sum(program.counts[position] for position in rearranging)
    usual = _USUAL_PREPARATION * sum(program.counts[position] for position in packed)
    return dict.fromkeys(rearranging, 1 - usual / executed) if executed > usual else {}


class _Bytes:
    def __init__(self, program: SassProgram, purposes: Sequence[Purpose]) -> None:
        self.program = program
        self.code = program.code
        self.values = program.values
        self.purposes = purposes
        self.taken = self._words_taken_apart()
        """Positions that take a byte out of a word that is taken apart."""

    # --- extraction

    def _words_taken_apart(self) -> set[int]:
        bytes_of: dict[int, dict[int, int]] = defaultdict(dict)
        shifts: dict[int, int] = {}
        for position in self.program.ran:
            taken = self._byte(position)
            if taken is None:
                continue
            word, place, shift = taken
            bytes_of[word][position] = place
            if shift is not None:
                shifts[position] = shift
        positions: set[int] = set()
        for taken_out in bytes_of.values():
            if len(set(taken_out.values())) >= _TAKEN_APART:
                positions |= taken_out.keys()
                positions |= {shifts[position] for position in taken_out if position in shifts}
        return positions

    def _byte(self, position: int) -> tuple[int, int, int | None] | None:
        """The word, which of its bytes, and the position of the shift before the mask."""
        instruction = self.code[position]
        if (
            instruction.opcode == "LOP3"
            and _BYTE_MASK in instruction.immediates
            and ", 0xc0," in instruction.text
        ):
            value = self._source(position)
            shift = None if value is None else self._shifted(value)
            if shift is not None:
                return shift[0], shift[1] // _BYTE_BITS, shift[2]
            return None if value is None else (value, 0, None)
        if instruction.opcode == "PRMT":
            return self._permuted(position)
        if _top_byte(instruction):
            value = self._source(position)
            return None if value is None else (value, BYTES - 1, None)
        return None

    def _shifted(self, value: int) -> tuple[int, int, int] | None:
        """The word, the shift and the position of a right shift by whole bytes."""
        made = self.values.all[value]
        if made.kind is not Kind.DEFINITION:
            return None
        instruction = self.code[made.position]
        shift = next(iter(instruction.immediates), 0)
        if (
            instruction.opcode != "SHF"
            or not instruction.has("R")
            or not instruction.has("HI")
            or shift % _BYTE_BITS
        ):
            return None
        word = self._source(made.position)
        return None if word is None or not shift else (word, shift, made.position)

    def _permuted(self, position: int) -> tuple[int, int, int | None] | None:
        """`PRMT R1, R2, 0x7771, RZ`: one byte of the first operand, zeros or its sign."""
        instruction = self.code[position]
        value, selector = self._source(position), next(iter(instruction.immediates), -1)
        if value is None or selector < 0:
            return None
        nibbles = [selector >> 4 * at & 0xF for at in range(BYTES)]
        place, rest = nibbles[0], set(nibbles[1:])
        is_filled = len(rest) == 1 and (rest == {place | 8} or min(rest) in range(4, 8))
        return (value, place, None) if place < BYTES and is_filled else None

    def _source(self, position: int) -> int | None:
        """The only register that an instruction reads as a word: of LEA.HI, the first."""
        instruction = self.code[position]
        names = [o.name for o in instruction.sources if o.is_register and o.name]
        if not names or (len(names) > 1 and instruction.opcode != "LEA"):
            return None
        return self.values.read[position].get(names[0])

    # --- arithmetic on bytes

    def result(self) -> PackedBytes:
        readers = Readers(self.program)
        single, arithmetic, moves = set[int](), set[int](), set[int]()
        waiting = [
            value
            for position in self.taken
            if not _top_byte(self.code[position]) or self.code[position].opcode == "SHF"
            for value in self._registers(position)
        ]
        arithmetic |= {position for position in self.taken if self.code[position].opcode == "LEA"}
        while waiting:
            value = waiting.pop()
            if value in single:
                continue
            single.add(value)
            for user in readers.users[value]:
                if not self.program.counts[user] or user in self.taken:
                    continue
                if is_move(self.code[user]):
                    moves.add(user)
                elif self._is_lanewise(user, single):
                    arithmetic.add(user)
                else:
                    continue
                if self._stays_byte(user, single):
                    waiting += self._registers(user)
        needed = self._needed(readers, single)
        arithmetic = {position for position in arithmetic if self._may_go(position, needed)}
        served = self.taken | moves | arithmetic
        summed = {position for position in arithmetic if self.code[position].opcode in _SUMMED}
        fused = {
            position
            for position in arithmetic
            if set(self._registers(position)) & single
            and self._readers(readers, position) <= summed | moves
        }
        arithmetic -= fused
        gone = served - arithmetic
        return PackedBytes(
            frozenset(
                position
                for position in gone
                if self._may_go(position, needed) and self._readers(readers, position) <= served
            ),
            frozenset(arithmetic),
        )

    def _readers(self, readers: Readers, position: int) -> set[int]:
        return {user for value in self._registers(position) for user in readers.of(value)}

    def _is_lanewise(self, position: int, single: set[int]) -> bool:
        instruction = self.code[position]
        if instruction.opcode == "IMAD":
            factors = [o for o in instruction.sources[:2] if not is_zero(o)]
            return all(self._is_byte_or_number(position, o.name, single) for o in factors)
        return instruction.opcode in _LANEWISE and not instruction.has("X", "EX")

    def _is_byte_or_number(self, position: int, name: str, single: set[int]) -> bool:
        return not name or self.values.read[position].get(name) in single

    def _stays_byte(self, position: int, single: set[int]) -> bool:
        """Not a running sum, nor one of several bytes: all that it reads are bytes or numbers."""
        read = [o for o in self.code[position].sources if o.is_register and o.name]
        if len([o for o in read if not o.negated]) > 1:
            return False
        return all(self._is_byte_or_number(position, o.name, single) for o in read)

    def _needed(self, readers: Readers, single: set[int]) -> set[int]:
        """Bytes that are needed one by one, with all that leads to them."""
        alone = [value for value in single if self._is_used_alone(readers, value)]

        def following(index: int) -> Iterator[int]:
            value = self.values.all[index]
            read = self.values.behind(value) if value.kind is Kind.DEFINITION else ()
            return (source for source in read if source in single)

        return set(reached(alone, following))

    def _is_used_alone(self, readers: Readers, value: int) -> bool:
        return any(
            self.code[user].role in _SINGLE_BYTE_ROLES or self.purposes[user] is Purpose.ADDRESS
            for user in readers.of(value)
        )

    def _may_go(self, position: int, needed: set[int]) -> bool:
        if self.purposes[position] is Purpose.ADDRESS:
            return False
        read = self.values.read[position].values()
        return not any(value in needed for value in (*self._registers(position), *read))

    def _registers(self, position: int) -> list[int]:
        written = self.values.written[position]
        return [value for name, value in written.items() if "P" not in name]


def _top_byte(instruction: Instruction) -> bool:
    """A shift that leaves the highest byte, or `LEA.HI R1, R2, R3, RZ, 0x8`, which adds it."""
    if instruction.opcode == "SHF":
        return (
            instruction.has("R")
            and instruction.has("HI")
            and instruction.immediates == [8 * (BYTES - 1)]
        )
    return (
        instruction.opcode == "LEA"
        and instruction.has("HI")
        and instruction.immediates == [_BYTE_BITS]
    )
