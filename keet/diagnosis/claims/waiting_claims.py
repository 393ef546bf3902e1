"""Evaluates a model's claim that warps can wait less: its effect on time, or a refusal.

For one stall reason or all; also the claim that work is redundant.
"""

from __future__ import annotations

from keet.analysis.candidate import (
    HIDEABLE,
    kept_waits,
)
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.catalog import stalls
from keet.diagnosis.claims.claim import WorkClaim
from keet.diagnosis.claims.claim_effect import (
    ClaimEffect,
    Refusal,
    claimed_share,
    removable,
    share_problem,
)


def waiting_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    problem = share_problem(claim.removed)
    if problem is not None:
        return problem
    if not view.stalls:
        return Refusal("The report does not say what warps wait for.")
    state, removed = claim.of.strip().lower(), claim.removed or 0.0
    if state in ("all", ""):
        share = claimed_share(view, "all waiting", removed)
        text = f"By the model's reading of the source, {share:.0f} of all waiting can go."
        return ClaimEffect(text, Effect(every_wait=1 - _most_covered("", removed)), (share,))
    if state not in stalls():
        return Refusal(f"{claim.of!r} is no warp state; `all` is all of them.")
    waited = view.stall(state)
    if waited is None:
        return Refusal(f"No warp waited for {stalls()[state].waits_for}.")
    share = claimed_share(view, f"the waiting for {stalls()[state].label}", removed, waited)
    gone = _most_covered(state, removed)
    units = {"ADU": 1 - gone * parameter("indirect")} if state == "barrier" else {}
    return ClaimEffect(
        f"Warps wait {waited:.0f} of their time for {stalls()[state].waits_for}; by the model's "
        f"reading of the source, {share:.0f} of that can go.",
        Effect(units, kept_waits(model, (state,), gone)),
        (waited, share),
    )


def _most_covered(state: str, removed: float) -> float:
    """Limits a share to what keet expects of any fix: of barriers, and of waits that more warps
    hide."""
    if state == "barrier":
        return min(removed, parameter("barrier_waits"))
    if state in HIDEABLE or not state:
        return min(removed, 1 - 1 / parameter("most_occupancy"))
    return removable(removed)


def redundant_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    problem = share_problem(claim.removed)
    if problem is not None:
        return problem
    kept = 1 - removable(claim.removed or 0.0)
    share = claimed_share(view, "the launch's work", claim.removed or 0.0)
    text = f"By the model's reading of the source, {share:.0f} of what the launch does can go."
    units = dict.fromkeys(model.loads, kept)
    return ClaimEffect(text, Effect(units, every_wait=kept), (share,), model.busiest, kept)
