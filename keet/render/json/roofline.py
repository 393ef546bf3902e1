"""`keet roofline --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hardware.stages import UnitStage
from keet.analysis.roofline.launch_roofline import Intensity, Roofline, stage_name
from keet.evidence import Evidence
from keet.profile import Profile
from keet.render.json.encoding.fields import Document, field
from keet.render.json.encoding.writing import Streamed
from keet.render.json.report import quantity_document, report_document
from keet.render.json.shared_types import (
    EVIDENCE_IDS,
    EvidenceDocument,
    Producer,
    QuantityDocument,
    ReportDocument,
    SkippedDocument,
)
from keet.units import Quantity


class BusiestDocument(Document):
    part: str
    busy_pct: float
    evidence: str


class CeilingDocument(Document):
    id: str = field(description="For example `fp32`, `tensor_bf16` or `dram`.")
    label: str
    kind: Literal["compute", "memory"]
    reached_pct: float = field(description="Per cent of the peak.")
    achieved: QuantityDocument | None = field(
        description="Null if only the percentage was measured."
    )
    peak: QuantityDocument | None
    source: str = field(description="Where the peak comes from: the report or keet's catalog.")
    busiest: BusiestDocument | None = field(
        description="A stage or pipe that is busier than the count of bytes or operations shows."
    )
    evidence: list[str]


class IntensityDocument(Document):
    arithmetic: str = field(description="Id of the compute ceiling.")
    level: str = field(description="Id of the memory ceiling.")
    value: float = field(description="Operations per byte.")
    ridge: float = field(description="Operations per byte above which arithmetic is the limit.")
    attainable: QuantityDocument = field(
        description="The lower of the two ceilings at this intensity."
    )
    attained_pct: float = field(description="Per cent of `attainable` that was achieved.")
    evidence: list[str]


class RooflineLaunch(Document):
    id: int
    kernel: str
    duration: QuantityDocument | None
    sm_clock: QuantityDocument | None
    nearest: list[str] = field(description="Ids of the nearest ceilings; several if they tie.")
    lead: str | None = field(description="Id of the nearest compute ceiling.")
    ceilings: list[CeilingDocument]
    intensities: list[IntensityDocument]
    uncounted: BusiestDocument | None = field(
        description="The busiest unit whose work is neither operations nor bytes."
    )
    reading: str
    notes: list[str]
    skipped: list[SkippedDocument]
    evidence: dict[str, EvidenceDocument] = field(description=EVIDENCE_IDS)


class RooflineDocument(Document):
    """`keet roofline --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    report: ReportDocument
    launches: list[RooflineLaunch]


def roofline_document(profile: Profile, rooflines: Iterable[Roofline]) -> RooflineDocument:
    return roofline_stream(profile, rooflines).document()


def roofline_stream(profile: Profile, rooflines: Iterable[Roofline]) -> Streamed[RooflineDocument]:
    """The document, one launch after the other."""
    launches = (_launch(roofline) for roofline in rooflines)
    fields = (("report", report_document(profile)), ("launches", launches))
    return Streamed(RooflineDocument, fields)


def _launch(roofline: Roofline) -> RooflineLaunch:
    return RooflineLaunch(
        id=roofline.launch.id,
        kernel=roofline.launch.kernel,
        duration=_quantity(roofline.duration),
        sm_clock=_quantity(roofline.sm_clock),
        nearest=[ceiling.id for ceiling in roofline.nearest],
        lead=roofline.lead.id if roofline.lead else None,
        ceilings=[_ceiling(ceiling) for ceiling in roofline.ceilings],
        intensities=[_intensity(roofline, entry) for entry in roofline.intensities],
        uncounted=_stage(roofline.uncounted),
        reading=roofline.reading,
        notes=list(roofline.notes),
        skipped=[
            SkippedDocument(check=key, reason=absent.reason, remedy=absent.remedy)
            for key, absent in roofline.absent.items()
        ],
        evidence={entry.id: _evidence(entry) for entry in roofline.ledger},
    )


def _quantity(evidence: Evidence | None) -> QuantityDocument | None:
    return quantity_document(Quantity(evidence.value, evidence.unit)) if evidence else None


def _ceiling(ceiling: Ceiling) -> CeilingDocument:
    used = (ceiling.reached, ceiling.achieved, ceiling.peak)
    return CeilingDocument(
        id=ceiling.id,
        label=ceiling.name,
        kind="memory" if ceiling.kind == "memory" else "compute",
        reached_pct=float(ceiling.reached.value),
        achieved=_quantity(ceiling.achieved),
        peak=_quantity(ceiling.peak),
        source=ceiling.source,
        busiest=_stage(ceiling.busier_stage),
        evidence=[entry.id for entry in used if entry],
    )


def _stage(stage: UnitStage | None) -> BusiestDocument | None:
    if stage is None:
        return None
    return BusiestDocument(
        part=stage_name(stage), busy_pct=float(stage.busy.value), evidence=stage.busy.id
    )


def _intensity(roofline: Roofline, entry: Intensity) -> IntensityDocument:
    (achieved,) = (c.achieved for c in roofline.ceilings if c.id == entry.arithmetic)
    attainable = Quantity(entry.attainable.value, entry.attainable.unit)
    return IntensityDocument(
        arithmetic=entry.arithmetic,
        level=entry.level,
        value=float(entry.value.value),
        ridge=float(entry.ridge.value),
        attainable=quantity_document(attainable),
        attained_pct=100 * achieved.value / attainable.value if achieved else 0.0,
        evidence=[entry.value.id, entry.ridge.id, entry.attainable.id],
    )


def _evidence(entry: Evidence) -> EvidenceDocument:
    return EvidenceDocument(
        metric=entry.metric,
        label=entry.label,
        value=entry.value,
        unit=entry.unit,
        line=entry.line,
        derived_from=list(entry.derived_from) if entry.derived_from else None,
    )
