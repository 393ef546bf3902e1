"""The edits that questions offer, and which numbers of a report show that an edit cannot help.

The edits are those of keet/findings. The planted cause of a sample, confirmed by a measured fix,
decides which edit helps. A number shows that another one does not: the report does not have the
problem that it would fix.
"""

from __future__ import annotations

from collections.abc import Callable

from evals.mcq.report_facts import Facts, metric
from keet.findings import findings

Measure = Callable[[Facts], float | None]


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


def _shared_memory(facts: Facts) -> float:
    name = "launch__shared_mem_per_block_{}"
    return facts.need(name.format("static")) + facts.need(name.format("dynamic"))


def _no_product(facts: Facts) -> str | None:
    """Why tensor cores would not help: they are already used, or there are few multiply-adds."""
    tensor, fma = facts.units.get("Tensor pipe"), facts.units.get("FMA pipes")
    if tensor is None or fma is None:
        return None
    if tensor >= 30:
        return f"the tensor pipe is at work already, at {tensor:.3g} % of its peak"
    return f"the FMA pipes are at {fma:.3g} % of their peak only" if fma < 12 else None


def _unit(name: str) -> Measure:
    return lambda facts: facts.units.get(name)


def _stall(reason: str) -> Measure:
    return lambda facts: 100 * facts.stall_share(reason)


MEASURES: dict[str, Measure] = {
    "the percentage of global sectors beyond the least": excess_sectors,
    "the percentage of instructions that access global memory": _global_instructions,
    "the busiest memory unit's percentage of peak": _memory,
    "the percentage of shared wavefronts from conflicts": _bank_conflicts,
    "the shared memory of a block": _shared_memory,
    "the number of requests to local memory": _local_requests,
    "the number of requests for global atomics": _atomics,
    "the busiest L2 slice's load over the mean": _slice_spread,
    "the percentage of L2 sectors from host memory": _host_sectors,
    "the number of waves": metric("launch__waves_per_multiprocessor"),
    "the least active SM's share of the most active one's cycles": _sm_spread,
    "the busiest unit's percentage of peak": lambda facts: max(facts.units.values()),
    "the percentage of warp cycles spent at barriers": _stall("barrier"),
    "the percentage of warp cycles without an instruction": _stall("no_instruction"),
    "the launch's time in microseconds": lambda facts: facts.microseconds,
    "the number of threads per instruction": _threads_per_instruction,
    "the number of double-precision instructions": metric(
        "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum"
    ),
    "the XU pipe's percentage of peak": _unit("XU pipe"),
    "the FMA pipes' percentage of peak": _unit("FMA pipes"),
    "the percentage of issue slots in use": _unit("Issue slots"),
    "the L1 and shared memory percentage of peak": _unit("L1 and shared memory"),
    "DRAM's percentage of peak": _unit("DRAM"),
    "the busiest arithmetic pipe's percentage of peak": _arithmetic,
}
"""What a limit of an `Edit` can be about."""


def ruled_out(finding: str, facts: Facts) -> str | None:
    """Why an edit cannot help much; None if the report does not rule it out."""
    edit = findings()[finding].edit
    if edit.ruled_out == "no matrix product":
        return _no_product(facts)
    if edit.ruled_out:
        return _not_first(edit.ruled_out.removeprefix("another limit than "), facts)
    if edit.below and (seen := MEASURES[edit.below[0]](facts)) is not None:
        name, limit = edit.below
        return f"{name} is {seen:.3g}, below {limit:g}" if seen < limit else None
    if edit.above and (seen := MEASURES[edit.above[0]](facts)) is not None:
        name, limit = edit.above
        return f"{name} is {seen:.3g}, not below {limit:g}" if seen >= limit else None
    return None


def _not_first(resource: str, facts: Facts) -> str | None:
    limit, lowest = facts.limits[resource], min(facts.limits.values())
    told = f"{resource} would allow {limit} blocks per SM, and another limit allows {lowest}"
    return told if limit > lowest else None


def are_alike(finding: str, other: str) -> bool:
    """Whether their edits are too similar to be offered together."""
    edits = findings()
    return other in edits[finding].edit.unlike or finding in edits[other].edit.unlike


def is_plausible(finding: str, facts: Facts) -> bool:
    """Whether the code contains what the edit is about."""
    needs = findings()[finding].edit.needs
    return not needs or bool(MEASURES[needs](facts))
