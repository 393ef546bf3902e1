"""Candidates in the executed instructions: divergence, special functions, overhead, fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keet.analysis.candidate import (
    LEAST_PART,
    MEMORY_WAITS,
    Candidate,
    kept_waits,
    part_of,
)
from keet.analysis.kernel.inactive_threads import WARP, Cause, InactiveThreads, inactive_threads
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Evidence
from keet.units import Quantity

_COMPUTE = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1")
OVERHEAD = ("address", "control", "conversion")
TENSOR_IDLE = 0.05
"""Share of their peak up to which tensor cores count as unused. Judgement."""


def divergence(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    threads, block = view.get("active_threads_per_warp"), view.get("block_size")
    if threads is None and block is not None and block.value < WARP:
        threads = block  # a block that does not fill a warp
    if threads is None or not 0 < threads.value < WARP:
        return
    kept = (float(threads.value) / WARP) ** parameter("converged")
    other = 1 - model.waiting_for(*MEMORY_WAITS)
    found = inactive_threads(view)
    cause = found.cause if found else None
    # Divergent paths run one after the other and make warps wait longer. Empty lanes do not.
    shorter = 0.0 if cause in ("block_size", "outside") else parameter("indirect")
    yield Candidate(
        "warp_divergence",
        f"A block has {block:.0f}s, fewer than the 32 of a warp."
        if block is not None and block.value < WARP
        else f"On average, {threads:.1f}s of a warp are active per instruction{_WHY[cause]}.",
        Effect(dict.fromkeys(_COMPUTE, kept), every_wait=1 - shorter * (1 - kept) * other),
        (threads,),
        lambda: _inactive_places(view, found),
        "assumed",
        variant=cause or "",
    )


_WHY: Mapping[Cause | None, str] = {
    "block_size": ": the threads of a block do not fill its last warp",
    "outside": ": most inactive threads exit at a bounds check, before anything is loaded",
    "paths": ": the threads of a warp take different paths",
    None: "",
}


def _inactive_places(view: LaunchView, found: InactiveThreads | None) -> tuple[Place, ...]:
    """The check at which threads exit; else the lines that run with few threads."""
    if found is not None and found.cause == "block_size":
        return ()
    if found is not None and found.cause == "outside":
        check = view.launch.locate([found.check] if found.check is not None else [])
        return tuple(Place(*line, found.outside, _INACTIVE) for line in check.values())
    return view.places_by(_INACTIVE, _inactive_by_address(view))


_INACTIVE = "inactive threads"


def _inactive_by_address(view: LaunchView) -> dict[int, int]:
    """Inactive threads by address. Old reports count only threads whose predicate is on."""
    executed = view.table.executed or {}
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if threads is None:
        return {}
    return {address: WARP * warps - threads.get(address, 0) for address, warps in executed.items()}


def special_functions(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    del model
    busy, functions = view.ceilings.reached("XU"), part_of(view, "MUFU")
    if busy is None or functions < LEAST_PART:
        return
    left = parameter("special_functions")
    # Range reduction and scaling go with a function.
    others = 1 - (1 - left) * functions
    yield Candidate(
        "sfu_bound",
        f"The XU pipe (special functions, conversions) is busy for {busy:.0f} of the time.",
        Effect({"XU": left, "issue": others, "FMA": others, "ALU": others}),
        (busy,),
        view.sampled_places,
        "assumed",
    )


def overhead(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """From the purpose of the executed instructions; from integer counters without the machine
    code."""
    issue, executed = view.ceilings.reached("issue"), view.get("inst_executed")
    shown = _overhead_share(view, executed)
    if issue is None or shown is None:
        return
    part = float(shown.value) / 100
    divisions = min(part_of(view, "I2F"), part_of(view, "MUFU")) * parameter("per_division")
    base = parameter("overhead_base")
    removed = min(
        parameter("most_removed"),
        max(0.0, part - base) * parameter("overhead_removed") + divisions,
    )
    other = 1 - model.waiting_for(*MEMORY_WAITS)
    yield Candidate(
        "integer_overhead",
        f"The schedulers issue in {issue:.0f} of the cycles, and {shown:.0f} of the instructions "
        "compute addresses, conditions and conversions.",
        Effect(
            dict.fromkeys(("issue", "ALU", "FMA", "ADU"), 1 - removed)
            | {"XU": 1 - removed * _integer_part_of_xu(view)},
            every_wait=1 - parameter("indirect") * removed * other,
        ),
        (shown, issue),
        lambda: view.column_places("executed instructions", "inst_executed"),
        "assumed",
    )


def _integer_part_of_xu(view: LaunchView) -> float:
    """Share of the XU pipe's work for integers: conversions, and the reciprocals between them."""
    integers, special = part_of(view, "I2F", "F2I"), part_of(view, "MUFU")
    every = integers + special + part_of(view, "F2F")
    return (integers + min(special, integers / 2)) / every if every else 0.0


def _overhead_share(view: LaunchView, executed: Evidence | None) -> Evidence | None:
    if executed is None:
        return None
    if view.code is not None:
        part = sum(share for purpose, share in view.code.mix if purpose.value in OVERHEAD)
        label = "of the executed instructions compute addresses, conditions and conversions"
        share = Quantity(100 * part, "%")
        return view.ledger.derived("overhead_share", share, label, executed)
    integers = view.get("thread_inst_integer")
    singles, doubles = view.get("thread_inst_fp32"), view.get("thread_inst_fp64")
    every = view.total("thread_insts", "arithmetic thread instructions", integers, singles, doubles)
    if integers is None or every is None:
        return None
    return view.percent("integer_share", "of arithmetic is integer", integers, every)


def tensor_cores(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Half-precision values that are multiplied as floats, in a kernel that reuses them from shared
    memory."""
    del model
    busy, tensor = view.ceilings.reached("FMA"), view.ceilings.share("tensor")
    if busy is None or tensor is None or tensor > TENSOR_IDLE or view.capability < (7, 0):
        return
    matrix = part_of(view, "FFMA") >= 0.5 and part_of(view, "LDS") > 0.02
    if not matrix or not _has_halves(view):
        return
    left = dict.fromkeys(("FMA", "issue", "LSU", "L1", "ALU"), parameter("tensor_work"))
    yield Candidate(
        "no_tensor_core",
        f"Half-precision values are multiplied as floats on the FMA pipe, busy for {busy:.0f} of "
        "the time, while the tensor cores idle.",
        Effect(left, every_wait=parameter("tensor_work")),
        (busy,),
        view.sampled_places,
        "assumed",
        variant="hopper" if view.capability == (9, 0) else "",  # wgmma is its own
    )


_HALF_TYPES = ("__half", "half2", "bfloat16", "__nv_bf")


def _has_halves(view: LaunchView) -> bool:
    """From the kernel's signature; else from the instructions that unpack halves."""
    signature = view.launch.name.demangled or ""
    if "(" in signature:
        return any(name in signature for name in _HALF_TYPES)
    # HADD2 converts a half to float, PRMT a bfloat16; HFMA2 also writes constants.
    return part_of(view, "HADD2") > LEAST_PART or part_of(view, "PRMT") > LEAST_PART


def fetch(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    stalled = view.stall("no_instruction")
    if stalled is None or stalled.value <= 0:
        return
    yield Candidate(
        "instruction_fetch",
        f"Warps wait {stalled:.0f} of their time for instructions to be fetched.",
        Effect(waits=kept_waits(model, ("no_instruction",), _fetch_removed(view))),
        (stalled,),
        lambda: view.waiting_places("no_instructions", "no_instruction"),
    )


def _fetch_removed(view: LaunchView) -> float:
    """Share of fetch waits that a fix removes: every kernel starts with empty instruction caches,
    which matters for short ones."""
    duration = view.value("duration") or 0.0
    return max(0.0, 1 - parameter("short_kernel_ns") / duration) if duration else 0.0


MAKERS = (divergence, special_functions, overhead, tensor_cores, fetch)
