"""`keet roofline --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hardware.stages import UnitStage
from keet.analysis.roofline.launch_roofline import Intensity, Roofline, stage_name
from keet.documents.document import Streamed
from keet.documents.roofline import (
    BusiestDocument,
    CeilingDocument,
    IntensityDocument,
    RooflineDocument,
    RooflineLaunch,
)
from keet.documents.shared_types import (
    SkippedDocument,
)
from keet.evidence import Evidence
from keet.profile import Profile
from keet.render.json.report import report_document
from keet.units import Quantity


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
        evidence={entry.id: entry for entry in roofline.ledger},
    )


def _quantity(evidence: Evidence | None) -> Quantity | None:
    return Quantity(evidence.value, evidence.unit) if evidence else None


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
        attainable=attainable,
        attained_pct=100 * achieved.value / attainable.value if achieved else 0.0,
        evidence=[entry.value.id, entry.ridge.id, entry.attainable.id],
    )
