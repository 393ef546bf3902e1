"""Types that several JSON documents share. Pydantic checks what is written against them, and
`keet schema` publishes them.

Every document has a `schema_version` of its own. Fields are only ever added; a change that breaks
readers of a document raises its version. `schema` lists the documents by command.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from keet.units import Number
from keet.version import __version__

Dimensions = tuple[int, int, int]
NonFinite = Literal["nan", "inf", "-inf"]
"""Numbers that ncu reports and JSON does not have: their value is null."""


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PartlyFilled(Document):
    """Has fields that are left out where nothing was set: a report without a model or a table of
    its run is printed as it was before there were such things."""

    optional: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="plain")
    def _serialize(self):  # type: ignore[no-untyped-def]
        # Not annotated on purpose: pydantic would publish the return type as the schema.
        unset = self.optional - self.model_fields_set
        return {name: value for name, value in self if name not in unset}


class Producer(Document):
    name: Literal["keet"] = "keet"
    version: str = __version__


class ReportDocument(Document):
    path: str
    sha256: str = Field(description="of the report's bytes, as they were read")
    format: Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]
    size: int = Field(description="bytes")
    reader: str = Field(description="the code that turned the bytes into numbers")
    ncu_version: str | None
    cuda_version: str | None
    driver_version: str | None
    command_line: str | None = Field(description="ncu's own, recorded since 2022.2")
    created: str | None = Field(description="ISO 8601, UTC")
    launch_count: int
    snapshot: str | None = Field(None, description="the .keet.json that was read in its place")
    notes: list[str] = []


class DeviceDocument(Document):
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    index: int | None = Field(None, description="which of the machine's GPUs, where recorded")


class QuantityDocument(Document):
    value: Number | None = Field(description="null: see `nonfinite`")
    unit: str
    nonfinite: NonFinite | None = None


EVIDENCE_IDS = (
    "by id: the metric, the source line if it belongs to one, and the launch, as in "
    "`l2_hit_rate_pct#0` and `samples_share@flip.cu:31#0`; `#run`: of several launches"
)


class EvidenceDocument(Document):
    metric: str = Field(description="ncu's name, or one of keet's own for what is computed")
    label: str
    value: Number
    unit: str
    line: str | None = None
    derived_from: list[str] | None = Field(None, description="ids of what it was computed from")


class RunKernelDocument(Document):
    """One kernel in all its launch shapes."""

    kernel: str = Field(description="short stable name")
    kernel_full: str = Field(description="demangled, as far as the table knows it")
    share_pct: float = Field(description="per cent of the run's GPU time")
    launches: int
    busy: QuantityDocument = Field(
        description="microseconds; its part of the GPU time: overlapping kernels share it"
    )
    shortest: QuantityDocument | None = Field(description="launch; null: only totals are known")
    longest: QuantityDocument | None
    profiled: list[int] = Field(description="launches of the report that stand for it, by id")
    evidence: list[str] = Field(description="ids in the run's `evidence`")


class SkippedKernelDocument(Document):
    """A kernel that was to be profiled and could not be."""

    kernel: str
    reason: str
    remedy: str


class MigrationsDocument(Document):
    """What moved between host and GPU because of managed memory, over the whole run."""

    to_gpu_bytes: int
    to_host_bytes: int
    fault_groups: int = Field(description="groups of page faults that kernels caused")


class RunDocument(Document):
    """A run of the whole program without a profiler."""

    recorder: Literal["cupti", "nsys", "ncu", "file"]
    recorded: str = Field(description="how the times were measured, in words")
    created: str | None = Field(description="ISO 8601, UTC")
    path: str | None = Field(description="the table that was read; null: it is in the snapshot")
    launches: int
    busy: QuantityDocument = Field(
        description="microseconds in which the GPU ran at least one kernel, over all GPUs; the "
        "sum of all durations where `overlap_known` is false"
    )
    total: QuantityDocument = Field(
        description="sum of all durations; more than `busy` where kernels overlap"
    )
    span: QuantityDocument | None = Field(
        description="from the start of the first kernel to the end of the last one"
    )
    wall_seconds: float | None = Field(description="of the whole program in that run")
    overlap_known: bool = Field(
        description="whether the table tells which kernels ran at the same time"
    )
    gpus: int | None = Field(description="that ran kernels; null: not known")
    covered_pct: float | None = Field(
        description="per cent of the GPU time that the launches of the report stand for; null: "
        "the report holds ranges or graphs, and the table does not tell what is in them"
    )
    kernels: list[RunKernelDocument] = Field(description="the largest share first")
    managed_bytes: int | None = Field(description="managed memory that the program allocated")
    migrations: MigrationsDocument | None
    skipped: list[SkippedKernelDocument]
    notes: list[str]
    text: list[str] = Field(description="sentences about the run")
    evidence: dict[str, EvidenceDocument] = Field(description=EVIDENCE_IDS)


class SkippedDocument(Document):
    check: str
    reason: str
    remedy: str


def json_text(document: Document) -> str:
    return document.model_dump_json(indent=1) + "\n"
