"""Findings as JSON: their types, and the code that fills them."""

from __future__ import annotations

import math
from typing import Any

from keet.analysis.place import Place
from keet.diagnosis.finding import Finding, Forecast
from keet.explanation.certainty import why_only_possible
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.precedents import nearest_case, precedents_of

CERTAINTIES = (
    "`certain`: a counter that only this cause moves shows it. `likely`: the account points at it, "
    "and one assumption is needed. `possible`: it needs a fact that the report lacks."
)


def finding_fields(rank: int, finding: Finding, each: LaunchExplanation) -> dict[str, Any]:
    """The fields of a `FindingDocument`, in the order of its declaration."""
    precedents = precedents_of(finding)
    reason = why_only_possible(finding, each.view, each.account) or None
    return {
        "id": finding.id,
        "rank": rank,
        "cause_certainty": finding.cause_certainty,
        "certainty_reason": reason,
        "confidence": finding.confidence,
        "confidence_reason": reason,
        "title": finding.title,
        "text": finding.text,
        "action": finding.action,
        "forecast": forecast_fields(finding.forecast),
        "precedents": precedents._asdict() if precedents else None,
        "nearest_case": _nearest(finding, each),
        "locations": [_location(place) for place in finding.places],
        "evidence": [entry.id for entry in finding.evidence],
    }


def _nearest(finding: Finding, each: LaunchExplanation) -> dict[str, Any] | None:
    case = nearest_case(finding, each)
    if case is None:
        return None
    return {
        "id": case.id,
        "archetype": case.archetype,
        "language": case.language,
        "gain": case.gain,
        "changes": list(case.changes),
    }


def minor_fields(finding: Finding) -> dict[str, Any]:
    """The fields of a `MinorDocument`, in the order of its declaration."""
    return {
        "id": finding.id,
        "cause_certainty": finding.cause_certainty,
        "title": finding.title,
        "text": finding.text,
        "forecast": forecast_fields(finding.forecast),
        "evidence": [entry.id for entry in finding.evidence],
    }


def forecast_fields(forecast: Forecast) -> dict[str, Any] | None:
    known = all(math.isfinite(bound) for bound in forecast)
    return {name: float(bound) for name, bound in forecast._asdict().items()} if known else None


def _location(place: Place) -> dict[str, Any]:
    shares = {"share": float(place.share), "unplaced": float(place.unplaced)}
    return place._asdict() | shares
