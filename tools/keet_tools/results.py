"""What the tools take and return.

Results are types that a client can check, made of those of the JSON documents. Coding agents read
the descriptions of arguments, so they are short.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from keet.documents.diff import DiffDocument, PairDocument
from keet.documents.document import D, Document
from keet.documents.explain import (
    ExplainLaunch,
    GroundingDocument,
    LaunchVerdict,
    ProgramDocument,
    ProgramRowDocument,
    UnitDocument,
)
from keet.documents.finding import CaseDocument
from keet.documents.hotspots import AwaitedDocument, PointerDocument, PurposeShare, SpotDocument
from keet.documents.model_explanation import ClaimDocument, UnusedClaimDocument
from keet.documents.shared_types import (
    DeviceDocument,
    EvidenceId,
    FindingId,
    JsonNumber,
    JsonSentence,
    Skipped,
)
from keet.documents.show import MetricDocument, ShowLaunch
from keet.documents.verify import NumberCheck, RelationDocument, VerifySummary


def selects(kind: type[Document], names: str) -> Callable[[type[D]], type[D]]:
    """Declares some fields of a document, for a result that has only these."""

    def with_fields(chosen: type[D]) -> type[D]:
        types = get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            if each.name in names.split():
                chosen.__annotations__[each.name] = types[each.name]
                if each.default is not MISSING:
                    setattr(chosen, each.name, each.default)
        chosen.described_by = {**chosen.described_by, **dict.fromkeys(names.split(), kind)}
        return chosen  # which is made a data class when it is first used, so with these fields

    return with_fields


class ToolResult(Document):
    paged: ClassVar[str | None] = None
    """The field that has the entries of a page."""
    notes: list[str] = field(default_factory=list)
    """notes on this result, and what was cut"""


class PagedToolResult(ToolResult):
    paged: ClassVar[str | None] = "entries"
    total: int
    """entries on all pages"""
    offset: int
    """number of the first entry here"""
    more: int
    """entries after this page"""
    next_offset: int | None
    """`offset` of the next page; null: this is the last"""


class OfLaunch(Document):
    report: str
    launch: int
    kernel: str


class ListedReport(Document):
    path: str
    """the name that other tools accept as `report`"""
    size: int
    """bytes"""
    modified: str
    """ISO 8601, UTC"""


@selects(ShowLaunch, "id kernel grid block values run_share_pct")
class ListedLaunch(Document):
    """`id` is the value for `launch` of other tools."""


class ReportSummary(Document):
    path: str
    format: str
    launch_count: int
    devices: list[DeviceDocument]
    ncu_version: str | None
    created: str | None
    """ISO 8601, UTC"""
    holds: list[str]
    missing: list[str]
    """what was not collected"""
    capture: str | None
    """the ncu command that collects it"""
    build: str | None
    """what to compile with first"""


class ListReportsToolResult(PagedToolResult):
    folders: list[str]
    """the folders of the server"""
    report: ReportSummary | None
    """null: `report` was not given"""
    entries: list[ListedReport | ListedLaunch]
    """reports; or launches of `report`, longest first"""


class TimeRow(Document):
    part: str
    share: float
    """of the launch's time, 0 to 1"""
    us: float | None
    """the same as microseconds"""
    depth: int
    """0: these add up to the launch's time. 1: within the one before"""


@selects(Skipped, "check reason")
class NotChecked(Document): ...


class CodeLine(Document):
    file: str
    line: int
    text: str


@selects(ExplainLaunch, "id kernel grid block duration findings facts evidence")
@selects(LaunchVerdict, "headline limiter reached_pct")
class ExplainedLaunchEntry(Document):
    """`evidence` is that of the findings and units."""

    units: list[UnitDocument]
    """busiest first"""
    time: list[TimeRow]
    """where the time goes"""
    code: list[CodeLine]
    """text of the lines that the findings name"""
    looks_good: list[str]
    remarks: list[str]
    """about the account, Nsight Compute's rules, the run and the replay"""
    not_checked: list[NotChecked]


@selects(
    ProgramRowDocument,
    "kernel representative count us_total us_median share first_finding headline gain library",
)
class ProgramLine(Document):
    """A group of similar launches."""


@selects(ProgramDocument, "us_total gain texts")
class ProgramSummary(Document):
    """All launches together, or the whole run if its run table is beside the report."""

    rows: list[ProgramLine]
    """kernels, the largest share first"""


class ExplainToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "launches"
    report: str
    device: DeviceDocument
    program: ProgramSummary | None
    """null: one launch without a run table, or not the first page"""
    launches: list[ExplainedLaunchEntry]
    grounding: GroundingDocument
    """numbers of the texts that were checked"""


class LineSummary(Document):
    """One source line."""

    file: str
    line: int
    source: str | None
    executed: int | None
    """warp-level instructions"""
    executed_share: float | None
    """of the launch, 0 to 1"""
    purposes: list[PurposeShare]
    waited_for_by: list[AwaitedDocument]
    """samples at other lines"""
    accesses: list[dict[str, Any]]
    loops: list[dict[str, Any]]
    """around the line, outermost first"""


class LineToolResult(PagedToolResult, OfLaunch):
    samples: int | None
    """of the launch; null: the report has none"""
    line: LineSummary | None
    """null: `line` was not given, see `entries`"""
    row: SpotDocument | None
    """samples, stalls and traffic of that line"""
    entries: list[dict[str, Any]]
    """hottest lines; or instructions of `line`, by their offset"""
    pointers: list[PointerDocument]
    """bytes read through each pointer"""
    not_checked: list[NotChecked]


class AmountRowResult(Document):
    part: str
    """what it is about"""
    label: str
    text: str
    evidence: list[str]
    """ids in `evidence`"""


class AmountsToolResult(PagedToolResult, OfLaunch):
    entries: list[AmountRowResult]
    """the most important first"""
    program: list[str]
    """about all launches together"""
    evidence: dict[str, JsonNumber]


class MetricsToolResult(PagedToolResult, OfLaunch):
    paged: ClassVar[str | None] = "metrics"
    metrics: list[MetricDocument]
    roofline: list[str]
    """shares of peak of arithmetic and memory; without a pattern only"""


class ChangedOccupancy(Document):
    theoretical_pct: float
    warps: int
    """per SM"""
    limited_by: list[str]


class OccupancyToolResult(ToolResult, OfLaunch):
    theoretical_pct: float | None
    achieved_pct: float | None
    warps: int
    """that fit on an SM"""
    most_warps: int
    """that an SM can hold"""
    limited_by: list[str]
    changed: ChangedOccupancy | None
    """with the values that were asked for; null: none were"""


class WhatIfFinding(Document):
    """The claims about one finding, computed together."""

    finding: FindingId
    claims: tuple[str, ...]
    """For example `bytes of DRAM, needed 4096 * 4096 * 4 B`."""
    result: ClaimDocument
    """`forecast` is with the claimed amounts, `keet_alone` without them."""
    unused_claims: tuple[UnusedClaimDocument, ...]
    text: tuple[JsonSentence, ...]
    evidence: tuple[EvidenceId, ...]
    """Ids of the numbers in `text`."""


class WhatIfToolResult(ToolResult, OfLaunch):
    findings: list[WhatIfFinding]


class SourceLine(Document):
    line: int
    text: str
    share: float | None
    """of the samples, 0 to 1; null: none, or not known"""


class SourceToolResult(PagedToolResult, OfLaunch):
    file: str
    entries: list[SourceLine]


@selects(
    PairDocument, "before after kernel verdict limiter attribution fixed new remaining unknown"
)
class PairResult(Document):
    """A kernel before and after."""


@selects(DiffDocument, "verdict comparability next evidence grounding")
class DiffToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "pairs"
    before: str
    after: str
    pairs: list[PairResult]
    """kernels, the largest change first"""


class ContextToolResult(ToolResult, OfLaunch):
    chosen_from: int
    """number of launches that matched; the representative is used"""
    context: str


class VerifyToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "checks"
    report: str
    before: str | None
    summary: VerifySummary
    wrong: bool
    """whether a number or comparison is contradicted"""
    checks: list[NumberCheck | RelationDocument]
    """numbers and comparisons; sentences with errors first"""


@selects(CaseDocument, "id finding lookalike archetype speedup hidden language title fix")
class CaseRow(Document):
    """`id` is the value for `case`."""


class CasesToolResult(PagedToolResult):
    paged: ClassVar[str | None] = "cases"
    cases: list[CaseRow]
    case: CaseDocument | None
    """null: `case` was not given"""


_LONGEST = 400
"""Characters of a name."""
MAX_TEXT = 20_000
"""Characters of a text to verify: more than an explanation of a kernel has."""
MAX_TOKENS = 2_000
"""Of `context`, whose text is in the result twice: in the structured part and in the text."""

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
Launch = Annotated[int | None, Field(ge=0)]
Kernel = Annotated[str | None, Field(min_length=1, max_length=_LONGEST)]
Source = Annotated[Name | None, Field(description="folder of sources the report lacks")]
Offset = Annotated[int, Field(ge=0, le=10**9)]


class ToolArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListReportsArguments(ToolArguments):
    report: Name | None = Field(None, description="list its launches instead")
    match: Kernel = Field(None, description="part of a path, or of a kernel name of the report")
    offset: Offset = 0


class LaunchArguments(ToolArguments):
    """Of a tool that is about launches of one report."""

    report: Name
    launch: Launch = None
    kernel: Kernel = None


class ExplainArguments(LaunchArguments):
    top: int = Field(3, ge=1, le=5, description="findings per launch")
    source: Source = None
    offset: Offset = 0


class LineArguments(LaunchArguments):
    line: Name | None = Field(
        None, description="kernel.cu:29, or 0x0130: SASS from there on; default: the hottest lines"
    )
    source: Source = None
    offset: Offset = 0


class SourceArguments(LaunchArguments):
    file: Name | None = Field(None, description="default: the hottest file")
    line: int = Field(1, ge=1, le=10**9, description="first line")
    source: Source = None
    offset: Offset = 0


class AmountsArguments(LaunchArguments):
    part: str | None = Field(
        None, max_length=_LONGEST, description="one of the parts, for example arrays or loops"
    )
    per: str | None = Field(
        None,
        pattern=r"^[^=]{1,80}=[0-9.eE+]{1,20}$",
        description="NAME=COUNT: count per NAME; default: per stored element",
    )
    source: Source = None
    offset: Offset = 0


class MetricsArguments(LaunchArguments):
    pattern: Kernel = Field(
        None, description="name, id, label or words; default: key metrics and roofline; *: all"
    )
    offset: Offset = 0


class OccupancyArguments(LaunchArguments):
    registers: int | None = Field(None, ge=1, le=10**6, description="per thread")
    shared_bytes: int | None = Field(None, ge=0, le=10**9, description="per block")
    block_threads: int | None = Field(None, ge=1, le=10**6)


class WhatIfArguments(LaunchArguments):
    claims: Annotated[
        str, BeforeValidator(lambda given: json.dumps(given) if isinstance(given, list) else given)
    ] = Field(
        max_length=MAX_TEXT,
        description='JSON list like [{"finding": "an id of explain", "kind": "bytes", '
        '"of": "DRAM", "needed": "N * 4 B"}], or "removed": "0.5"',
    )
    constants: str = Field("", max_length=_LONGEST, description="for example N=4096, TILE=32")


class DiffArguments(ToolArguments):
    before: Name
    after: Name
    before_launch: Launch = None
    after_launch: Launch = None
    kernel: Kernel = None
    force: bool = Field(False, description="compare what is not comparable")
    offset: Offset = 0


class ContextArguments(LaunchArguments):
    max_tokens: int = Field(1_500, ge=30, le=MAX_TOKENS)
    source: Source = None


class VerifyArguments(LaunchArguments):
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    before: Name | None = Field(None, description="the earlier report, if the text compares two")
    offset: Offset = 0


class CasesArguments(ToolArguments):
    case: Kernel = Field(None, description="show this one in full, with its source diff")
    finding: Kernel = Field(None, description="only of this finding id")
    archetype: Kernel = Field(None, description="only this kind of kernel: gemm, scan, reduction")
    lookalikes: bool = Field(False, description="only those whose fix gained under 10 %")
    offset: Offset = 0
