"""Ranks keet's findings and a model's supported claims together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.analysis.time_model import WORTH
from keet.diagnosis.claims.evaluation import EvaluatedClaim
from keet.diagnosis.diagnosis import Diagnosis
from keet.diagnosis.finding import Finding


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
    def gain(self) -> float:
        """Expected gain."""
        if self.origin == "model" and self.claim is not None:
            return self.claim.expected
        return self.finding.expected

    @property
    def is_backed(self) -> bool:
        return self.origin == "keet" or (self.claim is not None and self.claim.is_backed)

    @property
    def is_sure(self) -> bool:
        """Whether it is keet's own or backed, and expected to gain 10 %."""
        return self.is_backed and self.gain >= WORTH


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
    best: dict[str, EvaluatedClaim] = {}
    # Several claims about one finding are not added up: the best one counts, backed ones first.
    for claim in sorted(evaluated, key=lambda x: (x.is_backed, x.expected), reverse=True):
        if claim.supported:
            best.setdefault(claim.claim.finding, claim)
    every = [_refined(diagnosis, own, best.pop(own.id, None)) for own in diagnosis.findings]
    every += [RankedCause(_finding(diagnosis, claim), "model", claim) for claim in best.values()]
    causes = [cause for cause in every if cause.origin == "keet"]
    claims = [cause for cause in every if cause.origin == "model"]
    for cause in sorted(claims, key=lambda cause: (cause.is_backed, cause.gain), reverse=True):
        sure = [position for position, known in enumerate(causes) if known.is_sure]
        first = 0 if cause.is_backed or not sure else sure[-1] + 1
        behind = (n for n in range(first, len(causes)) if causes[n].gain < cause.gain)
        causes.insert(next(behind, len(causes)), cause)
    if causes and (causes[0].is_sure or diagnosis.healthy is None):
        causes[0] = causes[0]._replace(leads=True)
    return causes


def _refined(diagnosis: Diagnosis, own: Finding, claim: EvaluatedClaim | None) -> RankedCause:
    """keet's finding with the evidence of both; its advice stays keet's."""
    if claim is None:
        return RankedCause(own, "keet")
    stated = _finding(diagnosis, claim)
    is_better = claim.is_backed and claim.expected > own.expected
    kept = replace(stated, places=stated.places or own.places) if is_better else own
    joined = replace(
        kept,
        evidence=tuple(dict.fromkeys((*kept.evidence, *own.evidence, *stated.evidence))),
        here=kept.here or own.here,
        advice=own.advice,
        variant=own.variant,
    )
    return RankedCause(joined, "model" if is_better else "keet", claim)


def _finding(diagnosis: Diagnosis, claim: EvaluatedClaim) -> Finding:
    """A supported claim converted to a finding."""
    from keet.diagnosis.advice import advice_for

    candidate, view = claim.candidate, diagnosis.view
    if candidate is None or claim.forecast is None:
        raise ValueError("a claim that is not supported is no finding")
    places = candidate.places()
    finding = Finding(
        candidate.id,
        claim.cause_certainty,
        candidate.text,
        claim.forecast,
        candidate.evidence,
        places,
        candidate.variant,
        view.here(claim.claim.spec.memory, places),
        expected=claim.expected,
    )
    return replace(finding, advice=advice_for(finding, view))
