"""Arithmetic that several neighbouring threads do equally, as with a counter that is divided by
four: all that follows from it alone has the same result in four lanes.

A value's lanes are grouped by what it is computed from: the thread's index is different in each
lane, without its lowest bits it is the same in a group, and a constant is the same in all. A sum of
the index and a multiple of a power of two keeps the groups below it. Where paths join, or data of
other threads comes in, nothing is said, except for what a loop changes by such a multiple. After a
loop, lanes have the value of their last iteration: it is the same only as far as they leave
together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import NamedTuple

from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import SassProgram, is_pure
from keet.analysis.machine_code.flow.values import Kind, SsaValue
from keet.analysis.machine_code.instructions.instruction import Instruction, is_move
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.instructions.operands import Operand
from keet.analysis.machine_code.polynomials.symbols import LaunchShape

_OF_RESULTS = (Purpose.VALUE, Purpose.CONVERSION)
_WARP_POWER = 5
"""Power of two of the lanes of a warp."""
_POWER_IN_ZERO = 32
_MOST_ROUNDS = 12


class _Lanes(NamedTuple):
    shared: int
    """Power of two of the neighbouring lanes that have the same value; 5: the warp."""
    aligned: int
    """Power of two that divides the value; of an index, what it is added to."""
    is_index: bool = False
    """Whether it is the lane's number and something that is the same in all lanes."""


_OWN_VALUE_PER_LANE, _SAME_IN_WARP, _ZERO = (
    _Lanes(0, 0),
    _Lanes(_WARP_POWER, 0),
    _Lanes(_WARP_POWER, _POWER_IN_ZERO),
)


def lane_groups(
    program: SassProgram, shape: LaunchShape, purposes: Sequence[Purpose]
) -> dict[int, float]:
    """By position of integer arithmetic for results: the share that goes if a thread takes the
    items of a group of lanes and computes it once, 1/2 for two lanes. What is the same in the whole
    warp is not listed. Nor are addresses and conditions: lanes that share an item need them."""
    if shape.block is None:
        return {}
    groups = _Groups(program, shape)
    shares: dict[int, float] = {}
    for position in program.ran:
        instruction, read = program.code[position], program.values.read[position]
        if instruction.role is Role.INTEGER and purposes[position] in _OF_RESULTS:
            # A guard only chooses what each lane needs of it.
            block = program.flow.block_of[position]
            seen = (groups.seen(read[name], block).shared for name in instruction.reads)
            shared = min(seen, default=_WARP_POWER)
            if 0 < shared < _WARP_POWER:
                shares[position] = 1 - 1 / 2**shared
    return shares


def same_in_warp(
    program: SassProgram, shape: LaunchShape, positions: Collection[int]
) -> frozenset[int]:
    """Those of the positions whose results are the same in all lanes of a warp."""
    if shape.block is None or not positions:
        return frozenset()
    groups, written = _Groups(program, shape), program.values.written
    return frozenset(
        position
        for position in positions
        if written[position]
        and all(groups.of(value).shared == _WARP_POWER for value in written[position].values())
    )


class _Groups:
    def __init__(self, program: SassProgram, shape: LaunchShape) -> None:
        self.program, self.shape = program, shape
        self.loops = {loop.header: loop for loop in program.flow.loops}
        self.leaving = {loop.index: _leaving(program, loop) for loop in program.flow.loops}
        self.together: dict[int, int] = {}
        """By loop: power of two of the neighbouring lanes that go through it together."""
        self.known: dict[int, _Lanes] = {}
        """By value; at first, values have no differences that were not found."""
        for _ in range(_MOST_ROUNDS):
            before = dict(self.known)
            self.together = {loop: self._decided(self.leaving[loop]) for loop in self.leaving}
            for value in program.values.all:
                self.known[value.index] = self._of(value)
            if before == self.known:
                return
        self.known = dict.fromkeys(self.known, _OWN_VALUE_PER_LANE)

    def of(self, value: int) -> _Lanes:
        return self.known.get(value, _ZERO)

    def seen(self, value: int, block: int) -> _Lanes:
        """A value as an instruction of the block reads it: that of the last iteration of the loops
        that it is behind."""
        lanes, made = self.of(value), self.program.values.all[value].block
        for loop in self.program.flow.loops_around(made):
            if block not in loop.blocks:
                lanes = _within(lanes, self.together.get(loop.index, _WARP_POWER))
        return lanes

    def _decided(self, branches: Sequence[int]) -> int:
        """Power of two of the neighbouring lanes that take these branches together."""
        values, flow = self.program.values, self.program.flow
        return min(
            (
                self.seen(value, flow.block_of[branch]).shared
                for branch in branches
                for value in values.read[branch].values()
            ),
            default=_WARP_POWER,
        )

    def _of(self, value: SsaValue) -> _Lanes:
        if value.kind is Kind.DEFINITION:
            return self._defined(value.position)
        if value.kind is Kind.GUARDED and value.guard is not None:
            inputs = (*value.inputs, value.guard[0])
            return _Lanes(min(self.seen(source, value.block).shared for source in inputs), 0)
        loop = self.loops.get(value.block)
        return (
            self._at_head(value, loop) if value.kind is Kind.JOIN and loop else _OWN_VALUE_PER_LANE
        )

    def _at_head(self, value: SsaValue, loop: Loop) -> _Lanes:
        """A value at the start of each iteration."""
        values = self.program.values.all
        again = {source for source in value.inputs if values[source].block in loop.blocks}
        if len({*value.inputs} - again) > 1:
            return _OWN_VALUE_PER_LANE
        lanes = reduce(_meet, (self.seen(source, value.block) for source in value.inputs), _ZERO)
        # Of several ends of an iteration, each lane has come to one.
        return lanes if len(again) < 2 else _within(lanes, self.together[loop.index])

    def _defined(self, position: int) -> _Lanes:  # noqa: PLR0911 - one per kind of opcode
        instruction = self.program.code[position]
        if instruction.role is Role.SPECIAL:
            return self._special(instruction)
        if not is_pure(instruction):
            return _OWN_VALUE_PER_LANE
        sources = [self._source(position, operand) for operand in instruction.sources]
        if instruction.base == "SHF" and instruction.has("R"):
            return _shifted_right(instruction, sources)
        amount = instruction.sources[3] if len(sources) > 3 else None
        if (
            instruction.base == "LEA"
            and instruction.has("HI")
            and amount
            and amount.kind == "immediate"
        ):
            return _sum([_over(sources[0], _POWER_IN_ZERO - amount.value), sources[1]])
        if instruction.base == "LOP3":
            return self._masked(instruction, sources)
        if is_move(instruction) or instruction.role is Role.CONSTANT:
            return next((source for source in sources if source != _ZERO), _ZERO)
        if instruction.opcode in ("IADD3", "VIADD", "IADD", "UIADD3") and not instruction.has("X"):
            return _sum(sources)
        if instruction.base == "IMAD" and not instruction.has("X", "HI", "WIDE"):
            first, second, third = (*sources, _ZERO, _ZERO)[:3]
            return _sum([_product(first, second, instruction), third])
        return _Lanes(min([source.shared for source in sources], default=_WARP_POWER), 0)

    def _source(self, position: int, operand: Operand) -> _Lanes:
        if operand.kind == "immediate":
            return _Lanes(_WARP_POWER, _trailing(operand.value))
        if operand.kind == "constant" and not operand.name:
            constant = self.shape.constants.get(operand.value) if operand.bank == 0 else None
            return _SAME_IN_WARP if constant is None else _Lanes(_WARP_POWER, _trailing(constant))
        if operand.kind in ("register", "predicate", "constant"):
            if not operand.name:
                return _ZERO
            value = self.program.values.read[position].get(operand.name)
            block = self.program.flow.block_of[position]
            lanes = _OWN_VALUE_PER_LANE if value is None else self.seen(value, block)
            is_other = lanes.is_index and (operand.negated or operand.inverted)
            if operand.kind == "constant":  # a table: the register is its index
                return _Lanes(lanes.shared, 0)
            return _OWN_VALUE_PER_LANE if is_other else lanes
        return _SAME_IN_WARP

    def _special(self, instruction: Instruction) -> _Lanes:
        name = instruction.sources[-1].name if instruction.sources else ""
        x, y, _ = self.shape.block or (1, 1, 1)
        if name == "SR_LANEID":
            return _Lanes(0, _POWER_IN_ZERO, is_index=True)
        if name == "SR_TID.X":
            return _Lanes(0, _trailing(x) if x % 32 else _POWER_IN_ZERO, is_index=True)
        if name.startswith("SR_TID."):
            return _Lanes(min(_WARP_POWER, _trailing(x if name.endswith("Y") else x * y)), 0)
        return (
            _SAME_IN_WARP
            if name.startswith(("SR_CTAID", "SR_Cga", "SR_NCTAID", "SR_NTID"))
            else _OWN_VALUE_PER_LANE
        )

    def _masked(self, instruction: Instruction, sources: list[_Lanes]) -> _Lanes:
        masks = [
            operand.value for operand in instruction.sources[:3] if operand.kind == "immediate"
        ]
        is_and = any(
            operand.kind == "immediate" and operand.value == 0xC0
            for operand in instruction.sources[3:4]
        )
        if is_and and len(masks) == 1:
            index = next((source for source in sources[:3] if source.is_index), None)
            if index is not None:
                bits = _trailing(masks[0] & 0xFFFFFFFF)
                ones = _trailing((masks[0] + 1) & 0xFFFFFFFF)
                if bits:
                    return _Lanes(min(index.aligned, bits, _WARP_POWER), bits)
                return (
                    index._replace(aligned=min(index.aligned, ones))
                    if ones
                    else _OWN_VALUE_PER_LANE
                )
        return _Lanes(min(source.shared for source in sources[:3]), 0)


def _trailing(number: int) -> int:
    """Power of two that divides a number."""
    return (number & -number).bit_length() - 1 if number else _POWER_IN_ZERO


def _leaving(program: SassProgram, loop: Loop) -> list[int]:
    """Positions of the branches that decide in which iteration a lane leaves a loop: those out of
    it, if every iteration comes to all of them; else all."""
    flow = program.flow
    branching = {block for block in loop.blocks if len(flow.blocks[block].successors) > 1}
    exits = [position for position in flow.leaving(loop) if flow.block_of[position] in branching]
    passed, block = set[int](), loop.latches[0]
    while block in loop.blocks:
        passed.add(block)
        block = flow.dominators.get(block, -1)
    is_simple = len(loop.latches) == 1 and passed.issuperset(
        flow.block_of[position] for position in exits
    )
    return exits if is_simple else [flow.blocks[block].end - 1 for block in branching]


def _within(lanes: _Lanes, shared: int) -> _Lanes:
    """A value that only this many neighbouring lanes have at the same time."""
    if shared >= _WARP_POWER or lanes == _ZERO:
        return lanes
    return (
        _OWN_VALUE_PER_LANE if lanes.is_index else lanes._replace(shared=min(lanes.shared, shared))
    )


def _meet(first: _Lanes, second: _Lanes) -> _Lanes:
    if _ZERO in (first, second):
        return second if first == _ZERO else first
    if first.is_index == second.is_index:
        return _Lanes(
            min(first.shared, second.shared), min(first.aligned, second.aligned), first.is_index
        )
    return _OWN_VALUE_PER_LANE


def _sum(sources: list[_Lanes]) -> _Lanes:
    indices = [source for source in sources if source.is_index]
    aligned = min(source.aligned for source in sources)
    if not indices:
        return _Lanes(min(source.shared for source in sources), aligned)
    is_index = len(indices) == 1 and all(
        source.shared >= _WARP_POWER for source in sources if not source.is_index
    )
    return _Lanes(0, aligned if is_index else 0, is_index)


def _product(first: _Lanes, second: _Lanes, instruction: Instruction) -> _Lanes:
    for lanes, source in ((first, instruction.sources[1]), (second, instruction.sources[0])):
        if lanes.is_index and source.kind == "immediate" and source.value == 1:
            return lanes
    if _ZERO in (first, second):
        return _ZERO
    return _Lanes(
        min(first.shared, second.shared), min(_POWER_IN_ZERO, first.aligned + second.aligned)
    )


def _shifted_right(instruction: Instruction, sources: list[_Lanes]) -> _Lanes:
    """`SHF.R.S32.HI R17, RZ, 0x1f, R4`: the third source is shifted."""
    low, _, high = (*sources, _ZERO, _ZERO)[:3]
    amount = instruction.sources[1]
    if low != _ZERO or not instruction.has("HI") or amount.kind != "immediate":
        return _Lanes(min(source.shared for source in sources), 0)
    return _over(high, amount.value)


def _over(lanes: _Lanes, bits: int) -> _Lanes:
    """A value without its lowest bits. Thread indices and counters have no sign."""
    if bits >= _POWER_IN_ZERO - 1 or lanes == _ZERO:
        return _ZERO
    if lanes.is_index:
        return _Lanes(min(bits, lanes.aligned, _WARP_POWER), 0)
    return _Lanes(lanes.shared, max(0, lanes.aligned - bits))
