"""Which metrics changed along with a time."""

from __future__ import annotations

import math

from keet.catalog import metrics
from keet.corpus.insights.points import Point
from keet.corpus.insights.records import MetricChange

_TELLING = (
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "l2_sectors"),
    *("global_load_sectors", "global_store_sectors", "shared_load_wavefronts"),
    *("local_load_requests", "local_store_requests", "bank_conflicts_load"),
    *("bank_conflicts_store", "l1_hit_rate_pct", "l2_hit_rate_pct", "registers_per_thread"),
    *("achieved_occupancy_pct", "active_threads_per_warp", "no_eligible_pct", "sm_frequency"),
    *("dram_frequency", "waves_per_sm", "branch_efficiency_pct"),
)
"""Causes; cycles, throughputs and shares of peak move with any time, whatever the reason."""
_LEAST = math.log(1.1)
_MOST = 4


def moved_between(usual: Point, here: Point) -> tuple[MetricChange, ...]:
    """The largest changes first; what either lacks is not compared."""
    found = [entry for name in _TELLING if (entry := _moved(name, usual, here))]
    return tuple(sorted(found, key=lambda entry: -_size(entry))[:_MOST])


def _moved(name: str, usual: Point, here: Point) -> MetricChange | None:
    before, after = usual.number(name), here.number(name)
    if before is None or after is None:
        return None
    spec = metrics()[name]
    entry = MetricChange(name, spec.label, spec.unit, before, after)
    return entry if _size(entry) >= _LEAST else None


def _size(entry: MetricChange) -> float:
    """Of the change; from or to nothing at all is the largest."""
    low, high = sorted((entry.usual, entry.here))
    if high <= 0:
        return 0.0
    return math.log(high / low) if low > 0 else math.inf
