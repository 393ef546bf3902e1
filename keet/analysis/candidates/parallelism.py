"""Causes in how much runs at a time: grid, waves, balance, occupancy, latency, barriers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from keet.analysis.candidates.candidate import MOST, Basis, Candidate, kept_waits
from keet.analysis.ceilings import HOST_LINK, Ceiling
from keet.analysis.findings import Place
from keet.analysis.parameters import parameter
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.analysis.view import View
from keet.analysis.warp_work import (
    FEW_INSTRUCTIONS,
    chain_share,
    instructions_per_warp,
    working_part,
)
from keet.catalog import stalls
from keet.evidence import Evidence
from keet.profile import Workload
from keet.units import Quantity

_HIDEABLE = ("long_scoreboard", "lg_throttle", "drain", "short_scoreboard", "wait", "imc_miss")
"""Waits that other warps cover, if there are any."""


def launch_cost(view: View, model: TimeModel) -> Iterator[Candidate]:
    """Starting and draining a grid, and the gap to the next: what one long kernel pays once."""
    duration, short = view.get("duration"), _shortness(view, model)
    each = instructions_per_warp(view)
    if duration is None or not short or (each is not None and each.value < _NOTHING):
        return
    taken, gap = float(duration.value), parameter("launch_gap_ns")
    # In one long kernel a step costs its work, without start, end and the gap to the next launch.
    times = (taken + gap) / max(taken - _start_ns(view, model), 0.2 * taken)
    if (view.value("grid_size") or 0) <= 1:  # a marker or a last step: nothing repeats
        times = 1 + gap / taken
    text, evidence = _launch_text(view, duration, is_long=taken >= parameter("short_kernel_ns"))
    yield Candidate(
        "launch_bound",
        text,
        times**short,
        evidence,
        view.launch_places,
        "assumed",
    )


_NOTHING = 4.0
"""Instructions per warp: a kernel that does nothing has no work that could be done elsewhere."""


def _start_ns(view: View, model: TimeModel) -> float:
    """Of starting and draining the grid: as measured, if that is more than any kernel takes."""
    taken = view.value("duration") or 0.0
    measured = model.fixed * taken if view.launch.workload is Workload.KERNEL else 0.0
    return max(parameter("least_kernel_ns"), measured)


def _shortness(view: View, model: TimeModel) -> float:
    """1: launching takes as large a part of the time as in a short kernel, or a larger one.

    It fades out to 0 for half of that part, so that nothing is a limit.
    """
    taken = view.value("duration") or 0.0
    if taken <= 0:
        return 0.0
    usual = parameter("least_kernel_ns") / parameter("short_kernel_ns")
    return max(0.0, min(1.0, 2 - usual * taken / _start_ns(view, model)))


def _launch_text(
    view: View, duration: Evidence, *, is_long: bool
) -> tuple[str, tuple[Evidence, ...]]:
    most, elapsed = view.get("sm_active_cycles_max"), view.get("elapsed_cycles")
    if not is_long or most is None or elapsed is None or not elapsed.value:
        return f"The kernel takes {duration}: about as long as launching it.", (duration,)
    idle = Quantity(100 * max(0.0, 1 - float(most.value) / float(elapsed.value)), "%")
    share = view.ledger.derived("launch_share", idle, "no SM is active", most, elapsed)
    text = f"No SM is active for {share:.0f} of the {duration}: the grid starts and drains."
    each = instructions_per_warp(view)
    if each is None or each.value > FEW_INSTRUCTIONS:
        return text, (share, duration)
    text += f" A warp executes {each:.0f} instructions on average."
    return text, (share, duration, each)


def _least_kept() -> float:
    return 1 - parameter("most_removed")


class GridShape(NamedTuple):
    """How the blocks fall on SMs."""

    grid: Evidence
    sms: int
    waves: Evidence | None

    @property
    def spread(self) -> float:
        """SMs that get a block, 0 to 1."""
        return min(1.0, float(self.grid.value) / self.sms)

    @property
    def expected(self) -> float:
        """Average over longest active SM, if all blocks took equally long."""
        if self.spread < 1:
            return self.spread
        waves = float(self.waves.value) if self.waves else 0.0
        return waves / math.ceil(waves) if 1 < waves < math.inf else 1.0


def grid_shape(view: View) -> GridShape | None:
    grid, waves = view.get("grid_size"), view.get("waves_per_sm")
    counted = view.value("launch_sm_count")
    sms = int(view.launch.device.sm_count or counted or 0)
    if grid is None or grid.value <= 0 or sms <= 0 or view.launch.workload is not Workload.KERNEL:
        return None
    return GridShape(grid, sms, waves if waves is not None and waves.value > 0 else None)


def small_grid(view: View, model: TimeModel) -> Iterator[Candidate]:
    shape = grid_shape(view)
    if shape is None:
        return
    waves = float(shape.waves.value) if shape.waves else 1.0
    if shape.spread < 1:
        within = max(min(1.0, waves / shape.spread), _least_kept())
        if is_matrix_product(view):  # more blocks on an SM have smaller tiles, and reuse less
            within = 1.0
        part = working_part(view)  # more blocks need work that can be done at the same time
        effect = Effect(
            waits=kept_waits(model, _HIDEABLE, 1 - within**part),
            longest_sm=max(shape.spread, 1 / MOST) ** part,
            least=chain_share(view),
        )
        # The launch alone shows SMs without a block, but not whether a block's work can be split,
        # nor that more blocks on an SM would help.
        spread_alone = model.gain(effect._replace(waits={}))
        known = view.stalls and spread_alone**2 >= model.gain(effect)
        basis: Basis = "measured" if known else "assumed"
    elif waves < 1:  # every SM has a block and could hold more
        times = 1 / max(waves ** parameter("partial_wave"), _least_kept())
        # Not barriers, here and above: smaller blocks of the same work have as many.
        effect = Effect(waits=kept_waits(model, _HIDEABLE, 1 - 1 / times), least=chain_share(view))
        basis = "assumed"
    else:
        return
    sms = view.ledger.derived("sm_count", Quantity(shape.sms, ""), "SMs of the GPU")
    yield Candidate(
        "small_grid",
        _small_text(shape, sms),
        effect,
        tuple(e for e in (shape.grid, sms, shape.waves) if e is not None),
        view.launch_places,
        basis,
        # A kernel that is over at once mostly waits for the first data: more blocks do so, too.
        likelihood=1 - parameter("indirect") * _shortness(view, model),
    )


def _small_text(shape: GridShape, sms: Evidence) -> str:
    blocks = f"{shape.grid:.0f}{'' if shape.grid.value == 1 else 's'}"
    waves = f": waves per SM {shape.waves:.2f}" if shape.waves else ""
    if shape.spread < 1:
        return f"A grid of {blocks} does not fill a GPU of {sms:.0f} SMs{waves}."
    return f"A grid of {blocks} is less than what {sms:.0f} SMs hold at a time{waves}."


def uneven(view: View, model: TimeModel) -> Iterator[Candidate]:
    """SMs that are done while others work: the last wave, or blocks of unequal length."""
    del model
    shape, usual = grid_shape(view), view.get("sm_active_cycles")
    most = view.get("sm_active_cycles_max")
    if most is None:
        yield from _uneven_at_all(view, usual)
        return
    if usual is None or not most.value:
        return
    even = view.ratio("sm_evenness", "average over longest active SM", usual, most)
    expected = shape.expected if shape else 1.0
    if shape and shape.waves and shape.spread == 1 and shape.waves.value > 1:
        tail = min(1.0, max(float(even.value), expected) / parameter("balanced"))
        yield Candidate(
            "tail_effect",
            f"Waves per SM {shape.waves:.2f}: the last one leaves SMs idle. The average SM is "
            f"active for {even:.2f} of the cycles of the longest one.",
            Effect(longest_sm=tail),
            (shape.waves, even),
            view.launch_places,
        )
    rest = min(1.0, float(even.value) / expected / parameter("balanced"))
    yield Candidate(
        "load_imbalance",
        f"Blocks take unequal time: the average SM is active for {even:.2f} of the cycles of the "
        "longest one.",
        Effect(longest_sm=max(rest, 1 / MOST), every_wait=_resident(view) ** (1 - rest)),
        (even, *((shape.waves,) if shape and shape.waves else ())),
        view.sampled_places,
    )


def _resident(view: View) -> float:
    """Warps on an SM over those that fit: an SM is active while a single long block is left."""
    reached, possible, waves = (
        view.value(each)
        for each in ("achieved_occupancy_pct", "theoretical_occupancy_pct", "waves_per_sm")
    )
    if not reached or not possible:
        return 1.0
    return min(1.0, max(reached / (possible * min(1.0, waves or 1.0)), _least_kept()))


def _uneven_at_all(view: View, usual: Evidence | None) -> Iterator[Candidate]:
    """Without a value per SM: only in long launches, where launch and drain are no reason."""
    elapsed, shape = view.get("elapsed_cycles"), grid_shape(view)
    duration = view.value("duration") or 0.0
    if usual is None or elapsed is None or not elapsed.value or not duration:
        return
    share = view.percent("sm_active_share", "of the time the average SM is active", usual, elapsed)
    start = parameter("short_kernel_ns") / duration
    expected = shape.expected if shape else 1.0
    rest = min(1.0, (float(share.value) / 100 + start) / expected / parameter("balanced"))
    yield Candidate(
        "load_imbalance",
        f"The average SM is active for {share:.0f} of the time, although every SM could have a "
        "block: few blocks do most of the work.",
        Effect(longest_sm=max(rest, 1 / MOST)),
        (share, usual, elapsed),
        view.sampled_places,
        "assumed",
    )


class Limiter(NamedTuple):
    """What lets few blocks onto an SM."""

    finding: str
    metric: str
    what: str


_LIMITERS = (
    Limiter("occupancy_limited_registers", "block_limit_registers", "registers"),
    Limiter("occupancy_limited_shared", "block_limit_shared_memory", "shared memory"),
    Limiter("occupancy_limited_block", "block_limit_sm", "the blocks that an SM can hold"),
)


def limiter_of(view: View) -> Limiter | None:
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


def occupancy(view: View, model: TimeModel) -> Iterator[Candidate]:
    """Too few warps fit onto an SM to cover what each waits for."""
    limiter, possible = limiter_of(view), view.get("theoretical_occupancy_pct")
    if limiter is None or possible is None or not 0 < possible.value < 100:
        return
    if is_matrix_product(view):  # its registers and tiles are what it reuses data from
        return
    waves = view.value("waves_per_sm") or parameter("most_occupancy")
    if waves <= 1:  # all blocks are on the SMs already
        return
    held = float(possible.value)
    if limiter.finding == "occupancy_limited_block":  # blocks so small also end before others start
        held = min(held, view.value("achieved_occupancy_pct") or held)
    # More room helps only if there are blocks for it.
    times = min(100 / held, parameter("most_occupancy"), waves)
    issue = view.ceilings.reached("issue")
    used = f", and {issue:.0f} of the issue slots are used" if issue is not None else ""
    yield Candidate(
        limiter.finding,
        f"Occupancy is limited to {possible:.0f} by {limiter.what}{used}.",
        Effect(waits=_covered(model, times)),
        tuple(e for e in (possible, issue) if e is not None),
        lambda: _limit_places(view, limiter),
        "assumed",
    )


def is_matrix_product(view: View) -> bool:
    """By its instructions: fused multiply-adds on tiles in shared memory, or tensor cores."""
    every = view.all_executed
    if (view.ceilings.share("tensor") or 0.0) > 0.1:
        return True
    if not every:  # by the pipes: nearly all that is issued are fused multiply-adds
        issue, shared = view.ceilings.share("issue"), view.value("shared_memory_per_block")
        return bool(issue and shared) and (view.ceilings.share("FMA") or 0.0) >= 0.7 * (issue or 1)
    return view.executed("FFMA") >= 0.5 * every and view.executed("LDS") >= 0.02 * every


def _covered(model: TimeModel, times: float) -> dict[str, float]:
    """Waits with `times` as much in flight: barriers are covered by other blocks only."""
    full = kept_waits(model, _HIDEABLE, 1 - 1 / times)
    return full | kept_waits(model, ("barrier",), (1 - 1 / times) * parameter("indirect"))


def _limit_places(view: View, limiter: Limiter) -> tuple[Place, ...]:
    """Where the limit is set, if a line of the source does."""
    set_at: tuple[Place, ...] = ()
    if limiter.finding == "occupancy_limited_shared":
        set_at = view.declared(r"__shared__", "shared arrays")
    elif limiter.finding == "occupancy_limited_block":
        set_at = view.launch_places()
    return set_at or view.waiting_places("long_scoreboard", "short_scoreboard")


def latency(view: View, model: TimeModel) -> Iterator[Candidate]:
    """What no unit explains and other warps do not cover."""
    issue, top = view.ceilings.reached("issue"), next(iter(view.ceilings.ranked), None)
    if top is None:
        return
    # What queues for a slow link or one hot line is not covered by queueing more.
    queued = max(model.loads.get(HOST_LINK, 0.0), model.loads.get(HOT_LINE, 0.0))
    covered = kept_waits(model, _HIDEABLE, (1 - 1 / parameter("more_in_flight")) * (1 - queued))
    possible = view.get("theoretical_occupancy_pct")
    longest = max(covered, key=lambda state: model.waiting[state], default="long_scoreboard")
    yield Candidate(
        "latency_bound",
        f"{_how_busy(top, issue)}, and {_waits_for(view, longest)}.",
        Effect(waits=covered),
        tuple(e for e in (issue, top.reached, possible) if e is not None),
        lambda: view.waiting_places(longest),
        "assumed",
        variant="ampere" if view.capability >= (8, 0) else "",  # cp.async came with it
        likelihood=1.0 if view.stalls else _WITHOUT_STATES,
    )


_WITHOUT_STATES = 0.8
"""Likelihood that latency is what is left where the report has no warp states: what is measured
goes first. Judgement; it moves ranks of about equal gains."""


def _how_busy(top: Ceiling, issue: Evidence | None) -> str:
    if top.name == "issue":
        return f"No unit is busier than the issue slots, of which {top.reached:.0f} are used"
    slots = f"; {issue:.0f} of the issue slots are used" if issue is not None else ""
    return f"The busiest unit is {top.spoken} at {top.reached:.0f} of its peak{slots}"


def _waits_for(view: View, state: str) -> str:
    """The longest wait that other warps could cover: `a warp mostly waits for data from ...`."""
    if not view.stalls:
        return "what warps wait for is not in the report"
    real = [reason for reason in view.stalls if stalls()[reason].counts_as_stall]
    leads = max(real, key=lambda reason: view.stalls[reason], default=state) == state
    how = "mostly" if leads else "also"
    return f"a warp {how} waits for {stalls()[state].waits_for} before its next instruction"


def barriers(view: View, model: TimeModel) -> Iterator[Candidate]:
    barrier = view.stall("barrier")
    if barrier is None or barrier.value <= 0:
        return
    units = {"ADU": parameter("indirect")}
    yield Candidate(
        "barrier_bound",
        f"Warps spend {barrier:.0f} of their time at block-wide barriers.",
        Effect(units, kept_waits(model, ("barrier",), parameter("barrier_waits"))),
        (barrier,),
        view.barrier_places,
        "assumed",
    )


MAKERS = (launch_cost, small_grid, uneven, occupancy, latency, barriers)
