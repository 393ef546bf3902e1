"""What follows from rows of the catalog: a metric's unit, the GPUs that have it, a device's row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from keet.catalog.loading import Gpu, counter_tables, gpus, metric_named, unit_nouns
from keet.units import base_unit

_PREFIX = re.compile(r"^(?:pmsampling:|breakdown:|group:|regex:|(?:[A-Z]\w*\.)?Triage\w*\.)")
_ROLLUPS = {"sum", "avg", "min", "max"}


@cache
def unit_of(name: str) -> str:
    """The unit of the value that the report stores under `name`; empty for a plain number."""
    spec = metric_named(name)
    if spec is not None:
        return spec.unit
    base, *suffixes = _PREFIX.sub("", name).split(".")
    if any(suffix.startswith("pct") for suffix in suffixes):
        return "%"
    if suffixes and suffixes[0] not in _ROLLUPS:
        return ""  # .ratio, .max_rate: only the catalog knows the units
    noun = _noun(base)
    rate = suffixes[1] if len(suffixes) > 1 else ""
    if rate == "per_second":
        return base_unit(f"{noun}/s") if noun else ""
    if rate.startswith(("per_cycle", "peak_sustained")):
        # Warps are counted in each cycle, so their rate is a number of warps.
        return {"": "", "cycle": "", "warp": "warp"}.get(noun, f"{noun}/cycle")
    return noun


@cache
def _nouns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), unit) for pattern, unit in unit_nouns())


def _noun(base: str) -> str:
    # Attributes, launch parameters and topology are settings: their names have no pattern.
    if base.startswith(("device__", "launch__", "nvlink__", "numa__", "c2clink__")):
        return ""
    return next((unit for pattern, unit in _nouns() if pattern.search(base)), "")


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


_VARIANTS = ("Laptop GPU", "Max-Q")
"""Boards that share a name with a faster one: they match only a row that names them."""


def gpu_named(name: str, compute_capability: str | None, sm_count: int | None) -> Gpu | None:
    """The row with the longest match that does not contradict the report."""
    fitting = [
        gpu
        for gpu in gpus()
        if gpu.match in name
        and compute_capability in (None, gpu.cc)
        and (sm_count is None or gpu.sms in (None, sm_count))
        and all(word in gpu.match for word in _VARIANTS if word in name)
    ]
    return max(fitting, key=lambda gpu: len(gpu.match), default=None)
