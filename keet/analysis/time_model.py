"""The time of a launch as a function of unit loads and exposed waiting.

A unit that was busy for 60 % of the elapsed cycles, and can reach 92 %, needs 0.65 of the launch's
time for the work that it got. Units overlap: the busiest sets the pace. What it does not explain is
waiting that nothing covers. With p = 2 the two combine as sides of a right angle,

    1 = load ^ p + exposed ^ p

so that a little less of either changes the time smoothly: there is no limit to fall over. A fix is
an `Effect`: how much of each unit's work, of each kind of waiting and of the longest SM's work is
left. The model gives the time after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from keet.analysis.ceilings import HOST_LINK
from keet.analysis.parameters import parameter
from keet.analysis.view import View
from keet.evidence import Evidence

HOT_LINE = "hot L2 slice"
WHOLE_SM = "SM"
DEVICE_WIDE = frozenset(("DRAM", "L2", "NVLink", HOST_LINK, HOT_LINE))
"""Units that all SMs share: spreading the work over more SMs does not relieve them."""

_ATTAINABLE = {
    "DRAM": "attainable_dram",
    "L1": "attainable_l1",
    "XU": "attainable_l1",
    "issue": "attainable_issue",
    "FMA": "attainable_math",
    "ALU": "attainable_math",
    HOST_LINK: "attainable_link",
}
_READY = ("selected", "not_selected")
_TYPICAL_WAITS = {
    "long_scoreboard": 0.6,
    "short_scoreboard": 0.1,
    "wait": 0.1,
    "barrier": 0.1,
    "mio_throttle": 0.1,
}
"""Assumed where the report has no warp states. Judgement; confidence is low then."""
_FULL = 0.995
"""Above, rounding of counters decides."""
_SKEW_FROM, _SKEW_TO = 1.1, 1.45
"""Busiest over average L2 slice: from where on one line, and not uneven spreading, is meant."""
_LEAST_TIME = 0.005


class Effect(NamedTuple):
    """What a fix leaves: factors from 0 to 1."""

    units: Mapping[str, float] = {}
    """By unit; what is not named stays, and what was not measured stays unknown."""
    waits: Mapping[str, float] = {}
    """By warp state; what is not named stays."""
    every_wait: float = 1.0
    """Of all waiting: fewer rounds, or more of them at a time."""
    longest_sm: float = 1.0
    """Of the work of the SM that works longest."""
    least: float = 0.0
    """Time that is left at the least, because warps also wait for what the fix does not touch."""
    moved: Mapping[str, float] = {}
    """New loads of units that take over work from others."""


class Balance(NamedTuple):
    """How evenly SMs were active, as shares of the elapsed cycles."""

    active: float
    """Of the average SM."""
    longest: float | None
    """Of the one that was active longest; None: not measured."""

    @property
    def evenness(self) -> float:
        """The average over the longest; where that is not known, it counts as active throughout."""
        return min(1.0, self.active / (self.longest or 1.0))


class TimeModel:
    """Unit loads and exposed waiting of one launch."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.balance = _balance(view)
        self.hot_line = _hot_line(view)
        self.loads = self._loads()
        self.is_measured = bool(self.loads)
        self.fixed = 1 - (self.balance.longest or 1.0)
        """Share of the time in which not even the longest SM was active: launch and drain."""
        self.pressure = max(self.loads.values(), default=parameter("unmeasured_pressure"))
        """Load of the busiest unit: 1 is all that it can do while SMs are active."""
        power = parameter("sharpness")
        self.exposed = (1 - self.pressure**power) ** (1 / power)

    @property
    def busiest(self) -> str | None:
        return max(self.loads, key=lambda unit: self.loads[unit]) if self.loads else None

    def _loads(self) -> dict[str, float]:
        """By unit, 0 to 1 of what it can do while SMs are active.

        Units within an SM as on the SM that is active longest.
        """
        shares = {ceiling.name: ceiling.share for ceiling in self.view.ceilings.ranked}
        if "issue" not in shares:  # a small set tells the busiest part of the SM alone
            whole = self.view.value("sm_throughput_pct")
            shares |= {WHOLE_SM: whole / 100} if whole is not None else {}
        if self.hot_line is not None:
            shares[HOT_LINE] = self.hot_line.load
        return {name: self.load(name, share) for name, share in shares.items()}

    def load(self, unit: str, share: float) -> float:
        """A share of peak over the elapsed cycles, as a load."""
        window = self.balance.longest or 1.0
        within = window if unit in DEVICE_WIDE else window * max(self.balance.evenness, 0.02)
        return min(_FULL, max(0.0, share / attainable(unit) / within))

    @cached_property
    def waiting(self) -> Mapping[str, float]:
        """Share of each warp state in all waiting; typical shares where none were measured."""
        states = {r: s for r, s in self.view.stalls.items() if r not in _READY and s > 0}
        total = sum(states.values())
        return {r: s / total for r, s in states.items()} if total else _TYPICAL_WAITS

    def waiting_for(self, *states: str) -> float:
        return sum(self.waiting.get(state, 0.0) for state in states)

    def time(self, effect: Effect) -> float:
        """After the fix, over the time today."""
        longest = _factor(effect.longest_sm)
        after = {**self._loads_after(effect.units, longest), **effect.moved}
        load = max(after.values(), default=self.pressure)
        kept = ((self.waiting.get(state, 0.0), _factor(k)) for state, k in effect.waits.items())
        waits = 1 - sum(share * (1 - factor) for share, factor in kept)
        every = _factor(waits) * _factor(effect.every_wait) * longest
        exposed = self.exposed * every
        power = parameter("sharpness")
        active = math.pow(load**power + exposed**power, 1 / power)
        return max(self.fixed + (1 - self.fixed) * active, effect.least, _LEAST_TIME)

    def _loads_after(self, units: Mapping[str, float], longest: float) -> dict[str, float]:
        """By unit. Most effects name few units, and most leave the longest SM as it is."""
        after = {
            unit: load if unit in DEVICE_WIDE else load * longest
            for unit, load in self.loads.items()
        }
        for unit in self.loads.keys() & units.keys():
            kept = _factor(units[unit])
            after[unit] = self.loads[unit] * (kept if unit in DEVICE_WIDE else kept * longest)
        return after

    def gain(self, effect: Effect) -> float:
        """Times faster; at least 1: nobody keeps a fix that costs time."""
        return max(1.0, 1 / self.time(effect))


def _factor(kept: float) -> float:
    """Counters of several passes can make a factor a little less than 0; NaN promises nothing."""
    return max(0.0, min(1.0, kept))


def attainable(unit: str) -> float:
    """Share of its peak that a unit reaches in good kernels."""
    if unit == HOT_LINE:  # its load is of what such a line reaches
        return 1.0
    return parameter(_ATTAINABLE.get(unit, "attainable_other"))


def _balance(view: View) -> Balance:
    elapsed, active = view.value("elapsed_cycles"), view.value("sm_active_cycles")
    longest = view.value("sm_active_cycles_max")
    if not elapsed or active is None:
        return Balance(1.0, None)
    share = min(1.0, max(0.0, active / elapsed))
    return Balance(share, min(1.0, max(longest / elapsed, share)) if longest else None)


class HotLine(NamedTuple):
    """One L2 slice that serves far more than the average: many requests for few addresses."""

    load: float
    skew: Evidence
    most: Evidence
    usual: Evidence
    is_atomic: bool


def _hot_line(view: View) -> HotLine | None:
    most, usual = view.get("l2_slice_sectors_max"), view.get("l2_slice_sectors_avg")
    cycles = _l2_cycles(view)
    if most is None or usual is None or not cycles:
        most, usual, cycles = _slice_shares(view)
    if most is None or usual is None or not usual.value or not cycles:
        return None
    skew = float(most.value) / float(usual.value)
    sure = min(1.0, max(0.0, (skew - _SKEW_FROM) / (_SKEW_TO - _SKEW_FROM)))
    if not sure:
        return None
    extra = float(most.value) - float(usual.value)
    atomic = _is_atomic(view, extra)
    # An atomic looks up its sector twice: to read and to write it.
    rate = parameter("hot_line_rate") * (2 if atomic else 1)
    shown = view.ratio("l2_slice_skew", "busiest L2 slice over the average", most, usual)
    return HotLine(min(1.0, extra / cycles / rate) * sure, shown, most, usual, atomic)


_SLICE_SECTORS = 3.0
"""Sectors per cycle that are 100 % of a slice: what counts and shares of the H200 give."""


def _slice_shares(view: View) -> tuple[Evidence | None, Evidence | None, float]:
    """The same from shares of peak, which small sets have. As sectors in 100 cycles."""
    name = "lts__t_sectors.{}.pct_of_peak_sustained_elapsed"
    most = view.ledger.named(name.format("max"), "busiest L2 slice")
    usual = view.ledger.named(name.format("avg"), "average L2 slice")
    return most, usual, 100.0 / _SLICE_SECTORS


def _is_atomic(view: View, extra: float) -> bool:
    """Whether the requests for a hot line are atomics or reductions."""
    counted = [view.value(i) for i in ("l2_all_atomic_sectors", "l2_all_reduction_sectors")]
    if any(value is not None for value in counted):
        return sum(value or 0.0 for value in counted) >= 0.5 * extra
    # RED instructions carry the memory type of loads: the opcode tells.
    executed = view.executed("RED", "ATOM") - view.executed("ATOMS", "REDUX")
    return executed > 0 or bool(view.value("global_reduction_inst"))


def _l2_cycles(view: View) -> float | None:
    """Elapsed cycles of one slice."""
    total, slices = view.value("l2_elapsed_cycles_total"), view.value("device_l2_slices")
    if total and slices:
        return total / slices
    clock, duration = view.value("l2_clock"), view.value("duration")
    return clock * duration * 1e-9 if clock and duration else None
