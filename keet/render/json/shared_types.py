"""Types that several JSON documents share; `keet schema` publishes them.

Each document has its own `schema_version`. Fields are only added; a change that breaks readers of a
document increases its version. `schema` lists the documents by command.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from keet.render.json.encoding.fields import Document, field
from keet.units import Number
from keet.version import __version__


class _InRegistry:
    """Lists the ids of all findings in the JSON Schema of a text; asked by pydantic."""

    def __get_pydantic_json_schema__(self, core: Any, schema_of: Any) -> dict[str, Any]:
        from keet.findings import findings

        return {**schema_of(core), "enum": list(findings())}


FindingId = Annotated[str, _InRegistry()]
Dimensions = tuple[int, int, int]
NonFinite = Literal["nan", "inf", "-inf"]
"""Values that ncu reports and JSON cannot represent: their value is null."""


class Producer(Document):
    name: Literal["keet"] = "keet"
    version: str = __version__


class OriginDocument(Document):
    size: int = field(description="Bytes.")
    sha256: str


class ReportDocument(Document):
    path: str = field(
        description="Of a snapshot: of the report that it was made from, as the snapshot states."
    )
    sha256: str = field(description="Hash of the bytes of the file that was read.")
    format: Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]
    size: int = field(description="Bytes of the file that was read.")
    reader: str = field(description="The reader that parsed the bytes.")
    ncu_version: str | None
    cuda_version: str | None
    driver_version: str | None
    command_line: str | None = field(
        description="ncu's command line, which ncu records since version 2022.2."
    )
    created: str | None = field(description="ISO 8601, UTC.")
    launch_count: int
    snapshot: str | None = field(
        default=None, description="The .keet.json file that was read instead of the report."
    )
    notes: list[str] = field(default=[])
    origin: OriginDocument | None = field(
        default=None,
        description="The report that a snapshot was made from, as the snapshot states.",
    )


class DeviceDocument(Document):
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    index: int | None = field(
        default=None, description="Index of the GPU in its machine, if recorded."
    )


class QuantityDocument(Document):
    value: Number | None = field(description="Null if the number is not finite: see `nonfinite`.")
    unit: str
    nonfinite: NonFinite | None = None


EVIDENCE_IDS = (
    "Numbers by id. An id consists of the metric, the source line if there is one, and the launch: "
    "`l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches."
)


class EvidenceDocument(Document):
    metric: str = field(
        description="ncu's name of the metric; for computed numbers, keet's own name."
    )
    label: str
    value: Number
    unit: str
    line: str | None = None
    derived_from: list[str] | None = field(
        default=None, description="Ids of the numbers that it was computed from."
    )


class RunKernelDocument(Document):
    """One kernel of the run, in all its launch shapes."""

    kernel: str = field(description="Short stable name.")
    kernel_full: str = field(description="Demangled name, as far as the run table has it.")
    share_pct: float = field(description="Per cent of the run's GPU time.")
    launches: int
    busy: QuantityDocument = field(
        description="The kernel's part of the GPU time in microseconds; overlapping kernels share "
        "it."
    )
    shortest: QuantityDocument | None = field(
        description="Duration of the shortest launch; null if only totals are known."
    )
    longest: QuantityDocument | None
    profiled: list[int] = field(description="Ids of the launches in the report that represent it.")
    evidence: list[str] = field(description="Ids in the run's `evidence`.")


class SkippedKernelDocument(Document):
    """A kernel that was selected for profiling but could not be profiled."""

    kernel: str
    reason: str
    remedy: str


class MigrationsDocument(Document):
    """Data that managed memory moved between host and GPU, over the whole run."""

    to_gpu_bytes: int
    to_host_bytes: int
    fault_groups: int = field(description="Groups of page faults caused by kernels.")


class RunDocument(Document):
    """A run of the whole program without a profiler."""

    recorder: Literal["cupti", "nsys", "ncu", "file"]
    recorded: str = field(description="How the times were measured, in words.")
    created: str | None = field(description="ISO 8601, UTC.")
    path: str | None = field(
        description="The run table that was read; null if it is part of the snapshot."
    )
    launches: int
    busy: QuantityDocument = field(
        description="Microseconds in which the GPU ran at least one kernel, over all GPUs. The sum "
        "of all durations if `overlap_known` is false."
    )
    total: QuantityDocument = field(
        description="Sum of all durations; more than `busy` if kernels overlap."
    )
    span: QuantityDocument | None = field(
        description="Time from the start of the first kernel to the end of the last one."
    )
    wall_seconds: float | None = field(description="Wall time of the whole program in that run.")
    overlap_known: bool = field(
        description="Whether the table shows which kernels ran at the same time."
    )
    gpus: int | None = field(description="Number of GPUs that ran kernels; null if not known.")
    covered_pct: float | None = field(
        description="Per cent of the GPU time that the launches of the report represent. Null if "
        "the report has ranges or graphs, because the table does not show what they "
        "contain."
    )
    kernels: list[RunKernelDocument] = field(description="The largest share comes first.")
    managed_bytes: int | None = field(
        description="Bytes of managed memory that the program allocated."
    )
    migrations: MigrationsDocument | None
    skipped: list[SkippedKernelDocument]
    notes: list[str]
    text: list[str] = field(description="Sentences about the run.")
    evidence: dict[str, EvidenceDocument] = field(description=EVIDENCE_IDS)


class SkippedDocument(Document):
    check: str
    reason: str
    remedy: str
