"""Which of Nsight Compute's own rules estimates the largest gain, and what keet makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.findings import Finding
from keet.analysis.parameters import parameter
from keet.catalog import findings
from keet.profile import Launch
from keet.profile.rules import RuleResult, SpeedupScope

_SYMPTOMS = frozenset(
    (
        "AchievedOccupancy",
        "CPIStall",
        "HighPipeUtilization",
        "IssueSlotUtilization",
        "MemoryCacheAccessPattern",
        "SOLBottleneck",
        "SOLFPRoofline",
    )
)
"""Rules about waiting, busy units and cache misses, which many causes bring about."""


_TITLED = {
    "Block Size": ("warp_divergence", "occupancy_limited_block"),
    "Small Grid": ("small_grid",),
    "Tail Effect": ("tail_effect",),
    "L2 Slices Workload Imbalance": ("l2_partition_imbalance", "atomic_contention"),
}
"""Findings that a message is about, where its rule has several messages."""
_MUCH = 30.0
"""Per cent of the time: if so much is not attributable, a cause may be hidden in it."""
_LEAST = 100 * (1 - 1 / parameter("worth"))
"""Per cent of the time that a rule has to save by its own estimate: less is no finding either."""


def second_opinion(
    launch: Launch, found: Sequence[Finding], minor: Sequence[Finding], unknown: float
) -> str | None:
    """None where no rule estimates a gain for the whole launch that would be a finding.

    `unknown`: per cent of the time that the account could not attribute.
    """
    first = max(launch.rules, key=_global_estimate, default=None)
    if first is None or _global_estimate(first) < _LEAST:
        return None
    title = f" ({first.title})" if first.title else ""
    said = f"Of Nsight Compute's rules, {first.rule}{title} estimates the largest gain"
    rank = next((n for n, finding in enumerate(found, 1) if _is_about(first, finding)), None)
    if rank is not None:
        return f"{said}: it agrees with finding {rank}."
    if found and first.rule in _SYMPTOMS:
        return f"{said}. keet considers it a consequence of finding 1."
    if first.rule not in _checked_rules():
        return f"{said}. keet has no check of its own for it."
    if unknown >= _MUCH and not _is_known(first, minor):
        return f"{said}. keet cannot judge it: much of the time is not attributable."
    return f"{said}. keet estimates that fixing it would gain less than 10%."


def _is_known(rule: RuleResult, minor: Sequence[Finding]) -> bool:
    """What a message with a title of its own is about is counted, whatever warps wait for."""
    return rule.title in _TITLED or any(_is_about(rule, finding) for finding in minor)


def _checked_rules() -> set[str]:
    return {*_SYMPTOMS, *(rule for spec in findings().values() for rule in spec.rules)}


def _is_about(rule: RuleResult, finding: Finding) -> bool:
    if rule.title in _TITLED:
        return finding.id in _TITLED[rule.title]
    return rule.rule in findings()[finding.id].rules


def _global_estimate(rule: RuleResult) -> float:
    scope = rule.speedup and rule.speedup.scope is SpeedupScope.GLOBAL
    return rule.speedup.percent if scope and rule.speedup else 0.0
