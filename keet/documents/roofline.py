"""`keet roofline --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import (
    EvidenceId,
    JsonQuantity,
    LaunchResult,
    NumbersById,
    ReportResult,
    Skipped,
)
from keet.evidence import Evidence


class BusiestDocument(Document):
    part: str
    busy_pct: float
    evidence: EvidenceId


class CeilingDocument(Document):
    id: str
    """For example `fp32`, `tensor_bf16` or `dram`."""
    label: str
    kind: Literal["compute", "memory"]
    reached_pct: float
    """Per cent of the peak."""
    achieved: JsonQuantity | None
    """Null if only the percentage was measured."""
    peak: JsonQuantity | None
    source: str
    """Where the peak comes from: the report or keet's catalog."""
    busiest: BusiestDocument | None
    """A stage or pipe that is busier than the count of bytes or operations shows."""
    evidence: tuple[EvidenceId, ...]

    @property
    def reached(self) -> Evidence:
        """`reached_pct`."""
        return self.evidence[0]

    @property
    def share(self) -> float:
        """Share of the peak, from 0: counters of two passes can give slightly negative values."""
        return max(0.0, self.reached_pct / 100)


class IntensityDocument(Document):
    arithmetic: str
    """Id of the compute ceiling."""
    level: str
    """Id of the memory ceiling."""
    value: float
    """Operations per byte."""
    ridge: float
    """Operations per byte above which arithmetic is the limit."""
    attainable: JsonQuantity
    """The lower of the two ceilings at this intensity."""
    attained_pct: float
    """Per cent of `attainable` that was achieved."""
    evidence: tuple[EvidenceId, ...]
    """Of `value`, `ridge` and `attainable`."""


class RooflineLaunch(LaunchResult):
    duration: JsonQuantity | None
    sm_clock: JsonQuantity | None
    nearest: tuple[str, ...]
    """Ids of the nearest ceilings; several if they tie."""
    lead: str | None
    """Id of the nearest compute ceiling."""
    ceilings: tuple[CeilingDocument, ...]
    intensities: tuple[IntensityDocument, ...]
    uncounted: BusiestDocument | None
    """The busiest unit whose work is neither operations nor bytes."""
    reading: str
    notes: list[str]
    skipped: list[Skipped]
    evidence: NumbersById

    def ceiling(self, ceiling_id: str) -> CeilingDocument:
        return next(ceiling for ceiling in self.ceilings if ceiling.id == ceiling_id)

    @property
    def nearest_ceilings(self) -> tuple[CeilingDocument, ...]:
        return tuple(map(self.ceiling, self.nearest))

    @property
    def lead_ceiling(self) -> CeilingDocument | None:
        """None if nothing was computed."""
        return None if self.lead is None else self.ceiling(self.lead)

    def of_kind(self, kind: str) -> tuple[CeilingDocument, ...]:
        return tuple(ceiling for ceiling in self.ceilings if ceiling.kind == kind)

    def lead_intensities(self) -> tuple[IntensityDocument, ...]:
        return tuple(
            intensity for intensity in self.intensities if intensity.arithmetic == self.lead
        )

    def lacks(self, ceiling_id: str) -> bool:
        """Whether `skipped` says why this ceiling is not known."""
        return any(each.check == ceiling_id for each in self.skipped)


class RooflineDocument(ReportResult):
    """`keet roofline --format json`"""

    launches: tuple[RooflineLaunch, ...]
