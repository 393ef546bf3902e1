"""Which GPUs have a hardware counter at all: "not collected" and "does not exist" differ."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from keet.catalog.loading import counter_tables

CHIPS = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities whose counters ncu was asked to list."""


def exists_on(name: str, compute_capability: str | None) -> bool | None:
    """Whether a GPU has the metric; `None` where no list tells."""
    chips = chips_with(name)
    if chips is None or compute_capability not in CHIPS:
        return None
    return compute_capability in chips


def chips_with(name: str) -> tuple[str, ...] | None:
    """The compute capabilities that have it; `None` for what is no hardware counter."""
    base = name.rpartition(":")[2].partition(".")[0]
    return _chips().get(base)


@cache
def _chips() -> Mapping[str, tuple[str, ...]]:
    everywhere, only_on = counter_tables()
    limited = {name: tuple(chips.split()) for name, chips in only_on.items()}
    return {**dict.fromkeys(everywhere, CHIPS), **limited}
