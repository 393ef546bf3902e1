"""Evaluates a model's claims about a launch with keet's own time model.

A model that reads the source can know what counters do not show: how many bytes are needed, which
work is redundant, which precision suffices. It states that as a `WorkClaim`; keet checks it against
the account and computes the floor, the next limiter and the forecast. One module per kind of claim
(`byte_claims`, ...); `evaluation` calls them, `contradictions` refutes, `ranking` merges.
"""

from __future__ import annotations

from keet.diagnosis.claims.claim import (
    Contradiction,
    EvaluatedClaim,
    RankedCause,
    WorkClaim,
)
from keet.diagnosis.claims.contradictions import check_cause
from keet.diagnosis.claims.evaluation import evaluate_claim, evaluate_claims
from keet.diagnosis.claims.ranking import rank_with_claims

__all__ = [
    "Contradiction",
    "EvaluatedClaim",
    "RankedCause",
    "WorkClaim",
    "check_cause",
    "evaluate_claim",
    "evaluate_claims",
    "rank_with_claims",
]
