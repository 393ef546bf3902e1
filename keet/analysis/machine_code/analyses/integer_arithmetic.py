"""Instructions that are there only because integers have 64 bits.

The GPU computes with 32 bits. A 64-bit addition is two instructions (the second with carry), a
multiplication three or four, a division by a constant about 14: four partial products with carries,
a correction of the sign and a shift of two registers. In 32 bits they are one, one and about four.

What would go is found by the upper halves of results: the upper register of a wide product, sums
with carry, and what is computed from them. Upper halves are needed where something but 64-bit
arithmetic reads them: a store, an exclusive or, an address, a float. Then everything that leads
to them is needed, as in hashes, random numbers and 64-bit sums. They are also needed for products
of two variables, and for sums of more than two words.

Words that are taken apart into bytes for integer arithmetic.

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Kind, Readers, SassProgram, SsaValue
from keet.analysis.machine_code.instructions.instruction import (
    Instruction,
    is_move,
    is_predicate,
    is_zero,
)
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.parameters import BYTES

_SIGN_SHIFT = 31
"""Shift that leaves the sign: all bits of it (signed) or one (unsigned)."""
_LEAST_WIDE_PRODUCTS = 3
"""Least wide products in the upper half of a 64-bit product: with a constant."""
_LONGEST_PRODUCT = 12
"""Most instructions of such a product."""


def wide_integers(program: SassProgram, purposes: Sequence[Purpose]) -> frozenset[int]:
    """Positions of the instructions that would not be there in 32 bits. Addresses are left out:
    they have 64 bits."""
    if not any(_is_wide(instruction) or instruction.has("X", "EX") for instruction in program.code):
        return frozenset()
    return _Halves(program, purposes).removable()


class _Halves:
    def __init__(self, program: SassProgram, purposes: Sequence[Purpose]) -> None:
        self.program = program
        self.code = program.code
        self.values = program.values
        self.purposes = purposes
        self.readers = Readers(program)
        self.upper: set[int] = set()
        """Values that are upper halves."""
        self.full: set[int] = set()
        """Those of them that may have more than 32 bits: of products of variables."""
        self._spread()
        self.needed = self._needed()

    def removable(self) -> frozenset[int]:
        removable = {position for position in self.program.ran if self._is_of_upper_half(position)}
        for position in self.program.ran:
            removable |= self._parts_of_product(position)
        for position in self.program.ran:
            removable |= self._correction_of_sign(position, removable)
        carries = {
            position for position in self.program.ran if self._is_carry_for(position, removable)
        }
        return frozenset(
            position
            for position in removable | carries
            if self.purposes[position] is not Purpose.ADDRESS
        )

    # --- upper halves

    def _spread(self) -> None:
        """Upper halves, from where they begin to all that is computed from them."""
        waiting: list[int] = []
        for position in self.program.ran:
            begun = self._begins(position)
            waiting += begun
            if begun and self._may_be_full(position):
                self.full.update(begun)
        self.upper.update(waiting)
        while waiting:
            value = waiting.pop()
            onwards = [*self.readers.merged[value]]
            for user in self.readers.users[value]:
                if self._passes_on(user, value):
                    onwards += _registers(self.values.written[user])
            for derived in onwards:
                is_fuller = value in self.full and derived not in self.full
                if derived not in self.upper or is_fuller:
                    self.upper.add(derived)
                    if value in self.full:
                        self.full.add(derived)
                    waiting.append(derived)

    def _begins(self, position: int) -> list[int]:
        """The upper half that an instruction computes from 32-bit values."""
        instruction, written = self.code[position], self.values.written[position]
        registers = _registers(written)
        if _is_wide(instruction) and len(registers) == 2:
            # If only the upper half is read, it is a division by a constant in 32 bits.
            return registers[1:] if instruction.has("X") or self.readers.of(registers[0]) else []
        if len(registers) != 1:
            return []
        if instruction.has("X") and instruction.role is Role.INTEGER:
            return registers
        if instruction.base == "SHF" and instruction.has("L") and instruction.has("U64"):
            return registers if instruction.has("HI") else []
        is_sign = _is_sign(instruction, "S32") and self._is_extension(registers[0])
        return registers if is_sign else []

    def _is_extension(self, sign: int) -> bool:
        """Whether 64-bit arithmetic reads the sign as the upper half of a number."""
        return any(
            self.code[user].has("X", "EX")
            or (_is_wide(self.code[user]) and not self._is_factor(user, sign))
            for user in self.readers.of(sign)
        )

    def _is_factor(self, position: int, value: int) -> bool:
        """Whether an instruction multiplies by the value, rather than adding it."""
        factors = {o.name for o in self.code[position].sources[:2] if o.is_register}
        reads = self.values.read[position]
        return any(reads.get(name) in self.readers.same(value) for name in factors if name)

    def _may_be_full(self, position: int) -> bool:
        """A product of two variables, or one of several sums with carry, each from the one before:
        more than two words."""
        instruction = self.code[position]
        if _is_wide(instruction):
            factors = instruction.sources[:2]
            return not any(o.kind == "immediate" or is_zero(o) for o in factors)
        if not instruction.has("X"):
            return False
        carries_in = _predicates(self.values.read[position])
        beside = [position for value in carries_in for position in self.values.definitions(value)]
        carries_out = _predicates(self.values.written[position])
        beside += [user for value in carries_out for user in self.readers.of(value)]
        return any(self.code[position].has("X") for position in beside)

    def _passes_on(self, user: int, value: int) -> bool:
        """Whether the result of the user is an upper half if the value is one."""
        instruction = self.code[user]
        if _is_wide(instruction):
            return value in self.full  # its own upper half is one anyway
        if len(_registers(self.values.written[user])) != 1:
            return False
        if is_move(instruction) or instruction.base in ("SEL", "IADD3", "IADD", "VIADD"):
            return True
        if instruction.base == "IMAD":
            return not instruction.has("HI")
        return self._is_upper_shift(user, value)

    def _is_upper_shift(self, user: int, value: int) -> bool:
        """The upper half of a right shift: the same value is shifted as a pair, too."""
        instruction = self.code[user]
        if instruction.base != "SHF" or not (
            instruction.has("S32", "U32") and instruction.has("HI")
        ):
            return False
        shifts = instruction.immediates
        return any(
            _is_pair_shift(self.code[other]) and self.code[other].immediates == shifts
            for other in self.readers.of(value)
        )

    # --- what needs them

    def _needed(self) -> set[int]:
        """Values that something but 64-bit arithmetic needs, with all that leads to them."""
        upper = self.upper

        def following(value: int) -> Iterator[int]:
            return (e for e in self.values.behind(self.values.all[value]) if e in upper)

        starts = [value for value in upper if value in self.full or self._leaves(value)]
        return {*reached(starts, following)}

    def _leaves(self, value: int) -> bool:
        return any(
            not self._passes_on(user, value) and not self._is_within(user)
            for user in self.readers.users[value]
            if self.program.counts[user]
        )

    def _is_within(self, user: int) -> bool:
        """Whether the user is 64-bit arithmetic with a result that is no upper half."""
        instruction = self.code[user]
        if instruction.base == "ISETP" or _is_wide(instruction) or _is_pair_shift(instruction):
            return True
        if instruction.has("X") or _is_sign(instruction, "U32") or self._swaps(user):
            return True
        if instruction.base == "LEA":
            return instruction.has("HI")  # adds the sign to a quotient
        if instruction.role is Role.CONVERSION:
            return instruction.has("S64", "U64")
        return not _registers(self.values.written[user]) and instruction.role is Role.INTEGER

    def _swaps(self, position: int) -> bool:
        """One of three exclusive ors that exchange two registers."""
        if not _is_xor_of_two(self.code[position]):
            return False
        names, start = set(self.code[position].reads), position
        while start and self._is_xor_within(start - 1, names):
            start -= 1
        within = range(start, min(start + 3, len(self.code)))
        return len(within) == 3 and all(self._is_xor_within(at, names) for at in within)

    def _is_xor_within(self, position: int, names: set[str]) -> bool:
        instruction = self.code[position]
        is_of_names = set(instruction.reads) == names and set(instruction.writes) <= names
        return is_of_names and _is_xor_of_two(instruction)

    # --- what goes

    def _is_of_upper_half(self, position: int) -> bool:
        instruction = self.code[position]
        if instruction.base == "ISETP" and instruction.has("EX"):
            # Numbers of 64 bits that were loaded are compared as they are.
            return self._reads(position, self.upper) and not self._reads(position, self.needed)
        registers = _registers(self.values.written[position])
        return len(registers) == 1 and registers[0] in self.upper - self.needed

    def _reads(self, position: int, values: set[int]) -> bool:
        return any(value in values for value in self.values.read[position].values())

    def _parts_of_product(self, end: int) -> set[int]:
        """All but the last instruction of the upper half of a 64-bit product with a constant: the
        first step of a division by a constant, one instruction in 32 bits."""
        last = self.code[end]
        if not (_is_wide(last) and last.has("X")):
            return set()
        is_needed = any(value in self.full for value in _registers(self.values.written[end]))
        if is_needed or not _has_constant_factor(last):
            return set()
        positions = reached(
            [end], lambda position: filter(self._is_part, self._added(position)), _LONGEST_PRODUCT
        )
        products = [position for position in positions if _is_wide(self.code[position])]
        return positions.keys() - {end} if len(products) >= _LEAST_WIDE_PRODUCTS else set()

    def _added(self, position: int) -> list[int]:
        """Where the addend and the carry of a product come from; of other instructions, all that
        they read."""
        instruction, reads = self.code[position], self.values.read[position]
        names: Iterable[str] = reads
        if _is_wide(instruction):
            factors = {o.name for o in instruction.sources[:2] if o.is_register}
            names = [name for name in reads if name not in factors]
        values = (self.values.all[reads[name]] for name in names)
        return [value.position for value in values if value.kind is Kind.DEFINITION]

    def _is_part(self, position: int) -> bool:
        instruction, written = self.code[position], self.values.written[position]
        if _is_wide(instruction):
            return _has_constant_factor(instruction)
        is_carry = instruction.has("X") or _makes_carry_only(instruction, written)
        return is_carry or is_move(instruction)

    def _correction_of_sign(self, position: int, gone: set[int]) -> set[int]:
        """The lower half of a division's correction: the product is one of unsigned numbers, so a
        constant is added if the dividend is negative. 32-bit products have signs."""
        instruction, reads = self.code[position], self.values.read[position]
        if instruction.base != "SEL":
            return set()
        values = {reads[o.name] for o in instruction.sources if o.is_register and o.name in reads}
        for made in (self.values.all[value] for value in values):
            if made.kind is not Kind.DEFINITION:
                continue
            sum_, written = self.code[made.position], self.values.written[made.position]
            users = {user for carry in _predicates(written) for user in self.readers.of(carry)}
            has_constant = sum_.base in ("IADD3", "IADD") and sum_.immediates
            is_of_other = {*self.values.read[made.position].values()} == values - {made.index}
            if has_constant and is_of_other and users and users <= gone:
                return {position, made.position}
        return set()

    def _is_carry_for(self, position: int, gone: set[int]) -> bool:
        """An addition of which only the carry is used, by instructions that go."""
        written = self.values.written[position]
        if not _makes_carry_only(self.code[position], written):
            return False
        users = {user for value in written.values() for user in self.readers.of(value)}
        return bool(users) and users <= gone


def _is_xor_of_two(instruction: Instruction) -> bool:
    is_xor = instruction.opcode == "LOP3" and ", 0x3c," in instruction.text
    return is_xor and len(instruction.reads) == 2


def _is_wide(instruction: Instruction) -> bool:
    return instruction.base == "IMAD" and instruction.has("WIDE")


def _has_constant_factor(instruction: Instruction) -> bool:
    return any(operand.kind == "immediate" for operand in instruction.sources[:2])


def _is_pair_shift(instruction: Instruction) -> bool:
    """The lower half of a right shift of a register pair."""
    return instruction.base == "SHF" and instruction.has("R") and instruction.has("S64", "U64")


def _is_sign(instruction: Instruction, kind: str) -> bool:
    is_shift = instruction.base == "SHF" and instruction.has("R") and instruction.has(kind)
    return is_shift and instruction.immediates == [_SIGN_SHIFT]


def _registers(written: dict[str, int]) -> list[int]:
    """The values of the registers, without predicates."""
    return [value for name, value in written.items() if not is_predicate(name)]


def _predicates(values: dict[str, int]) -> list[int]:
    return [value for name, value in values.items() if is_predicate(name)]


def _makes_carry_only(instruction: Instruction, written: dict[str, int]) -> bool:
    return instruction.base in ("IADD3", "IADD") and bool(written) and not _registers(written)


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
    packed = program.where(lambda instruction: instruction.opcode in _PACKED)
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
    executed = program.spent(rearranging)
    usual = _USUAL_PREPARATION * program.spent(packed)
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
        bytes_of: dict[int, set[int]] = defaultdict(set)
        takers: dict[int, set[int]] = defaultdict(set)
        for position in self.program.ran:
            if taken := self._byte(position):
                word, place, shift = taken
                bytes_of[word].add(place)
                takers[word] |= {position} if shift is None else {position, shift}
        apart = [word for word, places in bytes_of.items() if len(places) >= _TAKEN_APART]
        return {position for word in apart for position in takers[word]}

    def _byte(self, position: int) -> tuple[int, int, int | None] | None:
        """The word, which of its bytes, and the position of the shift before the mask."""
        instruction, value = self.code[position], self._source(position)
        if value is None:
            return None
        is_mask = _BYTE_MASK in instruction.immediates and ", 0xc0," in instruction.text
        if instruction.opcode == "LOP3" and is_mask:
            shift = self._shifted(value)
            if shift is not None:
                return shift[0], shift[1] // _BYTE_BITS, shift[2]
            return value, 0, None
        if instruction.opcode == "PRMT":
            return self._permuted(instruction, value)
        return (value, BYTES - 1, None) if _top_byte(instruction) else None

    def _shifted(self, value: int) -> tuple[int, int, int] | None:
        """The word, the shift and the position of a right shift by whole bytes."""
        instruction, position = self.program.writer(value), self.values.all[value].position
        if instruction is None or instruction.opcode != "SHF":
            return None
        shift, word = next(iter(instruction.immediates), 0), self._source(position)
        is_by_bytes = shift and shift % _BYTE_BITS == 0 and instruction.has_all("R", "HI")
        return (word, shift, position) if is_by_bytes and word is not None else None

    def _permuted(self, instruction: Instruction, value: int) -> tuple[int, int, None] | None:
        """`PRMT R1, R2, 0x7771, RZ`: one byte of the first operand, zeros or its sign."""
        selector = next(iter(instruction.immediates), -1)
        if selector < 0:
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
        read_by = {
            at: {user for value in self._registers(at) for user in readers.of(value)}
            for at in served
        }
        summed = {position for position in arithmetic if self.code[position].opcode in _SUMMED}
        arithmetic -= {
            position
            for position in arithmetic
            if set(self._registers(position)) & single and read_by[position] <= summed | moves
        }
        gone = (
            position
            for position in served - arithmetic
            if self._may_go(position, needed) and read_by[position] <= served
        )
        return PackedBytes(frozenset(gone), frozenset(arithmetic))

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
        return _registers(self.values.written[position])


def _top_byte(instruction: Instruction) -> bool:
    """A shift that leaves the highest byte, or `LEA.HI R1, R2, R3, RZ, 0x8`, which adds it."""
    if instruction.opcode == "SHF":
        is_top = instruction.immediates == [_BYTE_BITS * (BYTES - 1)]
        return is_top and instruction.has_all("R", "HI")
    is_sum = instruction.opcode == "LEA" and instruction.has("HI")
    return is_sum and instruction.immediates == [_BYTE_BITS]
