"""Steps on pairs of values in shared memory, as in a fast transform or a sorting network.

In each step a thread takes a group of values, computes as many results from them, and puts these in
their places. A thread that handles several groups between two barriers has enough values to do
several steps on them in registers, if it takes them from other places: with sixteen values instead
of eight pairs, four steps.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from keet.analysis.machine_code.flow.control_flow import reached
from keet.analysis.machine_code.flow.program import Readers, SassProgram
from keet.analysis.machine_code.instructions.opcodes import Role

_ARITHMETIC = (Role.FLOAT, Role.INTEGER, Role.MOVE)
_MOST_INSTRUCTIONS = 64
"""Most instructions between a load and the stores of its group."""


class ExchangeSteps(NamedTuple):
    positions: frozenset[int]
    """Of the loads and stores of shared memory."""
    group: float
    """Values that are combined with each other, on average."""
    held: float
    """Values that a thread loads between two barriers."""

    @property
    def left(self) -> float:
        """Share of the passes over the values that is left if a thread combines all that it
        holds."""
        return min(1.0, math.log(self.group) / math.log(self.held)) if self.held > 1 else 1.0


def exchange_steps(program: SassProgram) -> ExchangeSteps | None:
    """None if the kernel has no such steps."""
    code, counts = program.code, program.counts
    loads = [position for position in program.ran if code[position].opcode == "LDS"]
    barriers = sum(counts[position] for position in program.ran if code[position].is_barrier)
    if not loads or not barriers:
        return None
    readers = Readers(program)
    behind: dict[int, set[int]] = {}
    for load in loads:
        for store in _stores(readers, load):
            behind.setdefault(store, set()).add(load)
    groups = Counter(frozenset(group) for group in behind.values())
    # As many results as values, which all follow from all of them.
    exchanged = {group for group, stores in groups.items() if 1 < len(group) == stores}
    taken = {load for group in exchanged for load in group}
    stores = {store for store, group in behind.items() if frozenset(group) in exchanged}
    executed = sum(counts[load] for load in taken)
    if not executed:
        return None
    bits = (
        sum(math.log(len(group)) * sum(counts[load] for load in group) for group in exchanged)
        / executed
    )
    return ExchangeSteps(frozenset(taken | stores), math.exp(bits), executed / barriers)


def _stores(readers: Readers, load: int) -> set[int]:
    """Positions of the stores to shared memory of what follows from a loaded value."""
    code = readers.program.code

    def following(position: int) -> set[int]:
        is_passed_on = position == load or code[position].role in _ARITHMETIC
        return readers.of_result(position) if is_passed_on else set()

    behind = reached([load], following, _MOST_INSTRUCTIONS)
    return {position for position in behind if code[position].opcode == "STS"}
