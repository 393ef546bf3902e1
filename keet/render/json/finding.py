"""Findings as JSON: their types, and how their fields are filled."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from keet.analysis.findings import Confidence, Finding, Forecast, Place
from keet.explanation.confidence import why_low
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.precedents import precedents_of
from keet.render.json.encoding.fields import Document, PartlyFilled, field


class ForecastDocument(Document):
    """How many times faster, if this finding alone were fixed."""

    low: float
    likely: float
    high: float


class PrecedentsDocument(Document):
    """Times faster in the measured cases of the same finding: `keet cases --finding ID`."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int = field(
        description="cases that look like it, where the same fix gained less than 10 %; not in "
        "`cases`"
    )


class LocationDocument(Document):
    file: str = field(description="the path that the compiler recorded")
    line: int
    share: float = field(description="0 to 1, of the whole effect, with or without a source line")
    of: str = field(description="what the share is of: `excess sectors`, `samples`")
    unplaced: float = field(description="0 to 1: how much of that effect has no source line")


class FindingDocument(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"why", "origin"})

    id: str = field(description="of the closed list in keet's catalog")
    rank: int = field(description="from 1, the largest gain first")
    confidence: Confidence
    confidence_reason: str | None = field(description="why it is low; null: it is not")
    title: str
    text: str
    action: str
    forecast: ForecastDocument | None = field(description="null: it can't be computed")
    precedents: PrecedentsDocument | None = field(description="null: no case was measured")
    locations: list[LocationDocument]
    evidence: list[str] = field(description="ids in the launch's `evidence`")
    why: str | None = field(
        default=None, description="by a model: why the code behaves so; null: it says nothing of it"
    )
    origin: Literal["keet", "model"] = field(
        default="keet", description="`model`: a model claimed it, and keet computed its forecast"
    )


def finding_fields(rank: int, finding: Finding, each: LaunchExplanation) -> dict[str, Any]:
    """Of a `FindingDocument`, in its order."""
    precedents = precedents_of(finding)
    return {
        "id": finding.id,
        "rank": rank,
        "confidence": finding.confidence,
        "confidence_reason": why_low(finding, each.view, each.account) or None,
        "title": finding.title,
        "text": finding.text,
        "action": finding.action,
        "forecast": forecast_fields(finding.forecast),
        "precedents": precedents._asdict() if precedents else None,
        "locations": [_location(place) for place in finding.places],
        "evidence": [entry.id for entry in finding.evidence],
    }


def forecast_fields(forecast: Forecast) -> dict[str, Any] | None:
    known = all(math.isfinite(bound) for bound in forecast)
    return {name: float(bound) for name, bound in forecast._asdict().items()} if known else None


def _location(place: Place) -> dict[str, Any]:
    shares = {"share": float(place.share), "unplaced": float(place.unplaced)}
    return place._asdict() | shares
