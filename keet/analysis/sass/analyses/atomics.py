"""Classifies atomics by their addresses: one address for all, a few, or scattered by data."""

from __future__ import annotations

from typing import Literal, NamedTuple

from keet.analysis.sass.analyses.distinct_bytes import distinct_values, shape_of
from keet.analysis.sass.analyses.reuse import address_polynomial
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.opcodes import SHARED, Role
from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.polynomial import Polynomial

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
