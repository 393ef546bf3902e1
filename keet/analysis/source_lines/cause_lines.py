"""Which source lines to list first for a finding, from the machine code.

Samples show where warps wait. The line to change is often another one: the load that is waited for,
the conversion to double, the loop whose trip count differs between warps, the lines that the
compiler unrolled into thousands of instructions. The machine code shows those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from keet.analysis.sass.flow.trip_counts import uneven_exits
from keet.analysis.sass.inlined import calling_line
from keet.analysis.sass.instructions.opcodes import Role
from keet.analysis.sass.machine_code import MachineCode
from keet.profile import Location
from keet.records import NamedTuple

Amounts = Counter[Location | None]
"""By line; code without a line is under `None`, so that shares are relative to the whole."""


class Ranking(NamedTuple):
    of: str
    """What the amounts are shares of."""
    amounts: Amounts


def producers(code: MachineCode) -> Ranking:
    """Lines of the instructions whose results warps wait for, by samples of those waits.

    Loads, if warps wait for data more often than for the fixed latency of arithmetic; else that
    arithmetic.
    """
    data, results = _producers(code, _SCOREBOARDS, _DATA), _producers(code, ("wait",), None)
    if data.total() >= results.total():
        return Ranking("waits for data", data)
    return Ranking("waits for a fixed instruction latency", results)


_SCOREBOARDS = ("long_scoreboard", "short_scoreboard")


def _producers(
    code: MachineCode, reasons: tuple[str, ...], roles: tuple[Role, ...] | None
) -> Amounts:
    found: Amounts = Counter()
    for wait in code.waits:
        if wait.reason not in reasons or not wait.producers:
            continue
        if roles is None or code.program.code[wait.producers[0]].role in roles:
            _count(found, code, wait.producers[0], wait.samples)
    return found


_DATA = (Role.LOAD, Role.ATOMIC, Role.COPY)


def conversions_to_double(code: MachineCode) -> Ranking:
    """Lines that convert floats to doubles, by executions."""
    found: Amounts = Counter()
    for position in code.program.ran:
        each = code.program.code[position]
        if each.opcode == "F2F" and each.modifiers[:2] == ("F64", "F32"):
            _count(found, code, position, code.program.counts[position])
    return Ranking("conversions to double", found)


def uneven_loops(code: MachineCode) -> Ranking:
    """Lines that exit loops after different numbers of iterations, by the work in those loops."""
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
    return Ranking("work in uneven loops", found)


def code_size(code: MachineCode) -> Ranking:
    """Lines by the number of their machine instructions that ran."""
    found: Amounts = Counter()
    for position in code.program.ran:
        _count(found, code, position, 1)
    return Ranking("code that ran", found)


def address_work(code: MachineCode) -> Ranking:
    """Lines by executed instructions that compute addresses, conditions and conversions."""
    found: Amounts = Counter()
    for position in code.program.ran:
        if code.purposes[position].value in ("address", "control", "conversion"):
            _count(found, code, position, code.program.counts[position])
    return Ranking("work on addresses and conditions", found)


def _count(found: Amounts, code: MachineCode, position: int, amount: int) -> None:
    found[calling_line(code, position)] += amount


LEADING: Mapping[str, Callable[[MachineCode], Ranking]] = {
    "latency_bound": producers,
    "fp64_promotion": conversions_to_double,
    "load_imbalance": uneven_loops,
    "instruction_fetch": code_size,
    "integer_overhead": address_work,
}
"""Ranking function by finding. Other findings have counters of their own (excess sectors,
conflicts), or use the sampled lines."""
