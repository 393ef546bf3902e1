"""Finds loop-invariant instructions: candidates to move out of a loop.

The compiler left them inside because of memory that may change, calls or register pressure. Only
the programmer knows whether they may move.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.instructions.instruction import Instruction, is_move
from keet.analysis.sass.instructions.opcodes import Role

_WORK = (Role.FLOAT, Role.TENSOR, Role.INTEGER, Role.CONVERSION, Role.LOAD, Role.PREDICATE)
"""Roles that are worth moving. Compilers put moves and constants next to their use on purpose."""


class Invariant(NamedTuple):
    loop: int
    positions: tuple[int, ...]
    share: float
    """Share of the kernel's executed warp instructions that would be saved, 0 to 1."""
    loads: int


def invariants(program: SassProgram) -> list[Invariant]:
    """One entry per loop, largest share first. An instruction is counted in the outermost loop in
    which it is invariant."""
    total = sum(program.counts) or 1
    taken: set[int] = set()
    found = []
    for loop in program.flow.loops:  # outer loops come first
        if loop.trips is None or loop.trips <= 1:
            continue
        own = [each for each in _invariant_positions(program, loop) if each not in taken]
        taken.update(own)
        spent = sum(program.counts[each] for each in own) * (1 - 1 / loop.trips) / total
        if own:
            loads = sum(program.code[each].role is Role.LOAD for each in own)
            found.append(Invariant(loop.index, tuple(own), spent, loads))
    return sorted(found, key=lambda each: (-each.share, each.loop))


def _invariant_positions(program: SassProgram, loop: Loop) -> list[int]:
    code = program.code
    return [
        each
        for each in steady_positions(program, loop)
        if code[each].role in _WORK and not is_move(code[each]) and code[each].reads
    ]


def steady_positions(program: SassProgram, loop: Loop) -> dict[int, None]:
    """Positions in the loop of instructions whose result is the same in every iteration, in the
    order of the blocks."""
    flow, values = program.flow, program.values
    steady: dict[int, None] = {}
    for block in sorted(loop.blocks, key=program.flow_rank.__getitem__):
        for position in range(flow.blocks[block].start, flow.blocks[block].end):
            each = program.code[position]
            if not program.counts[position] or not each.writes or not _may_repeat(each):
                continue
            if all(
                _is_steady(program, loop, value, steady) for value in values.read[position].values()
            ):
                steady[position] = None
    return steady


def _may_repeat(each: Instruction) -> bool:
    return each.role in (*_WORK, Role.MOVE, Role.CONSTANT, Role.SPECIAL)


def _is_steady(program: SassProgram, loop: Loop, value: int, steady: Collection[int]) -> bool:
    found = program.values.all[value]
    if found.block not in loop.blocks:
        return True
    return found.position in steady and value in program.values.written[found.position].values()
