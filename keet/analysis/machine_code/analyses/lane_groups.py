"""Arithmetic that several neighbouring threads do equally, as with a counter that is divided by
four: all that follows from it alone has the same result in four lanes.

A value's lanes are grouped by what it is computed from: the thread's index is different in each
lane, without its lowest bits it is the same in a group, and a constant is the same in all. A sum of
the index and a multiple of a power of two keeps the groups below it. Where paths join, or data of
other threads comes in, nothing is said, except for what a loop changes by such a multiple. After a
loop, lanes have the value of their last iteration: it is the same only as far as they leave
together.

Matrix products on the arithmetic pipes, by their dataflow.

A thread that computes a tile of a matrix product multiplies each of several values of one matrix
with each of several values of the other, and adds every product to a sum of its own: an outer
product. That is how a product of matrices differs from its look-alikes: in a product of a matrix
and a vector, a value of the matrix has one partner; in a convolution, several products of the same
values go to one sum; in a covariance, both factors are of one set.

Steps on pairs of values in shared memory, as in a fast transform or a sorting network.

In each step a thread takes a group of values, computes as many results from them, and puts these in
their places. A thread that handles several groups between two barriers has enough values to do
several steps on them in registers, if it takes them from other places: with sixteen values instead
of eight pairs, four steps.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import takewhile
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.flow.control_flow import Loop, reached, root_of
from keet.analysis.machine_code.flow.program import Kind, Readers, SassProgram, SsaValue, is_pure
from keet.analysis.machine_code.instructions.instruction import (
    Instruction,
    Operand,
    is_move,
    is_zero,
)
from keet.analysis.machine_code.instructions.opcodes import SHARED_LOADS, Role, words
from keet.analysis.machine_code.polynomials.polynomial import LaunchShape

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


_OWN_VALUE_PER_LANE, _SAME_IN_WARP = _Lanes(0, 0), _Lanes(_WARP_POWER, 0)
_ZERO = _Lanes(_WARP_POWER, _POWER_IN_ZERO)


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
        shared = (
            self.seen(value, flow.block_of[branch]).shared
            for branch in branches
            for value in values.read[branch].values()
        )
        return min(shared, default=_WARP_POWER)

    def _of(self, value: SsaValue) -> _Lanes:
        if value.kind is Kind.DEFINITION:
            return self._defined(value.position)
        if value.kind is Kind.GUARDED and value.guard is not None:
            inputs = (*value.inputs, value.guard[0])
            return _Lanes(min(self.seen(source, value.block).shared for source in inputs), 0)
        loop = self.loops.get(value.block) if value.kind is Kind.JOIN else None
        return self._at_head(value, loop) if loop else _OWN_VALUE_PER_LANE

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
        is_high = instruction.base == "LEA" and instruction.has("HI")
        if is_high and amount and amount.kind == "immediate":
            return _sum([_over(sources[0], _POWER_IN_ZERO - amount.value), sources[1]])
        if instruction.base == "LOP3":
            return self._masked(instruction, sources)
        if is_move(instruction) or instruction.role is Role.CONSTANT:
            return next((source for source in sources if source != _ZERO), _ZERO)
        if instruction.base in ("IADD3", "VIADD", "IADD") and not instruction.has("X"):
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
        is_of_block = name.startswith(("SR_CTAID", "SR_Cga", "SR_NCTAID", "SR_NTID"))
        return _SAME_IN_WARP if is_of_block else _OWN_VALUE_PER_LANE

    def _masked(self, instruction: Instruction, sources: list[_Lanes]) -> _Lanes:
        masks, tables = (
            [operand.value for operand in operands if operand.kind == "immediate"]
            for operands in (instruction.sources[:3], instruction.sources[3:4])
        )
        index = next((source for source in sources[:3] if source.is_index), None)
        if tables == [0xC0] and len(masks) == 1 and index is not None:
            bits = _trailing(masks[0] & 0xFFFFFFFF)
            ones = _trailing((masks[0] + 1) & 0xFFFFFFFF)
            if bits:
                return _Lanes(min(index.aligned, bits, _WARP_POWER), bits)
            aligned = min(index.aligned, ones)
            return index._replace(aligned=aligned) if ones else _OWN_VALUE_PER_LANE
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
    passed = {*takewhile(loop.blocks.__contains__, flow.above(loop.latches[0]))}
    is_simple = len(loop.latches) == 1 and {flow.block_of[at] for at in exits} <= passed
    return exits if is_simple else [flow.blocks[block].end - 1 for block in branching]


def _within(lanes: _Lanes, shared: int) -> _Lanes:
    """A value that only this many neighbouring lanes have at the same time."""
    if shared >= _WARP_POWER or lanes == _ZERO:
        return lanes
    fewer = lanes._replace(shared=min(lanes.shared, shared))
    return _OWN_VALUE_PER_LANE if lanes.is_index else fewer


def _meet(first: _Lanes, second: _Lanes) -> _Lanes:
    if _ZERO in (first, second):
        return second if first == _ZERO else first
    if first.is_index != second.is_index:
        return _OWN_VALUE_PER_LANE
    shared, aligned = min(first.shared, second.shared), min(first.aligned, second.aligned)
    return _Lanes(shared, aligned, first.is_index)


def _sum(sources: list[_Lanes]) -> _Lanes:
    indices = [source for source in sources if source.is_index]
    aligned = min(source.aligned for source in sources)
    if not indices:
        return _Lanes(min(source.shared for source in sources), aligned)
    others = (source for source in sources if not source.is_index)
    is_index = len(indices) == 1 and all(source.shared >= _WARP_POWER for source in others)
    return _Lanes(0, aligned if is_index else 0, is_index)


def _product(first: _Lanes, second: _Lanes, instruction: Instruction) -> _Lanes:
    for lanes, source in ((first, instruction.sources[1]), (second, instruction.sources[0])):
        if lanes.is_index and source.kind == "immediate" and source.value == 1:
            return lanes
    if _ZERO in (first, second):
        return _ZERO
    aligned = min(_POWER_IN_ZERO, first.aligned + second.aligned)
    return _Lanes(min(first.shared, second.shared), aligned)


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


FactorType = Literal["bytes", "halves", "quantised", ""]
"""`bytes`: both factors are integers of 8 bits or fewer. `halves`: FP16 arithmetic, or floats that
both were halves or bfloat16 in memory. `quantised`: floats, and one factor was such an integer.
Empty: other floats or integers."""

_PRODUCTS = {"FFMA": 1, "IDP": 4, "IDP4A": 4, "IMAD": 1, "HFMA2": 2}
"""Products of one instruction, by opcode."""
_CONVERTS = words("I2F I2FP")
_CHANGES = _CONVERTS | words("PRMT SHF LOP3 SGXT I2I I2IP FMUL FADD HADD2 HMUL2 F2F F2FP")
"""What is followed back from a factor: unpacking, conversion, scaling."""
_BYTE_FORMS = ("S8", "U8", "B1", "B2", "B3")
_BYTE = 0xFF
_WIDENS = {"SHF": 0x10, "IMAD": 0x10000, "LOP3": 0xFFFF0000}
"""The shift, the factor or the mask with which a bfloat16 becomes a float."""
_MOST_STEPS = 200
"""Values that are followed back from a factor."""


class OuterProducts(NamedTuple):
    products: frozenset[int]
    """Positions of the multiply-adds."""
    related: frozenset[int]
    """With the instructions that load their factors from shared memory, unpack, convert and scale
    them."""
    factors: FactorType
    depth: float
    """Products that a thread adds to each sum."""
    amount: float
    """Products of all threads, in those of a warp."""


def outer_products(program: SassProgram) -> OuterProducts | None:
    """None if there are none."""
    products = _Products(program)
    return products.result() if products.tiles else None


class _Product(NamedTuple):
    position: int
    left: int
    right: int
    sum: int


class _Origin(NamedTuple):
    """What factors were in memory."""

    is_narrow: bool
    """Integers of 8 bits or fewer."""
    is_half: bool
    """Halves or bfloat16."""
    path: frozenset[int]
    """Positions of the instructions that lead from the loads to the factors."""


class _Products:
    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.code = program.code
        self.values = program.values
        self.sums = [*range(len(program.values.all))]
        """Links between values that are added to each other: those of one sum have one root."""
        self.known: dict[int, _Origin] = {}
        self.tiles = [tile for group in self._connected() if (tile := self._tile(group))]

    # --- which multiply-adds are outer products

    def _connected(self) -> Iterable[list[_Product]]:
        """Multiply-adds by the values that they share."""
        every = [product for at in self.program.ran if (product := self._product(at))]
        sets = [*range(len(self.values.all))]
        for product in every:
            sets[root_of(sets, product.left)] = root_of(sets, product.right)
        groups = defaultdict[int, list[_Product]](list)
        for product in every:
            groups[root_of(sets, product.left)].append(product)
        return groups.values()

    def _product(self, position: int) -> _Product | None:
        instruction = self.code[position]
        factors = instruction.sources[:3]
        if instruction.opcode not in _PRODUCTS or len(factors) < len("abc") or is_move(instruction):
            return None
        are_registers = all(o.is_register and o.name for o in factors[:2])
        if not are_registers or instruction.has("WIDE", "HI", "X"):
            return None
        read, written = self.values.read[position], self.values.written[position]
        left, right = (self._copied(read[o.name]) for o in factors[:2])
        result = next(iter(written.values()), None)
        if left == right or result is None:
            return None
        if factors[2].is_register and not is_zero(factors[2]):
            self.sums[root_of(self.sums, read[factors[2].name])] = root_of(self.sums, result)
        return _Product(position, left, right, result)

    def _copied(self, value: int) -> int:
        """The value that moves have copied."""
        for _ in range(_MOST_STEPS):
            writer = self.program.writer(value)
            read = self.values.behind(self.values.all[value])
            if writer is None or not is_move(writer) or len(read) != 1:
                break
            (value,) = read
        return value

    def _tile(self, products: list[_Product]) -> list[_Product]:
        """The products, if each of several values meets each of several others once; else none."""
        partners = defaultdict[int, set[int]](set)
        for product in products:
            partners[product.left].add(product.right)
            partners[product.right].add(product.left)
        others = partners[products[0].left]
        some = partners[next(iter(others))]
        is_outer = not some & others and all(
            partners[value] == (others if value in some else some) for value in partners
        )
        sums = {root_of(self.sums, product.sum) for product in products}
        is_once = len(products) == len(some) * len(others) == len(sums)
        return products if is_outer and is_once and min(len(some), len(others)) > 1 else []

    # --- what is multiplied

    def result(self) -> OuterProducts:
        counts = self.program.counts
        products = [product for tile in self.tiles for product in tile]
        sums = {root_of(self.sums, product.sum) for product in products}
        warps = max(counts[0], 1)
        related = {product.position for product in products}
        kinds = Counter[FactorType]()
        for product in products:
            kinds[self._kind(product, related)] += counts[product.position]
        positions = frozenset(product.position for product in products)
        amount = sum(counts[at] * _PRODUCTS[self.code[at].opcode] for at in positions)
        ((kind, _),) = kinds.most_common(1)
        return OuterProducts(
            positions, frozenset(related), kind, amount / warps / len(sums), amount
        )

    def _kind(self, product: _Product, related: set[int]) -> FactorType:
        factors = [self._origin(value) for value in (product.left, product.right)]
        related.update(*(factor.path for factor in factors))
        opcode = self.code[product.position].opcode
        if opcode.startswith("IDP"):
            return "bytes"
        if opcode == "HFMA2":
            return "halves"
        if opcode == "IMAD":
            return "bytes" if all(factor.is_narrow for factor in factors) else ""
        if all(factor.is_half for factor in factors):
            return "halves"
        return "quantised" if any(factor.is_narrow for factor in factors) else ""

    def _origin(self, value: int) -> _Origin:
        """What a factor was, before it was converted and scaled, and staged in shared memory."""
        if value not in self.known:
            origin = self._followed([value])
            if any(self.code[position].opcode in SHARED_LOADS for position in origin.path):
                staged = self._staged
                origin = _Origin(
                    origin.is_narrow or staged.is_narrow,
                    origin.is_half or staged.is_half,
                    origin.path | staged.path,
                )
            self.known[value] = origin
        return self.known[value]

    @cached_property
    def _staged(self) -> _Origin:
        """The same of the values that are stored in shared memory: of any of them for bytes, and of
        all for halves, since it is not known which of them is which factor."""
        stored: list[int] = []
        for position in self.program.where(lambda instruction: instruction.opcode == "STS"):
            address = self.program.address_values(position)
            read = self.values.read[position].values()
            stored += [value for value in read if value not in address]
        every = self._followed(stored)
        are_halves = bool(stored) and all(self._followed([value]).is_half for value in stored)
        return every._replace(is_half=are_halves)

    def _followed(self, values: list[int]) -> _Origin:
        """Follows values back to loads."""
        path, is_narrow, is_half = set[int](), False, False

        def following(value: int) -> Iterator[int]:
            nonlocal is_narrow, is_half
            for position in self.values.definitions(value):
                instruction = self.code[position]
                if instruction.role is Role.LOAD:
                    is_narrow |= instruction.width == 1
                    if instruction.opcode in SHARED_LOADS:
                        path.add(position)
                    continue
                widens = _widens_half(instruction)
                if instruction.opcode in _CHANGES or is_move(instruction) or widens:
                    path.add(position)
                    is_narrow |= _takes_byte(instruction)
                    is_half |= widens
                    yield from self.values.read[position].values()

        reached(values, following, _MOST_STEPS)
        return _Origin(is_narrow, is_half and not is_narrow, frozenset(path))


def _widens_half(instruction: Instruction) -> bool:
    """`HADD2.F32 R1, -RZ, R2.H0_H0`, `IMAD.U32 R1, R2, 0x10000, RZ`, `LOP3 R1, R2, 0xffff0000`:
    a half or a bfloat16 becomes a float."""
    if instruction.opcode == "HADD2":
        return instruction.has("F32")
    by = _WIDENS.get(instruction.opcode)
    is_right = instruction.opcode == "SHF" and instruction.has("R")
    return not is_right and by in instruction.immediates


def _takes_byte(instruction: Instruction) -> bool:
    """`I2F.S8`, `LOP3 R1, R2, 0xff`: a byte or a part of it is taken out of a word."""
    if instruction.opcode in _CONVERTS:
        return any(f".{form}" in instruction.text for form in _BYTE_FORMS)
    is_mask = instruction.opcode == "LOP3" and ", 0xc0," in instruction.text
    return is_mask and 0 < instruction.immediates[0] <= _BYTE


_ARITHMETIC = (Role.FLOAT, Role.INTEGER, Role.MOVE)
_MOST_INSTRUCTIONS = 64
"""Most instructions between a load and the stores of its group."""


class ExchangeSteps(NamedTuple):
    positions: frozenset[int]
    """Of the loads and stores of shared memory."""
    group: float
    """Values that are combined with each other, on average."""
    held: float
    """Values that a thread loads between two barriers."""

    @property
    def left(self) -> float:
        """Share of the passes over the values that is left if a thread combines all that it
        holds."""
        return min(1.0, math.log(self.group) / math.log(self.held)) if self.held > 1 else 1.0


def exchange_steps(program: SassProgram) -> ExchangeSteps | None:
    """None if the kernel has no such steps."""
    loads = program.where(lambda instruction: instruction.opcode == "LDS")
    barriers = program.spent(program.where(lambda instruction: instruction.is_barrier))
    if not loads or not barriers:
        return None
    readers = Readers(program)
    behind: dict[int, set[int]] = {}
    for load in loads:
        for store in _stores(readers, load):
            behind.setdefault(store, set()).add(load)
    groups = Counter(frozenset(group) for group in behind.values())
    # As many results as values, which all follow from all of them.
    exchanged = {group for group, stores in groups.items() if 1 < len(group) == stores}
    taken = {load for group in exchanged for load in group}
    stores = {store for store, group in behind.items() if frozenset(group) in exchanged}
    executed = program.spent(taken)
    if not executed:
        return None
    logs = sum(math.log(len(group)) * program.spent(group) for group in exchanged)
    return ExchangeSteps(frozenset(taken | stores), math.exp(logs / executed), executed / barriers)


def _stores(readers: Readers, load: int) -> set[int]:
    """Positions of the stores to shared memory of what follows from a loaded value."""
    code = readers.program.code

    def following(position: int) -> set[int]:
        is_passed_on = position == load or code[position].role in _ARITHMETIC
        return readers.of_result(position) if is_passed_on else set()

    behind = reached([load], following, _MOST_INSTRUCTIONS)
    return {position for position in behind if code[position].opcode == "STS"}
