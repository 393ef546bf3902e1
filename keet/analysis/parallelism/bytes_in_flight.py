"""Bytes that are on their way to an SM at a time, and how many keep DRAM busy.

By Little's law, DRAM is busy all the time only if its bytes per second times the time that a load
takes are on their way. What is on its way follows from the code: where a warp waits for loads, and
how many bytes it gets per wait, times the warps of an SM. So it does not depend on how long the
waits took: in the queue of a busy DRAM, waits are long with enough bytes on their way.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import GLOBAL_LOADS
from keet.analysis.parallelism.inactive_threads import launched_warps
from keet.analysis.parameters import Parameter
from keet.analysis.roofline.memory import dram_ceiling
from keet.evidence import Evidence
from keet.profile import Absent
from keet.units import Quantity

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
    amount = Quantity(max(per_wait * float(warps.value), least), "byte")

    held = view.ledger.derived("bytes_in_flight", amount, label, warps, read)
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
    amount = Quantity(float(dram.peak.value) * LOAD_NS * 1e-9 / sms, "byte")
    label = "bytes per SM on their way that keep DRAM busy"
    return view.ledger.derived("bytes_in_flight_needed", amount, label, dram.peak)
