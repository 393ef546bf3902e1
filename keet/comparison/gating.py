"""Whether a difference passes a gate: the time, or metrics that somebody named."""

from __future__ import annotations

from collections.abc import Sequence

from keet.comparison.gate import (
    Gate,
    GatedMetric,
    gate_metric,
    gate_time,
    join,
    known_metric,
    parse_metric,
    undecided_total,
)
from keet.comparison.result import Difference
from keet.errors import NotComparable, UsageError

_TIME = ("duration", "gpu__time_duration.sum")


def gate_difference(difference: Difference, percent: float, metrics: Sequence[str]) -> Gate:
    """Gate the metrics, or the time where none is named. Raises if nothing can be gated."""
    gate = join([_gate(difference, parse_metric(name), percent) for name in metrics or _TIME[:1]])
    if not gate.checked:
        raise NotComparable(_nothing_gated(difference))
    return gate


def _gate(difference: Difference, metric: GatedMetric, percent: float) -> Gate:
    if metric.name in _TIME and metric.better == "lower":
        return gate_time(difference, percent)
    if not known_metric(difference, metric.name):
        report = difference.after.first.profile.provenance.path
        raise UsageError(
            f"--metric {metric.name}: neither report has such a metric; see: keet metrics {report}"
        )
    gate = gate_metric(difference, metric, percent)
    if len(gate.missing) == gate.checked:
        raise NotComparable(
            f"--metric {metric.name}: no kernel has it on both sides, so nothing was gated; "
            "collect it on both"
        )
    return gate


def _nothing_gated(difference: Difference) -> str:
    if difference.no_total:
        from keet.comparison.telling import headline

        return f"nothing was gated. {headline(difference).rstrip('.')}"
    if why := undecided_total(difference):
        return f"nothing was gated: {why}; record both runs with keet profile"
    return "no kernel has a time on both sides, so nothing was gated; profile them with durations"
