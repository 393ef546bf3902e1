"""Address polynomials of global accesses, and how often each byte is requested, by pointer.

Upper bounds on the distinct bytes follow from the polynomials: each symbol is assumed to take every
value of its range independently. Coefficients that are unknown numbers (parameters) are factored
out: for any K, `K * f + g` takes at most as many values as f times as many as g.

Parameters that indices are compared with are the extents of arrays. `in[y * width + x]` has rows
that are `width` apart. If the code compares an index with `width`, rows do not overlap; if it does
not, rows at an unknown distance may overlap.

A loop may load from the same addresses as one before it: a row's mean, then its variance. The
addresses may depend on data, such as the first element of a row. All that counts is that they are
computed in the same way from the same values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import GLOBAL, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import (
    Monomial,
    Polynomial,
    Symbol,
    add,
    number,
    text_of,
)
from keet.analysis.parameters import NEGLIGIBLE

SECTOR = 32


@dataclass(frozen=True, order=True, slots=True)
class Stride:
    """`step` times a quantity with `count` consecutive values."""

    step: int
    count: int

    @property
    def span(self) -> int:
        """From the first value to the last."""
        return self.step * (self.count - 1)


class FactorGroup(NamedTuple):
    """The part of a polynomial with one unknown number as factor; `()` for plain bytes."""

    factor: Monomial
    strides: tuple[Stride, ...]
    offset: int


class AccessShape(NamedTuple):
    """The bytes that one access touches; see `shape_of`."""

    fixed: tuple[tuple[Monomial, int], ...]
    """Unknown offsets that are the same for all threads."""
    groups: tuple[FactorGroup, ...]
    width: int

    @property
    def key(self) -> object:
        """Equal for accesses that differ only in their constant offsets."""
        return self.fixed, tuple((g.factor, g.strides) for g in self.groups), self.width

    @property
    def skeleton(self) -> object:
        """Equal for accesses that differ only in offsets and in the lengths of their strides."""
        steps = tuple((g.factor, tuple(s.step for s in g.strides)) for g in self.groups)
        return self.fixed, steps, self.width


def shape_of(polynomial: Polynomial, width: int) -> AccessShape | None:
    """`None` if a symbol has no bounds: data, or an unknown number of iterations."""
    strides: dict[Monomial, list[Stride]] = {(): []}
    offsets: dict[Monomial, int] = {}
    for product, coefficient in polynomial.terms.items():
        factor, varying = parted(product)
        if not varying:
            offsets[factor] = offsets.get(factor, 0) + coefficient
            continue
        low = _lowest(varying, coefficient)
        if low is None:
            return None
        count = math.prod(symbol.counted.size or 1 for symbol in varying)
        if any(symbol.range.size is None and symbol.is_scattered for symbol in varying):
            # Treated like a product with an unknown number: only the number of values matters.
            strides.setdefault(product, []).append(Stride(1, count))
            continue
        offsets[factor] = offsets.get(factor, 0) + low
        strides.setdefault(factor, []).append(Stride(abs(coefficient), count))
    fixed = sorted(factor for factor in offsets if factor and factor not in strides)
    groups = (
        FactorGroup(factor, merged(strides[factor]), offsets.get(factor, 0))
        for factor in sorted(strides)
    )
    return AccessShape(tuple((f, offsets[f]) for f in fixed), tuple(groups), width)


def parted(product: Monomial) -> tuple[Monomial, Monomial]:
    """The unknown numbers of a product, which are the same for all threads, and what varies."""
    factor = tuple(symbol for symbol in product if symbol.is_uniform)
    return factor, tuple(symbol for symbol in product if not symbol.is_uniform)


def _lowest(symbols: Sequence[Symbol], coefficient: int) -> int | None:
    """The least value of a product; `None` if a symbol has no bounds."""
    corners = [coefficient]
    for symbol in symbols:
        low, high = symbol.counted
        if low is None or high is None:
            return None
        corners = [corner * end for corner in corners for end in (low, high)]
    return min(corners)


def merged(strides: Iterable[Stride]) -> tuple[Stride, ...]:
    """Joins strides that continue each other: 16 rows of 32 words are 512 words."""
    done: list[Stride] = []
    for stride in sorted(stride for stride in strides if stride.count > 1):
        last = done[-1] if done else None
        if last and stride.step % last.step == 0 and stride.step <= last.step * last.count:
            done[-1] = Stride(last.step, (last.span + stride.span) // last.step + 1)
        else:
            done.append(stride)
    return tuple(done)


def distinct_values(strides: Iterable[Stride], offsets: Sequence[int] = (0,)) -> int:
    """Upper bound on the values of a sum of strides, starting at any of the offsets."""
    count, span, common = 1, 0, 0
    for stride in sorted(strides):
        span += stride.span
        common = math.gcd(common, stride.step)
        count = min(count * stride.count, span // max(1, common) + 1)
    if len(offsets) > 1:
        low, high = min(offsets), max(offsets)
        common = math.gcd(common, *(offset - low for offset in offsets))
        count = min(count * len(offsets), (span + high - low) // max(1, common) + 1)
    return count


def distinct_bytes(strides: Sequence[Stride], width: int, offsets: Sequence[int] = (0,)) -> int:
    """Upper bound on the bytes that `width`-byte accesses at these offsets touch."""
    span = sum(stride.span for stride in strides) + max(offsets) - min(offsets)
    return min(distinct_values(strides, offsets) * width, span + width)


def sector_bytes(strides: Sequence[Stride], width: int, *, is_aligned: bool) -> int:
    """The same in whole sectors, which is what memory transfers.

    A row that is not aligned to sectors can touch one sector more than its length requires.
    """
    runs, length = 1, width
    for stride in sorted(strides):
        if stride.step <= length:
            length += stride.span
        else:
            runs *= stride.count
    if is_aligned:
        return runs * -(-length // SECTOR) * SECTOR
    common = math.gcd(SECTOR, width, *(stride.step for stride in strides))
    return runs * ((length + SECTOR - common - 1) // SECTOR + 1) * SECTOR


class Bound(NamedTuple):
    bytes: int
    sector_bytes: int
    """In whole sectors, if rows are aligned to sectors."""
    worst_sector_bytes: int
    """In whole sectors, for any alignment of rows."""


def bound_of(shapes: Iterable[AccessShape]) -> Bound:
    """Bytes that several accesses through one pointer can touch together."""
    skeletons: dict[object, dict[object, list[AccessShape]]] = {}
    for shape in shapes:
        skeletons.setdefault(shape.skeleton, {}).setdefault(shape.key, []).append(shape)
    bounds: list[Bound] = []
    every: list[AccessShape] = []
    for alike in skeletons.values():
        apart = [_together(same) for same in alike.values()]
        shapes_alike = [shape for same in alike.values() for shape in same]
        sums = (sum(sizes) for sizes in zip(*apart, strict=True))
        bounds.append(Bound(*map(min, sums, _together(shapes_alike))))
        every += shapes_alike
    total = Bound(*(sum(bound[at] for bound in bounds) for at in range(3)))
    hull = _hull(every)
    if hull is None:
        return total
    whole = -(-hull // SECTOR) * SECTOR + SECTOR
    return Bound(*map(min, total, (hull, whole, whole)))


def _together(shapes: Sequence[AccessShape]) -> Bound:
    """Bound for accesses of one skeleton, each extended to the longest strides."""
    rows, of_bytes, width = 1, Bound(1, 1, 1), shapes[0].width
    for groups in zip(*(shape.groups for shape in shapes), strict=True):
        longest = (max(alike) for alike in zip(*(group.strides for group in groups), strict=True))
        strides, offsets = tuple(longest), sorted({group.offset for group in groups})
        if groups[0].factor:
            rows *= distinct_values(strides, offsets)
            continue
        times = len(offsets)
        within = width
        # Accesses whose offsets are less than a sector apart share sectors.
        if all(b - a <= max(width, SECTOR) for a, b in pairwise(offsets)):
            times, within = 1, width + offsets[-1] - offsets[0]
        aligned, worst = (
            times * sector_bytes(strides, within, is_aligned=each) for each in (True, False)
        )
        of_bytes = Bound(distinct_bytes(strides, width, offsets), aligned, worst)
    return Bound(*(rows * size for size in of_bytes))


def _hull(shapes: Sequence[AccessShape]) -> int | None:
    """Bytes from the first to the last, if all offsets are known; else `None`."""
    if any(shape.fixed or len(shape.groups) > 1 for shape in shapes):
        return None
    groups = [shape.groups[0] for shape in shapes]
    ends = (
        group.offset + sum(stride.span for stride in group.strides) + shape.width
        for group, shape in zip(groups, shapes, strict=True)
    )
    return max(ends, default=0) - min((group.offset for group in groups), default=0)


CLAMPS = ("VIMNMX", "IMNMX", "VIADDMNMX", "UIMNMX", "UVIMNMX")


def compared_parameters(evaluation: Evaluation) -> frozenset[Symbol]:
    """Unknown numbers that some index is compared with, or clamped by."""
    parameters: set[Symbol] = set()
    for position in evaluation.program.ran:
        instruction = evaluation.program.code[position]
        is_order = instruction.base == "ISETP" and instruction.has("LT", "LE", "GT", "GE")
        if not is_order and instruction.opcode not in CLAMPS:
            continue
        sides = [evaluation.operand(operand, position) for operand in instruction.sources]
        known = [side for side in sides if side is not None]
        if any(side.depends for side in known):  # one of parameters only is not about indices
            parameters.update(limit for limit in map(_plain, known) if limit is not None)
    return frozenset(parameters)


def _plain(polynomial: Polynomial) -> Symbol | None:
    """The unknown number of `n` or `n - 1`; `None` for anything else."""
    products = [product for product in polynomial.terms if product]
    if len(products) != 1 or len(products[0]) != 1 or polynomial.terms[products[0]] != 1:
        return None
    symbol = products[0][0]
    return symbol if symbol.is_uniform else None


_OF_LOOP = re.compile(r"loop\d+|choice\('path', \d+")
"""Names that differ between two loops of the same form."""
_WRITES = ("store", "atomic")


def with_passes(
    rows: Sequence[PointerReuse], accesses: Sequence[Access], program: SassProgram
) -> list[PointerReuse]:
    """The rows, with the bytes that later loops load again; rows without a bound get the bytes of
    the first passes. Data that the kernel itself writes may have changed in between."""
    written = {access.pointer for access in accesses if access.kind in _WRITES}
    return [row if row.pointer in written else _one_pass(row, program) for row in rows]


def _one_pass(row: PointerReuse, program: SassProgram) -> PointerReuse:
    groups: dict[object, list[Access]] = {}
    for access in row.accesses:
        if access.threads:
            form = form_of(access.offset)
            groups.setdefault((form, access.width, access.threads), []).append(access)
    pairs = [pair for same in groups.values() for pair in pairwise(same)]
    pairs = [(first, second) for first, second in pairs if is_after(program, first, second)]
    if not any(_are_in_two_loops(program, first, second) for first, second in pairs):
        return row
    again = {other.position: other for _, other in pairs}
    repeated = sum(access.requested_bytes or 0 for access in again.values())
    if not repeated or not row.requested_bytes or not row.l1_bytes:
        return row
    with_repeats = replace(row, repeated_bytes=repeated, repeats=tuple(again))
    if row.sector_bytes_at_most:
        return with_repeats
    once = row.requested_bytes - repeated
    # Rows that are not aligned share sectors with their neighbours.
    is_dense = all(_is_dense(access) for access in row.accesses if access.threads)
    sectors = once if is_dense else row.l1_bytes * once // row.requested_bytes
    return replace(
        with_repeats, distinct_bytes_at_most=once, sector_bytes_at_most=sectors, basis="estimate"
    )


def form_of(offset: Polynomial) -> tuple[str, ...]:
    """The terms of an address, without the numbers of loops."""
    terms = (text_of(Polynomial({product: factor})) for product, factor in offset.terms.items())
    return tuple(sorted(_OF_LOOP.sub("", term) for term in terms))


def _are_in_two_loops(program: SassProgram, first: Access, second: Access) -> bool:
    """What is loaded twice in one iteration comes from L1 the second time."""
    flow = program.flow
    loops = [flow.loop_of.get(flow.block_of[access.position]) for access in (first, second)]
    return None not in loops and loops[0] != loops[1]


def is_after(program: SassProgram, earlier: Access, later: Access) -> bool:
    """Whether an access can run after another without the next iteration of a loop. Two branches
    of a condition do not."""
    first, last = (program.flow.block_of[access.position] for access in (earlier, later))
    rank, blocks = program.flow_rank, program.flow.blocks

    def following(block: int) -> Iterator[int]:
        after = blocks[block].successors
        return (other for other in after if rank[block] < rank[other] <= rank[last])

    return last in reached([first], following)


def _is_dense(access: Access) -> bool:
    """Whether neighbouring threads load neighbouring values."""
    steps = [
        factor if len(product) == 1 and product[0].kind == "tid" else 0
        for product, factor in access.offset.terms.items()
        if any("tid.x" in symbol.depends for symbol in product)
    ]
    return steps == [access.width]


Basis = Literal["bound", "estimate"]
"""`estimate`: based on average trip counts, clamps, remainders or choices between paths."""
LOADED = "loaded"
"""Pointers that were themselves loaded from memory."""
SEVERAL = "several"
"""One of several pointers, depending on the path."""


@dataclass(frozen=True, slots=True)
class Access:
    """One global load, store or atomic instruction."""

    position: int
    pointer: str
    """`param+0x10`, `loaded`, `several`, or a constant's name."""
    offset: Polynomial
    """The offset from the pointer, in bytes."""
    width: int
    kind: Literal["load", "store", "atomic", "copy"]
    shape: AccessShape | None
    """`None`: no bound, because the offset depends on data or on unknown quantities."""
    is_estimate: bool
    """Based on an average number of iterations, a clamp, a remainder or a choice."""
    is_ragged: bool
    """Based on the average of trip counts that differ widely between warps."""
    is_vague: bool
    """Based on bounds that real programs may stay far below: remainders, bitwise logic."""
    threads: int | None
    """Threads that executed it, over all warps. `None` without the counter."""

    @property
    def requested_bytes(self) -> int | None:
        return None if self.threads is None else self.threads * self.width

    @property
    def is_gather(self) -> bool:
        """The address depends on loaded data."""
        return "data" in self.offset.depends

    @property
    def distinct_bytes(self) -> int | None:
        """Upper bound; never more than the requested bytes."""
        return at_most([self]) if self.shape is not None else None

    @property
    def basis(self) -> Basis:
        return "estimate" if self.is_estimate else "bound"


_NEARLY_EXACT_KINDS = ("loop", "exit", "min", "max", "choice")
"""Kinds of symbols whose bounds are only a little loose: clamps cut off edges, choices double."""


def at_most(accesses: Sequence[Access]) -> int | None:
    """Upper bound on the distinct bytes of accesses through one pointer; never more than requested.

    `None` if there is no bound, or if it is vague and not below the requested bytes.
    """
    if any(access.shape is None for access in accesses):
        return None
    distinct = bound_of([access.shape for access in accesses if access.shape is not None]).bytes
    sizes = [access.requested_bytes for access in accesses]
    if None in sizes:
        return distinct
    requested = sum(size or 0 for size in sizes)
    if distinct >= requested and any(access.is_vague for access in accesses):
        return None
    return min(distinct, requested)


def accesses(
    program: SassProgram,
    evaluation: Evaluation,
    threads: Mapping[int, int] | None,
    pointers: Collection[str] = (),
) -> list[Access]:
    """Every executed global access, in the order of the code. `threads`: by address.

    `pointers`: names of the parameters that are known to be pointers.
    """
    polynomials = {
        position: address_polynomial(program, evaluation, position)
        for position in program.ran
        if program.code[position].opcode in GLOBAL
    }
    # A parameter that is the only one in an address is a pointer; in `p + width`, either may be.
    alone = {
        bases[0].name
        for polynomial in polynomials.values()
        if len(bases := _bases(polynomial)) == 1
    }
    known_pointers = frozenset(pointers) or frozenset(alone)
    return [
        _access(program.code[position], position, polynomial, known_pointers, threads)
        for position, polynomial in polynomials.items()
    ]


_KINDS: Mapping[Role, Literal["load", "store", "atomic", "copy"]] = {
    Role.LOAD: "load",
    Role.STORE: "store",
    Role.ATOMIC: "atomic",
    Role.COPY: "copy",
}


def _access(
    instruction: Instruction,
    position: int,
    polynomial: Polynomial,
    pointers: frozenset[str],
    threads: Mapping[int, int] | None,
) -> Access:
    pointer, offset = _split_pointer(polynomial, pointers)
    shape = shape_of(offset, instruction.width) if pointer not in (LOADED, SEVERAL) else None
    loose = [symbol for symbol in offset.symbols if symbol.is_loose and not symbol.is_uniform]
    return Access(
        position,
        pointer,
        offset,
        instruction.width,
        _KINDS[instruction.role],
        shape,
        is_estimate=bool(loose),
        is_ragged=any(symbol.kind == "loop" and symbol.arguments[1] for symbol in loose),
        is_vague=any(symbol.kind not in _NEARLY_EXACT_KINDS for symbol in loose),
        threads=None if threads is None else threads.get(instruction.address, 0),
    )


def address_polynomial(program: SassProgram, evaluation: Evaluation, position: int) -> Polynomial:
    """The address of a memory access, with loops resolved."""
    instruction = program.code[position]
    memory = instruction.memory
    total = number(memory.value) if memory else number(0)
    read = program.values.read[position]
    for name, factor in memory.summands if memory else ():
        if name in read:
            total = add(total, evaluation.polynomial(read[name]), factor)
    return evaluation.resolved(total, program.flow.block_of[position])


def _bases(polynomial: Polynomial) -> list[Symbol]:
    """Parameters that are added with coefficient 1."""
    return [
        product[0]
        for product, coefficient in polynomial.terms.items()
        if len(product) == 1 and product[0].kind == "param" and coefficient == 1
    ]


def _split_pointer(polynomial: Polynomial, pointers: frozenset[str]) -> tuple[str, Polynomial]:
    """The pointer that an address starts from, and the rest."""
    bases = _bases(polynomial)
    mixed = any(
        symbol.kind == "choice" and any(other.name in pointers for other in product)
        for product in polynomial.terms
        for symbol in product
    )
    base = next((symbol for symbol in bases if symbol.name in pointers), None)
    if base is not None and not mixed:
        return base.name, polynomial.only(lambda product: product != (base,))
    return (SEVERAL if mixed or bases else LOADED), polynomial


@dataclass(frozen=True, slots=True)
class PointerReuse:
    """The loads through one pointer."""

    pointer: str
    accesses: tuple[Access, ...]
    requested_bytes: int | None
    distinct_bytes_at_most: int | None
    """`None`: not every load has a bound."""
    sector_bytes_at_most: int | None
    basis: Basis | None
    worst_sector_bytes: int | None = None
    """The same if no row is aligned to sectors."""
    is_ragged: bool = False
    """Based on trip counts that differ widely between warps: the bound may be too low."""
    may_overlap: bool = False
    """Whether rows may overlap: no index is compared with the distance between rows."""
    l1_bytes: int | None = None
    """Sectors that its loads requested from L1, in bytes."""
    l2_bytes: int | None = None
    """The part of it that L1 had to read from L2."""
    l2_basis: Literal["measured", "apportioned"] | None = None
    """`apportioned`: the launch's L1 misses, divided by the sectors of each pointer."""
    repeated_bytes: int = 0
    """The part of the requested bytes that an earlier loop of the thread loaded, too."""
    repeats: tuple[int, ...] = ()
    """Positions of the loads of later loops that request them."""

    @property
    def times(self) -> float | None:
        """How often each byte is requested, at least."""
        if not self.requested_bytes or not self.distinct_bytes_at_most:
            return None
        return self.requested_bytes / self.distinct_bytes_at_most


READS = ("load", "copy")


def reuse_by_pointer(
    accesses: Sequence[Access], limits: Collection[Symbol] = ()
) -> list[PointerReuse]:
    """One row per pointer that is read, most requested bytes first.

    `limits`: unknown numbers that indices are compared with.
    """
    by_pointer: dict[str, list[Access]] = {}
    for access in accesses:
        if access.kind in READS:
            by_pointer.setdefault(access.pointer, []).append(access)
    rows = [_pointer_reuse(pointer, by_pointer[pointer], limits) for pointer in by_pointer]
    return sorted(rows, key=lambda row: (-(row.requested_bytes or 0), row.pointer))


def _pointer_reuse(
    pointer: str, accesses: Sequence[Access], limits: Collection[Symbol]
) -> PointerReuse:
    sizes = [access.requested_bytes for access in accesses]
    requested = sum(size or 0 for size in sizes) if None not in sizes else None
    ran = [access for access in accesses if access.threads is None or access.threads]
    distinct = at_most(ran) if ran else None
    if distinct is None:
        return PointerReuse(pointer, tuple(accesses), requested, None, None, None)
    bound = bound_of([access.shape for access in ran if access.shape is not None])
    distances = {
        symbol
        for access in ran
        if access.shape is not None
        for group in access.shape.groups
        for symbol in group.factor
    }
    return PointerReuse(
        pointer,
        tuple(accesses),
        requested,
        distinct,
        bound.sector_bytes,
        "estimate" if any(access.is_estimate for access in ran) else "bound",
        worst_sector_bytes=bound.worst_sector_bytes,
        is_ragged=any(access.is_ragged for access in ran),
        may_overlap=any(symbol not in limits for symbol in distances),
    )


def with_traffic(
    rows: Sequence[PointerReuse],
    program: SassProgram,
    sectors: Mapping[int, int] | None,
    l2_read_bytes: int | None,
) -> list[PointerReuse]:
    """The rows with their L1 and L2 traffic, if the report has the counters.

    `l2_read_bytes`: of global loads only; `None` if the counter includes other reads.
    """
    if sectors is None:
        return list(rows)
    rows_with_l1 = []
    for row in rows:
        addresses = (program.code[access.position].address for access in row.accesses)
        asked = SECTOR * sum(sectors.get(address, 0) for address in addresses)
        bound = row.sector_bytes_at_most
        least = None if bound is None else min(bound, asked)
        rows_with_l1.append(replace(row, l1_bytes=asked, sector_bytes_at_most=least))
    return _apportioned(rows_with_l1, l2_read_bytes) if l2_read_bytes is not None else rows_with_l1


def _apportioned(rows: Sequence[PointerReuse], l2_read_bytes: int) -> list[PointerReuse]:
    """Divides what L1 read from L2: each distinct sector once, the rest by requested sectors."""
    total = sum(row.l1_bytes or 0 for row in rows)
    if not total:
        return list(rows)
    l2_read_bytes = max(0, l2_read_bytes)  # a difference of counters of two passes can be negative
    once = [row.sector_bytes_at_most or 0 for row in rows]
    more = [(row.l1_bytes or 0) - first for row, first in zip(rows, once, strict=True)]
    left = min(l2_read_bytes, total) - sum(once)
    apportioned = []
    for row, first, rest in zip(rows, once, more, strict=True):
        if left >= 0:
            part = first + (left * rest / sum(more) if sum(more) else 0)
        else:  # bounds are not reached
            part = l2_read_bytes * first / sum(once)
        is_alone = (row.l1_bytes or 0) >= (1 - NEGLIGIBLE) * total
        if is_alone:
            apportioned.append(replace(row, l2_bytes=l2_read_bytes, l2_basis="measured"))
        else:
            apportioned.append(replace(row, l2_bytes=round(part), l2_basis="apportioned"))
    return apportioned
