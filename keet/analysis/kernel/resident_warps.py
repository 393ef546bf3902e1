"""How many warps an SM holds at a time, and what keeps it from holding more.

Latency is exposed where few warps are resident. More of them help only where their limit is known:
the grid, or the registers, shared memory or shape of a block.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence, Sentence
from keet.profile import Launch, Workload
from keet.units import Quantity

BLOCK_LIMITS = {
    "registers": "block_limit_registers",
    "shared memory": "block_limit_shared_memory",
    "warps": "block_limit_warps",
    "block slots": "block_limit_sm",
}
"""What limits the blocks that an SM holds at a time: by name, the metric."""
_WORDS = {
    "registers": "the registers of a block",
    "shared memory": "the shared memory of a block",
    "warps": "the size of a block",
    "block slots": "the number of blocks that an SM can hold",
}

Resource = Literal["sm", "registers", "shared_memory"]
"""What limits the blocks per SM: the metric `block_limit_sm` has the limit by the number of blocks
that an SM can hold, and so on."""
LIMIT_WORDS: dict[Resource, str] = {
    "sm": "the blocks that an SM can hold",
    "registers": "registers",
    "shared_memory": "shared memory",
}
"""In the order in which equal limits are named: every block uses some shared memory of the driver,
also where the number of blocks is the limit that matters."""

MOST_OCCUPANCY = Parameter(
    5.0, "largest factor of warps per SM from fixing the occupancy limiter", "fit"
)


def tightest_limits(view: LaunchView) -> tuple[Resource, ...]:
    """The resources that let fewest blocks onto an SM, the one to name first; none if the number of
    warps lets as few."""
    limits = {
        resource: view.value(f"block_limit_{resource}") or math.inf for resource in LIMIT_WORDS
    }
    lowest, warps = min(limits.values()), view.value("block_limit_warps") or 0.0
    return tuple(resource for resource, limit in limits.items() if limit == lowest < warps)


def more_warps(view: LaunchView, by: Resource) -> float:
    """Times as many warps per SM until another resource limits them; 1 if this one does not limit
    them, or if that is not known."""
    possible = view.value("theoretical_occupancy_pct")
    if tightest_limits(view)[:1] != (by,) or possible is None or not 0 < possible < 100:
        return 1.0
    held = possible
    if by == "sm":  # such small blocks also end before others start
        held = min(held, view.value("achieved_occupancy_pct") or held)
    own = view.value(f"block_limit_{by}") or 1.0
    limits = [view.value(f"block_limit_{other}") or math.inf for other in other_limits(by)]
    following = min((limit for limit in limits if limit > own), default=math.inf)
    waves = view.value("waves_per_sm") or MOST_OCCUPANCY  # as far as there are blocks
    return min(min(100.0, possible * (following / own)) / held, MOST_OCCUPANCY, max(1.0, waves))


def other_limits(by: Resource) -> tuple[str, ...]:
    """What may limit the warps next. Larger blocks need no more barriers, nor more of the driver's
    shared memory."""
    return ("registers", "warps") if by == "sm" else (*LIMIT_WORDS, "warps", "barriers")


class ResidentBlocks(NamedTuple):
    fit: Evidence
    """Blocks that fit on an SM at a time."""
    limits: tuple[str, ...]
    """What lets no more fit, by the names of `BLOCK_LIMITS`."""
    given: Evidence | None
    """Blocks per SM that the grid has, rounded up, where that is fewer."""
    are_all: bool = False
    """Whether all blocks of the grid are resident at a time: it has no more of them."""


def resident_blocks(view: LaunchView) -> ResidentBlocks | None:
    """None where the report does not say what fits."""
    found = {name: view.get(metric) for name, metric in BLOCK_LIMITS.items()}
    known = {name: each for name, each in found.items() if each is not None and each.value > 0}
    if not known or view.launch.workload is not Workload.KERNEL:
        return None
    least = min(float(each.value) for each in known.values())
    limits = tuple(name for name, each in known.items() if each.value == least)
    derived, label = view.ledger.derived, "blocks that fit on an SM at a time"
    fit = derived("blocks_per_sm", Quantity(least, ""), label, *known.values())
    grid, sms = view.get("grid_size"), view.launch.device.sm_count
    each_gets = math.ceil(float(grid.value) / sms) if grid and sms else 0
    if grid is None or not 0 < each_gets < least:
        return ResidentBlocks(fit, limits, None, 0 < each_gets <= least)
    label = "blocks per SM that the grid has, rounded up"
    given = derived("blocks_given", Quantity(each_gets, ""), label, grid)
    return ResidentBlocks(fit, limits, given, True)


def few_warps(view: LaunchView) -> tuple[Sentence, tuple[Evidence, ...]] | None:
    """A sentence about the warps of an SM, if they are fewer than half of those that it can hold:
    how many there are, and why. Where the grid gives it more, they have ended."""
    held, blocks = view.get("achieved_warps_per_sm"), resident_blocks(view)
    share = view.get("achieved_occupancy_pct")
    if held is None or share is None or blocks is None or not 0 < share.value < 100 * MAJORITY:
        return None
    most = Quantity(round(100 * float(held.value) / float(share.value)), "")
    can = view.ledger.derived("warps_an_sm_can_hold", most, "warps that an SM can hold", held)
    if (given := _given_warps(view, blocks)) and held.value < MAJORITY * given.value:
        rest = "most of them end early"
        if not blocks.are_all:
            rest = "most of them end before others take their place"
        early = "An SM holds {held:.1f}s of the {given:.0f} that it could have: {rest}."
        return Sentence(early, held=held, given=given, rest=rest), (held, given)
    by = " and ".join(_WORDS[each] for each in blocks.limits)
    by = by if blocks.given is None else "the number of blocks in the grid"
    more = ", and the grid has no more blocks" if blocks.are_all and not blocks.given else ""
    text = "An SM holds {held:.1f}s of the {can:.0f} that it can, limited by {by}{more}."
    return Sentence(text, held=held, can=can, by=by, more=more), (held, can)


def _given_warps(view: LaunchView, blocks: ResidentBlocks) -> Evidence | None:
    """Warps that an SM with work gets at a time, by the grid and by what fits; None where the
    report does not say. SMs that hold far fewer lack no blocks: their warps have ended."""
    grid, block, sms = view.get("grid_size"), view.get("block_size"), view.launch.device.sm_count
    if grid is None or block is None or not sms or not grid.value:
        return None
    each = float(grid.value) / min(float(grid.value), sms)
    warps = math.ceil(float(block.value) / WARP) * min(each, float(blocks.fit.value))
    label = "warps that an SM with work gets at a time"
    return view.ledger.derived("warps_given", Quantity(warps, ""), label, grid, block, blocks.fit)


def occupancy_limit(launch: Launch) -> str:
    """The resource that allows the fewest blocks: `registers allow 2 blocks per SM`. Empty if all
    warps fit, or if the report does not have the data."""
    possible = launch.get("theoretical_occupancy_pct")
    if not possible or possible.value >= 100:
        return ""
    found = {name: launch.get(metric) for name, metric in BLOCK_LIMITS.items()}
    known: dict[str, Quantity] = {name: q for name, q in found.items() if q and q.value > 0}
    if not known:
        return ""
    least = min(q.value for q in known.values())
    names = " and ".join(name for name, q in known.items() if q.value == least)
    return f"{names} allow {least:.0f} block{'' if least == 1 else 's'} per SM"
