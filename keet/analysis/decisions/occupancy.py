"""Which resource limits the warps per SM, and what more warps would gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

from keet.analysis.candidate import Candidate, a_unit_explains, covered_waits, is_matrix_product
from keet.analysis.facts.on_chip import uses_async_copy
from keet.analysis.kernel.resident_warps import resident_blocks
from keet.analysis.kernel.work_per_warp import WARP
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import POSSIBLE
from keet.analysis.parameters import Parameter
from keet.analysis.place import Place
from keet.analysis.time_model import BLOCK_STARTS, Effect, TimeModel
from keet.evidence import Evidence, Sentence

MOST_OCCUPANCY = Parameter(
    5.0, "largest factor of warps per SM from fixing the occupancy limiter", "fit"
)
# None of the casebook's kernels with two equal limits got faster with more occupancy.
USUAL_ACHIEVED = Parameter(0.85, "achieved over theoretical occupancy, enough blocks", "judgement")

_USUAL_WARPS = 8
"""Warps of a block that is large enough."""

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
    limits = [view.value(f"block_limit_{other}") or math.inf for other in _others(by)]
    following = min((limit for limit in limits if limit > own), default=math.inf)
    waves = view.value("waves_per_sm") or MOST_OCCUPANCY  # as far as there are blocks
    return min(min(100.0, possible * (following / own)) / held, MOST_OCCUPANCY, max(1.0, waves))


def _others(by: Resource) -> tuple[str, ...]:
    """What may limit the warps next. Larger blocks need no more barriers, nor more of the driver's
    shared memory."""
    return ("registers", "warps") if by == "sm" else (*LIMIT_WORDS, "warps", "barriers")


def limited_occupancy(
    model: TimeModel,
    by: Resource,
    finding: str,
    set_at: Callable[[], tuple[Place, ...]] = tuple,
    if_tied: str = "",
) -> Iterator[Candidate]:
    """The candidate for the finding about this resource, if that lets too few warps onto an SM to
    hide latency. `set_at`: the lines that set the limit, if the source shows them. `if_tied`: the
    variant where another resource limits as much."""
    view = model.view
    tightest, possible = tightest_limits(view), view.get("theoretical_occupancy_pct")
    if tightest[:1] != (by,) or possible is None or not 0 < possible.value < 100:
        return
    waves = view.value("waves_per_sm") or MOST_OCCUPANCY
    # With one wave, all blocks are on the SMs already.
    if a_unit_explains(view, model) or _overlaps_itself(view, by) or waves <= 1:
        return
    times, others = more_warps(view, by), _others(by)
    starts: dict[str, float] = {}
    if by == "sm":  # blocks with more warps are fewer
        warps = -(-(view.value("block_size") or math.inf) // WARP)
        starts = {BLOCK_STARTS: min(1.0, warps / _USUAL_WARPS)}
    tied = [resource for resource in tightest if resource in (by, *others)]
    what = " and ".join(LIMIT_WORDS[resource] for resource in tied)
    is_tied, issue = len(tied) > 1, view.ceilings.reached("issue")
    if is_tied:
        what += " equally (relieving only one of them gains nothing)"
    used = issue and Sentence(", and {issue:.0f} of the issue slots are used", issue=issue)
    text = "Occupancy is limited to {possible:.0f} by {what}{used}."
    yield Candidate(
        finding,
        Sentence(text, possible=possible, what=what, used=used or ""),
        Effect(starts, covered_waits(model, times)),
        (possible,) if issue is None else (possible, issue),
        lambda: set_at() or view.waiting_places("long_scoreboard", "short_scoreboard"),
        "assumed",
        if_tied if is_tied else "",
        POSSIBLE if is_tied else 1.0,
    )


def _overlaps_itself(view: LaunchView, by: Resource) -> bool:
    """Whether a matrix product, which reuses data from its registers and tiles, may load while it
    computes: by other blocks, or by asynchronous copies. A block whose shared memory leaves no room
    for another one, and that has no such copies, loads, computes and stores one after the other."""
    blocks = resident_blocks(view)
    is_alone = by == "shared_memory" and blocks is not None and blocks.fit.value <= 1
    is_serial = is_alone and bool(view.all_executed) and not uses_async_copy.test(view)
    return is_matrix_product(view) and not is_serial


def not_limited_by(view: LaunchView, by: Resource) -> tuple[Sentence, tuple[Evidence, ...]] | None:
    """Why this resource does not limit the warps per SM; None: it does, or the report does not
    say."""
    possible = view.get("theoretical_occupancy_pct")
    if possible is not None and possible.value >= 100:
        text = Sentence("Occupancy is not limited: {share:.0f} is possible.", share=possible)
        return text, (possible,)
    own, limits = view.get(f"block_limit_{by}"), tightest_limits(view)
    tightest = view.get(f"block_limit_{limits[-1]}") if limits else None
    if possible is None or own is None or tightest is None or own.value <= tightest.value:
        return None
    would_be = Sentence("{label} would be {own:.0f}", label=own.label, own=own)
    is_now = Sentence("{label} is {limit:.0f}", label=tightest.label, limit=tightest)
    return Sentence("{one}, and {other}.", one=would_be, other=is_now), (own, tightest)
