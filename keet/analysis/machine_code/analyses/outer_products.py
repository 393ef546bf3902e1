"""Matrix products on the arithmetic pipes, by their dataflow.

A thread that computes a tile of a matrix product multiplies each of several values of one matrix
with each of several values of the other, and adds every product to a sum of its own: an outer
product. That is how a product of matrices differs from its look-alikes: in a product of a matrix
and a vector, a value of the matrix has one partner; in a convolution, several products of the same
values go to one sum; in a covariance, both factors are of one set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, NamedTuple

from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.flow.values import Kind
from keet.analysis.machine_code.instructions.instruction import Instruction, is_move, is_zero
from keet.analysis.machine_code.instructions.opcodes import SHARED_LOADS, Role, words

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
        self.root: dict[int, int] = {}
        """Sums by what is added to them: values of one sum have one root."""
        self.known: dict[int, _Origin] = {}
        self.tiles = [tile for group in self._connected() if (tile := self._tile(group))]

    # --- which multiply-adds are outer products

    def _connected(self) -> Iterable[list[_Product]]:
        """Multiply-adds by the values that they share."""
        every = [product for at in self.program.ran if (product := self._product(at))]
        sets: dict[int, int] = {}
        for product in every:
            _join(sets, product.left, product.right)
        groups = defaultdict[int, list[_Product]](list)
        for product in every:
            groups[_root(sets, product.left)].append(product)
        return groups.values()

    def _product(self, position: int) -> _Product | None:
        instruction = self.code[position]
        factors = instruction.sources[:3]
        if instruction.opcode not in _PRODUCTS or len(factors) < len("abc") or is_move(instruction):
            return None
        if not all(o.is_register and o.name for o in factors[:2]) or instruction.has(
            "WIDE", "HI", "X"
        ):
            return None
        read, written = self.values.read[position], self.values.written[position]
        left, right = (self._copied(read[o.name]) for o in factors[:2])
        result = next(iter(written.values()), None)
        if left == right or result is None:
            return None
        if factors[2].is_register and not is_zero(factors[2]):
            _join(self.root, read[factors[2].name], result)
        return _Product(position, left, right, result)

    def _copied(self, value: int) -> int:
        """The value that moves have copied."""
        for _ in range(_MOST_STEPS):
            made = self.values.all[value]
            if made.kind is not Kind.DEFINITION or not is_move(self.code[made.position]):
                break
            read = list(self.values.read[made.position].values())
            if len(read) != 1:
                break
            value = read[0]
        return value

    def _tile(self, products: list[_Product]) -> list[_Product]:
        """The products, if each of several values meets each of several others once; else none."""
        partners = defaultdict[int, set[int]](set)
        for product in products:
            partners[product.left].add(product.right)
            partners[product.right].add(product.left)
        first = products[0].left
        others = partners[first]
        partners_of_other = partners[next(iter(others))]
        is_outer = not partners_of_other & others and all(
            partners[value] == (others if value in partners_of_other else partners_of_other)
            for value in partners
        )
        sums = {_root(self.root, product.sum) for product in products}
        is_once = len(products) == len(partners_of_other) * len(others) == len(sums)
        return (
            products
            if is_outer and is_once and min(len(partners_of_other), len(others)) > 1
            else []
        )

    # --- what is multiplied

    def result(self) -> OuterProducts:
        counts = self.program.counts
        products = [product for tile in self.tiles for product in tile]
        sums = {_root(self.root, product.sum) for product in products}
        warps = max(counts[0], 1)
        related = {product.position for product in products}
        kinds = Counter[FactorType]()
        for product in products:
            kinds[self._kind(product, related)] += counts[product.position]
        widths = (_PRODUCTS[self.code[product.position].opcode] for product in products)
        amount = sum(
            counts[product.position] * width
            for product, width in zip(products, widths, strict=True)
        )
        depth = amount / warps / len(sums)
        return OuterProducts(
            frozenset(product.position for product in products),
            frozenset(related),
            kinds.most_common(1)[0][0],
            depth,
            amount,
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
        for position in self.program.ran:
            instruction = self.code[position]
            if instruction.opcode == "STS":
                where = instruction.memory
                address = (where.name, where.uniform) if where else ()
                read = self.values.read[position]
                stored += [value for name, value in read.items() if name not in address]
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
                elif (
                    instruction.opcode in _CHANGES
                    or is_move(instruction)
                    or _widens_half(instruction)
                ):
                    path.add(position)
                    is_narrow |= _takes_byte(instruction)
                    is_half |= _widens_half(instruction)
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


def _root(sets: dict[int, int], value: int) -> int:
    while sets.get(value, value) != value:
        sets[value] = sets.get(sets[value], sets[value])
        value = sets[value]
    return value


def _join(sets: dict[int, int], first: int, second: int) -> None:
    sets[_root(sets, first)] = _root(sets, second)
