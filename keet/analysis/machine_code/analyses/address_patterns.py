"""How the threads of global accesses differ in their addresses: bytes per thread, lane stride,
accesses that could be merged, and the addresses of atomics."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.reuse import (
    LOADED,
    Access,
    address_polynomial,
    distinct_values,
    shape_of,
)
from keet.analysis.machine_code.analyses.source_loops import memory_of
from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Kind, SassProgram
from keet.analysis.machine_code.instructions.instruction import is_move
from keet.analysis.machine_code.instructions.opcodes import LOCAL, WARP, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import (
    Dim3,
    Monomial,
    Polynomial,
    Symbol,
    add,
)

WIDEST = 16
"""Bytes of the widest access of one thread, up to Hopper."""
_ALLOCATION_ALIGNMENT = 256
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
    stride = 0
    for product, coefficient in polynomial.terms.items():
        if not any("tid.x" in symbol.depends for symbol in product):
            continue
        inner = _step(product[0]) if len(product) == 1 else None
        if inner is None:
            return None
        stride += coefficient * inner
    return stride


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


_KNOWN_NAMES = ("tid", "ctaid", "loop")
"""What the names of known quantities begin with."""


def is_uniform(polynomial: Polynomial, block: Dim3 | None) -> bool | None:
    """Whether all threads of a warp compute the same address; `None` if it is not known, as where
    data or the path decide it."""
    names = polynomial.depends
    if not all(name.startswith(_KNOWN_NAMES) for name in names):
        return None
    if not any(name.startswith("tid") for name in names):
        return True
    # Without whole rows of warps, neighbouring lanes may differ in `tid.y` too.
    has_rows = block is not None and block[0] % WARP == 0
    lane = [symbol for symbol in polynomial.symbols if "tid.x" in symbol.depends]
    if all(map(_drops_lanes, lane)):
        return True if has_rows else None
    is_apart = lane_stride(polynomial) and block is not None and block[0] > 1
    return False if is_apart else None


def is_gather(access: Access) -> bool:
    """Whether loaded data choose where the threads of a warp access. A pointer that was itself
    loaded, and to which threads add their own index, is none."""
    if not access.is_gather:
        return False
    base = access.offset.only(_has_data)
    is_pointer = access.pointer == LOADED and [*base.terms.values()] == [1]
    is_one = is_pointer and len(next(iter(base.terms))) == 1
    return not (is_one and lane_stride(add(access.offset, base, -1)))


def _has_data(product: Monomial) -> bool:
    return any("data" in symbol.depends for symbol in product)


def merges(program: SassProgram, accesses: Sequence[Access]) -> list[Merge]:
    """Runs of narrow accesses in one block that touch consecutive bytes per thread."""
    groups: dict[object, list[Access]] = {}
    for access in accesses:
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
        if not runs or offset != runs[-1][-1] + width:
            runs.append([])
        runs[-1].append(offset)
    merged = []
    for run in runs:
        wide = min(WIDEST, width * (1 << (len(run).bit_length() - 1)))
        if wide > width:
            positions = tuple(by_offset[offset].position for offset in run)
            aligned = _is_aligned(group[0].offset, run[0], wide)
            merged.append(Merge(positions, width, wide, aligned))
    return merged


def _is_aligned(polynomial: Polynomial, offset: int, width: int) -> bool | None:
    varying = {product: times for product, times in polynomial.terms.items() if product}
    known = {
        product: times
        for product, times in varying.items()
        if times % width == 0 or not any(symbol.is_uniform for symbol in product)
    }
    if math.gcd(offset, _ALLOCATION_ALIGNMENT, *known.values()) % width:
        return False  # neighbouring threads are closer together than that
    return True if len(known) == len(varying) else None


_MOST_VALUES = 400
"""Most values that are followed back from an address."""


def index_loads(program: SassProgram, position: int) -> list[int]:
    """Loads whose results are an index in the address of an access: `x` in `a[x]`. A pointer that
    was loaded is no index, nor is a value that only decides which index it is."""
    every = program.values.all

    def following(state: tuple[int, bool]) -> list[tuple[int, bool]]:
        origin, is_scaled = every[state[0]], state[1]
        if origin.kind is Kind.DEFINITION:
            return _behind(program, origin.position, is_scaled=is_scaled)
        return [(source, is_scaled) for source in origin.inputs]

    def is_index(value: int, *, is_scaled: bool) -> bool:
        made = program.writer(value)
        is_load = made is not None and made.role is Role.LOAD and made.opcode not in LOCAL
        return made is not None and is_load and (is_scaled or not made.has("64", "128"))

    starts = [(value, False) for value in program.address_values(position)]
    states = reached(starts, following, _MOST_VALUES)
    return sorted(
        {every[value].position for value, scaled in states if is_index(value, is_scaled=scaled)}
    )


def chooses_address(program: SassProgram, position: int, loads: Collection[int]) -> bool:
    """Whether the address of an access depends on one of these loads in any way, also by a
    condition that chooses it: the next node of a tree. A condition under which the access is made
    at all does not count."""
    values = program.values

    def following(value: int) -> Collection[int]:
        return values.behind(values.all[value], with_guard=True)

    behind = reached(program.address_values(position), following, _MOST_VALUES)
    return any(value in behind for load in loads for value in values.written[load].values())


_END_ROLES = (Role.LOAD, Role.ATOMIC, Role.CONSTANT, Role.SPECIAL, Role.UNKNOWN)


def _behind(program: SassProgram, position: int, *, is_scaled: bool) -> list[tuple[int, bool]]:
    """The values that a result is computed from, and whether they are multiplied or shifted on the
    way to the address, as an index is and a pointer is not."""
    instruction = program.code[position]
    if instruction.role in _END_ROLES:
        return []
    factors = {"IMAD": 2, "LEA": 1}.get(instruction.base, 0)
    is_sum = instruction.base in ("IADD3", "IADD", "VIADD", "MOV", "R2UR", "IMAD", "LEA", "SEL")
    read = program.values.read[position]
    values = []
    for place, operand in enumerate(instruction.sources):
        if operand.is_register and operand.name in read and operand.kind != "predicate":
            is_factor = place < factors and not is_move(instruction)
            values.append((read[operand.name], is_scaled or is_factor or not is_sum))
    return values


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
    positions = program.where(lambda instruction: instruction.role is Role.ATOMIC)
    return [_atomic(program, evaluation, position) for position in positions]


def _atomic(program: SassProgram, evaluation: Evaluation, position: int) -> Atomic:
    instruction = program.code[position]
    polynomial = address_polynomial(program, evaluation, position)
    varying = polynomial.only(lambda product: any(not symbol.is_uniform for symbol in product))
    shape = shape_of(varying, instruction.width)
    count = math.prod(distinct_values(group.strides) for group in shape.groups) if shape else None
    memory = memory_of(instruction)
    return Atomic(position, memory, _spread(varying), count, bool(instruction.writes))


def _spread(polynomial: Polynomial) -> Spread:
    names = polynomial.depends
    if "data" in names:
        return "chosen by data"
    if "unknown" in names:
        return "unknown"
    if any(name.startswith("tid") for name in names):
        lane = [symbol for symbol in polynomial.symbols if "tid.x" in symbol.depends]
        is_same = bool(lane) and all(map(_drops_lanes, lane))
        return "one address per warp or less" if is_same else "different addresses"
    if not all(name.startswith(("ctaid", "loop")) for name in names):
        return "unknown"
    if any(name.startswith("loop") for name in names):
        return "different addresses"
    return "one address per block" if names else "one address"


def _drops_lanes(symbol: Symbol) -> bool:
    """Whether it is `(tid.x + 32 n) >> 5` or a larger shift: the same for all lanes of a warp."""
    whole, bits = symbol.arguments[:2] if symbol.kind == "shr" else (None, None)
    if not isinstance(whole, Polynomial) or not isinstance(bits, int) or bits < 5:
        return False
    return all(
        coefficient % 32 == 0 or (coefficient == 1 and [s.name for s in product] == ["tid.x"])
        for product, coefficient in whole.terms.items()
    )
