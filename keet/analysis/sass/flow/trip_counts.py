"""Trip counts of loops per entry, and whether all warps have the same."""

from __future__ import annotations

from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind
from keet.analysis.sass.instructions.opcodes import IMPURE, Role

_FAR = 4000
"""Most values that are followed back from a loop's exit; beyond, trips count as uneven."""
_PURE = (Role.INTEGER, Role.PREDICATE, Role.MOVE, Role.CONSTANT, Role.CONVERSION, Role.FLOAT)
"""Roles whose results depend only on their operands, except for the opcodes of `IMPURE`."""


def trips_of(program: SassProgram, loop: Loop) -> tuple[int | None, bool]:
    """Iterations per entry, and whether all warps certainly do that many.

    Execution counts give an average. It is exact if it is an integer and the exit condition depends
    only on constants and parameters.
    """
    if loop.trips is None:
        return None, False
    whole = -int(-loop.trips // 1)
    is_whole = abs(loop.trips - round(loop.trips)) < 1e-9
    return whole, is_whole and loop.is_counted and _leaves_together(program, loop)


def _leaves_together(program: SassProgram, loop: Loop) -> bool:
    return not uneven_exits(program, loop)


def uneven_exits(program: SassProgram, loop: Loop) -> list[int]:
    """Branches out of a loop whose condition may differ between warps."""
    flow, values = program.flow, program.values
    found = []
    for block in sorted(loop.blocks):
        last = flow.blocks[block].end - 1
        leaves = any(each not in loop.blocks for each in flow.blocks[block].successors)
        ends = program.code[last].opcode in ("EXIT", "RET")
        if (leaves or ends) and any(
            _varies(program, predicate, loop) for predicate in values.read[last].values()
        ):
            found.append(last)
    return found


def _varies(program: SassProgram, value: int, loop: Loop) -> bool:
    """Whether a value depends on anything but constants, parameters and this loop's counter."""
    headers = program.loop_headers
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        found = program.values.all[current]
        if found.kind in (Kind.ENTRY, Kind.CALL) or len(seen) > _FAR:
            return True
        if found.kind is Kind.JOIN and found.block in headers and found.block != loop.header:
            return True
        if found.kind is Kind.DEFINITION:
            each = program.code[found.position]
            if each.role not in _PURE or each.opcode in IMPURE:
                return True
            waiting += program.values.read[found.position].values()
        else:
            waiting += found.inputs
    return False


def is_ragged(program: SassProgram, loop: Loop) -> bool:
    """Whether trip counts may differ by more than one between warps: the limit in the exit
    condition differs between warps, too."""
    for position in uneven_exits(program, loop):
        for predicate in program.values.read[position].values():
            for source in program.values.definitions(predicate, 8):
                reads = program.values.read[source].values()
                varies = bool(reads) and all(_varies(program, each, loop) for each in reads)
                is_plain = len(reads) == 1 and program.code[source].role is Role.PREDICATE
                if varies and not is_plain:
                    return True
    return False
