"""How near each hardware unit came to its peak, and the launch's time without some of its work.

A unit that was busy for 60 % of the elapsed cycles needs 60 % of the launch's time for the work
that it got. With less work it needs less, in proportion; the launch then takes as long as the
busiest unit that is left, and never less than what no unit explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

from keet.analysis.findings import Forecast
from keet.analysis.ledger import Ledger
from keet.catalog import HardwareUnit, hardware_units
from keet.evidence import Evidence
from keet.units import Quantity

NEAR = 60.0
"""Per cent of its peak from which a unit explains the launch's time: the rest is what arbitration,
refresh and start-up cost kernels that are known to be limited by one unit."""
TIE = 5.0
"""Percentage points within which two units count as equally near."""
ATTAINABLE = 0.9
"""Of a peak that good kernels reach: DRAM and the FMA pipe give 90 to 95 % on an H200."""

_FAMILIES = {
    "DRAM": ("dram",),
    "L2": ("l2", "l2_tags", "l2_sectors", "l2_data_banks", "l2_to_sm", "sm_to_l2", "l2_fill_dram"),
    "L1": (
        "l1",
        "l1_while_active",
        "l1_data_stage",
        "l1_bank_reads",
        "l1_bank_writes",
        "l1_from_l2",
        "l1_to_l2",
    ),
    "LSU": ("lsu", "l1_writeback"),
    "FMA": ("fma", "fmaheavy"),
    "ALU": ("alu", "aluheavy"),
    "FP64": ("fp64",),
    "FP16": ("fp16",),
    "XU": ("xu",),
    "tensor": ("tensor", "tensor_fp64"),
    "ADU": ("adu",),
    "issue": ("issue_slots",),
}
"""Units as people name them, and the catalog's units whose busiest stands for each."""


_SPOKEN = {
    "issue": "the issue slots",
    "LSU": "the LSU pipe",
    "FMA": "the FMA pipe",
    "ALU": "the ALU pipe",
    "FP64": "the FP64 pipe",
    "FP16": "the FP16 pipe",
    "XU": "the XU pipe",
    "tensor": "the tensor cores",
    "ADU": "the ADU pipe (barriers, constant loads)",
}


def spoken_unit(name: str) -> str:
    """`the LSU pipe`: a unit as in a sentence."""
    return _SPOKEN.get(name, name)


class Ceiling(NamedTuple):
    """One unit, and its share of peak over the elapsed cycles in per cent."""

    name: str
    reached: Evidence

    @property
    def spoken(self) -> str:
        """As in a sentence."""
        return spoken_unit(self.name)

    @property
    def share(self) -> float:
        return float(self.reached.value) / 100


class Ceilings:
    """Every unit that the report has a number for."""

    def __init__(self, ledger: Ledger) -> None:
        found = ((name, _busiest(ledger, ids)) for name, ids in _FAMILIES.items())
        self._by_name = {name: Ceiling(name, e) for name, e in found if e is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def share(self, name: str) -> float:
        """0 to 1; 0 for a unit that the report is silent about."""
        ceiling = self._by_name.get(name)
        return ceiling.share if ceiling else 0.0

    def reached(self, name: str) -> Evidence | None:
        ceiling = self._by_name.get(name)
        return ceiling.reached if ceiling else None

    @cached_property
    def ranked(self) -> tuple[Ceiling, ...]:
        return tuple(sorted(self._by_name.values(), key=lambda c: -self._nearness(c)))

    def _nearness(self, ceiling: Ceiling) -> float:
        """L2 passes on what DRAM delivers, some points nearer its own peak: DRAM is the limit."""
        dram, l2 = self.share("DRAM"), self.share("L2")
        if ceiling.name == "L2" and dram >= 0.75 and 0 <= l2 - dram <= 0.12:
            return dram - 0.001
        return ceiling.share

    @property
    def nearest(self) -> tuple[Ceiling, ...]:
        """The busiest unit, and those that are as busy."""
        ranked = self.ranked
        return tuple(c for c in ranked if ranked[0].share - c.share <= TIE / 100)

    def without(self, factors: Mapping[str, float]) -> float:
        """The busiest unit's share when the work of some is multiplied by these factors."""
        return max((c.share * factors.get(c.name, 1.0) for c in self._by_name.values()), default=0)


@cache
def _known() -> Mapping[str, HardwareUnit]:
    return hardware_units()


def _busiest(ledger: Ledger, ids: tuple[str, ...]) -> Evidence | None:
    found = [e for unit in ids if unit in _known() if (e := _share(ledger, _known()[unit]))]
    return max(found, key=lambda e: e.value, default=None)


def _share(ledger: Ledger, unit: HardwareUnit) -> Evidence | None:
    for name in unit.share_of_peak:
        found = ledger.named(name, f"{unit.label} busy")
        if found is not None:
            return found if unit.basis == "elapsed" else _over_elapsed(ledger, found)
    return None


def _over_elapsed(ledger: Ledger, busy: Evidence) -> Evidence | None:
    """A share of the active cycles as one of all cycles."""
    active, elapsed = ledger.measured("sm_active_cycles"), ledger.measured("elapsed_cycles")
    if active is None or elapsed is None or not elapsed.value:
        return None
    share = Quantity(busy.value * min(1.0, active.value / elapsed.value), "%")
    return ledger.derived(f"{busy.metric}_elapsed", share, busy.label, busy, active, elapsed)


def less_work(ceilings: Ceilings, factors: Mapping[str, float]) -> Forecast:
    """The counterfactual of less work for some units.

    Likely: the unit that is busiest then is used as well as the busiest is now. Where none is near
    its peak today, latency and not work sets the time, and less work helps in proportion to how
    near the busiest is. High: nothing but the busiest unit costs time.
    """
    now = max((c.share for c in ceilings.ranked), default=0)
    then = max(ceilings.without(factors), 0.01)
    explained = min(1.0, now / (NEAR / 100))
    likely = 1 + (max(1.0, min(now, ATTAINABLE) / then) - 1) * explained
    return bounded(likely, max(likely, explained * ATTAINABLE / then))


def more_parallel(ceilings: Ceilings, times: float) -> Forecast:
    """The counterfactual of `times` as much in flight: until the first unit is full."""
    if not ceilings.ranked:
        return bounded(1.0, 1.0)  # nothing is known of what would be full next
    now = max(c.share for c in ceilings.ranked)
    room = max(1.0, ATTAINABLE / max(now, 0.01))
    return bounded(max(1.0, min(times, room)), max(1.0, min(times * 1.5, room * 1.1)))


_MOST = 100.0


def bounded(likely: float, high: float) -> Forecast:
    """A third of the gain at least, for fixes are rarely complete; twice at most, for who rewrites
    a place mends more than one flaw. On the samples the error is a factor of 1.5 either way."""
    likely = min(likely, _MOST)
    high = min(max(high, 1 + 2 * (likely - 1)), _MOST)
    return Forecast(round(1 + (likely - 1) / 3, 2), round(likely, 2), round(high, 2))
