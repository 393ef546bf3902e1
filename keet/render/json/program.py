"""The program as JSON: the rows of its table, the possible gain, and findings across launches."""

from __future__ import annotations

from keet.analysis.several_launches.cross_launch import CrossLaunch
from keet.diagnosis.finding import Forecast
from keet.documents.program import (
    CrossLaunchDocument,
    ProgramDocument,
    ProgramGainDocument,
    ProgramRowDocument,
)
from keet.evidence import Evidence
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.units import Quantity


def program_document(program: ProgramExplanation) -> ProgramDocument:
    return ProgramDocument(
        rows=[_row(row) for row in program.rows],
        us_total=_us(program.total),
        gain=_gain(program.gain),
        texts=list(program.sentences),
        shown=[each.launch.id for each in program.shown],
        cross_launch=[_cross_launch(found) for found in program.across],
        evidence=dict(program.evidence),
    )


def _row(row: ProgramRow) -> ProgramRowDocument:
    grid, block = row.shape
    return ProgramRowDocument(
        kernel=row.kernel,
        launches=list(row.profiled),
        representative=row.first.launch.id if row.first else None,
        count=int(row.launches.value),
        grid=grid,
        block=block,
        us_total=_us(row.total),
        us_min=_maybe_us(row.shortest),
        us_median=_maybe_us(row.typical),
        us_max=_maybe_us(row.longest),
        share=row.share.value / 100,
        first_finding=row.finding.id if row.finding else None,
        headline=row.first.verdict.headline if row.first else None,
        gain=_gain(row.gain),
        library=row.library,
    )


def _cross_launch(found: CrossLaunch) -> CrossLaunchDocument:
    return CrossLaunchDocument(
        kind=found.kind,
        confidence=found.confidence,
        text=found.text,
        launches=list(found.launches),
        us_saved=_maybe_us(found.saved_us),
        evidence=[piece.id for piece in found.evidence],
    )


def _gain(gain: Forecast | None) -> ProgramGainDocument | None:
    return ProgramGainDocument(**gain._asdict()) if gain else None


def _us(time: Evidence) -> float:
    return float(Quantity(time.value, time.unit).to("us").value)


def _maybe_us(time: Evidence | None) -> float | None:
    return None if time is None else _us(time)
