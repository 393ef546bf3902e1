"""The program as JSON: the rows of its table, the possible gain, and findings across launches."""

from __future__ import annotations

from keet.analysis.several_launches.cross_launch import CrossLaunch, Kind
from keet.diagnosis.finding import Forecast
from keet.evidence import Confidence, Evidence
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import EVIDENCE_IDS, Dimensions, EvidenceDocument
from keet.render.json.whole_run import evidence_document
from keet.units import Quantity


class ProgramGainDocument(Document):
    """How many times faster it would be if the first finding of each of its launches were fixed."""

    low: float
    likely: float
    high: float


class ProgramRowDocument(Document):
    """A group of identical launches; if the run is known, a kernel of the run in all its shapes."""

    kernel: str
    launches: list[int] = field(
        description="Ids of launches in the report; empty if the kernel was not profiled."
    )
    representative: int | None = field(
        description="The launch that represents the row: among identical launches, the one with "
        "the median duration. Null if the kernel was not profiled."
    )
    count: int = field(description="Number of launches; of the run if it is known.")
    grid: Dimensions | None = field(description="Null if there are several, or if it is not known.")
    block: Dimensions | None
    us_total: float = field(
        description="Microseconds; part of the run's GPU time if the run is known."
    )
    us_min: float | None = field(description="Microseconds of the shortest launch.")
    us_median: float | None
    us_max: float | None
    share: float = field(description="Share of the program's `us_total`, 0 to 1.")
    first_finding: str | None = field(
        description="Id of the first finding of the representative launch."
    )
    headline: str | None
    gain: ProgramGainDocument | None = field(
        description="Gain over the row's time; null if no gain is known."
    )
    library: str | None = field(
        description="For example `cuBLAS`, if the kernel is not the user's own code."
    )


class CrossLaunchDocument(Document):
    """What several launches show together."""

    kind: Kind = field(
        description="`hand_over`: one kernel writes as much as a later one reads. "
        "`repeated_passes`: identical launches at DRAM's bandwidth. `same_input`: "
        "kernels that read the same amount. `tiny_launches`: many very short launches. "
        "`clocks`: launches that were measured at different clocks. "
        "`sweep`: one kernel at several sizes."
    )
    confidence: Confidence
    text: str
    launches: list[int] = field(description="Ids of the launches.")
    us_saved: float | None = field(
        description="Microseconds of the report's launches that would be saved if the suspicion is "
        "true; null if not known."
    )
    evidence: list[str] = field(description="Ids in the program's `evidence`.")


class ProgramDocument(Document):
    """Several launches, or a whole run, summarised before the single launches."""

    rows: list[ProgramRowDocument] = field(
        description="The row whose fix saves most time comes first; of equal ones, the longer."
    )
    us_total: float = field(description="Microseconds of all rows.")
    gain: ProgramGainDocument | None = field(
        description="Gain over `us_total` if the first finding of each row's launch were fixed: "
        "the sum of the savings. Short launches count as merged into one per row. Null "
        "if no gain is known."
    )
    texts: list[str]
    shown: list[int] = field(description="Ids of the launches that matter most.")
    cross_launch: list[CrossLaunchDocument] = field(description="The largest saving comes first.")
    evidence: dict[str, EvidenceDocument] = field(description=EVIDENCE_IDS)


def program_document(program: ProgramExplanation) -> ProgramDocument:
    return ProgramDocument(
        rows=[_row(row) for row in program.rows],
        us_total=_us(program.total),
        gain=_gain(program.gain),
        texts=list(program.sentences),
        shown=[each.launch.id for each in program.shown],
        cross_launch=[_cross_launch(found) for found in program.across],
        evidence={number: evidence_document(e) for number, e in program.evidence.items()},
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
