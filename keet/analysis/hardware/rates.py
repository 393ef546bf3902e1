"""Rates (amounts per second) from the counters of one launch, and peak rates."""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.ledger import LaunchLedger
from keet.evidence import Evidence
from keet.units import Quantity

SECTOR = 32
"""Bytes: the unit in which caches and memories exchange data."""


class Peak(NamedTuple):
    """The highest rate that the hardware allows."""

    rate: Evidence
    source: str
    """Where the number comes from: the report, keet's catalog or documentation."""


def first(ledger: LaunchLedger, *metric_ids: str) -> Evidence | None:
    return next(filter(None, (ledger.measured(metric_id) for metric_id in metric_ids)), None)


def positive(evidence: Evidence | None) -> Evidence | None:
    """The evidence if it is above 0, so that it can be divided by; else None."""
    return evidence if evidence is not None and evidence.value > 0 else None


def per_second(ledger: LaunchLedger, name: str, label: str, amount: Evidence) -> Evidence | None:
    """An amount of the launch over its duration."""
    duration = positive(ledger.measured("duration"))
    if duration is None:
        return None
    rate = Quantity(amount.value / (duration.value * 1e-9), f"{amount.unit}/s")
    return ledger.derived(name, rate, label, amount, duration)


def clock(ledger: LaunchLedger) -> Evidence | None:
    """The average SM clock of the launch."""
    return positive(first(ledger, "sm_clock", "sm_frequency"))
