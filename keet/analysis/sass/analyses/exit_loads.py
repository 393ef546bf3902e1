"""Loops that a load ends: no iteration can start before the load of the one before has returned.

A search for a marker at the end of a list is such a loop. Its loads could be issued several at a
time if the length were known, or if it read ahead. A loop that waits for another thread loads the
same address again: it is left out, as are loads whose address the load before returned.
"""

from __future__ import annotations

from keet.analysis.sass.analyses.loop_chains import FAR
from keet.analysis.sass.analyses.purpose import address_registers
from keet.analysis.sass.analyses.retry_loops import stays
from keet.analysis.sass.flow.control_flow import Loop
from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind


def exit_loads(program: SassProgram, loop: Loop) -> list[int]:
    """Positions of loads of the loop that decide whether it goes on, in order; those at an address
    that stays the same are left out."""
    values, flow = program.values, program.flow
    exits = (
        flow.blocks[block].end - 1
        for block in loop.blocks
        if any(each not in loop.blocks for each in flow.blocks[block].successors)
    )
    waiting = [value for position in exits for value in values.read[position].values()]
    seen: set[int] = set()
    found: set[int] = set()
    while waiting:
        current = waiting.pop()
        value = values.all[current]
        if current in seen or value.block not in loop.blocks:
            continue
        seen.add(current)
        if value.kind is not Kind.DEFINITION:
            is_earlier = value.kind is Kind.JOIN and value.block == loop.header
            waiting += () if is_earlier else value.inputs
        elif program.code[value.position].opcode in FAR:
            found.add(value.position)
        else:
            waiting += values.read[value.position].values()
    return sorted(each for each in found if _moves_on(program, loop, each))


def _moves_on(program: SassProgram, loop: Loop, load: int) -> bool:
    read = program.values.read[load]
    words = address_registers(program.code[load])
    return not all(stays(program, loop, read[name]) for name in words if name in read)
