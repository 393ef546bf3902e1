"""A model's claim (`WorkClaim`), its effect (`ClaimEffect`), and what all kinds of claims use."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import MOST_REMOVED, Effect
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence, constant
from keet.findings import ClaimKind, FindingSpec, findings
from keet.units import Quantity


class Refused(Exception):
    """A claim is not supported."""

    def __init__(self, template: str, /, **values: Evidence | str) -> None:
        """Of a `Sentence`, which may leave out some of the evidence among the values."""
        self.reason = Sentence(template, **values)
        pieces = (value for value in values.values() if isinstance(value, Evidence))
        self.evidence = tuple(piece for piece in pieces if piece.id)
        super().__init__(self.reason)


class WorkClaim(NamedTuple):
    """What a model states as needed or removable. Expressions are already evaluated to numbers."""

    finding: str
    """Id of keet's vocabulary (keet/findings)."""
    kind: ClaimKind
    needed: Quantity | None = None
    """The least amount of work that is needed; alternatively `removed`. With neither, keet uses its
    own candidate for the finding."""
    removed: float | None = None
    """Share, 0 to 1, of that work or waiting that is removed."""
    of: str = ""
    """Level, pipe, purpose, warp state: see `ClaimKind`."""
    place: Place | None = None
    """The line that the model names; keet's own lines follow."""
    is_derived: bool = False
    """Whether `removed` is computed from evidence, source constants or launch facts. A share that
    is written as a bare number does not lead (see `rank_with_claims`)."""

    @property
    def spec(self) -> FindingSpec:
        return findings()[self.finding]

    def share(self) -> float:
        """`removed`. Raises Refused if it is missing or not valid; NaN is not between 0 and 1
        either."""
        if self.removed is None:
            raise Refused("The claim needs the share that is removed.")
        if not 0 < self.removed <= 1:
            text = "The share that is removed has to be above {none} and at most {one}."
            raise Refused(text, none=constant(0, "", "none"), one=constant(1, "", "all"))
        return self.removed


class ClaimEffect(NamedTuple):
    """A claim as an effect on the launch."""

    text: Sentence
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


def as_claimed(measured: str, claimed: str) -> Sentence:
    """Two clauses as a sentence."""
    text = "{measured}; by the model's reading of the source, {claimed}."
    return Sentence(text, measured=measured, claimed=claimed)


def stated_amount(view: LaunchView, what: str, amount: Quantity, *sources: Evidence) -> Evidence:
    """An amount that the model states, as evidence. Its name contains the value, because another
    claim may state another amount."""
    name = f"claimed.{what}.{float(amount.value)!r}"
    return view.ledger.derived(name, amount, f"{what} needed, as the model states", *sources)


def stated_share(view: LaunchView, what: str, removed: float, *sources: Evidence) -> Evidence:
    name = f"claimed.{what}.removed.{removed!r}"
    label = f"of {what} can go, as the model states"
    return view.ledger.derived(name, Quantity(100 * removed, "%"), label, *sources)


def removable(removed: float) -> float:
    """Limits a share to the most that keet expects of any fix."""
    return min(removed, MOST_REMOVED)


def in_unit(amount: Quantity, *units: str) -> Quantity:
    """The amount in base units. Raises Refused for other units than these, and for values that are
    not finite."""
    if not math.isfinite(amount.value):
        raise Refused("The needed amount has to be a finite number.")
    base = amount.to_base()
    if base.unit not in units:
        stated, allowed = amount.unit or "no unit", " or ".join(units)
        text = "The needed amount is in {stated}; it has to be in {allowed}."
        raise Refused(text, stated=stated, allowed=allowed)
    return base


def warps_launched(view: LaunchView) -> float:
    """0 if the report does not say."""
    grid, block = view.value("grid_size") or 0.0, view.value("block_size") or 0.0
    return grid * -(-block // 32)
