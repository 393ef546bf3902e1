"""Causes in what is executed: divergence, precision, pipes, fetch."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.ceilings import NEAR, bounded, less_work
from keet.analysis.findings import Finding
from keet.analysis.view import View
from keet.units import Quantity

_COMPUTE = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU")


def _busy(view: View) -> bool:
    """Instructions are what takes the time."""
    return max(view.ceilings.share(unit) for unit in _COMPUTE) >= NEAR / 100


def warp_divergence(view: View) -> Iterator[Finding]:
    threads = view.get("active_threads_per_warp")
    if threads is None or threads.value > 20 or not _busy(view):
        return
    if (view.value("block_size") or 32) < 32:  # a block that does not fill a warp
        return
    kept = float(threads.value) / 32
    yield Finding(
        "warp_divergence",
        "high" if threads.value <= 12 else "medium",
        f"An instruction runs for {threads:.1f}s of a warp on average.",
        less_work(view.ceilings, dict.fromkeys(_COMPUTE, max(kept, 0.1))),
        (threads,),
        view.places_by("threads that idle", _idle_threads(view)),
    )


def _idle_threads(view: View) -> dict[int, int]:
    """Of the warps, by instruction."""
    executed = view.table.column("inst_executed") or {}
    threads = view.table.column("thread_inst_executed") or {}
    return {address: 32 * warps - threads.get(address, 0) for address, warps in executed.items()}


def double_precision(view: View) -> Iterator[Finding]:
    """FP64 that slipped into single-precision code, or that nothing asks for."""
    busy = view.ceilings.reached("FP64")
    if busy is None or busy.value < 40:
        return
    converted = view.executed("F2F")
    arithmetic = view.executed("DFMA", "DADD", "DMUL", "DSETP")
    slipped = bool(arithmetic) and converted >= 0.02 * arithmetic
    share = less_work(view.ceilings, {"FP64": 0.1, "issue": 0.3, "ALU": 0.5, "XU": 0.7})
    yield Finding(
        "fp64_promotion" if slipped else "low_precision_possible",
        "high" if slipped else "medium",
        f"The FP64 pipe is busy for {busy:.0f} of the time.",
        share,
        (busy,),
        view.sampled_places(),
    )


def sfu_bound(view: View) -> Iterator[Finding]:
    busy = view.ceilings.reached("XU")
    if busy is None or busy.value < 75:
        return
    yield Finding(
        "sfu_bound",
        "high",
        f"The XU pipe (special functions, conversions) is busy for {busy:.0f} of the time.",
        less_work(view.ceilings, {"XU": 0.25}),
        (busy,),
        view.sampled_places(),
    )


_OVERHEAD_PURPOSES = ("address", "control", "conversion")
_OVERHEAD = 0.5
"""Of all issue slots. Chosen on the casebook's work families: launches that integer work limits lie
from 0.62 up (5), the others up to 0.50 (311). Near the gate, either answer can be wrong."""


def integer_overhead(view: View) -> Iterator[Finding]:
    """By what the executed instructions are for; by integer counters without the machine code."""
    issue = view.ceilings.reached("issue")
    executed = view.get("inst_executed")
    if issue is None or issue.value < 100 * _OVERHEAD or executed is None or view.code is None:
        yield from _integer_arithmetic(view)
        return
    part = sum(share for purpose, share in view.code.mix if purpose.value in _OVERHEAD_PURPOSES)
    if part * float(issue.value) / 100 < _OVERHEAD:
        return
    share = view.ledger.derived(
        "overhead_share",
        Quantity(100 * part, "%"),
        "of the executed instructions compute addresses, conditions and conversions",
        executed,
    )
    kept = 1 - 0.8 * part
    yield Finding(
        "integer_overhead",
        "high" if part * float(issue.value) / 100 >= _MOSTLY else "medium",
        f"The schedulers issue in {issue:.0f} of the cycles, and {share:.0f} of what they issue is "
        "for addresses, conditions and conversions.",
        less_work(view.ceilings, {"issue": kept, "ALU": kept, "FMA": kept, "XU": kept}),
        (share, issue),
        view.places_by("executed instructions", view.table.column("inst_executed")),
    )


_MOSTLY = 0.6
"""Judgement: of all issue slots, from which nothing else can be meant."""


def _integer_arithmetic(view: View) -> Iterator[Finding]:
    integers = view.get("thread_inst_integer")
    singles, doubles = view.get("thread_inst_fp32"), view.get("thread_inst_fp64")
    every = view.total("thread_insts", "arithmetic thread instructions", integers, singles, doubles)
    if integers is None or every is None or not every.value or not _busy(view):
        return
    share = view.percent("integer_share", "of arithmetic is integer", integers, every)
    threads = view.value("active_threads_per_warp") or 32
    if share.value < 55 or view.ceilings.share("DRAM") >= 0.75 or threads < 20:
        return
    kept = 1 - 0.8 * float(share.value) / 100
    yield Finding(
        "integer_overhead",
        "high" if share.value >= 70 else "medium",
        f"{share:.0f} of the arithmetic is integer: indices and addresses.",
        less_work(view.ceilings, {"issue": kept, "ALU": kept, "FMA": kept, "XU": kept}),
        (share, integers, every),
        view.places_by("executed instructions", view.table.column("inst_executed")),
    )


def no_tensor_core(view: View) -> Iterator[Finding]:
    """Halves that are multiplied as floats, in a kernel that reuses them from shared memory."""
    busy = view.ceilings.reached("FMA")
    if busy is None or busy.value < 50 or "tensor" not in view.ceilings:
        return
    if view.ceilings.share("tensor") > 0.05 or view.capability < (7, 0):
        return
    fused, loads = view.executed("FFMA"), view.executed("LDS")
    matrix = fused >= 0.5 * sum(view.opcodes.values()) and loads > 0
    # A half becomes a float by HADD2; HFMA2 is also how the compiler writes constants.
    if not matrix or view.executed("HADD2") < 0.005 * fused:
        return
    yield Finding(
        "no_tensor_core",
        "medium",
        f"Halves are multiplied as floats on the FMA pipe, busy for {busy:.0f} of the time, while "
        "the tensor cores idle.",
        bounded(6.0, 12.0),
        (busy,),
        view.sampled_places(),
        "hopper" if view.capability == (9, 0) else "",  # wgmma is its own
    )


def instruction_fetch(view: View) -> Iterator[Finding]:
    stalled, duration = view.stall("no_instruction"), view.value("duration") or 0
    if stalled is None or stalled.value < 25 or "issue" not in view.ceilings:
        return
    if view.ceilings.share("issue") >= 0.5:
        return
    if duration < 10_000:  # every kernel starts with empty instruction caches
        return
    kept = 1 - float(stalled.value) / 100
    yield Finding(
        "instruction_fetch",
        "high" if stalled.value >= 40 else "medium",
        f"Warps wait {stalled:.0f} of their time for instructions to be fetched.",
        bounded(min(1 / kept, 4.0), 1 / kept),
        (stalled,),
        view.waiting_places("no_instructions", "no_instruction"),
    )


def pipe_saturated(view: View) -> Iterator[Finding]:
    """A pipe at its ceiling that no other check explains."""
    nearest = view.ceilings.ranked[0] if view.ceilings.ranked else None
    if nearest is None or nearest.share < 0.8 or nearest.name in ("DRAM", "L2", "tensor"):
        return
    if nearest.name in ("FMA", "issue") and view.ceilings.share("FMA") >= 0.7:
        return  # at the arithmetic roofline
    reused = nearest.name in ("L1", "LSU") and _reloads(view)
    yield Finding(
        "redundant_traffic" if reused else "pipe_saturated",
        "medium",
        f"{nearest.spoken[:1].upper()}{nearest.spoken[1:]} is at its ceiling, busy for "
        f"{nearest.reached:.0f} of the time, while the rest of the SM has room.",
        less_work(view.ceilings, {nearest.name: 0.3, "LSU": 0.3, "L1": 0.3}),
        (nearest.reached,),
        view.sampled_places(),
    )


def _reloads(view: View) -> bool:
    """L1 is busy with global loads that it holds already: the reuse belongs into registers."""
    hits, misses = view.value("global_load_sectors_hit"), view.value("global_load_sectors_missed")
    if hits is None or misses is None or not hits:
        return False
    shared = view.value("shared_load_wavefronts") or 0
    return hits / (hits + misses) >= 0.8 and shared < (view.value("global_load_requests") or 0)


CHECKS = (
    warp_divergence,
    double_precision,
    sfu_bound,
    integer_overhead,
    no_tensor_core,
    instruction_fetch,
    pipe_saturated,
)
