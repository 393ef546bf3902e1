"""Results of Nsight Compute's own rules, unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class RuleKind(StrEnum):
    """Kind of a rule's message. Before ncu 2023.2, advice had the kind `warning`."""

    NONE = "none"
    OK = "ok"
    OPTIMIZATION = "optimization"
    WARNING = "warning"
    ERROR = "error"


class SpeedupScope(StrEnum):
    """What an estimate refers to: the whole launch (global), or an unnamed part of it (local)."""

    UNKNOWN = "unknown"
    LOCAL = "local"
    GLOBAL = "global"


class SpeedupEstimate(NamedTuple):
    scope: SpeedupScope
    percent: float
    """Estimated share of the time that would be saved, in % of what `scope` says."""


class FocusMetric(NamedTuple):
    """A metric that the rule used."""

    name: str
    value: float | None
    severity: str
    """`default`, `low` or `high`."""
    info: str


class RuleResult(NamedTuple):
    """One message of one rule; a rule may give several."""

    rule: str
    name: str
    section: str
    kind: RuleKind
    title: str
    message: str
    speedup: SpeedupEstimate | None = None
    focus: tuple[FocusMetric, ...] = ()

    @property
    def global_estimate(self) -> float:
        """Estimated savings in % of the launch's time; 0 without such an estimate."""
        speedup = self.speedup
        return speedup.percent if speedup and speedup.scope is SpeedupScope.GLOBAL else 0.0


def leading_rule(rules: Iterable[RuleResult]) -> RuleResult | None:
    """The rule with the largest estimated gain for the whole launch; None if none has one."""
    first = max(rules, key=lambda rule: rule.global_estimate, default=None)
    return first if first and first.global_estimate > 0 else None


class SourceMarker(NamedTuple):
    """A rule's note on one instruction or source line."""

    rule: str
    message: str
    address: int | None = None
    file: str | None = None
    line: int | None = None
