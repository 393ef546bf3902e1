"""What each kind of claim is turned into, before the time model is asked."""

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
    """As of a candidate."""
    evidence: tuple[Evidence, ...]
    unit: str | None = None
    """The unit whose work the claim is about; None where it is about waiting or spread."""
    kept: float = 1.0
    """What is left of that work, 0 to 1."""
    is_doubted: bool = False
    """Something that keet measured speaks against the amount."""


class Refusal(NamedTuple):
    """Why a claim is not supported."""

    reason: str
    evidence: tuple[Evidence, ...] = ()


def claimed(view: LaunchView, what: str, amount: Quantity, *sources: Evidence) -> Evidence:
    """An amount that the model states, as evidence. Its name has the value: another claim may
    state another amount of the same."""
    name = f"claimed.{what}.{float(amount.value)!r}"
    return view.ledger.derived(name, amount, f"{what} needed, as the model states", *sources)


def claimed_share(view: LaunchView, what: str, removed: float, *sources: Evidence) -> Evidence:
    name = f"claimed.{what}.removed.{removed!r}"
    label = f"of {what} can go, as the model states"
    return view.ledger.derived(name, Quantity(100 * removed, "%"), label, *sources)


def removable(removed: float) -> float:
    """No fix removes more than a part of anything."""
    return min(removed, parameter("most_removed"))


def in_unit(amount: Quantity, *units: str) -> Quantity | Refusal:
    """In the first of these units that fits. What is not finite is no evidence."""
    if not math.isfinite(amount.value):
        return Refusal("The needed amount has to be a finite number.")
    base = amount.to_base()
    if base.unit in units:
        return base
    stated = amount.unit or "no unit"
    return Refusal(f"The needed amount is in {stated}; it has to be in {' or '.join(units)}.")


def warps_launched(view: LaunchView) -> float:
    """0 where the report does not tell."""
    grid, block = view.value("grid_size") or 0.0, view.value("block_size") or 0.0
    return grid * -(-block // 32)


def share_problem(removed: float | None) -> Refusal | None:
    """Why a share is none; NaN is not between 0 and 1 either."""
    if removed is None:
        return Refusal("The claim needs the share that is removed.")
    if not 0 < removed <= 1:
        return Refusal("The share that is removed has to be above 0 and at most 1.")
    return None
