"""The time of a launch as a function of unit loads and exposed waiting.

A unit that was busy for 60 % of the elapsed cycles, and can reach 92 %, needs 0.65 of the launch's
time for its work. Units overlap, so the busiest one is the lower bound. The rest of the time is
exposed waiting. The two combine as

    1 = load ^ p + exposed ^ p

so that the time changes smoothly when either of them shrinks: there are no thresholds.

A fix is an `Effect`: how much of each unit's work, of each kind of waiting and of the longest SM's
work is left. The model computes the time after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from keet.analysis.hardware.ceilings import HOST_LINK, NEAR_PEAK, WHOLE_MEMORY, spoken_unit
from keet.analysis.hardware.stages import sampled_dram, sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import GLOBAL_ATOMICS
from keet.analysis.parameters import LONGEST_START_NS, MAJORITY, Parameter
from keet.evidence import Evidence
from keet.profile import Workload

HOT_LINE = "hot L2 slice"
BLOCK_STARTS = "block starts"
DEVICE_WIDE = frozenset(("DRAM", "L2", "NVLink", HOST_LINK, WHOLE_MEMORY, HOT_LINE, BLOCK_STARTS))
"""Units that all SMs share: spreading work over more SMs does not relieve them. The busiest unit of
the memory system may be one of them."""
BEYOND_SMS = DEVICE_WIDE - {BLOCK_STARTS}
"""Those that work for the code of the SMs."""
WITHIN_SM = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1")
"""Units that have less work if warps are full."""

SHARPNESS = Parameter(2.3, "p of time = (busiest unit ^ p + exposed waiting ^ p) ^ (1/p)", "fit")
MOST_LOAD = Parameter(0.995, "largest load: above it, rounding of counters decides", "judgement")
UNMEASURED_PRESSURE = Parameter(
    0.5, "assumed load of the busiest unit if no unit was measured", "judgement"
)
LEAST_TIME = Parameter(0.005, "least time after a fix, as a share of today's", "judgement")
MOST_REMOVED = Parameter(
    0.95, "largest share of any work or waiting that a fix removes", "judgement"
)
INDIRECT = Parameter(
    0.5,
    "a fix reduces other work and other waiting by this share of what it removes of the cause",
    "judgement",
)
WORTH = Parameter(
    1.1,
    "least gain to report: smaller ones are within the differences between launches",
    "judgement",
)
LEADS = Parameter(0.7, "load from which a unit, not latency, is named as the limiter", "judgement")
PASSES_ON = Parameter(
    0.5, "load of DRAM from which a busy L2 counts as passing on DRAM's bytes", "judgement"
)
_READY = ("selected", "not_selected")
ASLEEP = "sleeping"
"""The warp state in nanosleep, and in locks and flags that sleep between two looks. The code sets
how long it lasts, so less work, more warps or more blocks do not shorten it."""
TYPICAL_WAIT = Parameter(
    0.1,
    "share of each of four kinds of waiting, if not measured; the rest is for memory",
    "judgement",
)
WITHIN_L1 = Parameter(0.3, "part of the rest in L1's queue if only L1 is busy", "judgement")


class Effect(NamedTuple):
    """What a fix leaves of the work and the waiting, as factors from 0 to 1."""

    units: Mapping[str, float] = {}
    """By unit. Other units keep their work; unmeasured ones stay unknown."""
    waits: Mapping[str, float] = {}
    """By warp state. Other states stay as they are."""
    every_wait: float = 1.0
    """Factor for all waiting but sleep: fewer rounds, or more of them at a time."""
    longest_sm: float = 1.0
    """Factor for the work of the SM that is active longest."""
    least: float = 0.0
    """Lower bound of the time after the fix, because warps also wait for what it does not
    change."""
    moved: Mapping[str, float] = {}
    """New loads of units that take over work from others."""
    added: float = 0.0
    """Time that the fix adds, as a share of today's: of a further launch."""


def joined(effects: Iterable[Effect]) -> Effect:
    """What several fixes leave together: their factors are multiplied."""
    units: dict[str, float] = {}
    waits: dict[str, float] = {}
    moved: dict[str, float] = {}
    every, longest, least, added = 1.0, 1.0, 0.0, 0.0
    for effect in effects:
        for left, kept in ((units, effect.units), (waits, effect.waits)):
            for name, factor in kept.items():
                left[name] = left.get(name, 1.0) * factor
        for unit, load in effect.moved.items():
            moved[unit] = max(moved.get(unit, 0.0), load)
        every *= effect.every_wait
        longest *= effect.longest_sm
        least, added = max(least, effect.least), added + effect.added
    return Effect(units, waits, every, longest, least, moved, added)


class Balance(NamedTuple):
    """How evenly SMs were active, as shares of the elapsed cycles."""

    active: float
    """Active cycles of the average SM."""
    longest: float | None
    """Active cycles of the SM that was active longest; None: not measured."""

    @property
    def evenness(self) -> float:
        """Average over longest active SM; if the longest is not known, it counts as always
        active."""
        return min(1.0, self.active / (self.longest or 1.0))


class TimeModel:
    """Unit loads and exposed waiting of one launch."""

    def __init__(self, view: LaunchView) -> None:
        self.view = view
        self.balance = _balance(view)
        by_slices = _by_sectors(view) or _by_requests(view)
        lines = filter(None, (_host_line(view), by_slices))
        self.hot_line = max(lines, key=lambda line: line.load, default=None)

        self.block_starts = _block_starts(view)
        """Blocks started per cycle on all SMs together; None: not measured."""
        self.loads = self._loads()
        self.is_measured = bool(self.loads)
        busy, active, cycles = self.balance.longest or 1.0, None, l2_cycles(view)
        if self.hot_line is not None:  # its slice may be active longer than any SM
            active = view.value("l2_active_cycles_max")
        if active and cycles:
            busy = max(busy, min(1.0, active / cycles))
        self.fixed = 1 - busy
        """Share of the time for launch and drain: neither an SM nor a busy L2 slice was active."""
        self.start = 1 - (self.balance.longest or 1.0)
        """Share of the time in which no SM is active: no fix of the kernel shortens it."""
        self.pressure = max(self.loads.values(), default=UNMEASURED_PRESSURE)
        """Load of the busiest unit; 1 is the most that it can do while SMs are active."""
        self.exposed = (1 - self.pressure**SHARPNESS) ** (1 / SHARPNESS)

    @cached_property
    def busiest(self) -> str | None:
        return max(self.loads, key=self.loads.__getitem__) if self.loads else None

    def _loads(self) -> dict[str, float]:
        """Load by unit, 0 to 1: 1 is the most that it can do while SMs are active.

        Units within an SM: the load on the SM that is active longest.
        """
        shares = {ceiling.name: ceiling.share for ceiling in self.view.ceilings.ranked}
        if self.hot_line is not None:
            shares[HOT_LINE] = self.hot_line.load
        if self.block_starts is not None and shares:
            shares[BLOCK_STARTS] = float(self.block_starts.value) / BLOCK_RATE
        if shares and "DRAM" not in shares and (least := sampled_dram(self.view.ledger)):
            shares["DRAM"] = least
        return {name: self.load(name, share) for name, share in shares.items()}

    def load(self, unit: str, share: float) -> float:
        """Converts a share of peak over the elapsed cycles to a load."""
        window = self.balance.longest or 1.0
        if unit not in DEVICE_WIDE:
            window *= max(self.balance.evenness, LEAST_EVENNESS)
        load = min(MOST_LOAD, max(0.0, share / attainable(unit) / window))
        ceiling = self.view.ceilings.get(unit)
        is_fabric = ceiling is not None and ceiling.stage is not None and ceiling.stage.id == FABRIC
        return _fabric_work(load) if is_fabric else load

    @cached_property
    def waiting(self) -> Mapping[str, float]:
        """Share of each warp state in all waiting; typical shares if none were measured."""
        states = {r: s for r, s in self.view.stalls.items() if r not in _READY and s > 0}
        total = sum(states.values())
        return {r: s / total for r, s in states.items()} if total else self._assumed_waits()

    def _assumed_waits(self) -> Mapping[str, float]:
        """Without warp states: waiting for memory as far as units behind L1 are busy, else for L1
        itself."""
        behind = max(self.loads.get(unit, 0.0) for unit in BEYOND_SMS)
        within = max(self.loads.get(unit, 0.0) for unit in ("L1", "LSU"))
        lead = max(0.0, within - behind) / (within + behind) if within else 0.0
        other = float(TYPICAL_WAIT)
        return {
            "long_scoreboard": 1 - 4 * other - lead * (other + WITHIN_L1),
            "short_scoreboard": other + lead * other,
            "wait": other,
            "barrier": other,
            "mio_throttle": other + lead * WITHIN_L1,
        }

    def waiting_for(self, *states: str) -> float:
        return sum(self.waiting.get(state, 0.0) for state in states)

    def time(self, effect: Effect) -> float:
        """Time after the fix, as a fraction of the time today."""
        return self._time(effect, self.exposed_after(effect))

    def _time(self, effect: Effect, exposed: float) -> float:
        """`time` with a given exposed waiting."""
        load = self.pressure  # many effects change waiting only
        if effect.units or effect.moved or effect.longest_sm != 1.0:
            # Without a measured unit, the assumed load is that of a unit within the SMs.
            assumed = self.pressure * _factor(effect.longest_sm)
            load = max(self.loads_after(effect).values(), default=assumed)
        active = math.pow(load**SHARPNESS + exposed**SHARPNESS, 1 / SHARPNESS)
        kernel = self.fixed + (1 - self.fixed) * active
        return max(kernel, effect.least, LEAST_TIME) + effect.added

    def exposed_after(self, effect: Effect) -> float:
        """Exposed waiting after the fix, in the unit of `exposed`."""
        removed, waiting = 0.0, self.waiting
        for state, kept in effect.waits.items():
            removed += waiting.get(state, 0.0) * (1 - _factor(kept))
        every = _factor(effect.every_wait) * _factor(effect.longest_sm)
        asleep = waiting.get(ASLEEP, 0.0) * _factor(effect.waits.get(ASLEEP, 1.0))
        awake = _factor(1 - removed) - asleep
        return float(self.exposed * (asleep + max(0.0, awake) * every))

    def loads_after(self, effect: Effect) -> dict[str, float]:
        """Loads by unit after the fix."""
        longest = _factor(effect.longest_sm)
        after = dict(self.loads)
        if longest != 1.0:  # most effects keep the longest SM, and name few units
            within = {unit: load for unit, load in after.items() if unit not in DEVICE_WIDE}
            after |= {unit: load * longest for unit, load in within.items()}
        for unit, kept in effect.units.items():
            load = self.loads.get(unit)
            if load is not None:
                left = _factor(kept)
                after[unit] = load * (left if unit in DEVICE_WIDE else left * longest)
        return {**after, **effect.moved}

    def gain(self, effect: Effect) -> float:
        """Times faster; at least 1, since a fix that costs time is not kept."""
        return max(1.0, 1 / self.time(effect))

    def most(self, effect: Effect) -> float:
        """Times faster if in addition no waiting were left: an upper bound set by the units'
        work."""
        return max(1.0, 1 / self._time(effect, 0.0))


def _factor(kept: float) -> float:
    """Clamps to 0 to 1. Counters of different passes can give slightly negative factors; NaN
    becomes 1 (no gain)."""
    return kept if 0.0 < kept < 1.0 else 0.0 if kept <= 0.0 else 1.0


def spoken_load(unit: str) -> str:
    """`one slice of L2`: a unit of the model as in a sentence."""
    if unit == BLOCK_STARTS:
        return "the start rate of blocks"
    return "one slice of L2" if unit == HOT_LINE else spoken_unit(unit)


ATTAINABLE_OTHER = Parameter(
    0.93, "share of their peak that DRAM, L2 and other units reach in good kernels", "fit"
)
ATTAINABLE_L1 = Parameter(0.97, "the same for L1, shared memory and the XU pipe", "fit")
ATTAINABLE_ISSUE = Parameter(0.87, "the same for the issue slots", "fit")
ATTAINABLE_MATH = Parameter(0.85, "the same for the FMA and ALU pipes", "fit")
ATTAINABLE_LINK = Parameter(
    0.28, "share of the host link's peak that single-sector accesses reach", "fit"
)


def attainable(unit: str) -> float:
    """Share of its peak that a unit reaches in good kernels."""
    if unit in (HOT_LINE, BLOCK_STARTS):  # loads are already relative to the attainable rate
        return 1.0
    if unit in ("L1", "XU"):
        return ATTAINABLE_L1
    if unit in ("FMA", "ALU"):
        return ATTAINABLE_MATH
    if unit == "issue":
        return ATTAINABLE_ISSUE
    return ATTAINABLE_LINK if unit == HOST_LINK else ATTAINABLE_OTHER


FABRIC = "l2_fabric"
FABRIC_LOOSE = Parameter(
    0.33,
    "share by which the fabric between the partitions of L2 is busy longer per sector if it has "
    "little to do",
    "fit",
)
"""162 pairs of the casebook have sides that move the same sectors and bytes. If a launch gets
faster, the fabric's busy share times the time falls, to 0.8 where the fabric was nearly idle before
and is full after; the same product of L2's lookups and of DRAM stays."""


def _fabric_work(busy: float) -> float:
    """Share of the fabric's work at its peak: busy = work * (1 + FABRIC_LOOSE * (1 - work)). The
    fuller it is, the more sectors travel together."""
    loose = float(FABRIC_LOOSE)
    return (1 + loose - math.sqrt((1 + loose) ** 2 - 4 * loose * busy)) / (2 * loose)


LEAST_EVENNESS = Parameter(
    0.004, "least evenness that loads within SMs are divided by: one block on 250 SMs", "judgement"
)


def _balance(view: LaunchView) -> Balance:
    cycles, active = sm_elapsed_cycles(view.ledger), view.value("sm_active_cycles")
    longest = view.value("sm_active_cycles_max")
    if cycles is None or not cycles.value or active is None:
        return Balance(1.0, None)
    elapsed = float(cycles.value)
    share = min(1.0, max(0.0, active / elapsed))
    if not longest:
        # With at most one block per SM, the SMs that get one are active about equally long.
        grid, sms = view.value("grid_size"), view.launch.device.sm_count
        is_kernel = view.launch.workload is Workload.KERNEL
        by_shape = share * sms / grid if grid and sms and grid <= sms and is_kernel else None
        return Balance(share, None if by_shape is None else min(1.0, by_shape))

    most = min(1.0, max(longest / elapsed, share))
    # Counters of different passes differ by a few percent. In a long launch that would look like
    # milliseconds of launch overhead, so limit it.
    duration = view.value("duration") or 0.0
    is_long = view.launch.workload is Workload.KERNEL and duration > LONGEST_START_NS
    at_least = 1 - LONGEST_START_NS / duration if is_long else 0.0
    scale = max(1.0, at_least / most) if most else 1.0
    return Balance(share * scale, most * scale)


BLOCK_RATE = Parameter(
    0.83, "blocks per cycle that a GPU starts, on all SMs together, whatever their size", "fit"
)
"""Eight kernels of four families, with blocks of 32 to 128 threads, are within 0.81 to 0.83, four
of them with no unit above 35 % of its peak. No launch of the casebook (H200) is above 0.832."""


def _block_starts(view: LaunchView) -> Evidence | None:
    grid, cycles = view.get("grid_size"), view.get("elapsed_cycles")
    is_kernel = view.launch.workload is Workload.KERNEL
    if grid is None or cycles is None or not cycles.value or not is_kernel:
        return None
    return view.ratio("block_start_rate", "blocks started per cycle", grid, cycles)


class HotLine(NamedTuple):
    """One L2 slice that serves far more requests than the average: many requests for few
    addresses."""

    load: float
    skew: Evidence
    most: Evidence
    usual: Evidence
    is_atomic: bool
    requests: float = 0.0
    """Requests for the line; 0: not known."""
    left: float = 0.0
    """Share of the slice's work that stays if its requests are spread over all slices."""
    spread: float = 1.0
    """Share of L2's work that is left if every slice has as little to do as the idlest one."""
    of_table: float = 0.0
    """0 to 1: whether atomics on many other addresses go to all slices. 0: not known."""
    is_in_host: bool = False
    """The line is in host memory, so it is fetched repeatedly; see `_host_line`."""
    is_counted: bool = False
    """Slices were not measured one by one: `skew` is atomics on one address per cycle of L2."""


HOT_LINE_RATE = Parameter(
    0.24, "sectors per L2 cycle that a slice serves for one line, beyond the average slice", "fit"
)


def _by_sectors(view: LaunchView) -> HotLine | None:
    """Found by the sectors that the busiest slice looks up."""
    most, usual = view.get("l2_slice_sectors_max"), view.get("l2_slice_sectors_avg")
    l2 = cycles = l2_cycles(view)
    if most is None or usual is None or not cycles:
        if (shares := _slice_shares(view)) is None:
            return None
        most, usual = shares
        # Shares of peak, which small sets have, are sectors per so many cycles.
        cycles = 100.0 / SLICE_SECTORS.get(view.launch.device.compute_capability or "", 1.0)
    sure = _is_skewed(most, usual) * max(_stands_out(view, most, usual), _is_full(view))
    shown = sure and view.ratio("l2_slice_skew", "busiest L2 slice over the average", most, usual)
    if not shown:
        return None
    rate = (float(most.value) - float(usual.value)) / cycles
    requests = rate * (l2 or 0.0)
    if not _is_atomic(view, rate):
        load = min(1.0, rate / HOT_LINE_RATE)
        return HotLine(load * sure, shown, most, usual, False, requests)
    # The lanes of a warp that update different addresses do not queue for each other.
    repeats, least = _repeats(view), view.value("l2_slice_sectors_min")
    spread = least / float(usual.value) if least is not None and usual.value else 1.0
    queued = min(1.0, rate * repeats / atomic_rate(view))
    # Updates of the words of a line keep the atomic unit of the slice busy; those of one word leave
    # it idle while each waits for the one before.
    lone, busy = _lone_activity(view), view.ledger.named(_ATOMICS.format("max"), _OF_ATOMICS)
    updates = float(busy.value) / 100 / ATTAINABLE_OTHER if busy is not None else 0.0
    load = sure * max(queued, lone, min(1.0, updates) * _is_full(view))

    full, left = _fullest_slice(view)
    of_table = min(1.0, _even_atomics(view) / MAJORITY)
    if full * repeats > load:
        return HotLine(full * repeats, shown, most, usual, True, requests, left, 1.0, of_table)
    return HotLine(load, shown, most, usual, True, requests, 0.0, spread, of_table)


def _slices(
    view: LaunchView, counter: str, label: str, of_average: str = ""
) -> tuple[Evidence, Evidence] | None:
    """A counter of the busiest and of the average L2 slice; None unless both are known."""
    most = view.ledger.named(counter.format("max"), label)
    usual = view.ledger.named(counter.format("avg"), of_average or label)
    return None if most is None or usual is None else (most, usual)


def _slice_shares(view: LaunchView) -> tuple[Evidence, Evidence] | None:
    return _slices(view, _SLICE_SHARE, "busiest L2 slice", "average L2 slice")


def _even_atomics(view: LaunchView) -> float:
    """Share of the atomics that all slices serve equally many of, 0 to 1; 0: not measured. What the
    idlest slice looks up beyond the average of other accesses is atomics."""
    counted = [view.value(f"l2_all_{kind}_sectors") for kind in ("atomic", "reduction")]
    slices, usual, least = map(
        view.value, ("device_l2_slices", "l2_slice_sectors_avg", "l2_slice_sectors_min")
    )
    every = sum(count or 0.0 for count in counted)
    if not every or not slices or usual is None or least is None:
        return 0.0
    return min(1.0, max(0.0, 1 - (usual - least) * slices / every))


def _by_requests(view: LaunchView) -> HotLine | None:
    """Without counters of single slices: the machine code shows that atomics of all warps update
    one address, which one slice serves. An average slice is idle then, however busy that one is.
    None if slices were measured, or the code shows no such atomics."""
    executed = view.get("global_reduction_inst") or view.get("global_atomic_inst")
    cycles = l2_cycles(view)
    if not cycles or executed is None or not executed.value or _slices_measured(view):
        return None
    ours = [atomic.position for atomic in view.atomics("global") if atomic.spread == "one address"]
    runs = sum(view.code.executions(ours).values()) if view.code else 0
    if not runs:
        return None
    label = "atomics on one address per cycle of L2"
    shown = view.derived("one_address_rate", runs / cycles, label, executed)
    load = min(1.0, runs / cycles / atomic_rate(view))
    return HotLine(load, shown, executed, executed, True, runs, is_counted=True)


def _slices_measured(view: LaunchView) -> bool:
    counts = map(view.get, ("l2_slice_sectors_max", "l2_slice_sectors_avg"))
    return _slice_shares(view) is not None or None not in counts


FLOAT_ATOMIC_RATE = Parameter(
    0.33, "additions of floats or doubles per L2 cycle that a slice serves for one address", "fit"
)
ATOMIC_RATE = Parameter(0.48, "the same for other atomics", "fit")


def atomic_rate(view: LaunchView) -> float:
    """Updates of one address per L2 cycle: 0.31 to 0.33 were seen for sums of floats and of
    doubles, 0.4 to 0.8 for others."""
    part = float_atomics(view)
    return 1 / (part / FLOAT_ATOMIC_RATE + (1 - part) / ATOMIC_RATE)


def float_atomics(view: LaunchView, spread: str = "") -> float:
    """Share of the executed atomics on global memory, 0 to 1, that are on floats or doubles, and
    whose addresses are of this form; 0 without the machine code."""
    every = floats = 0
    for atomic in view.atomics("global"):
        assert view.code is not None
        runs = view.code.program.counts[atomic.position]
        modifiers = view.code.program.code[atomic.position].modifiers
        every += runs
        if spread in ("", atomic.spread) and not {"F32", "F64"}.isdisjoint(modifiers):
            floats += runs
    return floats / every if every else 0.0


def _fullest_slice(view: LaunchView) -> tuple[float, float]:
    """Load of the busiest slice where atomics on several addresses fill it, and the share of it
    that is left if all slices have as much to do. The load is 0 without the counters."""
    slices = _slices(view, _THROUGHPUT, "L2 slices, of peak")
    units = _slices(view, _ATOMICS, _OF_ATOMICS)
    if slices is None or units is None:
        return 0.0, 1.0
    most, usual = (float(slice_load.value) for slice_load in slices)
    sure = _is_skewed(*slices) * _is_skewed(*units) * _is_full(view)
    left = usual / most if most else 1.0
    return min(1.0, most / 100 / ATTAINABLE_OTHER) * sure, min(1.0, left)


def _repeats(view: LaunchView) -> float:
    """Share of the atomics' sectors that queue for each other, 0 to 1; 1 without the machine code.

    The lanes of a warp that update different addresses by their index (block copies added to a
    table) request several sectors at once, which a slice serves at its full rate. Only the next
    request of the same sectors has to wait.
    """
    code = view.code
    if code is None or not code.sectors:
        return 1.0
    every = waiting = 0
    for atomic in view.atomics("global"):
        sectors = code.sectors.get(code.program.code[atomic.position].address, 0)
        requests = code.program.counts[atomic.position]
        every += sectors
        waiting += min(sectors, requests) if atomic.spread == "different addresses" else sectors
    return waiting / every if every else 1.0


def _lone_activity(view: LaunchView) -> float:
    """Share of the time in which the busiest L2 slice is active, of that in which an average one is
    not; 0 if they are active equally long. The rate of a line depends on the type of its atomics
    (additions of floats are slower), but a slice that alone is always active is at its limit."""
    most, usual = view.get("l2_active_cycles_max"), view.get("l2_active_cycles")
    elapsed = l2_cycles(view)
    if most is None or usual is None or not elapsed or usual.value >= elapsed:
        return 0.0
    alone = (float(most.value) - float(usual.value)) / (elapsed - float(usual.value))
    return min(1.0, max(0.0, alone)) * _is_skewed(most, usual)


SLICE_BUSY_TO = Parameter(85.0, "percent of an L2 slice's peak: limits time", "judgement")
_THROUGHPUT = "lts__throughput.{}.pct_of_peak_sustained_elapsed"


def _is_full(view: LaunchView) -> float:
    """0 to 1: whether the busiest slice is near its peak, however many others are."""
    busy = view.ledger.named(_THROUGHPUT.format("max"), "busiest L2 slice, of peak")
    if busy is None:
        return 0.0
    above = float(busy.value) - NEAR_PEAK
    return min(1.0, max(0.0, above / (SLICE_BUSY_TO - NEAR_PEAK)))


def _stands_out(view: LaunchView, most: Evidence, usual: Evidence) -> float:
    """0 to 1: whether a single slice stands out.

    With one outlier, all others are at the average; with uneven spreading, some are equally far
    below it.
    """
    least = view.value("l2_slice_sectors_min")
    if least is None or most.value <= least:
        return 1.0
    above = (float(most.value) - float(usual.value)) / (float(most.value) - least)
    return min(1.0, max(0.0, (above - OUTLIER_FROM) / (OUTLIER_TO - OUTLIER_FROM)))


OUTLIER_FROM = Parameter(
    0.7, "(busiest - average) / (busiest - idlest) L2 slice: one may stand out", "judgement"
)
OUTLIER_TO = Parameter(
    0.9, "the same: one stands out; 0.96 was seen with one hot line, 0.6 without", "judgement"
)
SKEW_FROM = Parameter(1.1, "busiest over average L2 slice: may be one hot line", "judgement")
SKEW_TO = Parameter(1.45, "busiest over average L2 slice: is one hot line", "judgement")


def _is_skewed(most: Evidence, usual: Evidence) -> float:
    """0 to 1: how certain it is that one hot line, not uneven spreading, causes the skew."""
    skew = float(most.value) / float(usual.value) if usual.value > 0 else 0.0
    return min(1.0, max(0.0, (skew - SKEW_FROM) / (SKEW_TO - SKEW_FROM)))


_HOST_FILLS = "lts__d_sectors_fill_sysmem.{}.pct_of_peak_sustained_elapsed"
_ATOMICS = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
_OF_ATOMICS = "atomics of an L2 slice"
_SLICE_SHARE = "lts__t_sectors.{}.pct_of_peak_sustained_elapsed"


def _host_line(view: LaunchView) -> HotLine | None:
    """One hot line in host memory: an L2 slice fetches it again for each request.

    Such a slice is active nearly all the time with few sectors, while the others are idle.
    """
    if view.ceilings.get(HOST_LINK) is None:
        return None
    fills = _slices(view, _HOST_FILLS, "fills from host memory")
    most, usual = view.get("l2_active_cycles_max"), view.get("l2_active_cycles")
    if fills is None or most is None or usual is None:
        return None
    load = _is_skewed(*fills) * _lone_activity(view)
    label = "busiest L2 slice over the average"
    shown = load and view.ratio("l2_slice_activity", label, most, usual)
    if not shown:
        return None
    highest, average = (float(fill.value) for fill in fills)
    atomic = _is_atomic(view, (highest - average) / 100)
    return HotLine(load, shown, most, usual, atomic, is_in_host=True)


SLICE_SECTORS: Mapping[str, float] = {
    **dict.fromkeys(("7.0", "7.5", "8.6"), 1.0),
    **dict.fromkeys(("8.0", "8.9", "12.0"), 2.0),
    "9.0": 3.0,
}
"""Sectors per cycle that are 100 % of a slice, by compute capability; from reports that have both
counts and shares."""


def _is_atomic(view: LaunchView, rate: float) -> bool:
    """Whether the requests for a hot line (`rate` per L2 cycle) are atomics or reductions."""
    counted = [view.value(i) for i in ("l2_all_atomic_sectors", "l2_all_reduction_sectors")]
    cycles = l2_cycles(view)
    if cycles and any(value is not None for value in counted):
        return sum(value or 0.0 for value in counted) >= MAJORITY * rate * cycles
    if (units := _slices(view, _ATOMICS, _OF_ATOMICS)) is not None:
        # Each looks up its sector twice.
        return (float(units[0].value) - float(units[1].value)) / 100 >= MAJORITY / 2 * rate
    # RED instructions have the memory type of loads, so decide by the opcode.
    return view.count(*GLOBAL_ATOMICS) > 0 or bool(view.value("global_reduction_inst"))


def l2_cycles(view: LaunchView) -> float | None:
    """Elapsed cycles of one slice."""
    elapsed = view.ledger.named("lts__cycles_elapsed.max", "elapsed cycles of L2")
    if elapsed is not None and elapsed.value > 0:
        return float(elapsed.value)
    total, slices = view.value("l2_elapsed_cycles_total"), view.value("device_l2_slices")
    if total and slices:
        return total / slices
    clock, duration = view.value("l2_clock"), view.value("duration")
    return clock * duration * 1e-9 if clock and duration else None
