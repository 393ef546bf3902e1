"""The unit of any metric: from its catalog entry, or from its name."""

from __future__ import annotations

import re
from functools import cache

from keet.catalog.loading import metric_named, unit_nouns
from keet.units import base_unit

_PREFIX = re.compile(r"^(?:pmsampling:|breakdown:|group:|regex:|(?:[A-Z]\w*\.)?Triage\w*\.)")
_ROLLUPS = {"sum", "avg", "min", "max"}


@cache
def unit_of(name: str) -> str:
    """The unit of the value that the report stores under `name`; empty for a plain number."""
    spec = metric_named(name)
    if spec is not None:
        return spec.unit
    return _derived(_PREFIX.sub("", name))


def _derived(name: str) -> str:
    base, *suffixes = name.split(".")
    if any(suffix.startswith("pct") for suffix in suffixes):
        return "%"
    if suffixes and suffixes[0] not in _ROLLUPS:
        return ""  # .ratio, .max_rate: only the catalog knows the units
    noun = _noun(base)
    rate = suffixes[1] if len(suffixes) > 1 else ""
    if rate == "per_second":
        return base_unit(f"{noun}/s") if noun else ""
    if rate.startswith(("per_cycle", "peak_sustained")):
        return _per_cycle(noun)
    return noun


def _per_cycle(noun: str) -> str:
    """A rate per cycle. Warps are counted in each cycle, so their rate is a number of warps."""
    if noun in ("", "cycle"):
        return ""
    return noun if noun == "warp" else f"{noun}/cycle"


@cache
def _nouns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), unit) for pattern, unit in unit_nouns())


def _noun(base: str) -> str:
    # Attributes, launch parameters and topology are settings: their names have no pattern.
    if base.startswith(("device__", "launch__", "nvlink__", "numa__", "c2clink__")):
        return ""
    return next((unit for pattern, unit in _nouns() if pattern.search(base)), "")
