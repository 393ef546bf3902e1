"""The edits that questions offer, and which numbers of a report show that an edit cannot help.

The planted cause of a sample, confirmed by a measured fix, decides which edit helps. A number shows
that another one does not: the report does not have the problem that it would fix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evals.mcq.report_facts import Facts, metric

Check = Callable[[Facts], str | None]
"""Why an edit cannot help much; None if the report does not rule it out."""


class Edit(NamedTuple):
    text: str
    ruled_out: Check


def _below(name: str, value: Callable[[Facts], float | None], limit: float) -> Check:
    def check(facts: Facts) -> str | None:
        seen = value(facts)
        told = f"{name} is {seen:.3g}, below {limit:g}" if seen is not None else None
        return told if seen is not None and seen < limit else None

    return check


def _above(name: str, value: Callable[[Facts], float | None], limit: float) -> Check:
    def check(facts: Facts) -> str | None:
        seen = value(facts)
        told = f"{name} is {seen:.3g}, not below {limit:g}" if seen is not None else None
        return told if seen is not None and seen >= limit else None

    return check


def _unit(name: str) -> Callable[[Facts], float | None]:
    return lambda facts: facts.units.get(name)


def _stall(reason: str) -> Callable[[Facts], float]:
    return lambda facts: 100 * facts.stall_share(reason)


def excess_sectors(facts: Facts) -> float | None:
    """Per cent of global sectors beyond the minimum for the same bytes."""
    touched = facts.get("memory_l2_theoretical_sectors_global")
    ideal = facts.get("memory_l2_theoretical_sectors_global_ideal")
    return 100 * (1 - ideal / touched) if touched and ideal is not None else None


def _bank_conflicts(facts: Facts) -> float | None:
    """Per cent of shared-memory wavefronts beyond the minimum."""
    needed = facts.get("memory_l1_wavefronts_shared")
    ideal = facts.get("memory_l1_wavefronts_shared_ideal")
    if needed is None or ideal is None:
        return None
    return 100 * (1 - ideal / needed) if needed else 0.0


def _local_requests(facts: Facts) -> float:
    name = "l1tex__t_requests_pipe_lsu_mem_local_op_{}.sum"
    return facts.need(name.format("ld")) + facts.need(name.format("st"))


def _atomics(facts: Facts) -> float:
    name = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
    return facts.need(name.format("atom")) + facts.need(name.format("red"))


def _slice_spread(facts: Facts) -> float:
    """Load of the busiest L2 slice divided by the mean."""
    return facts.need("lts__t_sectors.max") / facts.need("lts__t_sectors.avg")


def _host_sectors(facts: Facts) -> float:
    name = "lts__t_sectors{}.sum"
    return 100 * facts.need(name.format("_aperture_sysmem")) / facts.need(name.format(""))


def _sm_spread(facts: Facts) -> float:
    """Cycles of the least active SM divided by those of the most active one."""
    return facts.need("sm__cycles_active.min") / facts.need("sm__cycles_active.max")


def _global_instructions(facts: Facts) -> float:
    name = "smsp__sass_inst_executed_op_global_{}.sum"
    accesses = facts.need(name.format("ld")) + facts.need(name.format("st"))
    return 100 * accesses / facts.need("inst_executed")


def _threads_per_instruction(facts: Facts) -> float | None:
    threads, warps = facts.get("thread_inst_executed"), facts.get("inst_executed")
    return threads / warps if threads is not None and warps else None


def _memory(facts: Facts) -> float | None:
    """The busiest of the memory units."""
    return _highest(facts, "DRAM", "L2 cache", "L1 and shared memory")


def _arithmetic(facts: Facts) -> float | None:
    return _highest(facts, "FMA pipes", "ALU pipe", "FP64 pipe", "XU pipe", "Tensor pipe")


def _highest(facts: Facts, *names: str) -> float | None:
    """None if one of them is not measured, because it might be the busiest."""
    seen = [facts.units.get(name) for name in names]
    measured = [value for value in seen if value is not None]
    return max(measured) if len(measured) == len(seen) else None


def _busiest(facts: Facts) -> float:
    return max(facts.units.values())


def _not_first(resource: str) -> Check:
    def check(facts: Facts) -> str | None:
        limit, lowest = facts.limits[resource], min(facts.limits.values())
        told = f"{resource} would allow {limit} blocks per SM, and another limit allows {lowest}"
        return told if limit > lowest else None

    return check


def _no_product(facts: Facts) -> str | None:
    """Why tensor cores would not help: they are already used, or there are few multiply-adds."""
    tensor, fma = facts.units.get("Tensor pipe"), facts.units.get("FMA pipes")
    if tensor is None or fma is None:
        return None
    if tensor >= 30:
        return f"the tensor pipe is at work already, at {tensor:.3g} % of its peak"
    return f"the FMA pipes are at {fma:.3g} % of their peak only" if fma < 12 else None


EDITS: dict[str, Edit] = {
    "uncoalesced_global": Edit(
        "Make neighbouring threads of a warp access neighbouring addresses in global memory",
        _below("the percentage of global sectors beyond the least", excess_sectors, 8),
    ),
    "narrow_access": Edit(
        "Move 16 bytes with each global load and store instead of fewer bytes at a time",
        _below("the percentage of instructions that access global memory", _global_instructions, 3),
    ),
    "redundant_traffic": Edit(
        "Read each value from memory once and reuse it on chip, by tiling or by fusing passes",
        _below("the busiest memory unit's percentage of peak", _memory, 35),
    ),
    "shared_bank_conflict": Edit(
        "Pad or swizzle the arrays in shared memory so that warps hit different banks",
        _below("the percentage of shared wavefronts from conflicts", _bank_conflicts, 3),
    ),
    "local_memory_spill": Edit(
        "Keep per-thread arrays and spilled values out of local memory, in registers or shared",
        _below("the number of requests to local memory", _local_requests, 1),
    ),
    "atomic_contention": Edit(
        "Combine updates of the same address within a block before they go to global atomics",
        _below("the number of requests for global atomics", _atomics, 1),
    ),
    "l2_partition_imbalance": Edit(
        "Take load off the one L2 slice that every block keeps writing to, by fewer such stores",
        _below("the busiest L2 slice's load over the mean", _slice_spread, 1.1),
    ),
    "pcie_or_nvlink_traffic": Edit(
        "Copy data that the kernel reads from host memory into device memory beforehand",
        _below("the percentage of L2 sectors from host memory", _host_sectors, 0.5),
    ),
    "small_grid": Edit(
        "Split the work over more blocks, so that every SM of the GPU has some of it",
        _above("the number of waves", metric("launch__waves_per_multiprocessor"), 2.5),
    ),
    "tail_effect": Edit(
        "Deal out the tiles evenly, so that no last partial wave leaves most SMs idle",
        _above("the number of waves", metric("launch__waves_per_multiprocessor"), 7),
    ),
    "load_imbalance": Edit(
        "Cut the few very long work items into pieces, so that all blocks end together",
        _above("the least active SM's share of the most active one's cycles", _sm_spread, 0.9),
    ),
    "latency_bound": Edit(
        "Have more loads in flight: prefetch, pipeline stages, or shorter dependent chains",
        _above("the busiest unit's percentage of peak", _busiest, 82),
    ),
    "occupancy_limited_registers": Edit(
        "Cut the registers per thread, so that more blocks fit on an SM at a time",
        _not_first("registers"),
    ),
    "occupancy_limited_shared": Edit(
        "Cut the shared memory per block, so that more blocks fit on an SM at a time",
        _not_first("shared memory"),
    ),
    "occupancy_limited_block": Edit(
        "Put more warps into each block, since an SM holds no more than 32 blocks",
        _not_first("block slots"),
    ),
    "barrier_bound": Edit(
        "Do more work between block barriers, or replace them by shuffles within warps",
        _below("the percentage of warp cycles spent at barriers", _stall("barrier"), 3),
    ),
    "launch_bound": Edit(
        "Do the work of the many short kernel launches in a single launch or a graph",
        _above("the launch's time in microseconds", lambda facts: facts.microseconds, 100),
    ),
    "warp_divergence": Edit(
        "Keep the threads of a warp on one path, so that no slow path runs for a few lanes",
        _above("the number of threads per instruction", _threads_per_instruction, 31),
    ),
    "fp64_promotion": Edit(
        "Find the double constants that widen float arithmetic, and write them as float",
        _below(
            "the number of double-precision instructions",
            metric("smsp__sass_thread_inst_executed_op_fp64_pred_on.sum"),
            1,
        ),
    ),
    "low_precision_possible": Edit(
        "Do the bulk of the arithmetic in float where the code now computes in double",
        _below(
            "the number of double-precision instructions",
            metric("smsp__sass_thread_inst_executed_op_fp64_pred_on.sum"),
            1,
        ),
    ),
    "sfu_bound": Edit(
        "Replace sines, exponentials and divisions by recurrences or a cheaper formula",
        _below("the XU pipe's percentage of peak", _unit("XU pipe"), 15),
    ),
    "integer_overhead": Edit(
        "Take index arithmetic out of the inner loop, with offsets that are worked out once",
        _below("the percentage of issue slots in use", _unit("Issue slots"), 25),
    ),
    "no_tensor_core": Edit(
        "Do the multiply-adds of the matrix product on the tensor cores, by mma instructions",
        _no_product,
    ),
    "instruction_fetch": Edit(
        "Make the unrolled code small enough for the instruction cache, by loops over a table",
        _below("the percentage of warp cycles without an instruction", _stall("no_instruction"), 4),
    ),
    "pipe_saturated": Edit(
        "Compute several results per thread, so that each shared-memory load feeds more of them",
        _below("the L1 and shared memory percentage of peak", _unit("L1 and shared memory"), 30),
    ),
    "at_dram_roofline": Edit(
        "Leave it as it is: DRAM is near its peak, and every byte is moved only once",
        _below("DRAM's percentage of peak", _unit("DRAM"), 60),
    ),
    "at_compute_roofline": Edit(
        "Leave it as it is: an arithmetic pipe is near its peak with work that is needed",
        _below("the busiest arithmetic pipe's percentage of peak", _arithmetic, 45),
    ),
}
"""By the finding that each of them fixes."""

ALIKE = (
    {"fp64_promotion", "low_precision_possible"},
    {"atomic_contention", "l2_partition_imbalance"},
    {"uncoalesced_global", "narrow_access"},
    {"latency_bound", "small_grid"},
    {"redundant_traffic", "pipe_saturated"},
    {"redundant_traffic", "launch_bound"},
    {"fp64_promotion", "sfu_bound"},
    {"low_precision_possible", "sfu_bound"},
    {"warp_divergence", "sfu_bound"},
)
"""Edits that are too similar to be offered together."""


def _shared_memory(facts: Facts) -> float:
    name = "launch__shared_mem_per_block_{}"
    return facts.need(name.format("static")) + facts.need(name.format("dynamic"))


_THERE: dict[str, Callable[[Facts], float | None]] = {
    "shared_bank_conflict": _shared_memory,
    "occupancy_limited_shared": _shared_memory,
    "pipe_saturated": _shared_memory,
    "barrier_bound": lambda facts: facts.stalls.get("barrier"),
    "sfu_bound": _unit("XU pipe"),
    "no_tensor_core": _unit("FMA pipes"),
}


def is_plausible(finding: str, facts: Facts) -> bool:
    """Whether the code contains what the edit is about."""
    return bool(_THERE[finding](facts)) if finding in _THERE else True
