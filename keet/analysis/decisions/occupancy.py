"""Which resource limits the warps per SM, and what more warps would gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from keet.analysis.candidate import Candidate, a_unit_explains, covered_waits, is_matrix_product
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.resident_warps import (
    LIMIT_WORDS,
    MOST_OCCUPANCY,
    Resource,
    more_warps,
    other_limits,
    resident_blocks,
    tightest_limits,
)
from keet.analysis.parameters import POSSIBLE, Parameter
from keet.analysis.remedy_conditions.on_chip import uses_async_copy
from keet.analysis.time_model import BLOCK_STARTS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence

# None of the casebook's kernels with two equal limits got faster with more occupancy.
USUAL_ACHIEVED = Parameter(0.85, "achieved over theoretical occupancy, enough blocks", "judgement")

_USUAL_WARPS = 8
"""Warps of a block that is large enough."""


def limited_occupancy(
    model: TimeModel,
    by: Resource,
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
    times, others = more_warps(view, by), other_limits(by)
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
        Sentence(text, possible=possible, what=what, used=used or ""),
        Effect(starts, covered_waits(model, times)),
        (possible,) if issue is None else (possible, issue),
        lambda: set_at() or view.waiting_places("long_scoreboard", "short_scoreboard"),
        basis="assumed",
        variant=if_tied if is_tied else "",
        likelihood=POSSIBLE if is_tied else 1.0,
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
        text = "Occupancy is not limited: {share:.0f} is possible."
        return Sentence(text, share=possible), (possible,)
    own_limit, limits = view.get(f"block_limit_{by}"), tightest_limits(view)
    tightest = view.get(f"block_limit_{limits[-1]}") if limits else None
    if possible is None or own_limit is None or tightest is None:
        return None
    if own_limit.value <= tightest.value:
        return None
    would_be = Sentence("{label} would be {own:.0f}", label=own_limit.label, own=own_limit)
    is_now = Sentence("{label} is {limit:.0f}", label=tightest.label, limit=tightest)
    return Sentence("{one}, and {other}.", one=would_be, other=is_now), (own_limit, tightest)
