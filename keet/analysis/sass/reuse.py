"""Address forms of global accesses, and how often each byte is asked for, by pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from keet.analysis.sass.counting import SECTOR, Shape, bound_of, shape_of
from keet.analysis.sass.evaluate import Evaluation
from keet.analysis.sass.forms import Form, Symbol, add, number
from keet.analysis.sass.opcodes import GLOBAL, Role
from keet.analysis.sass.program import Program

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
    form: Form
    """The offset from the pointer, in bytes."""
    width: int
    kind: Literal["load", "store", "atomic", "copy"]
    shape: Shape | None
    """`None`: no bound, because the offset depends on data or on unknown quantities."""
    is_average: bool
    """Rests on an average number of iterations."""
    is_vague: bool
    """Rests on clamps, remainders or choices, whose bounds few programs reach."""
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
        return "estimate" if self.is_average or self.is_vague else "bound"


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
    program: Program, evaluation: Evaluation, threads: Mapping[int, int] | None
) -> list[Access]:
    """Every global access that ran, in the order of the code. `threads` is by address."""
    found = []
    for position in program.ran:
        each = program.code[position]
        if each.opcode not in GLOBAL:
            continue
        ran = None if threads is None else threads.get(each.address, 0)
        found.append(_access(program, evaluation, position, ran))
    return found


def _access(program: Program, evaluation: Evaluation, position: int, ran: int | None) -> Access:
    each = program.code[position]
    form = address_form(program, evaluation, position)
    pointer, offset = _split_pointer(form)
    kinds: dict[Role, Literal["load", "store", "atomic", "copy"]] = {
        Role.LOAD: "load",
        Role.STORE: "store",
        Role.ATOMIC: "atomic",
        Role.COPY: "copy",
    }
    shape = shape_of(offset, each.width) if pointer not in (LOADED, SEVERAL) else None
    loose = [symbol for symbol in offset.symbols if symbol.is_loose and not symbol.is_uniform]
    return Access(
        position,
        pointer,
        offset,
        each.width,
        kinds[each.role],
        shape,
        is_average=any(symbol.kind == "loop" for symbol in loose),
        is_vague=any(symbol.kind != "loop" for symbol in loose),
        threads=ran,
    )


def address_form(program: Program, evaluation: Evaluation, position: int) -> Form:
    """The address of a memory access, with loops resolved."""
    each = program.code[position]
    memory = each.memory
    total = number(memory.value) if memory else number(0)
    read = program.values.read[position]
    for name in (memory.name, memory.uniform) if memory else ():
        if name and name in read:
            total = add(total, evaluation.form(read[name]), memory.scale if memory else 1)
    return evaluation.resolved(total, program.flow.block_of[position])


def _split_pointer(form: Form) -> tuple[str, Form]:
    """The parameter that is added once, and the rest."""
    bases = [
        product[0]
        for product, coefficient in form.terms.items()
        if len(product) == 1 and product[0].kind == "param" and coefficient == 1
    ]
    if not bases:
        mixed = any(
            symbol.kind == "choice" and any(other.kind == "param" for other in product)
            for product in form.terms
            for symbol in product
        )
        return (SEVERAL if mixed else LOADED), form
    base = _pointer_of(bases, form)
    return base.name, Form({p: c for p, c in form.terms.items() if p != (base,)})


def _pointer_of(bases: Sequence[Symbol], form: Form) -> Symbol:
    """Of several parameters that are added, the one that is multiplied by nothing elsewhere."""
    scaled = {symbol for product in form.terms if len(product) > 1 for symbol in product}
    plain = [symbol for symbol in bases if symbol not in scaled]
    return (plain or list(bases))[0]


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


def reuse_by_pointer(found: Sequence[Access]) -> list[PointerReuse]:
    """Rows for every pointer that is read, the most requested first."""
    by_pointer: dict[str, list[Access]] = {}
    for access in found:
        if access.kind in READS:
            by_pointer.setdefault(access.pointer, []).append(access)
    rows = [_pointer_reuse(pointer, own) for pointer, own in by_pointer.items()]
    return sorted(rows, key=lambda row: (-(row.requested_bytes or 0), row.pointer))


def _pointer_reuse(pointer: str, own: Sequence[Access]) -> PointerReuse:
    sizes = [access.requested_bytes for access in own]
    requested = sum(size or 0 for size in sizes) if None not in sizes else None
    ran = [access for access in own if access.threads is None or access.threads]
    found = at_most(ran) if ran else None
    if found is None:
        return PointerReuse(pointer, tuple(own), requested, None, None, None)
    sectors = bound_of([access.shape for access in ran if access.shape is not None]).sector_bytes
    is_bound = all(access.basis == "bound" for access in ran)
    basis: Basis = "bound" if is_bound else "estimate"
    return PointerReuse(pointer, tuple(own), requested, found, sectors, basis)


def with_traffic(
    rows: Sequence[PointerReuse],
    program: Program,
    sectors: Mapping[int, int] | None,
    l2_read_bytes: int | None,
) -> list[PointerReuse]:
    """The rows with where their bytes come from, as far as the report counts it."""
    if sectors is None:
        return list(rows)
    asked = [
        SECTOR * sum(sectors.get(program.code[a.position].address, 0) for a in row.accesses)
        for row in rows
    ]
    total = sum(asked)
    found = []
    for row, l1_bytes in zip(rows, asked, strict=True):
        if l2_read_bytes is None or not total:
            found.append(replace(row, l1_bytes=l1_bytes))
            continue
        share = l1_bytes / total
        basis: Literal["measured", "apportioned"] = "measured" if share >= _ALONE else "apportioned"
        found.append(
            replace(row, l1_bytes=l1_bytes, l2_bytes=round(l2_read_bytes * share), l2_basis=basis)
        )
    return found


_ALONE = 0.99
"""Share of all load sectors from which a pointer counts as the only one that is read."""
