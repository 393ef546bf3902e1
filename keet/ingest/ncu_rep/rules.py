"""Reads the results of NVIDIA's rules from a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from keet.ingest.protobuf import ProtoMessage, spans_of
from keet.profile import (
    FocusMetric,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
)

Span = tuple[int, int]
_KINDS = (
    RuleKind.NONE,
    RuleKind.OK,
    RuleKind.WARNING,
    RuleKind.ERROR,
    RuleKind.OPTIMIZATION,
)
"""By the number in the file, which differs from that of NVIDIA's Python interface."""
_SCOPES = (SpeedupScope.UNKNOWN, SpeedupScope.LOCAL, SpeedupScope.GLOBAL)
_SEVERITIES = ("default", "low", "high")


def read_rules(messages: Iterable[ProtoMessage]) -> tuple[RuleResult, ...]:
    return tuple(result for message in messages for result in _results(message))


def read_leading_rule(data: bytes, spans: Iterable[Span]) -> RuleResult | None:
    """See `leading_rule`. `spans`: positions of the rules. Of other rules only the estimate is
    parsed."""
    most, found = 0.0, None
    for rule in spans:
        for item in _item_spans(data, rule):
            for estimate in spans_of(10, data, *item)[-1:]:
                speedup = _speedup(ProtoMessage(data, *estimate))
                if speedup and speedup.scope is SpeedupScope.GLOBAL and speedup.percent > most:
                    most, found = speedup.percent, (rule, item)
    return _result(*(ProtoMessage(data, *span) for span in found)) if found else None


def _item_spans(data: bytes, rule: Span) -> list[Span]:
    """The spans of what `_items` gives."""
    bodies = spans_of(3, data, *rule)
    items = spans_of(1, data, *bodies[-1]) if bodies else ()
    return [item for item in items if spans_of(1, data, *item)]


def _results(rule: ProtoMessage) -> Iterator[RuleResult]:
    return (_result(rule, item) for item in _items(rule))


def _items(rule: ProtoMessage) -> Iterator[ProtoMessage]:
    """One per message of the rule's body; charts and tables without a message are skipped."""
    body = rule.message(3)
    return (item for item in body.messages(1) if item.span(1)) if body else iter(())


def _result(rule: ProtoMessage, item: ProtoMessage) -> RuleResult:
    message = item.message(1) or ProtoMessage(b"")
    return RuleResult(
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


def _speedup(message: ProtoMessage | None) -> SpeedupEstimate | None:
    if message is None:
        return None
    percent = message.double(2)
    if percent is None or not math.isfinite(percent):
        return None
    scope = message.number(1) or 0
    return SpeedupEstimate(
        _SCOPES[scope] if scope < len(_SCOPES) else SpeedupScope.UNKNOWN, percent
    )


def _focus(message: ProtoMessage) -> FocusMetric:
    severity = message.number(4) or 0
    value = message.double(3)
    return FocusMetric(
        name=message.text(2) or "",
        value=value if value is not None and math.isfinite(value) else None,
        severity=_SEVERITIES[severity] if severity < len(_SEVERITIES) else "default",
        info=message.text(5) or "",
    )


def read_markers(messages: Iterable[ProtoMessage]) -> tuple[SourceMarker, ...]:
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
