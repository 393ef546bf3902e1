"""Which lines a finding points at: the kind of cause decides which end of a wait leads.

Samples show where warps wait. The line to change is often another one: the load that is waited
for, the conversion that makes doubles, the loop whose trip count differs between warps, the lines
that the compiler unrolled into thousands of instructions. The machine code tells those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from keet.analysis.sass.machine_code import MachineCode
from keet.analysis.sass.opcodes import Role
from keet.analysis.sass.trips import uneven_exits
from keet.profile import Location

Amounts = Counter[Location | None]
"""By line; what has none is counted under `None`, so that shares are of the whole."""


def producers(code: MachineCode) -> Amounts:
    """Lines of the instructions whose results warps wait for, by samples of those waits."""
    found: Amounts = Counter()
    for wait in code.waits:
        if wait.reason not in ("long_scoreboard", "short_scoreboard") or not wait.producers:
            continue
        if code.program.code[wait.producers[0]].role in _DATA:
            _count(found, code, wait.producers[0], wait.samples)
    return found


_DATA = (Role.LOAD, Role.ATOMIC, Role.COPY)


def conversions_to_double(code: MachineCode) -> Amounts:
    """Lines that turn floats into doubles, by executions."""
    found: Amounts = Counter()
    for position in code.program.ran:
        each = code.program.code[position]
        if each.opcode == "F2F" and each.modifiers[:2] == ("F64", "F32"):
            _count(found, code, position, code.program.counts[position])
    return found


def uneven_loops(code: MachineCode) -> Amounts:
    """Lines that end loops after different numbers of iterations, by what runs in those loops."""
    found: Amounts = Counter()
    flow = code.program.flow
    for loop in flow.loops:
        if loop.trips is None or loop.trips <= 1:
            continue
        spent = sum(
            code.program.counts[position]
            for block in loop.blocks
            for position in range(flow.blocks[block].start, flow.blocks[block].end)
        )
        for position in uneven_exits(code.program, loop):
            _count(found, code, position, spent)
    return found


def code_size(code: MachineCode) -> Amounts:
    """Lines by the number of instructions that ran for them."""
    found: Amounts = Counter()
    for position in code.program.ran:
        _count(found, code, position, 1)
    return found


def address_work(code: MachineCode) -> Amounts:
    """Lines by executed instructions that compute addresses, conditions and conversions."""
    found: Amounts = Counter()
    for position in code.program.ran:
        if code.purposes[position].value in ("address", "control", "conversion"):
            _count(found, code, position, code.program.counts[position])
    return found


def _count(found: Amounts, code: MachineCode, position: int, amount: int) -> None:
    found[code.location(position)] += amount


Ranking = tuple[str, Callable[[MachineCode], Amounts]]

LEADING: Mapping[str, Ranking] = {
    "latency_bound": ("waits for data", producers),
    "fp64_promotion": ("conversions to double", conversions_to_double),
    "load_imbalance": ("work in uneven loops", uneven_loops),
    "instruction_fetch": ("code that ran", code_size),
    "integer_overhead": ("work on addresses and conditions", address_work),
}
"""By finding: what ranks its lines, and in which words. Other findings have counters of their own
(excess sectors, conflicts), or happen where the samples are."""
