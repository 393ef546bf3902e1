"""Extracts sector counts of global accesses from a rule's message: the printed page lacks them.

Only one form of message is parsed, whose numbers equal the report's metrics exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from keet.profile import RawMetric, RuleResult

_RULE = "UncoalescedGlobalAccess"
_MESSAGE = re.compile(
    r"This (?:kernel|workload) has uncoalesced global accesses resulting in a total of "
    r"(\d{1,18}) excessive sectors \((\d{1,3})% of the total (\d{1,18}) sectors\)",
    re.ASCII,
)
_TOTAL = "memory_l2_theoretical_sectors_global"
_IDEAL = "memory_l2_theoretical_sectors_global_ideal"
_EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"


def counts_in_rules(rules: Iterable[RuleResult]) -> Mapping[str, RawMetric]:
    """Counts by ncu's metric names; empty if no message has them, or if messages differ."""
    found = {_counts(rule.message) for rule in rules if rule.rule == _RULE} - {None}
    if len(found) != 1:
        return {}
    excess, total = found.pop() or (0, 0)
    counts = {_TOTAL: total, _IDEAL: total - excess, _EXCESS: excess}
    return {name: RawMetric(count, "sector") for name, count in counts.items()}


def _counts(message: str) -> tuple[int, int] | None:
    """Excessive and all sectors; None if the percentage does not fit the two counts."""
    match = _MESSAGE.match(message)
    if match is None:
        return None
    excess, percent, total = map(int, match.groups())
    fits = total > 0 and excess <= total and abs(Fraction(100 * excess, total) - percent) <= 1
    return (excess, total) if fits else None
