"""How many warps an SM can hold, also with other registers, shared memory or block sizes.

The hardware allocates registers per warp in units of 256, for four warps (one per scheduler) at a
time, and shared memory per block in units that depend on the compute capability. In the 292
launches of tests and other reports that have ncu's limits (compute capability 6.1 to 12.0), 291
come out the same. The other is a block with more than 48 KB, for which ncu states a limit of 0
blocks although it ran.

ncu's curves keep the shared memory that the driver gave to the launch's SMs. The driver gives each
launch what its blocks need: in none of those 291 launches would fewer blocks fit than in the
largest size. So a what-if takes the largest size, unless the launch itself shows that its size was
set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.resident_warps import BLOCK_LIMITS
from keet.documents.occupancy import Changed, OccupancyCurve, OccupancyDocument, OccupancyStep
from keet.profile import Absent, Launch, Workload

_REGISTER_UNIT = 256
_WARPS_AT_A_TIME = 4
LIMIT_NAMES = dict(
    zip(("registers", "shared", "warps", "blocks", "barriers"), (*BLOCK_LIMITS, "barriers"))
)
"""Names of the fields of `Limits` in texts."""
_DIFFERS = Absent(
    "keet's arithmetic does not give the report's own block limits here, so that a what-if would "
    "be a guess",
    "see `keet metrics` for `block_limit_registers`",
)


class Machine(NamedTuple):
    """What an SM can hold."""

    warps: int
    blocks: int
    registers: int
    shared: int
    """Bytes, as they are divided between shared memory and L1 for the launch."""
    shared_unit: int
    """Allocation unit of shared memory in bytes."""


class Configuration(NamedTuple):
    """What a block takes."""

    threads: int
    registers: int
    """Per thread."""
    shared: int
    """Bytes per block, the driver's own included."""

    @property
    def warps(self) -> int:
        return math.ceil(self.threads / WARP)


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


def limits(machine: Machine, block: Configuration, barriers: int | None = None) -> Limits:
    """How many blocks of that kind fit onto the SM."""
    by_registers = by_shared = machine.blocks
    if block.registers:
        fitting = machine.registers // _up(block.registers * WARP, _REGISTER_UNIT)
        by_registers = fitting // _WARPS_AT_A_TIME * _WARPS_AT_A_TIME // block.warps
    if taken := _up(block.shared, machine.shared_unit):
        by_shared = machine.shared // taken
    return Limits(by_registers, by_shared, machine.warps // block.warps, machine.blocks, barriers)


def _up(amount: int, unit: int) -> int:
    return math.ceil(amount / unit) * unit


class OccupancyModel(NamedTuple):
    """A launch and its SM, whose limits come out as the report has them."""

    machine: Machine
    """With the shared memory that a launch can get."""
    given: int
    """Bytes of shared memory that the SM had for this launch."""
    block: Configuration
    driver: int
    """Bytes of shared memory that the driver takes of each block."""
    barriers: int | None
    most: Configuration
    """The largest values that a launch can have."""

    def limits(self, block: Configuration) -> Limits:
        return limits(self.machine, block, self.barriers)

    def warps(self, block: Configuration) -> int:
        """Warps that an SM can hold at a time."""
        return self.limits(block).least * block.warps


def occupancy_model(launch: Launch) -> OccupancyModel | Absent:
    number = launch.number
    block_limits = tuple(map(number, BLOCK_LIMITS.values()))
    possible = number("theoretical_occupancy_pct")
    if launch.workload is not Workload.KERNEL or possible is None or None in block_limits:
        lacks = "the report has no block limits of this launch"
        return Absent(lacks, "profile with `--section Occupancy`")
    threads, registers = number("block_size"), number("registers_per_thread")
    per_sm = [number(f"device_{name}_per_sm") for name in ("warps", "registers", "shared_memory")]
    if not threads or registers is None or None in per_sm:
        lacks = "the report does not say what a block takes, or what an SM has"
        return Absent(lacks, "profile with `--section LaunchStats`")
    warps, all_registers, largest = (int(amount or 0) for amount in per_sm)
    driver, *of_launch = (
        int(number(f"shared_memory_{part}") or 0) for part in ("driver", "static", "dynamic")
    )
    block = Configuration(int(threads), int(registers), driver + sum(of_launch))
    barriers = int(number("block_limit_barriers") or 0) or None
    unit = shared_unit(launch.device.compute_capability)
    blocks = int(number("device_blocks_per_sm") or block_limits[3] or 0)
    roomy = Machine(warps, blocks, all_registers, largest, unit)
    configured = roomy._replace(shared=int(number("shared_memory_config") or largest))
    # Up to 2021.2, ncu took the largest shared memory, whatever the launch was given.
    if block_limits not in {limits(configured, block)[:4], limits(roomy, block)[:4]}:
        return _DIFFERS
    reported = round(float(possible) / 100 * warps, 3)
    for machine in (roomy, configured):
        if limits(machine, block, barriers).least * block.warps == reported:
            most = Configuration(
                int(number("device_threads_per_block") or 1024),
                int(number("device_registers_per_thread") or 255),
                int(number("device_shared_memory_per_block_optin") or machine.shared - driver),
            )
            return OccupancyModel(machine, configured.shared, block, driver, barriers, most)
    return _DIFFERS


# --- the curves


def occupancy_curves(model: OccupancyModel) -> OccupancyDocument:
    """The warps per SM by registers, shared memory and block size, the others as they are."""
    block, driver, most = model.block, model.driver, model.most
    unit, shared = model.machine.shared_unit, model.machine.shared
    fewest = model.limits(block._replace(shared=0)).least
    # The most that each number of blocks leaves to one.
    sizes = (shared // blocks // unit * unit - driver for blocks in range(fewest, 0, -1))
    of_block, per_register = block.shared - driver, _REGISTER_UNIT // WARP
    return OccupancyDocument(
        warps=model.warps(block),
        most_warps=model.machine.warps,
        limited_by=model.limits(block).binding,
        curves=(
            _curve(
                "registers",
                block.registers,
                (min(size, most.registers) for size in range(8, most.registers + 8, per_register)),
                lambda size: model.warps(block._replace(registers=size)),
                1,
            ),
            _curve(
                "shared_memory",
                of_block,
                (*(size for size in sizes if 0 <= size < most.shared), most.shared),
                lambda size: model.warps(block._replace(shared=size + driver)),
                0,
            ),
            _curve(
                "block_size",
                block.threads,
                range(WARP, most.threads + 1, WARP),
                lambda size: model.warps(block._replace(threads=size)),
                1,
            ),
        ),
    )


def _curve(
    of: Changed, now: int, ends: Iterable[int], warps_at: Callable[[int], int], least: int
) -> OccupancyCurve:
    """`ends`: values up to which the number of warps is the same, ascending."""
    steps: list[OccupancyStep] = []
    for end in ends:
        warps = warps_at(end)
        if steps and steps[-1].warps == warps:
            least = steps.pop().least
        steps.append(OccupancyStep(least, end, warps))
        least = end + 1
    return OccupancyCurve(of=of, now=now, steps=tuple(steps))
