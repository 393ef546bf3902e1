"""Address forms of global accesses, and how often each byte is asked for, by pointer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from keet.analysis.sass.analyses.distinct_bytes import SECTOR, AccessShape, bound_of, shape_of
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.instruction import Instruction
from keet.analysis.sass.instructions.opcodes import GLOBAL, Role
from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.polynomial import Polynomial, Symbol, add, number
from keet.records import dataclass, replace

Basis = Literal["bound", "estimate"]
"""`estimate`: rests on average trip counts, clamps, remainders or choices between paths."""
LOADED = "loaded"
"""Pointers that were themselves loaded from memory."""
SEVERAL = "several"
"""One of several pointers, by the path taken."""


@dataclass(frozen=True, slots=True)
class Access:
    """One global load, store or atomic instruction."""

    position: int
    pointer: str
    """`param+0x10`, `loaded`, `several`, or a constant's name."""
    form: Polynomial
    """The offset from the pointer, in bytes."""
    width: int
    kind: Literal["load", "store", "atomic", "copy"]
    shape: AccessShape | None
    """`None`: no bound, because the offset depends on data or on unknown quantities."""
    is_estimate: bool
    """Rests on an average number of iterations, a clamp, a remainder or a choice."""
    is_ragged: bool
    """Rests on the average of trip counts that differ widely between warps."""
    is_vague: bool
    """Rests on bounds that real programs may stay far below: remainders, logic on bits."""
    threads: int | None
    """Threads that executed it, all warps together. `None` without the counter."""

    @property
    def requested_bytes(self) -> int | None:
        return None if self.threads is None else self.threads * self.width

    @property
    def is_gather(self) -> bool:
        """The address depends on loaded data."""
        return "data" in self.form.depends

    @property
    def distinct_bytes(self) -> int | None:
        """At most; never more than what was requested."""
        return at_most([self]) if self.shape is not None else None

    @property
    def basis(self) -> Basis:
        return "estimate" if self.is_estimate else "bound"


_CLOSE = ("loop", "exit", "min", "max", "choice")
"""Kinds of symbols whose bounds are loose, but by little: clamps cut off edges, choices double."""


def at_most(own: Sequence[Access]) -> int | None:
    """Distinct bytes of accesses through one pointer; never more than were requested.

    A vague bound at or above that says nothing and is not given.
    """
    if any(access.shape is None for access in own):
        return None
    found = bound_of([access.shape for access in own if access.shape is not None]).bytes
    sizes = [access.requested_bytes for access in own]
    if None in sizes:
        return found
    requested = sum(size or 0 for size in sizes)
    if found >= requested and any(access.is_vague for access in own):
        return None
    return min(found, requested)


def accesses(
    program: SassProgram,
    evaluation: Evaluation,
    threads: Mapping[int, int] | None,
    pointers: Collection[str] = (),
) -> list[Access]:
    """Every global access that ran, in the order of the code. `threads` is by address.

    `pointers`: parameters that are known to be pointers, by name.
    """
    forms = {
        position: address_form(program, evaluation, position)
        for position in program.ran
        if program.code[position].opcode in GLOBAL
    }
    # A parameter that some address adds alone is a pointer; `p + width` does not tell which is.
    alone = {bases[0].name for form in forms.values() if len(bases := _bases(form)) == 1}
    known = frozenset(pointers) or frozenset(alone)
    found = []
    for position, form in forms.items():
        each = program.code[position]
        ran = None if threads is None else threads.get(each.address, 0)
        found.append(_access(each, position, form, known, ran))
    return found


_KINDS: Mapping[Role, Literal["load", "store", "atomic", "copy"]] = {
    Role.LOAD: "load",
    Role.STORE: "store",
    Role.ATOMIC: "atomic",
    Role.COPY: "copy",
}


def _access(
    each: Instruction, position: int, form: Polynomial, known: frozenset[str], ran: int | None
) -> Access:
    pointer, offset = _split_pointer(form, known)
    shape = shape_of(offset, each.width) if pointer not in (LOADED, SEVERAL) else None
    loose = [symbol for symbol in offset.symbols if symbol.is_loose and not symbol.is_uniform]
    return Access(
        position,
        pointer,
        offset,
        each.width,
        _KINDS[each.role],
        shape,
        is_estimate=bool(loose),
        is_ragged=any(symbol.kind == "loop" and symbol.arguments[1] for symbol in loose),
        is_vague=any(symbol.kind not in _CLOSE for symbol in loose),
        threads=ran,
    )


def address_form(program: SassProgram, evaluation: Evaluation, position: int) -> Polynomial:
    """The address of a memory access, with loops resolved."""
    each = program.code[position]
    memory = each.memory
    total = number(memory.value) if memory else number(0)
    read = program.values.read[position]
    if memory:
        for name, factor in ((memory.name, memory.scale), (memory.uniform, 1)):
            if name and name in read:
                total = add(total, evaluation.form(read[name]), factor)
    return evaluation.resolved(total, program.flow.block_of[position])


def _bases(form: Polynomial) -> list[Symbol]:
    """Parameters that are added once."""
    return [
        product[0]
        for product, coefficient in form.terms.items()
        if len(product) == 1 and product[0].kind == "param" and coefficient == 1
    ]


def _split_pointer(form: Polynomial, known: frozenset[str]) -> tuple[str, Polynomial]:
    """The pointer that an address starts from, and the rest."""
    bases = _bases(form)
    mixed = any(
        symbol.kind == "choice" and any(other.name in known for other in product)
        for product in form.terms
        for symbol in product
    )
    base = next((symbol for symbol in bases if symbol.name in known), None)
    if base is not None and not mixed:
        return base.name, Polynomial({p: c for p, c in form.terms.items() if p != (base,)})
    return (SEVERAL if mixed or bases else LOADED), form


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
    """The same if no row began at a sector's start."""
    is_ragged: bool = False
    """Rests on trip counts that differ widely between warps: may be below the truth."""
    may_overlap: bool = False
    """The bound counts rows at a distance that the code does not compare any index with."""
    l1_bytes: int | None = None
    """Sectors that its loads asked of L1, in bytes."""
    l2_bytes: int | None = None
    """What of that L1 had to read from L2."""
    l2_basis: Literal["measured", "apportioned"] | None = None
    """`apportioned`: the launch's L1 misses, shared out by the sectors of each pointer."""

    @property
    def times(self) -> float | None:
        """How often each byte is asked for, at least."""
        if not self.requested_bytes or not self.distinct_bytes_at_most:
            return None
        return self.requested_bytes / self.distinct_bytes_at_most


READS = ("load", "copy")


def reuse_by_pointer(
    found: Sequence[Access], limits: Collection[Symbol] = ()
) -> list[PointerReuse]:
    """Rows for every pointer that is read, the most requested first.

    `limits`: unknown numbers that indices are compared with.
    """
    by_pointer: dict[str, list[Access]] = {}
    for access in found:
        if access.kind in READS:
            by_pointer.setdefault(access.pointer, []).append(access)
    rows = [_pointer_reuse(pointer, own, limits) for pointer, own in by_pointer.items()]
    return sorted(rows, key=lambda row: (-(row.requested_bytes or 0), row.pointer))


def _pointer_reuse(pointer: str, own: Sequence[Access], limits: Collection[Symbol]) -> PointerReuse:
    sizes = [access.requested_bytes for access in own]
    requested = sum(size or 0 for size in sizes) if None not in sizes else None
    ran = [access for access in own if access.threads is None or access.threads]
    found = at_most(ran) if ran else None
    if found is None:
        return PointerReuse(pointer, tuple(own), requested, None, None, None)
    bound = bound_of([access.shape for access in ran if access.shape is not None])
    is_bound = all(access.basis == "bound" for access in ran)
    basis: Basis = "bound" if is_bound else "estimate"
    distances = {
        symbol
        for access in ran
        if access.shape is not None
        for group in access.shape.groups
        for symbol in group.factor
    }
    return PointerReuse(
        pointer,
        tuple(own),
        requested,
        found,
        bound.sector_bytes,
        basis,
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
    """The rows with where their bytes come from, as far as the report counts it.

    `l2_read_bytes`: of global loads alone; `None` where other reads are in it.
    """
    if sectors is None:
        return list(rows)
    found = []
    for row in rows:
        asked = SECTOR * sum(sectors.get(program.code[a.position].address, 0) for a in row.accesses)
        known = row.sector_bytes_at_most
        least = None if known is None else min(known, asked)
        found.append(replace(row, l1_bytes=asked, sector_bytes_at_most=least))
    return _apportioned(found, l2_read_bytes) if l2_read_bytes is not None else found


_ALONE = 0.99
"""Share of all load sectors from which a pointer counts as the only one that is read."""


def _apportioned(rows: Sequence[PointerReuse], l2_read_bytes: int) -> list[PointerReuse]:
    """What L1 read from L2, shared out: each distinct sector once, the rest by what was asked."""
    total = sum(row.l1_bytes or 0 for row in rows)
    if not total:
        return list(rows)
    l2_read_bytes = max(0, l2_read_bytes)  # counters of two passes can give less than nothing
    once = [row.sector_bytes_at_most or 0 for row in rows]
    more = [(row.l1_bytes or 0) - first for row, first in zip(rows, once, strict=True)]
    left = min(l2_read_bytes, total) - sum(once)
    found = []
    for row, first, rest in zip(rows, once, more, strict=True):
        if left >= 0:
            part = first + (left * rest / sum(more) if sum(more) else 0)
        else:  # bounds are not reached
            part = l2_read_bytes * first / sum(once)
        is_alone = (row.l1_bytes or 0) >= _ALONE * total
        found.append(
            replace(
                row,
                l2_bytes=l2_read_bytes if is_alone else round(part),
                l2_basis="measured" if is_alone else "apportioned",
            )
        )
    return found
