"""What Nsight Compute's own rules said: a second opinion, kept word for word."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from keet.records import NamedTuple


class RuleKind(StrEnum):
    """What a rule's message is. Before ncu 2023.2, advice was filed under `warning`."""

    NONE = "none"
    OK = "ok"
    OPTIMIZATION = "optimization"
    WARNING = "warning"
    ERROR = "error"


class SpeedupScope(StrEnum):
    """What NVIDIA's estimate is of: the whole launch, or a part of it that it does not name."""

    UNKNOWN = "unknown"
    LOCAL = "local"
    GLOBAL = "global"


class SpeedupEstimate(NamedTuple):
    scope: SpeedupScope
    percent: float
    """Share of the run time that would go, as NVIDIA estimates it."""


class FocusMetric(NamedTuple):
    """A metric that the rule looked at, and what it wants of it."""

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
        """Per cent of the time of the whole launch that the rule estimates to save, or 0."""
        speedup = self.speedup
        return speedup.percent if speedup and speedup.scope is SpeedupScope.GLOBAL else 0.0


def leading_rule(rules: Iterable[RuleResult]) -> RuleResult | None:
    """That which estimates the largest gain for the whole launch; None where none does."""
    first = max(rules, key=lambda rule: rule.global_estimate, default=None)
    return first if first and first.global_estimate > 0 else None


class SourceMarker(NamedTuple):
    """A rule's note on one instruction or source line."""

    rule: str
    message: str
    address: int | None = None
    file: str | None = None
    line: int | None = None
