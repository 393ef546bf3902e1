"""Findings as JSON: their types, and the code that fills them."""

from __future__ import annotations

import math
from typing import Any

from keet.analysis.place import Place
from keet.diagnosis.finding import Finding, Forecast
from keet.documents.finding import (
    FindingDocument,
    ForecastDocument,
    LocationDocument,
    MinorDocument,
    NearestDocument,
    PrecedentsDocument,
)
from keet.explanation.certainty import why_only_possible
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.precedents import nearest_case, precedents_of


def finding_document(
    rank: int, finding: Finding, each: LaunchExplanation, **by_model: Any
) -> FindingDocument:
    precedents = precedents_of(finding)
    reason = why_only_possible(finding, each.view, each.account) or None
    return FindingDocument(
        id=finding.id,
        rank=rank,
        cause_certainty=finding.cause_certainty,
        certainty_reason=reason,
        confidence=finding.confidence,
        confidence_reason=reason,
        title=finding.title,
        text=finding.text,
        action=finding.action,
        forecast=forecast_document(finding.forecast),
        precedents=PrecedentsDocument.taken_from(precedents) if precedents else None,
        nearest_case=_nearest(finding, each),
        locations=[_location(place) for place in finding.places],
        evidence=list(finding.evidence),
        **by_model,
    )


def _nearest(finding: Finding, each: LaunchExplanation) -> NearestDocument | None:
    case = nearest_case(finding, each)
    if case is None:
        return None
    return NearestDocument(
        id=case.id,
        archetype=case.archetype,
        language=case.language,  # type: ignore[arg-type]
        gain=case.gain,
        changes=list(case.changes),
    )


def minor_document(finding: Finding) -> MinorDocument:
    return MinorDocument(
        id=finding.id,
        cause_certainty=finding.cause_certainty,
        title=finding.title,
        text=finding.text,
        forecast=forecast_document(finding.forecast),
        evidence=list(finding.evidence),
    )


def forecast_document(forecast: Forecast) -> ForecastDocument | None:
    known = all(math.isfinite(bound) for bound in forecast)
    return ForecastDocument.taken_from(forecast) if known else None


def _location(place: Place) -> LocationDocument:
    return LocationDocument.taken_from(place)
