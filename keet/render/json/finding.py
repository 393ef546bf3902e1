"""Findings as JSON: their types, and the code that fills them."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from keet.analysis.place import Place
from keet.diagnosis.finding import CauseCertainty, Finding, Forecast
from keet.evidence import Confidence
from keet.explanation.certainty import why_only_possible
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.precedents import nearest_case, precedents_of
from keet.render.json.encoding.fields import Document, PartlyFilled, field
from keet.render.json.shared_types import FindingId


class ForecastDocument(Document):
    """Forecast: how many times faster the launch would be if only this finding were fixed."""

    low: float
    likely: float
    high: float


class PrecedentsDocument(Document):
    """How many times faster measured cases of this finding became: `keet cases --finding ID`."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int = field(
        description="Cases with the same symptom where the fix gained less than 10 %; not counted "
        "in `cases`."
    )


class NearestDocument(Document):
    """The measured case that is most like the launch: `keet cases ID` shows it in full."""

    id: str
    archetype: str = field(description="The kind of algorithm.")
    language: Literal["cuda", "triton"]
    gain: float = field(description="Times faster.")
    changes: list[str] = field(description="Two or three lines of its diff.")


class LocationDocument(Document):
    file: str = field(description="The path that the compiler recorded.")
    line: int
    share: float = field(
        description="Share of the whole effect, including the part without a source line, 0 to 1."
    )
    of: str = field(description="What the share is of, for example `excess sectors` or `samples`.")
    unplaced: float = field(description="Share of that effect without a source line, 0 to 1.")


CERTAINTIES = (
    "`certain`: a counter that only this cause moves shows it. `likely`: the account points at it, "
    "and one assumption is needed. `possible`: it needs a fact that the report lacks."
)


class MinorDocument(Document):
    """A cause that is not expected to gain 10 %."""

    id: FindingId
    cause_certainty: CauseCertainty = field(description=CERTAINTIES)
    title: str
    text: str
    forecast: ForecastDocument | None = field(
        description="If the cause is there. Null if it cannot be computed."
    )
    evidence: list[str] = field(description="Ids in the launch's `evidence`.")


class FindingDocument(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"why", "origin"})

    id: FindingId
    rank: int = field(description="Starts at 1; the largest gain comes first.")
    cause_certainty: CauseCertainty = field(description=CERTAINTIES)
    certainty_reason: str | None = field(
        description="Why the cause is only possible; null if it is likely or certain."
    )
    confidence: Confidence = field(
        description="`cause_certainty` in the words of earlier versions; it will be left out."
    )
    confidence_reason: str | None = field(description="The same as `certainty_reason`.")
    title: str
    text: str
    action: str
    forecast: ForecastDocument | None = field(description="Null if it cannot be computed.")
    precedents: PrecedentsDocument | None = field(description="Null if no case was measured.")
    nearest_case: NearestDocument | None = field(
        description="Of the first finding; null for others, and if no case was measured."
    )
    locations: list[LocationDocument]
    evidence: list[str] = field(description="Ids in the launch's `evidence`.")
    why: str | None = field(
        default=None,
        description="A model's explanation of why the code behaves this way; null if it has none.",
    )
    origin: Literal["keet", "model"] = field(
        default="keet", description="`model` if a model claimed it and keet computed its forecast."
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
