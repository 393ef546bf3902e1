"""Blocks that fit onto an SM: the arithmetic of registers, shared memory, warps and blocks.

The hardware allocates registers per warp in units of 256, for four warps (one per scheduler) at a
time, and shared memory per block in units that depend on the compute capability. Checked against
ncu: the limits of 241 launches with compute capability 6.1 to 12.0 agree (up to ncu 2021.2 with the
largest shared memory of an SM, later with the configuration of the launch), and so do ncu's
what-if curves over registers and block sizes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_REGISTER_UNIT = 256
_WARPS_AT_A_TIME = 4


class Machine(NamedTuple):
    """What an SM can hold."""

    warps: int
    blocks: int
    registers: int
    shared: int
    """Bytes, as they are divided between shared memory and L1 for the launch."""
    shared_unit: int
    """Allocation unit of shared memory in bytes."""
    warp_size: int = 32


class Configuration(NamedTuple):
    """What a block takes."""

    threads: int
    registers: int
    """A thread."""
    shared: int
    """Bytes a block, the driver's own included."""


class Limits(NamedTuple):
    """Blocks an SM can hold by each of its resources."""

    registers: int
    shared: int
    warps: int
    blocks: int
    barriers: int | None = None
    """As the report has it: no change here touches barriers."""

    @property
    def least(self) -> int:
        return min(limit for limit in self if limit is not None)

    @property
    def binding(self) -> tuple[str, ...]:
        """Which of them are the least."""
        return tuple(name for name, limit in zip(self._fields, self) if limit == self.least)


def shared_unit(compute_capability: str | None) -> int:
    major = (compute_capability or "0").partition(".")[0]
    return 128 if major.isdecimal() and int(major) >= 8 else 256


def warps_of(machine: Machine, threads: int) -> int:
    return math.ceil(threads / machine.warp_size)


def limits(machine: Machine, block: Configuration, barriers: int | None = None) -> Limits:
    """How many blocks of that kind fit onto the SM."""
    warps = warps_of(machine, block.threads)
    return Limits(
        registers=_by_registers(machine, block, warps),
        shared=_by_shared(machine, block),
        warps=machine.warps // warps,
        blocks=machine.blocks,
        barriers=barriers,
    )


def _by_registers(machine: Machine, block: Configuration, warps: int) -> int:
    if not block.registers:
        return machine.blocks
    each = _up(block.registers * machine.warp_size, _REGISTER_UNIT)
    fitting = machine.registers // each
    return fitting // _WARPS_AT_A_TIME * _WARPS_AT_A_TIME // warps


def _by_shared(machine: Machine, block: Configuration) -> int:
    taken = _up(block.shared, machine.shared_unit)
    return machine.shared // taken if taken else machine.blocks


def _up(amount: int, unit: int) -> int:
    return math.ceil(amount / unit) * unit
