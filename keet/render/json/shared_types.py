"""Types that several JSON documents share; `keet schema` publishes them.

Every document has a `schema_version` of its own. Fields are only ever added; a change that breaks
readers of a document raises its version. `schema` lists the documents by command.
"""

from __future__ import annotations

from typing import Literal

from keet.render.json.encoding.fields import Document, field
from keet.units import Number
from keet.version import __version__

Dimensions = tuple[int, int, int]
NonFinite = Literal["nan", "inf", "-inf"]
"""Numbers that ncu reports and JSON does not have: their value is null."""


class Producer(Document):
    name: Literal["keet"] = "keet"
    version: str = __version__


class ReportDocument(Document):
    path: str
    sha256: str = field(description="of the report's bytes, as they were read")
    format: Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]
    size: int = field(description="bytes")
    reader: str = field(description="the code that turned the bytes into numbers")
    ncu_version: str | None
    cuda_version: str | None
    driver_version: str | None
    command_line: str | None = field(description="ncu's own, recorded since 2022.2")
    created: str | None = field(description="ISO 8601, UTC")
    launch_count: int
    snapshot: str | None = field(
        default=None, description="the .keet.json that was read in its place"
    )
    notes: list[str] = field(default=[])


class DeviceDocument(Document):
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    index: int | None = field(
        default=None, description="which of the machine's GPUs, where recorded"
    )


class QuantityDocument(Document):
    value: Number | None = field(description="null: see `nonfinite`")
    unit: str
    nonfinite: NonFinite | None = None


EVIDENCE_IDS = (
    "by id: the metric, the source line if it belongs to one, and the launch, as in "
    "`l2_hit_rate_pct#0` and `samples_share@flip.cu:31#0`; `#run`: of several launches"
)


class EvidenceDocument(Document):
    metric: str = field(description="ncu's name, or one of keet's own for what is computed")
    label: str
    value: Number
    unit: str
    line: str | None = None
    derived_from: list[str] | None = field(
        default=None, description="ids of what it was computed from"
    )


class RunKernelDocument(Document):
    """One kernel in all its launch shapes."""

    kernel: str = field(description="short stable name")
    kernel_full: str = field(description="demangled, as far as the table knows it")
    share_pct: float = field(description="per cent of the run's GPU time")
    launches: int
    busy: QuantityDocument = field(
        description="microseconds; its part of the GPU time: overlapping kernels share it"
    )
    shortest: QuantityDocument | None = field(description="launch; null: only totals are known")
    longest: QuantityDocument | None
    profiled: list[int] = field(description="launches of the report that stand for it, by id")
    evidence: list[str] = field(description="ids in the run's `evidence`")


class SkippedKernelDocument(Document):
    """A kernel that was to be profiled and could not be."""

    kernel: str
    reason: str
    remedy: str


class MigrationsDocument(Document):
    """What moved between host and GPU because of managed memory, over the whole run."""

    to_gpu_bytes: int
    to_host_bytes: int
    fault_groups: int = field(description="groups of page faults that kernels caused")


class RunDocument(Document):
    """A run of the whole program without a profiler."""

    recorder: Literal["cupti", "nsys", "ncu", "file"]
    recorded: str = field(description="how the times were measured, in words")
    created: str | None = field(description="ISO 8601, UTC")
    path: str | None = field(description="the table that was read; null: it is in the snapshot")
    launches: int
    busy: QuantityDocument = field(
        description="microseconds in which the GPU ran at least one kernel, over all GPUs; the "
        "sum of all durations where `overlap_known` is false"
    )
    total: QuantityDocument = field(
        description="sum of all durations; more than `busy` where kernels overlap"
    )
    span: QuantityDocument | None = field(
        description="from the start of the first kernel to the end of the last one"
    )
    wall_seconds: float | None = field(description="of the whole program in that run")
    overlap_known: bool = field(
        description="whether the table tells which kernels ran at the same time"
    )
    gpus: int | None = field(description="that ran kernels; null: not known")
    covered_pct: float | None = field(
        description="per cent of the GPU time that the launches of the report stand for; null: "
        "the report holds ranges or graphs, and the table does not tell what is in them"
    )
    kernels: list[RunKernelDocument] = field(description="the largest share first")
    managed_bytes: int | None = field(description="managed memory that the program allocated")
    migrations: MigrationsDocument | None
    skipped: list[SkippedKernelDocument]
    notes: list[str]
    text: list[str] = field(description="sentences about the run")
    evidence: dict[str, EvidenceDocument] = field(description=EVIDENCE_IDS)


class SkippedDocument(Document):
    check: str
    reason: str
    remedy: str
