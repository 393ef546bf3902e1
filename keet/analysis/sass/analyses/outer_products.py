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

from keet.analysis.sass.flow.control_flow import reached
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind
from keet.analysis.sass.instructions.instruction import Instruction, is_move, is_zero
from keet.analysis.sass.instructions.opcodes import SHARED_LOADS, Role, words

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
    found = _Products(program)
    return found.result() if found.tiles else None


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
        self.tiles = [tile for each in self._connected() if (tile := self._tile(each))]

    # --- which multiply-adds are outer products

    def _connected(self) -> Iterable[list[_Product]]:
        """Multiply-adds by the values that they share."""
        every = [each for at in self.program.ran if (each := self._product(at))]
        sets: dict[int, int] = {}
        for each in every:
            _join(sets, each.left, each.right)
        groups = defaultdict[int, list[_Product]](list)
        for each in every:
            groups[_root(sets, each.left)].append(each)
        return groups.values()

    def _product(self, position: int) -> _Product | None:
        each = self.code[position]
        factors = each.sources[:3]
        if each.opcode not in _PRODUCTS or len(factors) < len("abc") or is_move(each):
            return None
        if not all(o.is_register and o.name for o in factors[:2]) or each.has("WIDE", "HI", "X"):
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
        for each in products:
            partners[each.left].add(each.right)
            partners[each.right].add(each.left)
        first = products[0].left
        others = partners[first]
        own = partners[next(iter(others))]
        is_outer = not own & others and all(
            partners[value] == (others if value in own else own) for value in partners
        )
        sums = {_root(self.root, each.sum) for each in products}
        is_once = len(products) == len(own) * len(others) == len(sums)
        return products if is_outer and is_once and min(len(own), len(others)) > 1 else []

    # --- what is multiplied

    def result(self) -> OuterProducts:
        counts = self.program.counts
        products = [each for tile in self.tiles for each in tile]
        sums = {_root(self.root, each.sum) for each in products}
        warps = max(counts[0], 1)
        related = {each.position for each in products}
        kinds = Counter[FactorType]()
        for each in products:
            kinds[self._kind(each, related)] += counts[each.position]
        widths = (_PRODUCTS[self.code[each.position].opcode] for each in products)
        amount = sum(
            counts[each.position] * width for each, width in zip(products, widths, strict=True)
        )
        depth = amount / warps / len(sums)
        return OuterProducts(
            frozenset(each.position for each in products),
            frozenset(related),
            kinds.most_common(1)[0][0],
            depth,
            amount,
        )

    def _kind(self, product: _Product, related: set[int]) -> FactorType:
        factors = [self._origin(value) for value in (product.left, product.right)]
        related.update(*(each.path for each in factors))
        opcode = self.code[product.position].opcode
        if opcode.startswith("IDP"):
            return "bytes"
        if opcode == "HFMA2":
            return "halves"
        if opcode == "IMAD":
            return "bytes" if all(each.is_narrow for each in factors) else ""
        if all(each.is_half for each in factors):
            return "halves"
        return "quantised" if any(each.is_narrow for each in factors) else ""

    def _origin(self, value: int) -> _Origin:
        """What a factor was, before it was converted and scaled, and staged in shared memory."""
        if value not in self.known:
            found = self._followed([value])
            if any(self.code[each].opcode in SHARED_LOADS for each in found.path):
                staged = self._staged
                found = _Origin(
                    found.is_narrow or staged.is_narrow,
                    found.is_half or staged.is_half,
                    found.path | staged.path,
                )
            self.known[value] = found
        return self.known[value]

    @cached_property
    def _staged(self) -> _Origin:
        """The same of the values that are stored in shared memory: of any of them for bytes, and of
        all for halves, since it is not known which of them is which factor."""
        found: list[int] = []
        for position in self.program.ran:
            each = self.code[position]
            if each.opcode == "STS":
                where = each.memory
                address = (where.name, where.uniform) if where else ()
                read = self.values.read[position]
                found += [value for name, value in read.items() if name not in address]
        every = self._followed(found)
        are_halves = bool(found) and all(self._followed([each]).is_half for each in found)
        return every._replace(is_half=are_halves)

    def _followed(self, values: list[int]) -> _Origin:
        """Follows values back to loads."""
        path, is_narrow, is_half = set[int](), False, False

        def following(value: int) -> Iterator[int]:
            nonlocal is_narrow, is_half
            for position in self.values.definitions(value):
                each = self.code[position]
                if each.role is Role.LOAD:
                    is_narrow |= each.width == 1
                    if each.opcode in SHARED_LOADS:
                        path.add(position)
                elif each.opcode in _CHANGES or is_move(each) or _widens_half(each):
                    path.add(position)
                    is_narrow |= _takes_byte(each)
                    is_half |= _widens_half(each)
                    yield from self.values.read[position].values()

        reached(values, following, _MOST_STEPS)
        return _Origin(is_narrow, is_half and not is_narrow, frozenset(path))


def _widens_half(each: Instruction) -> bool:
    """`HADD2.F32 R1, -RZ, R2.H0_H0`, `IMAD.U32 R1, R2, 0x10000, RZ`, `LOP3 R1, R2, 0xffff0000`:
    a half or a bfloat16 becomes a float."""
    if each.opcode == "HADD2":
        return each.has("F32")
    by = _WIDENS.get(each.opcode)
    is_right = each.opcode == "SHF" and each.has("R")
    return not is_right and by in each.immediates


def _takes_byte(each: Instruction) -> bool:
    """`I2F.S8`, `LOP3 R1, R2, 0xff`: a byte or a part of it is taken out of a word."""
    if each.opcode in _CONVERTS:
        return any(f".{form}" in each.text for form in _BYTE_FORMS)
    is_mask = each.opcode == "LOP3" and ", 0xc0," in each.text
    return is_mask and 0 < each.immediates[0] <= _BYTE


def _root(sets: dict[int, int], value: int) -> int:
    while sets.get(value, value) != value:
        sets[value] = sets.get(sets[value], sets[value])
        value = sets[value]
    return value


def _join(sets: dict[int, int], one: int, other: int) -> None:
    sets[_root(sets, one)] = _root(sets, other)
