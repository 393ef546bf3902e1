"""Loops that load from the same addresses, one after the other: a row's mean, then its variance.

The addresses may depend on data, such as the first element of a row. All that counts is that they
are computed in the same way from the same values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from keet.analysis.sass.analyses.reuse import Access, PointerReuse
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.polynomials.polynomial import Polynomial, text_of

_OF_LOOP = re.compile(r"loop\d+|choice\('path', \d+")
"""Names that differ between two loops of the same form."""
_WRITES = ("store", "atomic")


def with_passes(
    rows: Sequence[PointerReuse], found: Sequence[Access], program: SassProgram
) -> list[PointerReuse]:
    """The rows, with the bytes that later loops load again; rows without a bound get the bytes of
    the first passes. Data that the kernel itself writes may have changed in between."""
    written = {access.pointer for access in found if access.kind in _WRITES}
    return [row if row.pointer in written else _one_pass(row, program) for row in rows]


def _one_pass(row: PointerReuse, program: SassProgram) -> PointerReuse:
    groups: dict[object, list[Access]] = {}
    for access in row.accesses:
        if access.threads:
            form = tuple(sorted(_form(access.offset)))
            groups.setdefault((form, access.width, access.threads), []).append(access)
    pairs = [pair for same in groups.values() for pair in pairwise(same)]
    pairs = [(one, other) for one, other in pairs if _is_after(program, one, other)]
    if not any(_are_in_two_loops(program, one, other) for one, other in pairs):
        return row
    again = {other.position: other for _, other in pairs}.values()
    repeated = sum(access.requested_bytes or 0 for access in again)
    if not repeated or not row.requested_bytes or not row.l1_bytes:
        return row
    if row.sector_bytes_at_most:
        return replace(row, repeated_bytes=repeated)
    once = row.requested_bytes - repeated
    # Rows that are not aligned share sectors with their neighbours.
    is_dense = all(_is_dense(access) for access in row.accesses if access.threads)
    sectors = once if is_dense else row.l1_bytes * once // row.requested_bytes
    return replace(
        row,
        distinct_bytes_at_most=once,
        sector_bytes_at_most=sectors,
        basis="estimate",
        repeated_bytes=repeated,
    )


def _form(offset: Polynomial) -> list[str]:
    """The terms of an address, without the numbers of loops."""
    return [
        _OF_LOOP.sub("", text_of(Polynomial({product: factor})))
        for product, factor in offset.terms.items()
    ]


def _are_in_two_loops(program: SassProgram, one: Access, other: Access) -> bool:
    """What is loaded twice in one iteration comes from L1 the second time."""
    flow = program.flow
    loops = [flow.loop_of.get(flow.block_of[access.position]) for access in (one, other)]
    return None not in loops and loops[0] != loops[1]


def _is_after(program: SassProgram, one: Access, other: Access) -> bool:
    """Whether an access can run after another without the next iteration of a loop. Two branches
    of a condition do not."""
    first, block = (program.flow.block_of[access.position] for access in (one, other))
    rank, seen, waiting = program.flow_rank, {first}, [first]
    while waiting:
        current = waiting.pop()
        if current == block:
            return True
        for following in program.flow.blocks[current].successors:
            if following not in seen and rank.get(following, -1) > rank.get(current, -1):
                seen.add(following)
                waiting.append(following)
    return False


def _is_dense(access: Access) -> bool:
    """Whether neighbouring threads load neighbouring values."""
    steps = [
        factor if len(product) == 1 and product[0].kind == "tid" else 0
        for product, factor in access.offset.terms.items()
        if any("tid.x" in symbol.depends for symbol in product)
    ]
    return steps == [access.width]
