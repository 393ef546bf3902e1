"""What the tools return: types that a client can check, made of those of the JSON documents.

Fields have the names and meanings that they have in `keet COMMAND --format json`; fields that a
coding agent does not need are left out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from keet.render.json.cases import CaseDocument
from keet.render.json.diff import (
    AttributionDocument,
    ChangeVerdictDocument,
    ComparabilityDocument,
    NextDocument,
)
from keet.render.json.encoding.fields import Document, field
from keet.render.json.evidence import NumberDocument
from keet.render.json.explain import GroundingDocument, UnitDocument
from keet.render.json.finding import FindingDocument
from keet.render.json.hotspots import PointerDocument, SpotDocument
from keet.render.json.hotspots_line import AwaitedDocument, PurposeShare
from keet.render.json.metrics import MetricDocument
from keet.render.json.program import ProgramGainDocument
from keet.render.json.shared_types import EVIDENCE_IDS, DeviceDocument, Dimensions, QuantityDocument
from keet.render.json.verify import NumberCheck, RelationDocument, VerifySummary


class ToolResult(Document):
    paged: ClassVar[str | None] = None
    """The field that has the entries of a page."""

    notes: list[str] = field(default=[], description="notes on this result, and what was cut")


class PagedToolResult(ToolResult):
    total: int = field(description="entries on all pages")
    offset: int = field(description="number of the first entry here")
    more: int = field(description="entries after this page")
    next_offset: int | None = field(description="`offset` of the next page; null: this is the last")


class ListedReport(Document):
    path: str = field(description="the name that other tools accept as `report`")
    size: int = field(description="bytes")
    modified: str = field(description="ISO 8601, UTC")


class ListedLaunch(Document):
    id: int = field(description="the value for `launch` of other tools")
    kernel: str
    grid: Dimensions | None
    block: Dimensions | None
    values: dict[str, QuantityDocument] = field(description="by catalog id; absent: not measured")
    run_share_pct: float | None = field(
        default=None,
        description="per cent of the run's GPU time that it represents; null: unknown",
    )


class ReportSummary(Document):
    path: str
    format: str
    launch_count: int
    devices: list[DeviceDocument]
    ncu_version: str | None
    created: str | None = field(description="ISO 8601, UTC")
    holds: list[str]
    missing: list[str] = field(description="what was not collected")
    capture: str | None = field(description="the ncu command that collects it")
    build: str | None = field(description="what to compile with first")


class ListReportsToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "entries"

    folders: list[str] = field(description="the folders of the server")
    report: ReportSummary | None = field(description="null: `report` was not given")
    entries: list[ListedReport | ListedLaunch] = field(
        description="reports; or launches of `report`, longest first"
    )


class TimeRow(Document):
    part: str
    share: float = field(description="of the launch's time, 0 to 1")
    us: float | None = field(description="the same as microseconds")
    depth: int = field(description="0: these add up to the launch's time. 1: within the one before")


class NotChecked(Document):
    check: str
    reason: str


class CodeLine(Document):
    file: str
    line: int
    text: str


class ExplainedLaunchEntry(Document):
    id: int
    kernel: str
    grid: Dimensions | None
    block: Dimensions | None
    duration: QuantityDocument | None = field(description="microseconds; null: not measured")
    headline: str = field(description="what limits it, in one sentence")
    limiter: str | None = field(
        description="the unit nearest to its peak; `latency`: none is near its peak; null: unknown"
    )
    reached_pct: float | None = field(description="per cent of its peak that this unit reached")
    units: list[UnitDocument] = field(description="busiest first")
    time: list[TimeRow] = field(description="where the time goes")
    findings: list[FindingDocument] = field(description="causes, the largest gain first")
    code: list[CodeLine] = field(description="text of the lines that the findings name")
    looks_good: list[str]
    remarks: list[str] = field(
        description="about the account, Nsight Compute's rules, the run and the replay"
    )
    not_checked: list[NotChecked]
    evidence: dict[str, NumberDocument] = field(
        description=f"Evidence of the findings and units. {EVIDENCE_IDS}"
    )


class ProgramLine(Document):
    """A group of similar launches."""

    kernel: str
    representative: int | None = field(description="id of a typical launch; null: none")
    count: int = field(description="launches; of the run, where it is known")
    us_total: float = field(description="microseconds")
    us_median: float | None
    share: float = field(description="of the program's `us_total`, 0 to 1")
    first_finding: str | None
    headline: str | None
    gain: ProgramGainDocument | None = field(description="times faster; null: not known")
    library: str | None


class ProgramSummary(Document):
    """All launches together, or the whole run if its run table is beside the report."""

    us_total: float = field(description="microseconds of all kernels")
    gain: ProgramGainDocument | None
    rows: list[ProgramLine] = field(description="kernels, the largest share first")
    texts: list[str]


class ExplainToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "launches"

    report: str
    device: DeviceDocument
    program: ProgramSummary | None = field(
        description="null: one launch without a run table, or not the first page"
    )
    launches: list[ExplainedLaunchEntry]
    grounding: GroundingDocument = field(description="numbers of the texts that were checked")


class LineSummary(Document):
    """One source line."""

    file: str
    line: int
    source: str | None
    executed: int | None = field(description="warp-level instructions")
    executed_share: float | None = field(description="of the launch, 0 to 1")
    purposes: list[PurposeShare]
    waited_for_by: list[AwaitedDocument] = field(description="samples at other lines")
    accesses: list[dict[str, Any]]
    loops: list[dict[str, Any]] = field(description="around the line, outermost first")


class LineToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "entries"

    report: str
    launch: int
    kernel: str
    samples: int | None = field(description="of the launch; null: the report has none")
    line: LineSummary | None = field(description="null: `line` was not given, see `entries`")
    row: SpotDocument | None = field(description="samples, stalls and traffic of that line")
    entries: list[dict[str, Any]] = field(
        description="hottest lines; or instructions of `line`, by their offset"
    )
    pointers: list[PointerDocument] = field(description="bytes read through each pointer")
    not_checked: list[NotChecked]


class MetricsToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "metrics"

    report: str
    launch: int
    kernel: str
    metrics: list[MetricDocument]


class PairResult(Document):
    before: list[int] = field(description="ids of launches in `before`; empty: the kernel is new")
    after: list[int]
    kernel: str
    verdict: ChangeVerdictDocument
    limiter: list[str] | None = field(description="before and after; null: not analysed")
    attribution: list[AttributionDocument] = field(
        description="reasons for the change, causes first"
    )
    fixed: list[str] = field(description="ids of findings")
    new: list[str]
    remaining: list[str]
    unknown: list[str]


class DiffToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "pairs"

    before: str
    after: str
    verdict: ChangeVerdictDocument
    comparability: ComparabilityDocument
    pairs: list[PairResult] = field(description="kernels, the largest change first")
    next: NextDocument | None = field(description="the most expensive remaining cause")
    evidence: dict[str, NumberDocument]
    grounding: GroundingDocument


class ContextToolResult(ToolResult):
    report: str
    launch: int
    kernel: str
    chosen_from: int = field(description="number of launches that matched; the longest is used")
    context: str


class VerifyToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "checks"

    report: str
    before: str | None
    summary: VerifySummary
    wrong: bool = field(description="whether a number or comparison is contradicted")
    checks: list[NumberCheck | RelationDocument] = field(
        description="numbers and comparisons; sentences with errors first"
    )


class CaseRow(Document):
    id: str = field(description="the value for `case`")
    finding: str
    lookalike: bool = field(description="shows the symptom, but the fix gains less than 10 %")
    archetype: str
    speedup: float = field(description="measured speed-up of the fix")
    hidden: bool = field(description="the kernel's source does not show the cause")
    language: Literal["cuda", "triton"]
    title: str
    fix: str


class CasesToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "cases"

    cases: list[CaseRow]
    case: CaseDocument | None = field(description="null: `case` was not given")
