"""The baseline: NVIDIA's rules in the same report, ranked by their own estimates.

Every doubt is decided in its favour. A rule counts for all findings that any of its messages can
mean, and wins ties; several messages of a rule count once; rules that mean no finding take no rank.
The reports are those of `keet profile`: rules whose metrics it does not collect
(MemoryCacheAccessPattern, SharedMemoryConflicts, WorkloadImbalance) have no messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keet.profile.rules import RuleKind, RuleResult, SpeedupScope

_OCCUPANCY = (
    "occupancy_limited_registers",
    "occupancy_limited_shared",
    "occupancy_limited_block",
)

MEANINGS: dict[str, frozenset[str]] = {
    # "High Memory Throughput" (check coalescing, reuse), "High Compute Throughput" (redundant
    # computation), "Latency Issue", "Small Grid".
    "SOLBottleneck": frozenset(
        {
            "uncoalesced_global",
            "redundant_traffic",
            "pipe_saturated",
            "integer_overhead",
            "latency_bound",
            "small_grid",
            "launch_bound",
        }
    ),
    # "FP64/32 Utilization": consider 32-bit precision.
    "SOLFPRoofline": frozenset({"fp64_promotion", "low_precision_possible"}),
    # "Low Utilization": very small, or too few warps issue. "High Utilization": names the pipe.
    "HighPipeUtilization": frozenset(
        {
            "small_grid",
            "launch_bound",
            "latency_bound",
            *_OCCUPANCY,
            "pipe_saturated",
            "sfu_bound",
            "fp64_promotion",
            "integer_overhead",
            "no_tensor_core",
            "low_precision_possible",
        }
    ),
    # Too few eligible warps; look at the stalls.
    "IssueSlotUtilization": frozenset(
        {"latency_bound", "barrier_bound", "load_imbalance", *_OCCUPANCY}
    ),
    # One message for each stall: scoreboards and wait (latency, locality, access patterns, special
    # functions, bank conflicts), LG throttle (redundant, local, narrow accesses), barrier (uneven
    # work), no instruction (fetch, short kernels), branch resolving, math pipe throttle, drain.
    "CPIStall": frozenset(
        {
            "latency_bound",
            "uncoalesced_global",
            "narrow_access",
            "redundant_traffic",
            "shared_bank_conflict",
            "local_memory_spill",
            "barrier_bound",
            "load_imbalance",
            "warp_divergence",
            "instruction_fetch",
            "launch_bound",
            "small_grid",
            "sfu_bound",
            "pipe_saturated",
            *_OCCUPANCY,
        }
    ),
    # Non-fused operations, in single or double precision.
    "FPInstructions": frozenset({"pipe_saturated", "fp64_promotion", "low_precision_possible"}),
    # "Small Grid", "Tail Effect", "Block Size"; blocks that wait at barriers.
    "LaunchConfiguration": frozenset(
        {
            "small_grid",
            "tail_effect",
            "launch_bound",
            "barrier_bound",
            "occupancy_limited_block",
            "warp_divergence",
        }
    ),
    "TheoreticalOccupancy": frozenset(_OCCUPANCY),
    # Scheduling overheads, or imbalance within and across blocks.
    "AchievedOccupancy": frozenset(
        {"load_imbalance", "tail_effect", "small_grid", "launch_bound", "latency_bound"}
    ),
    "ThreadDivergence": frozenset({"warp_divergence"}),
    "UncoalescedGlobalAccess": frozenset(
        {"uncoalesced_global", "narrow_access", "redundant_traffic"}
    ),
    "UncoalescedSharedAccess": frozenset({"shared_bank_conflict", "narrow_access"}),
    "SharedMemoryConflicts": frozenset({"shared_bank_conflict"}),
    "MemoryCacheAccessPattern": frozenset(
        {"uncoalesced_global", "narrow_access", "redundant_traffic", "local_memory_spill"}
    ),
    # SMs, SMSPs, L1 and L2 slices.
    "WorkloadImbalance": frozenset(
        {"load_imbalance", "tail_effect", "small_grid", "l2_partition_imbalance"}
    ),
    # About the profile or a feature of L2, not about what limits the kernel.
    "MemoryL2Compression": frozenset(),
    "PCSamplingData": frozenset(),
    "PMSamplingData": frozenset(),
}
"""The findings that each rule can mean."""

_ADVICE = (RuleKind.OPTIMIZATION, RuleKind.WARNING)
_MOST_PERCENT = 99.0
"""An estimate of 100 % would be an infinite speed-up: it counts as 100x."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A rule of one launch, with the highest estimate of its messages."""

    rule: str
    percent: float | None
    """Share of the run time, with the two digits that ncu prints; None ranks below all
    estimates."""


def ranked(rules: Iterable[RuleResult], *, only_global: bool = False) -> tuple[Advice, ...]:
    """Rules with a message, highest estimate first."""
    best: dict[str, float | None] = {}
    for result in rules:
        percent = _percent(result, only_global=only_global)
        if not _counts(result) or (only_global and percent is None):
            continue
        best[result.rule] = max(best.get(result.rule), percent, key=_height)
    advice = [Advice(rule, percent) for rule, percent in best.items()]
    return tuple(sorted(advice, key=lambda one: (-_height(one.percent), one.rule)))


def rank_of(wanted: Iterable[str], advice: Iterable[Advice]) -> int | None:
    """Rank of the first rule that can mean one of the findings; it wins ties."""
    given, ids = tuple(advice), frozenset(wanted)
    heights = [_height(one.percent) for one in given if ids & MEANINGS[one.rule]]
    if not heights:
        return None
    return 1 + sum(_height(one.percent) > max(heights) for one in given)


def first_meanings(advice: tuple[Advice, ...]) -> frozenset[str]:
    """All findings that a rule of the first rank can mean."""
    top = [one for one in advice if one.percent == advice[0].percent]
    return frozenset().union(*(MEANINGS[one.rule] for one in top))


def speedups(advice: Iterable[Advice]) -> tuple[float, ...]:
    """The estimates as speed-ups, highest first."""
    shares = (min(a.percent, _MOST_PERCENT) / 100 for a in advice if a.percent is not None)
    return tuple(1 / (1 - share) for share in shares)


def _counts(result: RuleResult) -> bool:
    return result.kind in _ADVICE and bool(MEANINGS[result.rule])


def _percent(result: RuleResult, *, only_global: bool) -> float | None:
    estimate = result.speedup
    if estimate is None or (only_global and estimate.scope is not SpeedupScope.GLOBAL):
        return None
    return round(estimate.percent, 2)


def _height(percent: float | None) -> float:
    return -1.0 if percent is None else percent
