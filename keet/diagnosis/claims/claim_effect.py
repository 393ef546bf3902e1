"""A claim converted to an effect for the time model, and helpers that all kinds of claims use."""

from __future__ import annotations

import math

from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect
from keet.evidence import Evidence
from keet.records import NamedTuple
from keet.units import Quantity


class ClaimEffect(NamedTuple):
    """A claim as an effect on the launch."""

    text: str
    effect: Effect | float
    """As in `Candidate.effect`."""
    evidence: tuple[Evidence, ...]
    unit: str | None = None
    """The unit whose work the claim is about; None for claims about waiting or the spread of
    work."""
    kept: float = 1.0
    """What is left of that work, 0 to 1."""
    is_doubted: bool = False
    """Whether a measurement contradicts the amount."""


class Refusal(NamedTuple):
    """Why a claim is not supported."""

    reason: str
    evidence: tuple[Evidence, ...] = ()


def claimed(view: LaunchView, what: str, amount: Quantity, *sources: Evidence) -> Evidence:
    """An amount that the model states, as evidence. Its name contains the value, because another
    claim may state another amount."""
    name = f"claimed.{what}.{float(amount.value)!r}"
    return view.ledger.derived(name, amount, f"{what} needed, as the model states", *sources)


def claimed_share(view: LaunchView, what: str, removed: float, *sources: Evidence) -> Evidence:
    name = f"claimed.{what}.removed.{removed!r}"
    label = f"of {what} can go, as the model states"
    return view.ledger.derived(name, Quantity(100 * removed, "%"), label, *sources)


def removable(removed: float) -> float:
    """Limits a share to the most that keet expects of any fix."""
    return min(removed, parameter("most_removed"))


def in_unit(amount: Quantity, *units: str) -> Quantity | Refusal:
    """Converts to the first of these units that fits. Refuses values that are not finite."""
    if not math.isfinite(amount.value):
        return Refusal("The needed amount has to be a finite number.")
    base = amount.to_base()
    if base.unit in units:
        return base
    stated = amount.unit or "no unit"
    return Refusal(f"The needed amount is in {stated}; it has to be in {' or '.join(units)}.")


def warps_launched(view: LaunchView) -> float:
    """0 if the report does not say."""
    grid, block = view.value("grid_size") or 0.0, view.value("block_size") or 0.0
    return grid * -(-block // 32)


def share_problem(removed: float | None) -> Refusal | None:
    """Why a share is not valid; NaN is not between 0 and 1 either."""
    if removed is None:
        return Refusal("The claim needs the share that is removed.")
    if not 0 < removed <= 1:
        return Refusal("The share that is removed has to be above 0 and at most 1.")
    return None
