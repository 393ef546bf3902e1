"""A ceiling of the roofline, and the arithmetic that all of them share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from keet.analysis.ledger import Ledger
from keet.catalog import hardware_units
from keet.evidence import Evidence
from keet.units import Quantity


class Part(NamedTuple):
    """A stage of a memory level, or a pipe, that is busier than bytes or operations tell."""

    label: str
    busy: Evidence


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that a ceiling allows, and where that number comes from."""

    rate: Evidence
    source: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One ceiling and how near the launch came to it."""

    id: str
    """`fp32`, `tensor_bf16`, `dram`."""
    label: str
    kind: Literal["compute", "memory"]
    reached: Evidence
    """Per cent of the peak."""
    source: str
    """Where the peak, or the share alone, comes from."""
    achieved: Evidence | None = None
    """FLOP, op or bytes a second; None where the report tells the share alone."""
    peak: Evidence | None = None
    busiest: Part | None = None

    @property
    def share(self) -> float:
        return float(self.reached.value) / 100


def measured(ledger: Ledger, metric_id: str) -> Evidence | None:
    """A metric with a number that can be computed with: neither infinite nor negative."""
    found = ledger.measured(metric_id)
    usable = found is not None and math.isfinite(found.value) and found.value >= 0
    return found if usable else None


def first(ledger: Ledger, *metric_ids: str) -> Evidence | None:
    return next(filter(None, (measured(ledger, metric_id) for metric_id in metric_ids)), None)


def positive(evidence: Evidence | None) -> Evidence | None:
    """What may be divided by."""
    return evidence if evidence is not None and evidence.value > 0 else None


def per_second(ledger: Ledger, name: str, label: str, amount: Evidence) -> Evidence | None:
    """An amount of the launch over its duration."""
    duration = positive(measured(ledger, "duration"))
    if duration is None:
        return None
    rate = Quantity(amount.value / (duration.value * 1e-9), f"{amount.unit}/s")
    return ledger.derived(name, rate, label, amount, duration)


def ceiling(  # noqa: PLR0913 - what a ceiling is made of
    ledger: Ledger,
    ceiling_id: str,
    label: str,
    achieved: Evidence,
    peak: Peak,
    *,
    kind: Literal["compute", "memory"],
    busiest: Part | None = None,
) -> Ceiling:
    reached = ledger.derived(
        f"roofline.{ceiling_id}.reached",
        Quantity(100 * achieved.value / peak.rate.value, "%"),
        f"{label}: share of peak",
        achieved,
        peak.rate,
    )
    return Ceiling(ceiling_id, label, kind, reached, peak.source, achieved, peak.rate, busiest)


_MARGIN = 5.0
"""Percentage points by which a part has to be busier than the share of peak to be worth a word."""


def busier(ledger: Ledger, unit_ids: Iterable[str], achieved: Evidence, peak: Peak) -> Part | None:
    """The busiest of those hardware units, where it is busier than the amount of work tells."""
    found = busiest(ledger, unit_ids)
    floor = 100 * achieved.value / peak.rate.value + _MARGIN
    return found if found is not None and found.busy.value > floor else None


def busiest(ledger: Ledger, unit_ids: Iterable[str]) -> Part | None:
    parts: list[Part] = []
    for unit_id in unit_ids:
        unit = hardware_units()[unit_id]
        shares = (ledger.named(name, unit.label) for name in unit.share_of_peak)
        share = next((s for s in shares if s is not None), None)
        if share is not None:
            parts.append(Part(_PART_LABELS.get(unit_id, unit.label), share))
    return max(parts, key=lambda part: part.busy.value, default=None)


_PART_LABELS = {"l2": "the busiest stage of L2", "issue_slots": "instruction issue"}
"""Where the unit's own label would read as the level itself."""


def clock(ledger: Ledger) -> Evidence | None:
    """The SM clock that the launch ran at, on average."""
    return positive(first(ledger, "sm_clock", "sm_frequency"))
