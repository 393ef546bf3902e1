"""Findings as JSON: their types, and how their fields are filled."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from keet.analysis.findings import Confidence, Finding, Forecast
from keet.explanation.analyst import LaunchExplanation
from keet.explanation.confidence import why_low
from keet.explanation.precedents import precedents_of
from keet.render.json.documents import Document, PartlyFilled


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
    lookalikes: int = Field(
        description="cases that look like it, where the same fix gained less than 10 %; not in "
        "`cases`"
    )


class LocationDocument(Document):
    file: str = Field(description="the path that the compiler recorded")
    line: int
    share: float = Field(description="0 to 1, of the whole effect, with or without a source line")
    of: str = Field(description="what the share is of: `excess sectors`, `samples`")
    unplaced: float = Field(description="0 to 1: how much of that effect has no source line")


class FindingDocument(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"why", "origin"})

    id: str = Field(description="of the closed list in keet's catalog")
    rank: int = Field(description="from 1, the largest gain first")
    confidence: Confidence
    confidence_reason: str | None = Field(description="why it is low; null: it is not")
    title: str
    text: str
    action: str
    forecast: ForecastDocument | None = Field(description="null: it can't be computed")
    precedents: PrecedentsDocument | None = Field(description="null: no case was measured")
    locations: list[LocationDocument]
    evidence: list[str] = Field(description="ids in the launch's `evidence`")
    why: str | None = Field(
        None, description="by a model: why the code behaves so; null: it says nothing of it"
    )
    origin: Literal["keet", "model"] = Field(
        "keet", description="`model`: a model claimed it, and keet computed its forecast"
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
        "locations": [place._asdict() for place in finding.places],
        "evidence": [entry.id for entry in finding.evidence],
    }


def forecast_fields(forecast: Forecast) -> dict[str, Any] | None:
    known = all(math.isfinite(bound) for bound in forecast)
    return forecast._asdict() if known else None
