"""What Nsight Compute's own rules put first, and what keet makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.findings import Finding
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


_MUCH = 30.0
"""Per cent of the time: if so much is not attributable, a cause may be hidden in it."""


def second_opinion(
    launch: Launch, found: Sequence[Finding], minor: Sequence[Finding], unknown: float
) -> str | None:
    """None where no rule estimates a gain for the whole launch.

    `unknown`: per cent of the time that the account could not attribute.
    """
    estimated = [rule for rule in launch.rules if _global_estimate(rule)]
    if not estimated:
        return None
    first = max(estimated, key=_global_estimate)
    said = f"Nsight Compute's first rule is {first.rule}"
    rank = next((n for n, finding in enumerate(found, 1) if _is_about(first, finding)), None)
    if rank is not None:
        return f"{said}: it agrees with finding {rank}."
    if found and first.rule in _SYMPTOMS:
        return f"{said}. keet considers it a consequence of finding 1."
    if first.rule not in _checked_rules():
        return f"{said}. keet has no check of its own for it."
    if unknown >= _MUCH and not any(_is_about(first, finding) for finding in minor):
        return f"{said}. keet cannot judge it: much of the time is not attributable."
    return f"{said}. keet estimates that fixing it would gain less than 10%."


def _checked_rules() -> set[str]:
    return {*_SYMPTOMS, *(rule for spec in findings().values() for rule in spec.rules)}


def _is_about(rule: RuleResult, finding: Finding) -> bool:
    return rule.rule in findings()[finding.id].rules


def _global_estimate(rule: RuleResult) -> float:
    scope = rule.speedup and rule.speedup.scope is SpeedupScope.GLOBAL
    return rule.speedup.percent if scope and rule.speedup else 0.0
