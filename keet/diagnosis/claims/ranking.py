"""Ranks keet's findings and a model's supported claims together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.analysis.kernel.debug_build import is_debug_build
from keet.analysis.parameters import parameter
from keet.diagnosis.claims.claim import EvaluatedClaim, RankedCause
from keet.diagnosis.diagnosis import FITTED_ON, Diagnosis
from keet.diagnosis.finding import Finding
from keet.diagnosis.forecast import certainty, chance
from keet.evidence import Confidence
from keet.findings import findings
from keet.records import replace


def rank_with_claims(
    diagnosis: Diagnosis, evaluated: Sequence[EvaluatedClaim]
) -> list[RankedCause]:
    """By expected gain. Claims that are not supported are left out.

    The first leads, with one exception: a claim that is not backed (a share that is a bare number,
    or an amount that keet doubts) stands behind all that is expected to gain a tenth and is keet's
    or backed, and does not lead where keet sees the launch at a roofline.

    A claim with the id of a finding is not listed beside it. It replaces the finding's forecast
    where it is backed and expected to gain more, and else only adds its evidence: no claim moves
    one of keet's findings down by agreeing with it. keet's findings are all kept, in their order.
    """
    best = _best_by_finding(each for each in evaluated if each.supported)
    told = [_refined(diagnosis, f, best.pop(f.id, None)) for f in diagnosis.findings]
    causes = [cause for cause in told if cause.origin == "keet"]
    claims = [cause for cause in told if cause.origin == "model"]
    claims += [RankedCause(finding_of(diagnosis, each), "model", each) for each in best.values()]
    for cause in sorted(claims, key=_order, reverse=True):
        causes.insert(_position(causes, cause), cause)
    if causes and (_is_sure(causes[0]) or diagnosis.healthy is None):
        causes[0] = causes[0]._replace(leads=True)
    return causes


def _best_by_finding(claims: Iterable[EvaluatedClaim]) -> dict[str, EvaluatedClaim]:
    """One claim per finding, backed ones first: several claims about one finding are not added
    up."""
    best: dict[str, EvaluatedClaim] = {}
    for each in sorted(claims, key=lambda each: (each.is_backed, each.expected), reverse=True):
        best.setdefault(each.claim.finding, each)
    return best


def _order(cause: RankedCause) -> tuple[bool, float]:
    """Sort key of claims: backed ones first, then by gain."""
    return cause.claim is not None and cause.claim.is_backed, _gain(cause)


def _gain(cause: RankedCause) -> float:
    if cause.origin == "model" and cause.claim is not None:
        return cause.claim.expected
    return cause.finding.forecast.likely


def _position(causes: Sequence[RankedCause], new: RankedCause) -> int:
    """Position of a claim: before the first entry with a smaller expected gain; if not backed,
    after all certain ones."""
    is_backed, gain = _order(new)
    sure = [n for n, cause in enumerate(causes) if _is_sure(cause)]
    first = 0 if is_backed or not sure else sure[-1] + 1
    behind = (n for n in range(first, len(causes)) if _gain(causes[n]) < gain)
    return next(behind, len(causes))


def _is_sure(cause: RankedCause) -> bool:
    """Whether it is keet's own or backed, and expected to gain 10 %."""
    backed = cause.origin == "keet" or (cause.claim is not None and cause.claim.is_backed)
    return backed and _gain(cause) >= parameter("worth")


# --- findings


def _refined(diagnosis: Diagnosis, finding: Finding, claim: EvaluatedClaim | None) -> RankedCause:
    if claim is None:
        return RankedCause(finding, "keet")
    told = finding_of(diagnosis, claim)
    if claim.is_backed and round(claim.expected, 2) > finding.forecast.likely:
        places = told.places or finding.places
        return RankedCause(_joined(told, finding, replace(told, places=places)), "model", claim)
    return RankedCause(_joined(told, finding, finding), "keet", claim)


def _joined(told: Finding, own: Finding, kept: Finding) -> Finding:
    """The finding with the evidence of both; the advice stays keet's."""
    evidence = tuple(dict.fromkeys((*kept.evidence, *own.evidence, *told.evidence)))
    here = kept.here or own.here
    return replace(kept, evidence=evidence, here=here, advice=own.advice, variant=own.variant)


def finding_of(diagnosis: Diagnosis, claim: EvaluatedClaim) -> Finding:
    """A supported claim converted to a finding."""
    from keet.diagnosis.advice import advice_for

    candidate, view = claim.candidate, diagnosis.view
    if candidate is None or claim.forecast is None:
        raise ValueError("a claim that is not supported is no finding")
    places = candidate.places()
    finding = Finding(
        candidate.id,
        _confidence(diagnosis, claim),
        candidate.text,
        claim.forecast,
        candidate.evidence,
        places,
        candidate.variant,
        view.here(findings()[candidate.id].memory, places),
    )
    return replace(finding, advice=advice_for(finding, view))


def _confidence(diagnosis: Diagnosis, claim: EvaluatedClaim) -> Confidence:
    """Never high: the amount is the model's."""
    candidate, view = claim.candidate, diagnosis.view
    if candidate is None or is_debug_build(view) or not view.ceilings.ranked:
        return "low"
    is_familiar = view.capability == FITTED_ON
    unknown = diagnosis.account.unknown_while_active
    sure = certainty(candidate.basis, unknown, is_familiar=is_familiar)
    return "medium" if sure * chance(candidate, claim.possible) >= 0.45 else "low"
