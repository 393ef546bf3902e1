"""A model's claim (`WorkClaim`), how it is read from what the model wrote, its effect
(`ClaimEffect`), and what all kinds of claims use."""

from __future__ import annotations

import math
from typing import NamedTuple, get_args

from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import areas_of
from keet.analysis.time_model import MOST_REMOVED, Effect
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence, constant
from keet.findings import ClaimKind, FindingSpec, absence, findings
from keet.prose.expressions import (
    EvaluatedExpression,
    Expression,
    NamedValue,
    UnitValue,
    ValueProblem,
    constants_of,
    evaluate,
    has_influence,
    parse,
)
from keet.prose.reading import Names
from keet.units import Quantity


class Refused(Exception):
    """A claim is not supported."""

    def __init__(self, template: str, /, **values: Evidence | str) -> None:
        """Of a `Sentence`, which may leave out some of the evidence among the values."""
        self.reason, pieces = absence(template, **values)
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
    """Whether the amount follows from constants of the source, or from evidence that the finding
    rests on. A bare number does not lead (see `rank_with_claims`), nor does one measured number
    times a bare one: `inst_executed / 20` is a share of 95 % in other words."""
    written: str = ""
    """As the model wrote it: `bytes of DRAM, needed N * 4 B`."""
    problem: str = ""
    """Why it could not be read; empty if it could."""

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


_NO_AMOUNT = ("", "null", "none", "unknown")


def read_claim(  # noqa: PLR0913, PLR0917 - the parts of a claim
    finding: str,
    kind: str,
    of: str,
    needed: str,
    removed: str,
    names: Names,
    place: Place | None = None,
) -> WorkClaim:
    """`needed`, `removed`: expressions over `names`. What cannot be read is the claim's
    `problem`."""
    stated = (("needed", needed), ("removed", removed))
    texts = {name: text.strip().strip("{}").strip() for name, text in stated}
    texts = {name: text for name, text in texts.items() if text.lower() not in _NO_AMOUNT}
    kind, of = kind.strip().lower(), of.strip()
    said = (f"{name} {text}" for name, text in texts.items())
    written = ", ".join([f"{kind} of {of}" if of else kind, *said])
    if kind not in get_args(ClaimKind):
        problem = f"there is no kind {kind!r}; there are {', '.join(get_args(ClaimKind))}"
        return WorkClaim(finding, "cause", place=place, written=written, problem=problem)
    read = WorkClaim(finding, kind, of=of, place=place, written=written)  # type: ignore[arg-type]
    try:
        for name, text in texts.items():
            node = parse(text)
            result = evaluate(node, names.lookup)
            read = read._replace(is_derived=_is_derived(read, node, result, names))
            if result.is_comparison:
                raise ValueProblem(f"{text} is a comparison, not an amount")
            if name == "needed":
                read = read._replace(needed=_quantity(result.value, kind, of))
            elif result.value.has_dimension:
                raise ValueProblem("`removed` must be a share from 0 to 1")
            else:
                read = read._replace(removed=result.value.number)
    except ValueProblem as problem:
        return read._replace(needed=None, removed=None, problem=str(problem))
    return read


_SMALL_NUMBER = 16
"""Element sizes and unrolled loops: up to here, a number in the source may be any number."""


def _is_derived(
    claim: WorkClaim, node: Expression, result: EvaluatedExpression, names: Names
) -> bool:
    areas = {*claim.spec.rests_on} if claim.finding in findings() else set()
    literals = {*constants_of(node)} - (set() if result.value.has_dimension else {1.0})
    if not result.names:  # sizes that are written in the source or are those of the launch
        return any(n > _SMALL_NUMBER for n in literals) and all(
            n <= _SMALL_NUMBER or names.has_literal(n) for n in literals
        )

    def counts(named: NamedValue) -> bool:
        return not named.ids or bool(areas_of(named.ids) & areas)

    if not has_influence(node, names.lookup, counts):
        return False
    if claim.kind != "redundant" and not all(named.ids for named in result.names):
        return True
    measured = {named.ids for named in result.names if named.ids}
    if any("sector" in name for ids in measured for name in ids):
        literals -= {SECTOR}
    return bool(measured) and (len(measured) > 1 or not literals)


def _quantity(value: UnitValue, kind: str, of: str) -> Quantity:
    """In the unit of its kind: expressions often lose the unit of counted things."""
    if dict(value.dimensions) == {"byte": 1}:
        return Quantity(value.number, "byte")
    if value.has_dimension or value.is_percent or kind == "bytes":
        raise ValueProblem("`needed` must be an amount of bytes, instructions, blocks or warps")
    if kind == "parallelism":
        return Quantity(value.number, "warp" if "warp" in of else "block")
    return Quantity(value.number, value.counts if value.counts in ("op", "flop") else "inst")


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
    return view.derived(name, amount, f"{what} needed, as the model states", *sources)


def stated_share(view: LaunchView, what: str, removed: float, *sources: Evidence) -> Evidence:
    name = f"claimed.{what}.removed.{removed!r}"
    label = f"of {what} can go, as the model states"
    return view.share(name, removed, label, *sources)


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
