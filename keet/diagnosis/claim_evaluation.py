"""Evaluates a model's claims about a launch with keet's own time model, and ranks keet's findings
and the supported claims together.

A model that reads the source can know what counters do not show: how many bytes are needed, which
work is redundant, which precision suffices. It states that as a `WorkClaim`; keet checks it against
the account and computes the floor, the next limiter and the forecast. The function of each kind of
claim is called, and the finding's `absent` refutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.analysis.account import Account
from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, Candidate
from keet.analysis.hardware.ceilings import spoken_unit
from keet.analysis.parallelism.resident_warps import QUEUES, chain_share
from keet.analysis.time_model import (
    ASLEEP,
    INDIRECT,
    WORTH,
    Effect,
    TimeModel,
    attainable,
    joined,
    spoken_load,
)
from keet.catalog import stalls
from keet.diagnosis.claim import ClaimEffect, Refused, WorkClaim
from keet.diagnosis.diagnosis import (
    Diagnosis,
    cause_certainty,
    chance,
    expected_gain,
    forecast,
    possible_gain,
)
from keet.diagnosis.finding import LOWER_PRECISION, REDUNDANT_WORK, Finding
from keet.diagnosis.work_claims import (
    byte_claim,
    instruction_claim,
    launch_claim,
    parallelism_claim,
    precision_claim,
    redundant_claim,
    waiting_claim,
)
from keet.documents.document import live
from keet.documents.finding import CauseCertainty, Forecast, Place
from keet.documents.model_explanation import ClaimDocument, UnusedClaimDocument
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, ClaimKind, findings
from keet.units import Quantity

_BY_KIND: Mapping[str, Callable[[WorkClaim, TimeModel], ClaimEffect]] = {
    "bytes": byte_claim,
    "instructions": instruction_claim,
    "precision": precision_claim,
    "waiting": waiting_claim,
    "redundant": redundant_claim,
    "parallelism": parallelism_claim,
    "launches": launch_claim,
}


class EvaluatedClaim(ClaimDocument):
    """A claim and what keet computed for it."""

    reason: Sentence
    gain: float | None = None
    forecast: Forecast | None = None
    next_limiter: str | None = None
    """As in a sentence: `the LSU pipe`, `waiting for ...`."""
    floor: Quantity | None = None
    """At the unit's attainable rate; None if the claim is not about a unit's work, or the report
    has no duration."""
    claim: WorkClaim = live()
    candidate: Candidate | None = live(default=None)
    """None if nothing could be computed."""
    expected: float = live(default=1.0)
    """Expected gain, as for findings; used for ranking. 1.0 if not supported."""
    evidence: tuple[Evidence, ...] = live(default=())
    least_time: Evidence | None = live(default=None)
    """The `floor`."""
    is_backed: bool = live(default=False)
    """Whether it is based on a computed amount that nothing contradicts, or on keet's own candidate
    for the finding; False for a share that is a bare number."""
    unused: tuple[EvaluatedClaim, ...] = live(default=())
    """Of several claims about one cause, those that were refused."""
    cause_certainty: CauseCertainty = live(default="possible")
    """Never high: the amount is the model's."""

    @property
    def possible(self) -> float:
        """Times faster if the claim is true; 1.0 where nothing could be computed."""
        return self.gain or 1.0

    @property
    def has_backed_amount(self) -> bool:
        return self.is_backed and self.amounts_by == "model"

    @property
    def rests_on_model(self) -> bool:
        """Whether nothing but the model's amounts shows the cause."""
        alone = self.keet_alone
        return self.amounts_by == "model" and (alone is None or alone.likely < WORTH)


def unused_document(claim: EvaluatedClaim) -> UnusedClaimDocument:
    ids = tuple(piece.id for piece in claim.evidence)
    return UnusedClaimDocument(claim=claim.claim.written, reason=claim.reason, evidence=ids)


def check_cause(finding: str, model: TimeModel) -> Absence | None:
    """Why the report shows that the cause is absent. None: it shows the cause, or does not say."""
    return findings()[finding].absent(model.view, model)


def own_candidate(finding: str, model: TimeModel) -> Candidate | None:
    """keet's candidate for the finding with the largest gain, even if too small to report. What
    other launches make it suspect is not shown by this one."""
    made = findings()[finding].proposed(model.view, model)
    proposed = (candidate for candidate in made if candidate.basis != "suspected")
    return max(proposed, key=lambda candidate: possible_gain(candidate, model), default=None)


def keet_alone(finding: str, model: TimeModel, account: Account) -> Forecast | None:
    """keet's own forecast for a finding; None if the report shows nothing of it."""
    candidate = own_candidate(finding, model)
    if candidate is None:
        return None
    return forecast(candidate, model, possible_gain(candidate, model), account.unknown_while_active)


def evaluate_claim(claim: WorkClaim, model: TimeModel, account: Account) -> EvaluatedClaim:
    """Floor, next limiter and forecast. A claim is supported if

    - the report does not show that its finding is absent (`check_cause`),
    - the work or waiting that it names was measured, and is more than what it says is needed,
    - the needed amount is not surely too small (less than a byte per warp, or than what is stored),
    - by the time model, the launch gains enough to matter if the claim is true.

    What bounds a false claim: all other units keep their work and other waits stay, so that a gain
    is never more than what the launch's next limiter and its warps in flight allow
    (`least_time`); no share counts for more than keet expects of any fix. A bare share counts half
    (in logarithms) as far as it goes beyond keet's own candidate for the finding, and so does an
    amount of bytes below those that the kernel stores, where a fix may store less.
    """
    try:
        _check_form(claim)
        if absent := check_cause(claim.finding, model):
            reason, evidence = absent
            return EvaluatedClaim(claim=claim, supported=False, reason=reason, evidence=evidence)
        # Without an amount, the claim is evaluated as keet's own candidate for the finding.
        has_amount = claim.needed is not None or claim.removed is not None
        if claim.kind == "precision" or (has_amount and claim.kind != "cause"):
            return _from_amount(claim, model, account)
        candidate = own_candidate(claim.finding, model)
        if candidate is None:
            raise Refused("The claim has no amount, and the report shows nothing of this cause.")
        placed = candidate._replace(places=lambda: _places(claim, candidate.places()))
        return _computed(claim, placed, model, account, is_backed=True, amounts_by="keet")
    except Refused as why:
        reason, evidence = why.reason, why.evidence
        return EvaluatedClaim(claim=claim, supported=False, reason=reason, evidence=evidence)


def evaluate_claims(
    claims: Sequence[WorkClaim], model: TimeModel, account: Account
) -> EvaluatedClaim:
    """Evaluates several claims about one cause together: bytes that are not read from DRAM do not
    pass L2 either, and a removed barrier also removes its accesses to shared memory. Claims that
    are refused alone are left out: they are the result's `unused`."""
    alone = [evaluate_claim(claim, model, account) for claim in claims]
    unused = tuple(claim for claim in alone if claim.candidate is None)
    alone.sort(key=lambda x: (x.supported, x.candidate is not None, x.expected), reverse=True)
    alone[0] = replace(alone[0], unused=unused)
    usable = [
        (claim, claim.candidate, effect)
        for claim in alone
        if claim.candidate and isinstance(effect := claim.candidate.effect, Effect)
    ]
    if len(usable) < 2 or not alone[0].supported:
        return alone[0]
    candidates, effects = [entry[1] for entry in usable], [entry[2] for entry in usable]

    def largest(of: Callable[[Effect], Mapping[str, float]]) -> dict[str, float]:
        names = dict.fromkeys(name for effect in effects for name in of(effect))
        return {name: min(of(effect).get(name, 1.0) for effect in effects) for name in names}

    together = Effect(  # overlapping effects are not counted twice
        largest(lambda effect: effect.units),
        largest(lambda effect: effect.waits),
        min(effect.every_wait for effect in effects),
        min(effect.longest_sm for effect in effects),
        moved=joined(effects).moved,
    )
    kinds = {claim.claim.kind for claim, *_ in usable}
    least = 0.0 if "parallelism" in kinds else least_time(model, together, kinds)
    combined = candidates[0]._replace(
        effect=together._replace(least=least),
        text=Sentence(" ").join(dict.fromkeys(candidate.text for candidate in candidates)),
        evidence=tuple(dict.fromkeys(e for candidate in candidates for e in candidate.evidence)),
        likelihood=min(candidate.likelihood for candidate in candidates),
    )
    first, is_backed = usable[0][0], all(claim.is_backed for claim, *_ in usable)
    result = _computed(first.claim, combined, model, account, is_backed=is_backed)
    if result.expected < alone[0].expected:
        return alone[0]
    return replace(result, floor=first.floor, least_time=first.least_time, unused=unused)


def _check_form(claim: WorkClaim) -> None:
    if claim.problem:
        raise Refused("It could not be read: {problem}.", problem=claim.problem)
    if claim.finding not in findings():
        raise Refused("{finding} is not a finding of keet.", finding=repr(claim.finding))
    if not claim.spec.claims:
        raise Refused("A roofline is no work that could be removed.")
    kinds = (*claim.spec.claims, "cause")
    if claim.kind not in kinds:
        text, names = "{finding} is claimed as {kinds}; not as {kind}.", ", ".join(kinds)
        raise Refused(text, finding=claim.finding, kinds=names, kind=repr(claim.kind))
    if claim.needed is not None and claim.removed is not None:
        raise Refused("A claim has a needed amount or a removed share, not both.")


def _from_amount(claim: WorkClaim, model: TimeModel, account: Account) -> EvaluatedClaim:
    stated = _BY_KIND[claim.kind](claim, model)
    if isinstance(stated.effect, Effect) and claim.kind != "parallelism":
        least = max(stated.effect.least, least_time(model, stated.effect, {claim.kind}))
        stated = stated._replace(effect=stated.effect._replace(least=least))
    is_fp64 = claim.kind == "precision" and claim.of.strip().lower() == "fp32"
    variant = LOWER_PRECISION if LOWER_PRECISION in claim.spec.labels and not is_fp64 else ""
    candidate = Candidate(
        stated.text,
        stated.effect,
        stated.evidence,
        lambda: _places(claim, ()),
        basis="assumed",
        variant=REDUNDANT_WORK if claim.kind == "redundant" else variant,
        id=claim.finding,
    )
    is_backed = (claim.kind == "precision" or claim.is_derived) and not stated.is_doubted
    if not is_backed:
        likelihood, keets = float(INDIRECT), own_candidate(claim.finding, model)
        if keets is not None:  # doubt applies only to what is beyond it
            possible, keet_gain = (possible_gain(x, model) for x in (candidate, keets))
            is_backed = keet_gain >= possible
            expected = math.log(expected_gain(keets, min(keet_gain, possible)))
            beyond = max(0.0, math.log(possible / keet_gain)) * INDIRECT
            plain = math.log(possible) * chance(candidate, possible)
            likelihood = min(1.0, (expected + beyond) / plain) if plain else likelihood
        candidate = candidate._replace(likelihood=likelihood)
    return _computed(claim, candidate, model, account, is_backed=is_backed, stated=stated)


_PER_INSTRUCTION = ("selected", "wait", "branch_resolving", "no_instruction")


def least_time(model: TimeModel, effect: Effect, kinds: set[ClaimKind]) -> float:
    """The least time after a fix, as a share of today's, that the warps in flight allow: what each
    of them takes from one instruction to the next in states that the fix does not shorten, and the
    code outside of loops once. Queues count as gone, so that it is a lower bound. 0 if the report
    has no warp states."""
    left, issued = 0.0, effect.units.get("issue", 1.0)
    relieved = min(effect.units.values(), default=1.0)
    for state, share in model.view.stalls.items():
        kept = effect.waits.get(state, 1.0)
        if effect.units and state in (*QUEUES, "drain"):
            continue
        if effect.units and state in effect.waits and state in (*MEMORY_WAITS, *MIO_WAITS):
            kept = min(kept, relieved)  # a busy unit makes its answers late
        if state in _PER_INSTRUCTION:
            kept = min(kept, issued)
        left += share * kept * (1.0 if state == ASLEEP else effect.every_wait)
    # Less waiting shortens that code too.
    return left if kinds == {"waiting"} else max(left, chain_share(model.view))


def _places(claim: WorkClaim, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The model's line, then keet's."""
    if claim.place is None:
        return places
    return (claim.place, *(place for place in places if place.at != claim.place.at))


def _computed(  # noqa: PLR0913 - a claim as a candidate, and of what
    claim: WorkClaim,
    candidate: Candidate,
    model: TimeModel,
    account: Account,
    *,
    is_backed: bool,
    amounts_by: Literal["keet", "model"] = "model",
    stated: ClaimEffect | None = None,
) -> EvaluatedClaim:
    view, unit = model.view, stated.unit if stated else None
    possible = possible_gain(candidate, model)
    after = limiter_after(model, candidate.effect)
    least, duration = None, view.get("duration")
    if stated is not None and unit in model.loads and duration is not None:
        # Time of the needed work over all SMs, at the rate that good kernels reach.
        share = view.ceilings.share(unit)
        of_time = model.loads[unit] if share is None else share / attainable(unit)
        amount = Quantity(float(duration.value) * of_time * stated.kept, duration.unit)
        name = f"claimed.floor.{unit}.{stated.kept:.4g}"
        label = f"time of {spoken_unit(unit)} for the rest of its work, by the model's claim"
        least = view.derived(name, amount, label, duration)
    result = EvaluatedClaim(
        claim=claim,
        supported=possible >= WORTH,
        reason=candidate.text,
        candidate=candidate,
        gain=possible,
        evidence=candidate.evidence,
        floor=least and Quantity(least.value, least.unit),
        least_time=least,
        next_limiter=after,
        is_backed=is_backed,
        amounts_by=amounts_by,
        keet_alone=keet_alone(claim.finding, model, account),
    )
    if not result.supported:
        pace = f": the pace is then set by {after}" if after else ""
        reached = view.ceilings.reached(unit) if unit else None
        busy = reached and Sentence(" {label}: {n:.0f}.", label=reached.label, n=reached)
        text = "It would save too little time to matter{pace}.{busy}"
        return replace(result, reason=Sentence(text, pace=pace, busy=busy or ""))
    unknown = account.unknown_while_active
    expected = expected_gain(candidate, possible)
    gain = forecast(candidate, model, possible, unknown)
    certainty = cause_certainty(candidate, view, unknown, expected, gain.low)
    return replace(
        result,
        expected=expected,
        forecast=gain,
        cause_certainty="possible" if result.rests_on_model else certainty,
    )


def limiter_after(model: TimeModel, effect: Effect | float) -> str | None:
    """What sets the pace after a fix, as in a sentence; None if the gain does not depend on units
    and waiting."""
    if not isinstance(effect, Effect):
        return None
    loads, exposed = model.loads_after(effect), model.exposed_after(effect)
    unit = max(loads, key=lambda name: loads[name], default=None)
    load = loads[unit] if unit else 0.0
    if model.fixed > (1 - model.fixed) * max(load, exposed):
        return "starting and draining the grid"
    if effect.least > model.time(effect._replace(least=0.0)):
        return "the latency that its warps in flight do not hide"
    if unit is not None and load >= exposed:
        return spoken_load(unit)
    left = {state: part * effect.waits.get(state, 1.0) for state, part in model.waiting.items()}
    state = max(left, key=lambda name: left[name], default="")
    return f"waiting for {stalls()[state].waits_for}" if state in stalls() else "waiting"


class RankedCause(NamedTuple):
    """A finding of keet, or a claim converted to one."""

    finding: Finding
    origin: Literal["keet", "model"]
    """`model`: a claim that keet has no finding for, or whose forecast replaces keet's."""
    claim: EvaluatedClaim | None = None
    """Also set if a claim agrees with a finding of keet (`origin` is `keet`)."""
    leads: bool = False
    """Whether it is the headline. At most the first of a ranking; if none leads, keet's roofline
    does."""

    @property
    def is_backed(self) -> bool:
        return self.origin == "keet" or (self.claim is not None and self.claim.is_backed)

    @property
    def is_sure(self) -> bool:
        """Whether it is keet's own or backed, and expected to gain 10 %."""
        return self.is_backed and self.finding.expected >= WORTH


def rank_with_claims(
    diagnosis: Diagnosis, evaluated: Sequence[EvaluatedClaim]
) -> list[RankedCause]:
    """By expected gain. Claims that are not supported are left out.

    The first leads, with one exception: a claim that is not backed (a share that is a bare number,
    or an amount that keet doubts) stands behind all that is expected to gain a tenth and is keet's
    or backed, and does not lead where keet sees the launch at a roofline. A claim of which the
    report shows nothing but the model's amounts stands behind findings whose cause is certain.

    A claim with the id of a finding is not listed beside it. It replaces the finding's forecast
    where it is backed and expected to gain more, and else only adds its evidence: no claim moves
    one of keet's findings down by agreeing with it. keet's findings are all kept, in their order.
    """
    best: dict[str, EvaluatedClaim] = {}
    # Several claims about one finding are not added up: the best one counts, backed ones first.
    for claim in sorted(evaluated, key=lambda x: (x.is_backed, x.expected), reverse=True):
        if claim.supported:
            best.setdefault(claim.claim.finding, claim)
    every = [_refined(diagnosis, own, best.pop(own.id, None)) for own in diagnosis.findings]
    every += [RankedCause(_finding(diagnosis, claim), "model", claim) for claim in best.values()]
    causes = [cause for cause in every if cause.origin == "keet"]
    claims = [cause for cause in every if cause.origin == "model"]
    claims.sort(key=lambda cause: (cause.is_backed, cause.finding.expected), reverse=True)
    for cause in claims:
        sure = [position for position, ranked in enumerate(causes) if ranked.is_sure]
        first = 0 if cause.is_backed or not sure else sure[-1] + 1
        if cause.claim and cause.claim.rests_on_model:
            certain = (n for n in sure if causes[n].finding.cause_certainty == "certain")
            first = max([first, *(n + 1 for n in certain)])
        gain = cause.finding.expected
        behind = (n for n in range(first, len(causes)) if causes[n].finding.expected < gain)
        causes.insert(next(behind, len(causes)), cause)
    if causes and (causes[0].is_sure or diagnosis.healthy is None):
        causes[0] = causes[0]._replace(leads=True)
    return causes


def _refined(diagnosis: Diagnosis, finding: Finding, claim: EvaluatedClaim | None) -> RankedCause:
    """keet's finding with the evidence of both; its advice stays keet's."""
    if claim is None:
        return RankedCause(finding, "keet")
    stated = _finding(diagnosis, claim)
    is_better = claim.is_backed and claim.expected > finding.expected
    places = stated.locations or finding.locations
    kept = replace(stated, locations=places) if is_better else finding
    both = replace(
        kept,
        evidence=tuple(dict.fromkeys((*kept.evidence, *finding.evidence, *stated.evidence))),
        here=kept.here or finding.here,
        advice=finding.advice,
        variant=finding.variant,
        keet_alone=finding.forecast if kept.amounts_by == "model" else None,
    )
    return RankedCause(both, "model" if is_better else "keet", claim)


def _finding(diagnosis: Diagnosis, claim: EvaluatedClaim) -> Finding:
    """A supported claim converted to a finding."""
    from keet.diagnosis.advice import advice_for

    candidate, view = claim.candidate, diagnosis.view
    if candidate is None or claim.forecast is None:
        raise ValueError("a claim that is not supported is no finding")
    places = candidate.places()
    finding = Finding(
        id=candidate.id,
        cause_certainty=claim.cause_certainty,
        text=candidate.text,
        forecast=claim.forecast,
        evidence=candidate.evidence,
        locations=places,
        variant=candidate.variant,
        here=view.here(claim.claim.spec.memory, places),
        expected=claim.expected,
        amounts_by=claim.amounts_by,
        keet_alone=claim.keet_alone if claim.amounts_by == "model" else None,
    )
    return replace(finding, advice=advice_for(finding, view))
