"""The program as JSON: the rows of its table, what it could gain, what launches show together."""

from __future__ import annotations

from keet.analysis.findings import Confidence, Forecast
from keet.analysis.several_launches.cross_launch import CrossLaunch, Kind
from keet.evidence import Evidence
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import EVIDENCE_IDS, Dimensions, EvidenceDocument
from keet.render.json.whole_run import evidence_document
from keet.units import Quantity


class ProgramGainDocument(Document):
    """How many times faster, if the first finding of each launch concerned were fixed."""

    low: float
    likely: float
    high: float


class ProgramRowDocument(Document):
    """Identical launches; where the run is known, a kernel of the run in all its shapes."""

    kernel: str
    launches: list[int] = field(description="ids of the report's launches; empty: not profiled")
    representative: int | None = field(
        description="the launch that stands for the row: of identical ones that with the median "
        "duration; null: not profiled"
    )
    count: int = field(description="launches; of the run, where it is known")
    grid: Dimensions | None = field(description="null: several, or not known")
    block: Dimensions | None
    us_total: float = field(description="microseconds; of the run's GPU time, where it is known")
    us_min: float | None = field(description="microseconds of the shortest launch")
    us_median: float | None
    us_max: float | None
    share: float = field(description="0 to 1, of the program's `us_total`")
    first_finding: str | None = field(description="id, of the launch that stands for the row")
    headline: str | None
    gain: ProgramGainDocument | None = field(
        description="of the row's time; null: no gain is known"
    )
    library: str | None = field(description="`cuBLAS`: the kernel is not the user's own code")


class CrossLaunchDocument(Document):
    """What several launches show together."""

    kind: Kind = field(
        description="hand_over: one kernel writes as much as a later one reads; repeated_passes: "
        "equal launches at DRAM's bandwidth; same_input: kernels that read the same amount; "
        "tiny_launches; sweep: one kernel at several sizes"
    )
    confidence: Confidence
    text: str
    launches: list[int] = field(description="ids")
    us_saved: float | None = field(
        description="microseconds of the report's launches, if the suspicion is true; null: not "
        "known"
    )
    evidence: list[str] = field(description="ids in the program's `evidence`")


class ProgramDocument(Document):
    """Several launches, or a whole run, before the launches one by one."""

    rows: list[ProgramRowDocument] = field(description="the largest share first")
    us_total: float = field(description="microseconds of all rows")
    gain: ProgramGainDocument | None = field(
        description="of `us_total`, if the first finding of each row's launch were fixed: the sum "
        "of what they save. Short launches count as merged into one per row. null: no gain is known"
    )
    texts: list[str]
    shown: list[int] = field(description="ids of the launches that matter")
    cross_launch: list[CrossLaunchDocument] = field(description="the largest saving first")
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
