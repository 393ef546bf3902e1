"""Evaluates a model's claims: calls the module of each kind and forecasts the gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from keet.analysis.account import Account
from keet.analysis.candidate import Candidate
from keet.analysis.hardware.ceilings import spoken_unit
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel, attainable
from keet.catalog import stalls
from keet.diagnosis.claims.byte_claims import byte_claim
from keet.diagnosis.claims.claim import EvaluatedClaim, WorkClaim
from keet.diagnosis.claims.claim_effect import ClaimEffect, Refusal
from keet.diagnosis.claims.contradictions import check_cause
from keet.diagnosis.claims.instruction_claims import instruction_claim
from keet.diagnosis.claims.parallelism_claims import launch_claim, parallelism_claim
from keet.diagnosis.claims.precision_claims import precision_claim
from keet.diagnosis.claims.waiting_claims import redundant_claim, waiting_claim
from keet.diagnosis.diagnosis import FITTED_ON
from keet.diagnosis.finding import LOWER_PRECISION, REDUNDANT_WORK
from keet.diagnosis.forecast import certainty, chance, expected_gain, forecast, possible_gain
from keet.evidence import Evidence
from keet.findings import findings
from keet.records import NamedTuple
from keet.units import Quantity

_BY_KIND: Mapping[str, Callable[[WorkClaim, LaunchView, TimeModel], ClaimEffect | Refusal]] = {
    "bytes": byte_claim,
    "instructions": instruction_claim,
    "precision": precision_claim,
    "waiting": waiting_claim,
    "redundant": redundant_claim,
    "parallelism": parallelism_claim,
    "launches": launch_claim,
}


def evaluate_claim(
    claim: WorkClaim, view: LaunchView, model: TimeModel, account: Account
) -> EvaluatedClaim:
    """Floor, next limiter and forecast. A claim is supported if

    - the report does not show that its finding is absent (`check_cause`),
    - the work or waiting that it names was measured, and is more than what it says is needed,
    - the needed amount is not surely too small (less than a byte per warp, or than what is stored),
    - by the time model, the launch gains enough to matter if the claim is true.

    What bounds a false claim: all other units keep their work and other waits stay, so that a gain
    is never more than what the launch's next limiter allows; no share counts for more than keet
    expects of any fix. A bare share counts half (in logarithms) as far as it goes beyond keet's own
    candidate for the finding, and so does an amount of bytes below those that the kernel stores or
    is shown to read once.
    """
    problem = _form_problem(claim)
    if problem is not None:
        return EvaluatedClaim(claim, supported=False, reason=problem)
    contradiction = check_cause(claim.finding, view, model, account)
    if contradiction is not None:
        return EvaluatedClaim(
            claim,
            supported=False,
            reason=contradiction.reason,
            evidence=contradiction.evidence,
        )
    made = (
        _from_own_candidate(claim, view, model)
        if _has_no_amount(claim)
        else _from_amount(claim, view, model)
    )
    if isinstance(made, Refusal):
        return EvaluatedClaim(claim, supported=False, reason=made.reason, evidence=made.evidence)
    return _computed(claim, made, model, account)


def evaluate_claims(
    claims: Sequence[WorkClaim], view: LaunchView, model: TimeModel, account: Account
) -> EvaluatedClaim:
    """Evaluates several claims about one cause together: bytes that are not read from DRAM do not
    pass L2 either, and a removed barrier also removes its accesses to shared memory. Claims that
    are refused alone are left out."""
    each = [evaluate_claim(claim, view, model, account) for claim in claims]
    each.sort(key=lambda found: (found.supported, found.expected), reverse=True)
    usable = [found for found in each if _effect(found) is not None]
    if len(usable) < 2 or not each[0].supported:
        return each[0]
    first = usable[0]
    candidates = [found.candidate for found in usable if found.candidate is not None]
    together = candidates[0]._replace(
        effect=_together([effect for found in usable if (effect := _effect(found)) is not None]),
        text=" ".join(dict.fromkeys(each.text for each in candidates)),
        evidence=tuple(dict.fromkeys(piece for each in candidates for piece in each.evidence)),
        likelihood=min(each.likelihood for each in candidates),
    )
    made = _ClaimCandidate(together, all(found.is_backed for found in usable))
    found = _computed(first.claim, made, model, account)
    return found._replace(floor=first.floor) if found.expected >= each[0].expected else each[0]


def _effect(found: EvaluatedClaim) -> Effect | None:
    effect = found.candidate.effect if found.candidate else None
    return effect if isinstance(effect, Effect) else None


def _together(effects: Sequence[Effect]) -> Effect:
    """The combined effect; overlapping effects are not counted twice."""
    units = {name for effect in effects for name in effect.units}
    waits = {name for effect in effects for name in effect.waits}
    return Effect(
        {name: min(effect.units.get(name, 1.0) for effect in effects) for name in units},
        {name: min(effect.waits.get(name, 1.0) for effect in effects) for name in waits},
        min(effect.every_wait for effect in effects),
        min(effect.longest_sm for effect in effects),
        min(effect.least for effect in effects),
        {
            name: max(effect.moved.get(name, 0.0) for effect in effects)
            for name in {name for effect in effects for name in effect.moved}
        },
    )


def _form_problem(claim: WorkClaim) -> str | None:
    """Why a claim is not well-formed; else None."""
    if claim.finding not in findings():
        return f"{claim.finding!r} is not a finding of keet."
    kinds = findings()[claim.finding].claims
    if not kinds:
        return "A roofline is no work that could be removed."
    known = (*kinds, "cause")
    if claim.kind not in known:
        return f"{claim.finding} is claimed as {', '.join(known)}; not as {claim.kind!r}."
    if claim.needed is not None and claim.removed is not None:
        return "A claim has a needed amount or a removed share, not both."
    return None


def _has_no_amount(claim: WorkClaim) -> bool:
    """Without an amount, the claim is evaluated as keet's own candidate for the finding."""
    without = claim.needed is None and claim.removed is None
    return claim.kind == "cause" or (without and claim.kind != "precision")


class _ClaimCandidate(NamedTuple):
    """A claim converted to a candidate."""

    candidate: Candidate
    is_backed: bool
    unit: str | None = None
    kept: float = 1.0
    """Share of the unit's work that is left."""


def _from_own_candidate(
    claim: WorkClaim, view: LaunchView, model: TimeModel
) -> _ClaimCandidate | Refusal:
    own = own_candidate(claim.finding, view, model)
    if own is None:
        return Refusal("The claim has no amount, and the report shows nothing of this cause.")
    return _ClaimCandidate(
        own._replace(places=lambda: _places(claim, own.places())), is_backed=True
    )


def own_candidate(finding: str, view: LaunchView, model: TimeModel) -> Candidate | None:
    """keet's candidate for the finding with the largest gain, even if too small to report. What
    other launches make it suspect is not shown by this one."""
    made = findings()[finding].candidates(view, model)
    own = (each for each in made if each.basis != "suspected")
    return max(own, key=lambda each: possible_gain(each, model), default=None)


def _from_amount(claim: WorkClaim, view: LaunchView, model: TimeModel) -> _ClaimCandidate | Refusal:
    draft = _BY_KIND[claim.kind](claim, view, model)
    if isinstance(draft, Refusal):
        return draft
    is_computed = claim.removed is None or claim.is_derived
    is_backed = is_computed and not draft.is_doubted
    candidate = Candidate(
        claim.finding,
        draft.text,
        draft.effect,
        draft.evidence,
        lambda: _places(claim, ()),
        "assumed",
        variant=_variant(claim),
        likelihood=1.0 if is_backed else parameter("indirect"),
    )
    own = None if is_backed else own_candidate(claim.finding, view, model)
    if own is not None:
        candidate, is_backed = _beside_own(candidate, own, model)
    return _ClaimCandidate(candidate, is_backed, draft.unit, draft.kept)


def _variant(claim: WorkClaim) -> str:
    """Selects the label: see `Finding.label`."""
    if claim.kind == "redundant":
        return REDUNDANT_WORK
    is_fp64 = claim.kind == "precision" and claim.of.strip().lower() == "fp32"
    return LOWER_PRECISION if claim.finding == "low_precision_possible" and not is_fp64 else ""


def _beside_own(candidate: Candidate, own: Candidate, model: TimeModel) -> tuple[Candidate, bool]:
    """Applies doubt only to the gain beyond keet's own candidate; also says whether there is none
    beyond."""
    possible, known = possible_gain(candidate, model), possible_gain(own, model)
    expected = math.log(expected_gain(own, min(known, possible)))
    beyond = max(0.0, math.log(possible / known)) * parameter("indirect")
    plain = math.log(possible) * chance(candidate._replace(likelihood=1.0), possible)
    likelihood = min(1.0, (expected + beyond) / plain) if plain else candidate.likelihood
    return candidate._replace(likelihood=likelihood), known >= possible


def _places(claim: WorkClaim, own: tuple[Place, ...]) -> tuple[Place, ...]:
    """The model's line, then keet's."""
    if claim.place is None:
        return own
    rest = [each for each in own if (each.file, each.line) != claim.place[:2]]
    return (claim.place, *rest)


def _computed(
    claim: WorkClaim, made: _ClaimCandidate, model: TimeModel, account: Account
) -> EvaluatedClaim:
    candidate, view = made.candidate, model.view
    possible = possible_gain(candidate, model)
    after = limiter_after(model, candidate.effect)
    is_worth = possible >= parameter("worth")
    sure = certainty(
        candidate.basis, account.unknown_while_active, is_familiar=view.capability == FITTED_ON
    )
    return EvaluatedClaim(
        claim,
        supported=is_worth,
        reason=candidate.text if is_worth else _too_little(made, view, after),
        candidate=candidate,
        possible=possible,
        expected=expected_gain(candidate, possible) if is_worth else 1.0,
        forecast=forecast(candidate, model, possible, sure) if is_worth else None,
        evidence=candidate.evidence,
        floor=_floor(made, model),
        next_limiter=after,
        is_backed=made.is_backed,
    )


def _too_little(made: _ClaimCandidate, view: LaunchView, after: str | None) -> str:
    reached = view.ceilings.reached(made.unit) if made.unit else None
    busy = f" {reached.label}: {reached:.0f}." if reached is not None else ""
    pace = f": the pace is then set by {after}" if after else ""
    return f"It would save too little time to matter{pace}.{busy}"


def _floor(made: _ClaimCandidate, model: TimeModel) -> Evidence | None:
    """Time of the needed work over all SMs, at the rate that good kernels reach."""
    duration = model.view.get("duration")
    if made.unit is None or duration is None or made.unit not in model.loads:
        return None
    share = model.view.ceilings.share(made.unit)
    of_time = model.loads[made.unit] if share is None else share / attainable(made.unit)
    amount = Quantity(float(duration.value) * of_time * made.kept, duration.unit)
    name = f"claimed.floor.{made.unit}.{made.kept:.4g}"
    label = f"time of {spoken_unit(made.unit)} for the rest of its work, by the model's claim"
    return model.view.ledger.derived(name, amount, label, duration)


# --- what sets the pace afterwards


def limiter_after(model: TimeModel, effect: Effect | float) -> str | None:
    """As in a sentence; None if the gain does not depend on units and waiting."""
    if not isinstance(effect, Effect):
        return None
    loads, exposed = model.loads_after(effect), model.exposed_after(effect)
    unit = max(loads, key=lambda name: loads[name], default=None)
    load = loads[unit] if unit else 0.0
    if model.fixed > (1 - model.fixed) * max(load, exposed):
        return "starting and draining the grid"
    if unit is not None and load >= exposed:
        return "one slice of L2" if unit == HOT_LINE else spoken_unit(unit)
    return _longest_wait(model, effect)


def _longest_wait(model: TimeModel, effect: Effect) -> str:
    left = {s: share * effect.waits.get(s, 1.0) for s, share in model.waiting.items()}
    state = max(left, key=lambda name: left[name], default="")
    return f"waiting for {stalls()[state].waits_for}" if state in stalls() else "waiting"
