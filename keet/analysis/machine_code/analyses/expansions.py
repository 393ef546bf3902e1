"""Functions that the compiler expands into many instructions: divisions of integers, `powf`, …

The GPU has no instruction for them. A division of integers by a value that is not known at compile
time takes about 20 instructions in 32 bits, 70 in 64 and 200 in 128. In the machine code they look
like arithmetic on data or on addresses; they are recognised by what only such code contains: a
conversion that rounds up before a reciprocal, a loop that multiplies by the bits of a reciprocal,
or the constants of a polynomial.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Kind, Locate, Readers, SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.parameters import (
    DIVISION,
    HUGE_DIVISION,
    INTEGER_DIVISIONS,
    LARGE_ANGLES,
    LONG_DIVISION,
    POWER,
    SLOW_DIVISION,
)

_CONSTANTS = {
    POWER: ("0.0032181653659790754318", "0x3b52e7db"),
    "sinf, cosf or tanf": ("0.63661974668502807617", "0x3f22f983"),
    "logf": ("-0x3f2aaaab", "0xc0d55555"),
    "expf": ("0.0057249800302088260651", "0x3bbb989d"),
}
"""A constant that only the code of this function contains, as a number and as bits: a coefficient
of its polynomial or of its range reduction (CUDA 11 to 13)."""
_SECOND_HALVES = {POWER: ("0.0013391353422775864601", "0x3aaf85ed")}
"""The same for the exponential that ends a function. Several powers of one base share the logarithm
that starts it."""
_INSTRUCTIONS_BEFORE, _INSTRUCTIONS_AFTER = 30, 60
"""Executed instructions around the constant that may belong to the same function. A slow path
between its parts that never ran does not count."""
_LONGEST_DIVISION = 40
"""Most instructions from the quotient's product to the end of an integer division."""
_LARGE_ANGLE = " 105615,"
"""The angle from which sinf, cosf and tanf take the slow path."""
_LONGEST_PATH = 150
"""Most instructions of this path; 60 to 80 were seen."""
_LONGEST_ROUTINE = _INSTRUCTIONS_BEFORE + _INSTRUCTIONS_AFTER + _LONGEST_PATH
"""Most instructions of a function that is called: its usual code and its slow path."""
_EXPONENT, _FIRST_INSTRUCTIONS = ", 0x17, ", 8
"""The routine of a division first shifts out the exponents of its operands."""
_OF_SCALING = (Role.FLOAT, Role.INTEGER, Role.PREDICATE)
_NOT_OF_FUNCTIONS = (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY, Role.TENSOR)


class Expansion(NamedTuple):
    """One kind of expanded function, with all its instructions that ran."""

    name: str
    positions: frozenset[int]
    calls: int = 0
    """Executions by warps; 0: not known."""

    @property
    def is_of_floats(self) -> bool:
        return self.name not in INTEGER_DIVISIONS


def expansions(program: SassProgram, locate: Locate) -> list[Expansion]:
    """By executed instructions, the most first. `locate`: the source line of a position."""
    positions: dict[str, set[int]] = defaultdict(set)
    calls = Counter[str]()
    _integer_divisions(program, positions, calls)
    _slow_paths(program, positions)
    _slow_divisions(program, positions)
    taken = set().union(*positions.values()) if positions else set[int]()
    calls |= _functions(program, locate, taken, positions)
    ran = set(program.ran)
    kinds = [
        Expansion(name, frozenset(at & ran), calls[name])
        for name, at in positions.items()
        if at & ran
    ]
    return sorted(kinds, key=lambda expansion: -program.spent(expansion.positions))


# --- integers


def _integer_divisions(
    program: SassProgram, positions: dict[str, set[int]], calls: Counter[str]
) -> None:
    """`calls`: how often each kind was executed, where it is known."""
    starts = program.where(_starts_division)
    reciprocals = program.where(lambda instruction: instruction.opcode == "MUFU")
    if not starts and not reciprocals:
        return
    onwards = _Onwards(program)
    for reciprocal in reciprocals:
        if digits := onwards.digits(reciprocal):
            positions[HUGE_DIVISION].update(digits)
            calls[HUGE_DIVISION] += program.counts[reciprocal]
    for start in starts:
        routine = _routine_of(program, start)
        if _is_long(program.code[start]):
            positions[LONG_DIVISION].update(routine or onwards.within(start, 2 * _LONGEST_DIVISION))
            continue
        setup, refined = onwards.reciprocals(start)
        positions[DIVISION].update(setup)
        for reciprocal in refined:
            positions[DIVISION].update(onwards.quotients(reciprocal))


def integer_divisions(program: SassProgram) -> list[int]:
    """Positions of instructions that run once per integer division or remainder."""
    starts = {*program.where(_starts_division)}
    divisions = {start for start in starts if _is_long(program.code[start])}
    if starts == divisions:
        return sorted(divisions)
    onwards = _Onwards(program)
    for start in starts - divisions:
        for reciprocal in onwards.reciprocals(start)[1]:
            divisions.update(onwards.products(reciprocal))
    return sorted(divisions)


def _starts_division(instruction: Instruction) -> bool:
    """The divisor is converted and rounded up, which nothing else does."""
    return instruction.opcode in ("I2F", "UI2F") and instruction.has("RP")


def _is_long(start: Instruction) -> bool:
    return any("64" in modifier for modifier in start.modifiers)


def _routine_of(program: SassProgram, position: int) -> set[int]:
    """All positions of the called routine that contains the position; empty if there is none."""
    block, routines = program.flow.block_of[position], program.flow.routines.values()
    blocks = next((blocks for blocks in routines if block in blocks), ())
    return set(program.flow.positions(blocks))


class _Onwards:
    """Forward slices: instructions that use a result, directly or not."""

    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.uses = Readers(program)

    def readers(self, position: int) -> set[int]:
        """Positions that read a result of the instruction, also after predicated writes."""
        written = self.program.values.written[position].values()
        same = self.uses.same(*written, joins=False)
        return {user for value in same for user in self.uses.users[value]}

    def reciprocals(self, start: int) -> tuple[set[int], list[int]]:
        """The instructions up to the refined reciprocal of the divisor (an upper product), and the
        positions of such products: one in most cases."""
        code = self.program.code

        def following(position: int) -> Iterable[int]:
            return () if _is_upper_product(code[position]) else self.readers(position)

        setup = reached([start], following, _LONGEST_DIVISION)
        return set(setup), [position for position in setup if _is_upper_product(code[position])]

    def quotients(self, reciprocal: int) -> set[int]:
        """The instructions of each division by the same divisor, from the product to the check for
        zero; the divisor's reciprocal may have been computed before a loop."""
        code, positions = self.program.code, set[int]()
        for product in self.products(reciprocal):
            slice_ = self.within(product, _LONGEST_DIVISION)
            written = {name for position in slice_ for name in code[position].writes}
            near = range(product, min(len(code), product + _LONGEST_DIVISION))
            ends = [at for at in near if _ends_division(code[at]) and written & {*code[at].writes}]
            last = min(ends, default=product + _LONGEST_DIVISION // 2)
            positions |= {position for position in (*slice_, *ends[:1]) if position <= last}
        return positions

    def products(self, reciprocal: int) -> list[int]:
        """Products of dividends with the reciprocal of their divisor: one per division."""
        code = self.program.code
        return [reader for reader in self.readers(reciprocal) if _is_upper_product(code[reader])]

    def digits(self, reciprocal: int) -> set[int]:
        """The instructions of a division of 128 bits: a loop multiplies what is left of the
        dividend by the reciprocal of the divisor's upper bits, for one digit per iteration. The
        reciprocal is that of a float, whose bits are taken as an integer. Empty for others."""
        program, flow = self.program, self.program.flow
        code, block = program.code, flow.block_of[reciprocal]
        if not code[reciprocal].has("RCP"):
            return set()
        scaled = [reader for reader in self.readers(reciprocal) if code[reader].opcode == "FMUL"]
        onwards = {
            position for reader in scaled for position in self.within(reader, 2 * _LONGEST_DIVISION)
        }
        around = flow.loops_around(block)
        products = (position for position in onwards if _is_upper_product(code[position]))
        inside = (flow.loop_of.get(flow.block_of[product]) for product in products)
        digits = set[int]()
        for loop in (flow.loops[index] for index in inside if index is not None):
            in_loop = flow.positions(loop.blocks)
            if loop not in around and not any(code[position].memory for position in in_loop):
                digits.update(in_loop)
        before = {at for at in (reciprocal, *onwards) if flow.block_of[at] == block}
        return digits | before | self._scaling(reciprocal) if digits else set()

    def _scaling(self, reciprocal: int) -> set[int]:
        """The instructions of the same block that bring the divisor into a float."""
        values, block = self.program.values, self.program.flow.block_of[reciprocal]

        def following(position: int) -> Iterator[int]:
            for made in (values.all[value] for value in values.read[position].values()):
                is_near = made.kind is Kind.DEFINITION and made.block == block
                if is_near and self.program.code[made.position].role in _OF_SCALING:
                    yield made.position

        return reached([reciprocal], following).keys() - {reciprocal}

    def within(self, position: int, most: int) -> set[int]:
        """The forward slice through at most so many instructions of code."""
        near, code = range(position + 1, position + most + 1), self.program.code

        def following(index: int) -> Iterator[int]:
            return (at for at in self.readers(index) if at in near and not _leaves(code[at]))

        return set(reached([position], following))


def _is_upper_product(instruction: Instruction) -> bool:
    return instruction.opcode in ("IMAD", "UIMAD") and instruction.has("HI")


def _ends_division(instruction: Instruction) -> bool:
    """`@!P LOP3.LUT R, RZ, divisor, RZ, 0x33`: the result for a divisor of zero."""
    return instruction.opcode == "LOP3" and ", 0x33," in instruction.text


def _leaves(instruction: Instruction) -> bool:
    return instruction.memory is not None or instruction.role in (Role.FLOAT, Role.BRANCH)


# --- functions of floating-point numbers


def _slow_paths(program: SassProgram, positions: dict[str, set[int]]) -> None:
    """What the branch after the comparison of an angle skips: the product with many digits of
    2 / pi, with an array in local memory."""
    code = program.code
    for position in program.where(lambda e: e.opcode == "FSETP" and _LARGE_ANGLE in e.text):
        near = range(position + 1, min(len(code), position + _LONGEST_DIVISION))
        branch = next((at for at in near if code[at].opcode == "BRA"), None)
        end = program.positions.get(code[branch].target or 0) if branch is not None else None
        if branch is not None and end is not None and branch < end <= branch + _LONGEST_PATH:
            positions[LARGE_ANGLES].update(range(branch + 1, end))


def _slow_divisions(program: SassProgram, positions: dict[str, set[int]]) -> None:
    """The routine that is called after FCHK, which tests whether the fast code of a division is
    exact for these operands: it is not for infinities, NaN, denormals and extreme exponents."""
    code, flow = program.code, program.flow
    checks = program.where(lambda instruction: instruction.opcode == "FCHK")
    for entry, blocks in flow.routines.items() if checks else ():
        calls = [flow.blocks[caller].end - 1 for caller in flow.callers[entry]]
        start = flow.blocks[entry].start
        first = code[start : start + _FIRST_INSTRUCTIONS]
        near = [any(0 < call - check <= _LONGEST_DIVISION for check in checks) for call in calls]
        if all(near) and any(_EXPONENT in instruction.text for instruction in first):
            positions[SLOW_DIVISION].update(calls, flow.positions(blocks))


def _functions(
    program: SassProgram, locate: Locate, taken: Iterable[int], positions: dict[str, set[int]]
) -> Counter[str]:
    """How often each function was called."""
    anchors = {
        position: name
        for position in program.ran
        for constants in (_CONSTANTS, _SECOND_HALVES)
        if (name := _function(program.code[position], constants))
    }
    calls = Counter[str]()
    for constants in (_CONSTANTS, _SECOND_HALVES):
        counts = Counter[str]()
        for anchor in anchors:
            counts[_function(program.code[anchor], constants)] += program.counts[anchor]
        calls |= counts  # several powers have one first half
    lines = {anchor: locate(anchor) for anchor in anchors}
    order = {position: rank for rank, position in enumerate(program.ran)}
    nearest: dict[int, tuple[int, int]] = {}
    spent = set(taken)
    for anchor in anchors:
        routine = _routine_of(program, anchor)
        if len(routine) > _LONGEST_ROUTINE:  # a function of the user that calls this one
            routine = set()
        rank = order[anchor]
        first, end = max(0, rank - _INSTRUCTIONS_BEFORE), rank + _INSTRUCTIONS_AFTER + 1
        for position in routine or program.ran[first:end]:
            is_same = routine or locate(position) == lines[anchor]
            if position in spent or not is_same or program.code[position].role in _NOT_OF_FUNCTIONS:
                continue
            here = (abs(order.get(position, rank) - rank), anchor)
            nearest[position] = min(nearest.get(position, here), here)
    for position, (_, anchor) in nearest.items():
        positions[anchors[anchor]].add(position)
    return calls


def _function(instruction: Instruction, constants: Mapping[str, Collection[str]]) -> str:
    """The name of the function whose code contains this instruction alone; empty for others."""
    if instruction.role not in (Role.FLOAT, Role.MOVE, Role.INTEGER):
        return ""
    for name, spelled in constants.items():
        if any(number in instruction.text for number in spelled):
            return name
    return ""
