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

Also the bytes that are on their way to an SM at a time, and how many of them keep DRAM busy. By
Little's law, DRAM is busy all the time only if its bytes per second times the time that a load
takes are on their way. What is on its way follows from the code: where a warp waits for loads, and
how many bytes it gets per wait, times the warps of an SM. So it does not depend on how long the
waits took: in the queue of a busy DRAM, waits are long with enough bytes on their way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import GLOBAL_LOADS
from keet.analysis.parallelism.inactive_threads import WARP, launched_warps
from keet.analysis.parallelism.resident_warps import BLOCK_LIMITS
from keet.analysis.parameters import Parameter
from keet.analysis.roofline.memory import dram_ceiling
from keet.documents.charts import Changed, OccupancyCurve, OccupancyDocument, OccupancyStep
from keet.evidence import Evidence
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
    return -(-amount // unit) * unit


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
    parts = (f"shared_memory_{part}" for part in ("driver", "static", "dynamic"))
    driver, *of_launch = (int(number(part) or 0) for part in parts)
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
    registers = range(8, most.registers + 8, _REGISTER_UNIT // WARP)
    ends: dict[Changed, Iterable[int]] = {
        "registers": (min(size, most.registers) for size in registers),
        "shared_memory": (*(size for size in sizes if 0 <= size < most.shared), most.shared),
        "block_size": range(WARP, most.threads + 1, WARP),
    }
    return OccupancyDocument(
        warps=model.warps(block),
        most_warps=model.machine.warps,
        limited_by=model.limits(block).binding,
        curves=tuple(_curve(model, of, sizes) for of, sizes in ends.items()),
    )


_FIELDS: Mapping[Changed, str] = {
    "registers": "registers",
    "shared_memory": "shared",
    "block_size": "threads",
}
"""Of `Configuration`."""


def _curve(model: OccupancyModel, of: Changed, ends: Iterable[int]) -> OccupancyCurve:
    """`ends`: values up to which the number of warps is the same, ascending. Shared memory without
    that of the driver."""
    field, driver = _FIELDS[of], model.driver if of == "shared_memory" else 0
    steps, least = list[OccupancyStep](), 0 if of == "shared_memory" else 1
    for end in ends:
        warps = model.warps(model.block._replace(**{field: end + driver}))
        if steps and steps[-1].warps == warps:
            least = steps.pop().least
        steps.append(OccupancyStep(least, end, warps))
        least = end + 1
    now = getattr(model.block, field) - driver
    return OccupancyCurve(of=of, now=now, steps=tuple(steps))


LOAD_NS = Parameter(
    400.0,
    "nanoseconds of a load from DRAM without a queue; microbenchmarks of V100 to H100: 375 to 480",
    "judgement",
)

LONG_WAIT = Parameter(
    2,
    "times the time of a load without a queue up to which a wait is no matter of one",
    "judgement",
)

_LOADS = GLOBAL_LOADS | {"LDGSTS"}
"""Not bulk copies, whose size the instruction does not show."""


class BytesInFlight(NamedTuple):
    held: Evidence
    """Per SM, while its warps wait for loads."""
    needed: Evidence
    """Per SM, for a DRAM that is always busy."""
    waits: float
    """Waits for loads per warp, one after the other: these loads could be issued together."""
    per_thread: float
    """Bytes that the loads of a thread request per wait; other threads may request the same."""
    unqueued: float
    """1 if a wait takes about as long as a load from DRAM without a queue, less if longer, down to
    0: scattered stores, atomics or one hot address can hold up loads."""

    def covered(self, part: float = 1.0) -> float:
        """The part of the needed bytes that is on its way, 0 to 1. `part`: of the time in which
        loads are on their way."""
        return min(1.0, part * float(self.held.value) / float(self.needed.value))

    def shortage(self, part: float = 1.0) -> float:
        """0 with enough bytes or in a long queue, 1 with half of the bytes or fewer."""
        covered = self.covered(part)
        return (min(1.0, 1 / covered - 1) if covered else 1.0) * self.unqueued


@cached_per_view
def bytes_in_flight(view: LaunchView) -> BytesInFlight | None:
    """None without the machine code, samples at its instructions, or the bytes."""
    parts, code, needed = _waiting(view), view.code, _needed(view)
    warps, read = view.get("achieved_warps_per_sm"), view.get("l2_l1_read_sectors")
    if code is None or not parts or needed is None or not warps or not warps.value or not read:
        return None
    counts = code.program.counts
    # The bytes that an instruction waits for are those of the launch, by its share of the samples.
    average = sum(part**2 / counts[position] for position, part in parts.items())
    per_wait = (code.l2_read_bytes or 0) * average
    if not per_wait:
        return None
    # Samples that are spread over several instructions are of several waits per execution.
    spread = 1 / sum(part**2 for part in parts.values())
    executed = sum(part * counts[position] for position, part in parts.items())
    waits = spread * executed / max(1, counts[0])
    label = "bytes per SM that loads have requested at a time"
    duration, sms = view.value("duration") or 0.0, view.launch.device.sm_count or 1
    # As many bytes arrive in the time of a load: loads whose results are waited for one by one may
    # have been issued together.
    least = (code.l2_read_bytes or 0) / duration / sms * LOAD_NS if duration else 0.0
    amount = max(per_wait * float(warps.value), least)

    held = view.ledger.derived("bytes_in_flight", amount, label, warps, read, unit="byte")
    per_thread = average * sum(
        counts[position] * code.program.code[position].width
        for position in code.program.ran
        if code.program.code[position].opcode in _LOADS
    )
    # The warps of all SMs wait for a share of the launch's time.
    share = view.stalls.get("long_scoreboard", 0.0)
    wait = share * duration * sms * (average * float(warps.value))
    unqueued = min(1.0, LONG_WAIT * LOAD_NS / wait) if wait else 1.0
    return BytesInFlight(held, needed, waits, per_thread, unqueued)


def unqueued_share(view: LaunchView) -> float:
    """Share of the launch's time that its warps need for their round trips to memory, one after the
    other, if no load waits in a queue and none hits L1, 0 to 1; 0: not known."""
    flight, duration, warps = bytes_in_flight(view), view.value("duration"), launched_warps(view)
    held, sms = view.value("achieved_warps_per_sm"), view.launch.device.sm_count
    if flight is None or not duration or not warps or not held or not sms:
        return 0.0
    return min(1.0, max(1.0, warps / (held * sms)) * flight.waits * LOAD_NS / duration)


def _waiting(view: LaunchView) -> dict[int, float]:
    """The share of the samples of waits for loads, by position of the instruction that waits."""
    if view.code is None:
        return {}
    samples, counts = Counter[int](), view.code.program.counts
    for wait in view.code.waits:
        if wait.reason == "long_scoreboard" and counts[wait.position]:
            samples[wait.position] += wait.samples
    return {position: number / samples.total() for position, number in samples.items()}


def _needed(view: LaunchView) -> Evidence | None:
    dram, sms = dram_ceiling(view.ledger, view.ceilings), view.launch.device.sm_count
    if isinstance(dram, Absent) or dram.peak is None or not sms:
        return None
    amount = float(dram.peak.value) * LOAD_NS * 1e-9 / sms
    label = "bytes per SM on their way that keep DRAM busy"
    return view.ledger.derived("bytes_in_flight_needed", amount, label, dram.peak, unit="byte")
