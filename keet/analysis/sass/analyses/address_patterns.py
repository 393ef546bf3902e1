"""How the threads of global accesses differ in their addresses: bytes per thread, lane stride,
accesses that could be merged, and the addresses of atomics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from keet.analysis.sass.analyses.distinct_bytes import distinct_values, shape_of
from keet.analysis.sass.analyses.reuse import Access, address_polynomial
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.opcodes import SHARED, Role
from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.polynomial import Polynomial, Symbol

WIDEST = 16
"""Bytes of the widest access of one thread, up to Hopper."""
_ALLOCATION = 256
"""Alignment of cudaMalloc in bytes: pointer arguments are assumed to have it."""


class Merge(NamedTuple):
    """Accesses of one thread to consecutive bytes, which one wider access could replace."""

    positions: tuple[int, ...]
    width: int
    """Bytes of each access now."""
    merged_width: int
    """Bytes of the access that could replace them."""
    is_aligned: bool | None
    """Whether the first address is a multiple of `merged_width`. `None`: not known."""


def lane_stride(polynomial: Polynomial) -> int | None:
    """Bytes between the accesses of neighbouring lanes; `None` if it is not one number."""
    if polynomial.depends & {"data", "path", "unknown", "exit"}:
        return None
    found = 0
    for product, coefficient in polynomial.terms.items():
        if not any("tid.x" in symbol.depends for symbol in product):
            continue
        inner = _step(product[0]) if len(product) == 1 else None
        if inner is None:
            return None
        found += coefficient * inner
    return found


def _step(symbol: Symbol) -> int | None:
    """The increment of a symbol from one thread to the next, as long as it does not wrap."""
    if symbol.kind == "tid":
        return 1
    whole = symbol.arguments[0] if symbol.kind == "mod" else None
    if not isinstance(whole, Polynomial):
        return None
    steps = [(p, c) for p, c in whole.terms.items() if any("tid.x" in s.depends for s in p)]
    if len(steps) != 1 or len(steps[0][0]) != 1 or steps[0][0][0].kind != "tid":
        return None
    return steps[0][1]


def merges(program: SassProgram, found: Sequence[Access]) -> list[Merge]:
    """Runs of narrow accesses in one block that touch consecutive bytes per thread."""
    groups: dict[object, list[Access]] = {}
    for access in found:
        if access.kind not in ("load", "store") or access.width >= WIDEST:
            continue
        block = program.flow.block_of[access.position]
        guard = program.code[access.position].guard
        varying = tuple(item for item in access.offset.key if item[0])
        key = (block, access.kind, access.pointer, access.width, guard, varying)
        groups.setdefault(key, []).append(access)
    result = [merge for group in groups.values() for merge in _runs(group)]
    return sorted(result, key=lambda merge: merge.positions)


def _runs(group: Sequence[Access]) -> list[Merge]:
    by_offset = {access.offset.constant: access for access in group}
    offsets = sorted(by_offset)
    width = group[0].width
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][-1] + width:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    found = []
    for run in runs:
        wide = min(WIDEST, width * (1 << (len(run).bit_length() - 1)))
        if wide > width:
            own = tuple(by_offset[offset].position for offset in run)
            aligned = _is_aligned(group[0].offset, run[0], wide)
            found.append(Merge(own, width, wide, aligned))
    return found


def _is_aligned(polynomial: Polynomial, offset: int, width: int) -> bool | None:
    common, unknown = math.gcd(offset, _ALLOCATION), False
    for product, coefficient in polynomial.terms.items():
        if not product:
            continue
        if coefficient % width and any(symbol.is_uniform for symbol in product):
            unknown = True
            continue
        common = math.gcd(common, coefficient)
    if common % width:
        return False  # neighbouring threads are closer together than that
    return None if unknown else True


Spread = Literal[
    "one address",
    "one address per block",
    "one address per warp or less",
    "different addresses",
    "chosen by data",
    "unknown",
]


class Atomic(NamedTuple):
    position: int
    memory: Literal["global", "shared"]
    spread: Spread
    addresses_at_most: int | None
    """Per launch, or per block for shared memory. `None` if there is no bound."""
    has_result: bool
    """Whether warps must wait for the old value."""


def atomics(program: SassProgram, evaluation: Evaluation) -> list[Atomic]:
    """Every executed atomic and reduction, in the order of the code."""
    return [
        _atomic(program, evaluation, position)
        for position in program.ran
        if program.code[position].role is Role.ATOMIC
    ]


def _atomic(program: SassProgram, evaluation: Evaluation, position: int) -> Atomic:
    each = program.code[position]
    polynomial = address_polynomial(program, evaluation, position)
    varying = Polynomial(
        {p: c for p, c in polynomial.terms.items() if any(not s.is_uniform for s in p)}
    )
    shape = shape_of(varying, each.width)
    count = None
    if shape is not None:
        count = 1
        for group in shape.groups:
            count *= distinct_values(group.strides)
    memory: Literal["global", "shared"] = "shared" if each.opcode in SHARED else "global"
    return Atomic(position, memory, _spread(varying), count, bool(each.writes))


def _spread(polynomial: Polynomial) -> Spread:
    names = polynomial.depends
    if "data" in names:
        return "chosen by data"
    if "unknown" in names:
        return "unknown"
    if any(name.startswith("tid") for name in names):
        lane = [symbol for symbol in polynomial.symbols if "tid.x" in symbol.depends]
        if lane and all(symbol.kind == "shr" and _drops_lanes(symbol.arguments) for symbol in lane):
            return "one address per warp or less"
        return "different addresses"
    if any(not name.startswith("ctaid") for name in names):
        return "different addresses" if all(n[:4] in ("loop", "ctai") for n in names) else "unknown"
    return "one address per block" if names else "one address"


def _drops_lanes(arguments: tuple[object, ...]) -> bool:
    """Whether it is `(tid.x + 32 n) >> 5` or a larger shift: the same for all lanes of a warp."""
    if len(arguments) < 2 or not isinstance(arguments[1], int) or arguments[1] < 5:
        return False
    whole = arguments[0]
    return isinstance(whole, Polynomial) and all(
        coefficient % 32 == 0 or (coefficient == 1 and [s.name for s in product] == ["tid.x"])
        for product, coefficient in whole.terms.items()
    )
