"""Causes in how much runs at a time: grid, waves, balance, occupancy, latency, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keet.analysis.ceilings import NEAR, bounded, more_parallel
from keet.analysis.findings import Finding, Place
from keet.analysis.view import View
from keet.catalog import stalls
from keet.evidence import Evidence
from keet.profile import Workload

_IDLE = 0.8
"""Average over longest active SM below which the SMs are not used evenly."""
_STARVED = 0.5
"""Share of issue slots below which the schedulers wait for warps rather than warps for them."""
_LATENCY = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "lg_throttle", "imc_miss")


def _full(view: View) -> bool:
    """A unit is near its peak: more in flight gains little."""
    return bool(view.ceilings.ranked) and view.ceilings.ranked[0].share >= NEAR / 100


def launch_bound(view: View) -> Iterator[Finding]:
    duration = view.get("duration")
    if duration is None or not 0 < duration.value < 5000:
        return
    # Starting and draining a grid takes about 2 us, the gap to the next launch about 1.5 us: most
    # of what such a kernel costs. In one long kernel a step costs its work.
    taken = float(duration.value)
    times = (taken + 1500) / max(taken - 2000, 0.2 * taken)
    single = (view.value("grid_size") or 0) <= 1  # a marker or a last step: nothing repeats
    yield Finding(
        "launch_bound",
        "low" if single else "high" if duration.value < 3000 else "medium",
        f"The kernel takes {duration}: about as long as launching it.",
        bounded(1 + 1500 / taken, times) if single else bounded(times, 3 * times),
        (duration,),
        view.launch_places(),
    )


def _evenness(view: View) -> Evidence | None:
    usual, most = view.get("sm_active_cycles"), view.get("sm_active_cycles_max")
    if usual is None or most is None or not most.value:
        return None
    return view.ratio("sm_evenness", "average over longest active SM", usual, most)


def grid_shape(view: View) -> Iterator[Finding]:
    """Too few blocks, a last wave that is nearly empty, or blocks of unequal length."""
    grid, sms, waves = (view.get(i) for i in ("grid_size", "launch_sm_count", "waves_per_sm"))
    if grid is None or waves is None or view.launch.workload is not Workload.KERNEL:
        return
    count = view.launch.device.sm_count or (sms.value if sms else 0)
    few = bool(count) and grid.value < 0.9 * count
    if few or (waves.value < 0.5 and not _full(view) and _starved(view)):
        yield _small_grid(view, grid, waves, count / grid.value if few else 0.5 / waves.value)
        return
    even = _evenness(view)
    if even is None or even.value >= _IDLE:
        return
    full = -(-float(waves.value) // 1)
    tail = float(waves.value) / full
    # An even last wave of few blocks explains the idle SMs, or the blocks themselves are uneven.
    if 1 < full <= 8 and abs(tail - even.value) <= 0.15:
        yield _tail(view, waves, even)
    else:
        yield _imbalance(view, even, waves)


def _starved(view: View) -> bool:
    return "issue" in view.ceilings and view.ceilings.share("issue") < _STARVED


def _small_grid(view: View, grid: Evidence, waves: Evidence, times: float) -> Finding:
    sms = view.launch.device.sm_count or 0
    return Finding(
        "small_grid",
        "high" if grid.value < sms else "medium",
        f"A grid of {grid:.0f}{'' if grid.value == 1 else 's'} fills a small part of the GPU: "
        f"waves per SM {waves:.2f}.",
        more_parallel(view.ceilings, times),
        (grid, waves),
        view.launch_places(),
    )


def _tail(view: View, waves: Evidence, even: Evidence) -> Finding:
    times = 1 / float(even.value)
    return Finding(
        "tail_effect",
        "high" if even.value < 0.7 else "medium",
        f"Waves per SM {waves:.2f}: the last one leaves most SMs idle.",
        bounded(times, times * 1.1),
        (waves, even),
        view.launch_places(),
    )


def _imbalance(view: View, even: Evidence, waves: Evidence) -> Finding:
    times = 1 / max(float(even.value), 0.01)
    return Finding(
        "load_imbalance",
        "high" if even.value < 0.5 else "medium",
        f"Blocks take unequal time: the average SM is active for {even:.2f} of the cycles of the "
        "longest one.",
        bounded(times, times * 2),
        (even, waves),
        view.sampled_places(),
    )


class _Limiter(NamedTuple):
    finding: str
    metric: str
    what: str


_LIMITERS = (
    _Limiter(
        "occupancy_limited_registers",
        "block_limit_registers",
        "registers",
    ),
    _Limiter(
        "occupancy_limited_shared",
        "block_limit_shared_memory",
        "shared memory",
    ),
    _Limiter(
        "occupancy_limited_block",
        "block_limit_sm",
        "the blocks an SM can hold",
    ),
)


def _limiter(view: View) -> _Limiter | None:
    """What lets the fewest blocks onto an SM, if that is not the warps themselves."""
    limits = [(view.value(entry.metric), entry) for entry in _LIMITERS]
    known = [(value, entry) for value, entry in limits if value]
    warps = view.value("block_limit_warps")
    if not known or warps is None:
        return None
    # A block without shared memory of its own is still charged for some: then blocks are the limit.
    value, entry = min(
        known, key=lambda pair: (pair[0], pair[1].finding != "occupancy_limited_block")
    )
    return entry if value < warps else None


def latency(view: View) -> Iterator[Finding]:
    """No unit is near its peak and the schedulers starve: too little is in flight."""
    issue, possible = view.ceilings.reached("issue"), view.get("theoretical_occupancy_pct")
    if issue is None or _full(view) or view.ceilings.share("issue") >= _STARVED:
        return
    waiting = sum(view.stalls.get(reason, 0) for reason in _LATENCY)
    if waiting < 0.4 or _evenly_idle(view):
        return
    limiter = _limiter(view)
    tiled = view.executed("LDGSTS", "UTMALDG") > 0 or view.ceilings.share("tensor") > 0.1
    if limiter and possible and possible.value <= 62.5 and not tiled and _fills(view):
        yield _occupancy(view, limiter, possible, issue)
        return
    yield _latency(view, issue, possible)


def _evenly_idle(view: View) -> bool:
    """Idle SMs are another cause."""
    even = _evenness(view)
    return even is not None and even.value < 0.5


def _fills(view: View) -> bool:
    """There are blocks enough to use a higher occupancy."""
    return (view.value("waves_per_sm") or 0) >= 0.9


def _occupancy(view: View, limiter: _Limiter, possible: Evidence, issue: Evidence) -> Finding:
    times = min(100 / float(possible.value), 4.0)
    return Finding(
        limiter.finding,
        "high" if possible.value <= 30 else "medium",
        f"Occupancy is limited to {possible:.0f} by {limiter.what}, too little to hide what warps "
        f"wait for: {issue:.0f} of the issue slots are used.",
        more_parallel(view.ceilings, times),
        (possible, issue),
        _declaring(view, limiter) or view.waiting_places("long_scoreboard", "short_scoreboard"),
    )


def _declaring(view: View, limiter: _Limiter) -> tuple[Place, ...]:
    """Where the limit is set, if a line of the source does."""
    if limiter.finding == "occupancy_limited_shared":
        return view.declared(r"__shared__", "shared arrays")
    return view.launch_places() if limiter.finding == "occupancy_limited_block" else ()


def _latency(view: View, issue: Evidence, possible: Evidence | None) -> Finding:
    return Finding(
        "latency_bound",
        "medium",
        f"No unit is near its peak and {issue:.0f} of the issue slots are used: a warp "
        f"{_waits_for(view)} before its next instruction.",
        more_parallel(view.ceilings, 2.5),
        tuple(e for e in (issue, possible) if e is not None),
        view.waiting_places("long_scoreboard", "short_scoreboard"),
        "ampere" if view.capability >= (8, 0) else "",  # cp.async came with it
    )


def _waits_for(view: View) -> str:
    """What most warps do, in the catalog's words: `waits for data from ...`."""
    reasons = sorted(view.stalls, key=lambda reason: -view.stalls[reason])
    real = [reason for reason in reasons if stalls()[reason].counts_as_stall]
    return f"mostly waits for {stalls()[real[0]].waits_for}" if real else "mostly waits"


def barrier_bound(view: View) -> Iterator[Finding]:
    barrier = view.stall("barrier")
    near = view.ceilings.ranked[0] if view.ceilings.ranked else None
    if barrier is None or barrier.value < 25 or not _starved(view):
        return
    if near and near.name not in ("ADU", "LSU", "L1") and near.share >= NEAR / 100:
        return
    kept = 1 - float(barrier.value) / 100
    # What is exchanged at barriers goes with them; what DRAM, L2 and the arithmetic do stays.
    left = max(view.ceilings.share(unit) for unit in ("DRAM", "L2", "FMA", "FP64", "tensor"))
    room = 0.9 / max(left, 0.1)
    yield Finding(
        "barrier_bound",
        "high" if barrier.value >= 40 else "medium",
        f"Warps spend {barrier:.0f} of their time at block-wide barriers.",
        bounded(min(1 / kept, room), min(3 / kept, room)),
        (barrier,),
        view.barrier_places(),
    )


CHECKS = (launch_bound, grid_shape, latency, barrier_bound)
