"""The purpose of each instruction: data, addresses, control, conversions, moves, waiting.

The opcode decides if it can (a load is memory, a branch is control). Integer instructions are
classified by their use, with backward slices from addresses, from data (stores, arithmetic) and
from predicates. If a result has several uses, addresses come before data, and data before control.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice

from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Kind, SassProgram, SsaValue
from keet.analysis.machine_code.instructions.instruction import (
    Instruction,
    is_move,
    is_predicate,
    is_zero,
    span,
)
from keet.analysis.machine_code.instructions.opcodes import GLOBAL, LOCAL, STACK, TEXTURES, Role


class Purpose(StrEnum):
    VALUE = "value"
    MEMORY = "memory"
    ADDRESS = "address"
    CONTROL = "control"
    CONVERSION = "conversion"
    MOVE = "move"
    SYNC = "sync"
    UNKNOWN = "unknown"


_BY_ROLE = {
    Role.FLOAT: Purpose.VALUE,
    Role.TENSOR: Purpose.VALUE,
    Role.PREDICATE: Purpose.CONTROL,
    Role.CONVERSION: Purpose.CONVERSION,
    Role.MOVE: Purpose.MOVE,
    Role.SHUFFLE: Purpose.MOVE,
    Role.LOAD: Purpose.MEMORY,
    Role.STORE: Purpose.MEMORY,
    Role.ATOMIC: Purpose.MEMORY,
    Role.COPY: Purpose.MEMORY,
    Role.BRANCH: Purpose.CONTROL,
    Role.CONVERGENCE: Purpose.CONTROL,
    Role.NOTHING: Purpose.CONTROL,
    Role.SYNC: Purpose.SYNC,
    Role.UNKNOWN: Purpose.UNKNOWN,
}
_BY_USE = (Role.INTEGER, Role.SPECIAL, Role.CONSTANT, Role.PREDICATE)
"""Roles that are classified by use. PREDICATE only for results in registers, such as VOTE's mask;
instructions that write predicates only are classified before."""


def purposes(program: SassProgram) -> list[Purpose]:
    """Purposes by position. Code that never ran is classified by its opcode only."""
    uses = _Uses(program)
    return [_purpose(each, position, uses) for position, each in enumerate(program.code)]


def mix(program: SassProgram, purposes: Sequence[Purpose]) -> list[tuple[Purpose, int]]:
    """Executed warp instructions by purpose, largest first."""
    sums = Counter[Purpose]()
    for position in program.ran:
        sums[purposes[position]] += program.counts[position]
    return sums.most_common()


def _purpose(instruction: Instruction, position: int, uses: _Uses) -> Purpose:
    if is_move(instruction) or _is_spill(instruction):
        return Purpose.MOVE
    if _only_makes_predicates(instruction):
        return Purpose.CONTROL
    if _is_conversion(instruction) or uses.unpacks(position):
        return Purpose.CONVERSION
    if instruction.role is Role.CONSTANT and any(
        o.kind == "constant" and o.name for o in instruction.operands
    ):
        return Purpose.ADDRESS if uses.of(position) is Purpose.ADDRESS else Purpose.MEMORY
    if instruction.role in _BY_USE:
        use = uses.of(position)
        is_setup = instruction.role is Role.CONSTANT and use is Purpose.VALUE
        return Purpose.MOVE if is_setup else use
    return _BY_ROLE[instruction.role]


def _is_spill(instruction: Instruction) -> bool:
    memory = instruction.memory
    return instruction.opcode in LOCAL and memory is not None and memory.name in (STACK, "")


def _only_makes_predicates(instruction: Instruction) -> bool:
    return bool(instruction.writes) and all(map(is_predicate, instruction.writes))


def _is_conversion(instruction: Instruction) -> bool:
    """`HADD2.F32 R, -RZ, R.H0_H0` turns a half into a float."""
    is_half = instruction.opcode == "HADD2" and instruction.has("F32")
    return is_half and is_zero(instruction.sources[0])


class _Uses:
    """The uses of the results of integer instructions."""

    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.users = program.values.users()
        self.by_position: dict[int, Purpose] = {}
        self.unpacking: dict[int, bool] = {}
        for purpose in (Purpose.ADDRESS, Purpose.VALUE, Purpose.CONTROL, Purpose.UNKNOWN):
            self._mark(self._seeds(purpose), purpose)
        for block in reversed(program.flow.order):  # users first, so that `unpacks` stays shallow
            for position in reversed(program.flow.positions([block])):
                self.unpacks(position)

    def of(self, position: int) -> Purpose:
        """Constants without a reader are the stack pointer and descriptors: both addresses."""
        is_constant = self.program.code[position].role is Role.CONSTANT
        return self.by_position.get(position, Purpose.ADDRESS if is_constant else Purpose.CONTROL)

    def _seeds(self, purpose: Purpose) -> Iterable[int]:
        for position in self.program.ran:
            reads = self.program.values.read[position]
            registers = _registers_for(self.program.code[position], purpose)
            yield from (reads[register] for register in registers if register in reads)

    def _mark(self, seeds: Iterable[int], purpose: Purpose) -> None:
        """Give the purpose to all integer instructions without one that the seeds depend on."""
        values = self.program.values

        def following(index: int) -> Iterable[int]:
            value = values.all[index]
            if value.kind is not Kind.DEFINITION:
                return value.inputs
            self.by_position.setdefault(value.position, purpose)
            reads = values.read[value.position]
            passing = _passes_on(self.program.code[value.position], purpose)
            return [reads[register] for register in passing if register in reads]

        reached(seeds, following)

    def _readers(self, value: int) -> Iterable[int]:
        """Positions that read a value: directly, or after a predicated write of its register."""
        values = self.program.values
        guarded = values.written[values.all[value].position]
        merged = [
            merge.index
            for merge in values.all[value + 1 : value + 2 + len(guarded)]
            if merge.kind is Kind.GUARDED and value in merge.inputs
        ]
        return [user for written in (value, *merged) for user in self.users[written]]

    def unpacks(self, position: int) -> bool:
        """Whether an instruction extracts bits for arithmetic, or packs results for a store."""
        if position not in self.unpacking:
            self.unpacking[position] = False  # ends cycles
            self.unpacking[position] = self._unpacks(position)
        return self.unpacking[position]

    def _unpacks(self, position: int) -> bool:
        code, written = self.program.code, self.program.values.written[position].values()
        if not _takes_bits(code[position]) or self.of(position) is not Purpose.VALUE:
            return False
        users = [user for value in written for user in self._readers(value)]
        roles = {code[user].role for user in users}
        if code[position].opcode == "PRMT" and roles == {Role.STORE}:
            return True
        others = (user for user in users if code[user].role not in (Role.FLOAT, Role.CONVERSION))
        return bool(users) and all(map(self.unpacks, others))


_HALF_WORD_BITS = 16
_MASKS = (0xFFFF0000, -0x10000, 0xFFFF, 0xFF)
_BIASED = range(0x4B000000, 0x4B000100)
"""2^23 as a float, with a small number in its lowest bits: turns integers into floats."""


def _takes_bits(instruction: Instruction) -> bool:
    values = [operand.value for operand in instruction.operands if operand.kind == "immediate"]
    if instruction.opcode == "PRMT":
        return True
    if instruction.opcode == "LOP3":
        return any(value in _MASKS or value in _BIASED for value in values)
    if instruction.opcode in ("IMAD", "SHF", "SHL"):
        return bool({1 << _HALF_WORD_BITS, 8, _HALF_WORD_BITS, 24} & set(values))
    return False


def _registers_for(instruction: Instruction, purpose: Purpose) -> list[str]:
    """Registers that an instruction reads for a purpose, if a slice begins there."""
    if purpose is Purpose.ADDRESS:
        return address_registers(instruction)
    if purpose is Purpose.UNKNOWN:
        return list(instruction.reads) if instruction.role is Role.UNKNOWN else []
    if purpose is Purpose.CONTROL:
        guard = [instruction.guard[0]] if instruction.guard else []
        is_control = instruction.role in (Role.PREDICATE, Role.BRANCH, Role.CONVERGENCE, Role.SYNC)
        controlling = instruction.reads if is_control or _only_makes_predicates(instruction) else ()
        return [*guard, *controlling, *filter(is_predicate, instruction.reads)]
    if instruction.role in (Role.STORE, Role.ATOMIC):
        spent = set(address_registers(instruction))
        return [register for register in instruction.reads if register not in spent]
    if instruction.role in (Role.FLOAT, Role.TENSOR, Role.CONVERSION, Role.SHUFFLE):
        return [register for register in instruction.reads if not is_predicate(register)]
    return []


def address_registers(instruction: Instruction) -> list[str]:
    """Registers of the addresses of an instruction, including descriptors."""
    if instruction.role is Role.CONSTANT:
        return [o.name for o in instruction.operands if o.kind == "constant" and o.name]
    registers: list[str] = []
    for operand in instruction.operands:
        if operand.kind == "memory":
            is_pair = instruction.opcode in GLOBAL and instruction.has("E")
            words = 2 if operand.wide or is_pair else 1
            registers += span(operand.name, words) + span(operand.uniform, words)
        if operand.descriptor:
            registers += span(operand.descriptor, 2)
    is_bulk_copy = instruction.role is Role.COPY and instruction.opcode.startswith(("UT", "UB"))
    if is_bulk_copy or instruction.opcode in TEXTURES:  # coordinates and handles
        registers += instruction.reads
    return registers


def values_of_address(program: SassProgram, position: int) -> list[int]:
    """The values of the registers of an instruction's addresses."""
    names, read = address_registers(program.code[position]), program.values.read[position]
    return [read[name] for name in dict.fromkeys(names) if name in read]


def _passes_on(instruction: Instruction, purpose: Purpose) -> Iterable[str]:
    """Registers through which a backward slice continues from the instruction that wrote a value.

    It ends at loads, at floating-point arithmetic and at predicates that only select. Compilers
    divide integers with a reciprocal, so the slice of an address continues through conversions.
    """
    is_of_division = instruction.role is Role.CONVERSION or instruction.opcode == "MUFU"
    if purpose is Purpose.ADDRESS and is_of_division:
        return instruction.reads
    if instruction.role not in (Role.INTEGER, Role.MOVE, Role.SHUFFLE, Role.PREDICATE):
        return ()
    if purpose is Purpose.CONTROL:
        return instruction.reads
    if instruction.role is Role.PREDICATE:
        return ()
    return [name for name in instruction.reads if instruction.has("X") or not is_predicate(name)]


_FROM_MEMORY = (Role.LOAD, Role.ATOMIC, Role.SHUFFLE)


def decided_by_data(program: SassProgram) -> frozenset[int]:
    """Positions of the instructions whose operands or condition depend on values that were loaded,
    also by the path on which a value was chosen under such a condition."""
    values, users = program.values, program.values.users()
    merged: dict[int, list[int]] = defaultdict(list)
    for value in values.all:
        guard = () if value.guard is None else (value.guard[0],)
        for source in (*value.inputs, *guard):
            merged[source].append(value.index)
    loads = (at for at in program.ran if program.code[at].role in _FROM_MEMORY)

    def following(value: int) -> list[int]:
        results = (result for at in users[value] for result in values.written[at].values())
        return [*results, *merged[value]]

    loaded = reached((result for at in loads for result in values.written[at].values()), following)
    return frozenset(at for value in loaded for at in users[value])


_MOST_VALUES = 4000
"""Most values that are followed back from an instruction: bounds the time for hostile code."""


def loads_behind(program: SassProgram, position: int) -> set[int]:
    """Positions of the loads that decide whether an instruction runs, and what it reads beside
    addresses. Of what other threads loaded, such as through shared memory, only the last step."""
    values = program.values
    spent = set(address_registers(program.code[position]))
    waiting = [value for name, value in values.read[position].items() if name not in spent]
    flow = program.flow
    for above in islice(flow.above(flow.block_of[position]), 1, None):
        if program.decides(flow.blocks[above].end - 1, position):
            waiting += _read_by_branch(program, above)

    def is_load(value: SsaValue) -> bool:
        writer = program.writer(value.index)
        return writer is not None and writer.role in (Role.LOAD, Role.ATOMIC)

    def following(index: int) -> list[int]:
        value = values.all[index]
        sources = [] if is_load(value) else [*values.behind(value, with_guard=True)]
        if value.kind is Kind.JOIN:  # which path was taken
            sources += _read_by_branch(program, program.flow.dominators.get(value.block, -1))
        return sources

    behind = (values.all[index] for index in reached(waiting, following, _MOST_VALUES))
    return {value.position for value in behind if is_load(value)}


def _read_by_branch(program: SassProgram, block: int) -> list[int]:
    """Values that the branch at the end of a block reads."""
    last = program.flow.blocks[block].end - 1 if block >= 0 else -1
    is_branch = last >= 0 and program.code[last].role is Role.BRANCH
    return list(program.values.read[last].values()) if is_branch else []
