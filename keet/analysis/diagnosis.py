"""From checks to a diagnosis: symptoms folded under their cause, ranked, five at most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from keet.analysis.checks import CHECKS
from keet.analysis.checks.memory import repeated_passes
from keet.analysis.findings import Finding, Forecast
from keet.analysis.view import View
from keet.profile import Launch

MOST = 5
WORTH = 1.1
"""A gain below it is within what launches differ by."""
_SHORTEST = 2500.0
"""Nanoseconds that any kernel takes."""
_WEIGHT = {"high": 1.0, "medium": 0.7, "low": 0.4}
_FOLDED = {
    "latency_bound": (
        "uncoalesced_global",
        "narrow_access",
        "local_memory_spill",
        "atomic_contention",
        "l2_partition_imbalance",
        "pcie_or_nvlink_traffic",
        "small_grid",
        "tail_effect",
        "load_imbalance",
        "instruction_fetch",
        "barrier_bound",
        "launch_bound",
    ),
    "occupancy_limited_registers": (
        "uncoalesced_global",
        "local_memory_spill",
        "pcie_or_nvlink_traffic",
        "load_imbalance",
        "launch_bound",
    ),
    "occupancy_limited_shared": ("load_imbalance", "launch_bound"),
    "occupancy_limited_block": ("uncoalesced_global", "load_imbalance", "launch_bound"),
    "pipe_saturated": (
        "shared_bank_conflict",
        "uncoalesced_global",
        "narrow_access",
        "warp_divergence",
        "fp64_promotion",
        "low_precision_possible",
        "sfu_bound",
        "integer_overhead",
        "no_tensor_core",
        "local_memory_spill",
        "barrier_bound",
    ),
    "integer_overhead": ("warp_divergence", "fp64_promotion"),
    "small_grid": ("launch_bound", "instruction_fetch"),
    "tail_effect": ("launch_bound",),
    "load_imbalance": ("launch_bound", "pcie_or_nvlink_traffic"),
    "l2_partition_imbalance": (
        "pcie_or_nvlink_traffic",
        "launch_bound",
        "small_grid",
        "load_imbalance",
        "uncoalesced_global",
    ),
    "uncoalesced_global": ("pcie_or_nvlink_traffic", "atomic_contention"),
}
"""A symptom, and the causes that it goes under where one of them was found."""


class Diagnosis(NamedTuple):
    """What limits one launch."""

    view: View
    findings: tuple[Finding, ...]
    minor: tuple[Finding, ...]
    """Real, and not worth a tenth of the time alone: another unit is as near to its peak."""
    folded: tuple[tuple[str, str], ...]
    """Symptom and the cause that it was folded under."""
    healthy: str | None
    """`at_dram_roofline` or `at_compute_roofline`, where nothing is to be fixed."""
    judged_by: frozenset[str]
    """Metrics that the checks looked at and found, by ncu's names."""


def diagnose(
    launch: Launch,
    beside: Sequence[Launch] = (),
    numbers: Iterator[int] | None = None,
    *,
    reads_code: bool = True,
) -> Diagnosis:
    """`beside`: the other launches of the report, which may move the same data again."""
    view = View(launch, numbers, reads_code=reads_code)
    raised = [finding for check in CHECKS for finding in check(view)]
    raised += repeated_passes(view, beside)
    raised = [_completed(finding, view) for finding in raised]
    ids = {finding.id for finding in raised}
    folded = {
        symptom: next(cause for cause in causes if cause in ids)
        for symptom, causes in _FOLDED.items()
        if symptom in ids and any(cause in ids for cause in causes)
    }
    kept = [finding for finding in raised if finding.id not in folded]
    kept.sort(key=_rank, reverse=True)
    worth = tuple(f for f in kept if f.forecast.likely >= WORTH)[:MOST]
    minor = tuple(f for f in kept if f.forecast.likely < WORTH)
    healthy = None if worth or minor else _health(view)
    measured = frozenset(e.metric for e in view.ledger if not e.derived_from and not e.line)
    return Diagnosis(view, worth, minor, tuple(folded.items()), healthy, measured)


def _completed(finding: Finding, view: View) -> Finding:
    """With its place in words, and no forecast below what any kernel takes."""
    most = max(1.0, (view.value("duration") or math.inf) / _SHORTEST)
    capped = finding.forecast
    if finding.id != "launch_bound":
        capped = Forecast(*(min(factor, most) for factor in finding.forecast))
    places = view.led_places(finding.id, finding.places)
    return replace(finding, places=places, here=view.here(finding.id, places), forecast=capped)


def _rank(finding: Finding) -> float:
    return (finding.forecast.likely - 1) * _WEIGHT[finding.confidence]


def _health(view: View) -> str | None:
    """A unit at its peak is healthy where the report lets one look for waste, and shows none."""
    if view.get("src_l2_sectors_global") is None:
        return None
    ceilings = view.ceilings
    if ceilings.share("DRAM") >= 0.75:
        return "at_dram_roofline"
    # Where FP64 has a fraction of FP32's rate, a busy FP64 pipe is a question, not an end.
    slow_double = (view.value("device_fp32_fp64_ratio") or math.inf) > 2
    pipes = ("FMA", "tensor", "FP16") if slow_double else ("FMA", "tensor", "FP16", "FP64")
    if _is_integer_work(view):
        return None  # the FMA pipe multiplies integers, too: no roofline is about those
    return "at_compute_roofline" if max(map(ceilings.share, pipes)) >= 0.7 else None


def _is_integer_work(view: View) -> bool:
    kinds = ("thread_inst_fp16", "thread_inst_fp32", "thread_inst_fp64")
    floats = sum(view.value(kind) or 0.0 for kind in kinds)
    tensor = view.ceilings.share("tensor")
    return tensor < 0.5 and (view.value("thread_inst_integer") or 0.0) > floats
