"""Which GPUs have a hardware counter: distinguishes "not collected" from "does not exist"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from keet.catalog.loading import counter_tables

CHIPS = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities for which ncu's list of counters is known."""


def exists_on(name: str, compute_capability: str | None) -> bool | None:
    """Whether a GPU has the metric; `None` if no list says."""
    chips = chips_with(name)
    if chips is None or compute_capability not in CHIPS:
        return None
    return compute_capability in chips


def chips_with(name: str) -> tuple[str, ...] | None:
    """The compute capabilities that have it; `None` if it is not a hardware counter."""
    base = name.rpartition(":")[2].partition(".")[0]
    return _chips().get(base)


@cache
def _chips() -> Mapping[str, tuple[str, ...]]:
    everywhere, only_on = counter_tables()
    limited = {name: tuple(chips.split()) for name, chips in only_on.items()}
    return {**dict.fromkeys(everywhere, CHIPS), **limited}
