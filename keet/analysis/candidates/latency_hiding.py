"""Candidates in latency hiding: occupancy, exposed latency, barriers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from keet.analysis.candidate import HIDEABLE, Candidate, is_matrix_product, kept_waits
from keet.analysis.hardware.ceilings import HOST_LINK, WHOLE_SM, Ceiling
from keet.analysis.kernel.work_per_warp import instructions_per_warp
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.catalog import stalls
from keet.evidence import Evidence
from keet.records import NamedTuple


class Limiter(NamedTuple):
    """A resource that limits the blocks per SM."""

    finding: str
    metric: str
    what: str


_LIMITERS = (
    Limiter("occupancy_limited_registers", "block_limit_registers", "registers"),
    Limiter("occupancy_limited_shared", "block_limit_shared_memory", "shared memory"),
    Limiter("occupancy_limited_block", "block_limit_sm", "the blocks that an SM can hold"),
)


def limiter_of(view: LaunchView) -> Limiter | None:
    """The resource that limits the blocks per SM most, unless that is the number of warps."""
    limits = [(view.value(entry.metric), entry) for entry in _LIMITERS]
    known = [(value, entry) for value, entry in limits if value]
    warps = view.value("block_limit_warps")
    if not known or warps is None:
        return None
    # A block without shared memory still uses some for the driver; then the block limit applies.
    value, entry = min(
        known, key=lambda pair: (pair[0], pair[1].finding != "occupancy_limited_block")
    )
    return entry if value < warps else None


def _a_unit_explains(view: LaunchView, model: TimeModel) -> bool:
    """Whether a unit limits the launch, and no warp states show that warps wait for anything
    else."""
    return not view.stalls and model.pressure >= parameter("leads")


class OccupancyHeadroom(NamedTuple):
    """How many more blocks fit on an SM if its smallest limit is relieved."""

    tied: tuple[Limiter, ...]
    """Other limits that are equally small: relieving only one of them gains nothing."""
    times: float
    """Factor of blocks that fit, up to the next limit, if the tied limits are relieved too."""

    @property
    def variant(self) -> str:
        """Registers come first in a tie with shared memory: see `limiter_of`."""
        tied = [entry.finding for entry in self.tied]
        return "registers_and_shared" if tied == ["occupancy_limited_shared"] else ""


_UNNAMED = ("block_limit_warps", "block_limit_barriers")
"""Limits that no finding is about."""


def headroom_beyond(view: LaunchView, limiter: Limiter) -> OccupancyHeadroom:
    """For the block limit, barriers and the driver's shared memory do not count: larger blocks need
    no more of them."""
    few = 1 if limiter.finding == "occupancy_limited_block" else None
    named, unnamed = _LIMITERS[:few], _UNNAMED[:few]
    least = view.value(limiter.metric) or 1.0
    limits = {entry: view.value(entry.metric) or math.inf for entry in named if entry != limiter}
    tied = tuple(entry for entry, value in limits.items() if value <= least)
    others = [*limits.values(), *(view.value(name) or math.inf for name in unnamed)]
    following = min((value for value in others if value > least), default=math.inf)
    return OccupancyHeadroom(tied, following / least)


_TIED = 0.5
"""Likelihood that both of two equal limits are relieved. Judgement: none of the casebook's kernels
with such a tie got faster with more occupancy."""


def occupancy(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Too few warps fit on an SM to hide latency."""
    limiter, possible = limiter_of(view), view.get("theoretical_occupancy_pct")
    if limiter is None or possible is None or not 0 < possible.value < 100:
        return
    if _a_unit_explains(view, model):
        return
    if is_matrix_product(view):  # it reuses data from its registers and tiles
        return
    waves = view.value("waves_per_sm") or parameter("most_occupancy")
    if waves <= 1:  # all blocks are on the SMs already
        return
    held, room = float(possible.value), headroom_beyond(view, limiter)
    most = min(100.0, held * room.times)
    if (
        limiter.finding == "occupancy_limited_block"
    ):  # such small blocks also end before others start
        held = min(held, view.value("achieved_occupancy_pct") or held)
    # More room helps only if there are blocks for it.
    times = min(most / held, parameter("most_occupancy"), waves)
    issue = view.ceilings.reached("issue")
    used = f", and {issue:.0f} of the issue slots are used" if issue is not None else ""
    yield Candidate(
        limiter.finding,
        f"Occupancy is limited to {possible:.0f} by {_limited_by(limiter, room)}{used}.",
        Effect(waits=covered_waits(model, times)),
        tuple(e for e in (possible, issue) if e is not None),
        lambda: _limit_places(view, limiter),
        "assumed",
        variant=room.variant,
        likelihood=_TIED if room.tied else 1.0,
    )


def _limited_by(limiter: Limiter, room: OccupancyHeadroom) -> str:
    if not room.tied:
        return limiter.what
    every = " and ".join(entry.what for entry in (limiter, *room.tied))
    return f"{every} equally (relieving only one of them gains nothing)"


def short_blocks(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Blocks that end about as fast as new ones start: few are on an SM, although more fit."""
    reached, possible = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    waves, each = view.get("waves_per_sm"), instructions_per_warp(view)
    if reached is None or possible is None or waves is None or each is None:
        return
    if each.value > _SHORT_LIVED or not 0 < reached.value < possible.value or waves.value <= 2:
        return
    # Uneven SMs have low occupancy for another reason.
    even = model.balance.evenness if model.balance.longest else 1.0
    times = even * USUAL * float(possible.value) / float(reached.value)
    yield Candidate(
        "occupancy_limited_block",
        f"Achieved occupancy is {reached:.0f}, and {possible:.0f} is possible. There are enough "
        f"blocks (waves per SM: {waves:.1f}), but a warp ends after {each:.0f} "
        "instructions, about as fast as new blocks start.",
        Effect(waits=covered_waits(model, min(max(times, 1.0), parameter("most_occupancy")))),
        (reached, possible, waves, each),
        view.launch_places,
        "assumed",
    )


_SHORT_LIVED = 256.0
"""Instructions per warp up to which starting a block is a notable part of its time. Judgement."""
USUAL = 0.85
"""Achieved over theoretical occupancy of kernels with enough blocks. Seen in the casebook."""


def covered_waits(model: TimeModel, times: float) -> dict[str, float]:
    """Waiting with `times` as many warps. At barriers, only warps of other blocks help."""
    full = kept_waits(model, HIDEABLE, 1 - 1 / times)
    return full | kept_waits(model, ("barrier",), (1 - 1 / times) * parameter("indirect"))


def _limit_places(view: LaunchView, limiter: Limiter) -> tuple[Place, ...]:
    """The source line that sets the limit, if there is one."""
    set_at: tuple[Place, ...] = ()
    if limiter.finding == "occupancy_limited_shared":
        set_at = view.declared(r"__shared__", "shared arrays")
    elif limiter.finding == "occupancy_limited_block":
        set_at = view.launch_places()
    return set_at or view.waiting_places("long_scoreboard", "short_scoreboard")


def latency(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Waiting that no unit explains and that other warps do not hide."""
    issue, top = view.ceilings.reached("issue"), next(iter(view.ceilings.ranked), None)
    if (top is None and not view.stalls) or _a_unit_explains(view, model):
        return
    # More loads in flight do not hide the queue for a slow link or for one hot line.
    queued = max(model.loads.get(HOST_LINK, 0.0), model.loads.get(HOT_LINE, 0.0))
    covered = kept_waits(model, HIDEABLE, (1 - 1 / parameter("more_in_flight")) * (1 - queued))
    possible = view.get("theoretical_occupancy_pct")
    longest = max(covered, key=lambda state: model.waiting[state], default="long_scoreboard")
    yield Candidate(
        "latency_bound",
        f"{_how_busy(top, issue)}, and {_waits_for(view, longest)}.",
        Effect(waits=covered),
        _shown(issue, top.reached if top else None, possible, view.stall(longest)),
        lambda: view.waiting_places(longest),
        "assumed",
        variant="ampere" if view.capability >= (8, 0) else "",  # cp.async came with it
        likelihood=1.0 if view.stalls else _WITHOUT_STATES,
    )


def _shown(*evidence: Evidence | None) -> tuple[Evidence, ...]:
    return tuple(each for each in evidence if each is not None)


_WITHOUT_STATES = 0.8
"""Likelihood of latency if the report has no warp states: measured causes rank first. Judgement; it
only changes the order of about equal gains."""


def _how_busy(top: Ceiling | None, issue: Evidence | None) -> str:
    if top is None:
        return "The report does not say how busy the units were"
    if top.name == "issue":
        return f"No unit is busier than the issue slots, {top.reached:.0f} of which are used"
    if top.name == WHOLE_SM:
        return f"No unit is busier than {top.spoken}, at {top.reached:.0f} of its peak"
    slots = f"; {issue:.0f} of the issue slots are used" if issue is not None else ""
    return f"The busiest unit is {top.spoken} at {top.reached:.0f} of its peak{slots}"


def _waits_for(view: LaunchView, state: str) -> str:
    """The longest wait that other warps could hide: `a warp mostly waits for data from ...`."""
    if not view.stalls:
        return "the report has no warp states that show what warps wait for"
    real = [reason for reason in view.stalls if stalls()[reason].counts_as_stall]
    leads = max(real, key=lambda reason: view.stalls[reason], default=state) == state
    how = "mostly" if leads else "also"
    after = "" if state == "drain" else " before its next instruction"  # it has ended
    return f"a warp {how} waits for {stalls()[state].waits_for}{after}"


def barriers(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
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


MAKERS = (occupancy, short_blocks, latency, barriers)
