"""The baseline: NVIDIA's rules in the same report, ranked by their own estimates.

Every doubt is decided in its favour. A rule counts for all findings that any of its messages can
mean (`FindingSpec.credited_rules`), and wins ties; several messages of a rule count once; rules
that mean no finding take no rank. The reports are those of `keet profile`: rules whose metrics it
does not collect (MemoryCacheAccessPattern, SharedMemoryConflicts, WorkloadImbalance) have no
messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keet.findings import findings
from keet.profile.metric import RuleKind, RuleResult, SpeedupScope

_WITHOUT_MEANING = frozenset({"MemoryL2Compression", "PCSamplingData", "PMSamplingData"})
"""Rules about the profile or a feature of L2, not about what limits the kernel."""


def meanings(rule: str) -> frozenset[str]:
    """The findings that a rule can mean. Raises KeyError for a rule that nobody looked at."""
    meant = frozenset(s.id for s in findings().values() if rule in s.credited_rules)
    if not meant and rule not in _WITHOUT_MEANING:
        raise KeyError(rule)
    return meant


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
    heights = [_height(one.percent) for one in given if ids & meanings(one.rule)]
    if not heights:
        return None
    return 1 + sum(_height(one.percent) > max(heights) for one in given)


def first_meanings(advice: tuple[Advice, ...]) -> frozenset[str]:
    """All findings that a rule of the first rank can mean."""
    top = [one for one in advice if one.percent == advice[0].percent]
    return frozenset().union(*(meanings(one.rule) for one in top))


def speedups(advice: Iterable[Advice]) -> tuple[float, ...]:
    """The estimates as speed-ups, highest first."""
    shares = (min(a.percent, _MOST_PERCENT) / 100 for a in advice if a.percent is not None)
    return tuple(1 / (1 - share) for share in shares)


def _counts(result: RuleResult) -> bool:
    return result.kind in _ADVICE and bool(meanings(result.rule))


def _percent(result: RuleResult, *, only_global: bool) -> float | None:
    estimate = result.speedup
    if estimate is None or (only_global and estimate.scope is not SpeedupScope.GLOBAL):
        return None
    return round(estimate.percent, 2)


def _height(percent: float | None) -> float:
    return -1.0 if percent is None else percent
