"""NVIDIA's rule results, as the report stores them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from keet.ingest.wire import Message
from keet.profile import (
    FocusMetric,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
)

_KINDS = (
    RuleKind.NONE,
    RuleKind.OK,
    RuleKind.WARNING,
    RuleKind.ERROR,
    RuleKind.OPTIMIZATION,
)
"""By the file's numbering, which is not that of NVIDIA's Python interface."""
_SCOPES = (SpeedupScope.UNKNOWN, SpeedupScope.LOCAL, SpeedupScope.GLOBAL)
_SEVERITIES = ("default", "low", "high")


def read_rules(messages: Iterable[Message]) -> tuple[RuleResult, ...]:
    return tuple(result for message in messages for result in _results(message))


def _results(rule: Message) -> Iterator[RuleResult]:
    """One result for each message of the rule's body; charts and tables without one are skipped."""
    body = rule.message(3)
    for item in body.messages(1) if body else ():
        message = item.message(1)
        if message is None:
            continue
        yield RuleResult(
            rule=rule.text(1) or "",
            name=rule.text(2) or "",
            section=rule.text(4) or "",
            kind=_kind(message.number(2)),
            title=message.text(4) or "",
            message=message.text(1) or "",
            speedup=_speedup(item.message(10)),
            focus=tuple(_focus(metric) for metric in item.messages(8)),
        )


def _kind(number: int | None) -> RuleKind:
    return _KINDS[number] if number is not None and number < len(_KINDS) else RuleKind.NONE


def _speedup(message: Message | None) -> SpeedupEstimate | None:
    if message is None:
        return None
    percent = message.double(2)
    if percent is None or not math.isfinite(percent):
        return None
    scope = message.number(1) or 0
    return SpeedupEstimate(
        _SCOPES[scope] if scope < len(_SCOPES) else SpeedupScope.UNKNOWN, percent
    )


def _focus(message: Message) -> FocusMetric:
    severity = message.number(4) or 0
    value = message.double(3)
    return FocusMetric(
        name=message.text(2) or "",
        value=value if value is not None and math.isfinite(value) else None,
        severity=_SEVERITIES[severity] if severity < len(_SEVERITIES) else "default",
        info=message.text(5) or "",
    )


def read_markers(messages: Iterable[Message]) -> tuple[SourceMarker, ...]:
    return tuple(
        SourceMarker(
            rule=rule.text(1) or "",
            message=marker.text(4) or "",
            address=marker.number(3),
            file=marker.text(6) or None,
            line=marker.number(2),
        )
        for rule in messages
        for marker in rule.messages(5)
    )
