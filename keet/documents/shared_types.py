"""Types that several documents share.

Each document has its own `schema_version`. Fields are only added; a change that breaks readers of a
document increases its version.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from keet.documents.document import LEFT_OUT, Document
from keet.evidence import Evidence, Prose, Sentence
from keet.profile import Location
from keet.profile.run_table import Migrations, SkippedKernel
from keet.units import Number, Quantity
from keet.version import __version__


class _OneOfAll:
    """Marks the ids of findings in a JSON Schema, which the registry knows; asked by pydantic."""

    def __get_pydantic_json_schema__(self, core: Any, schema_of: Any) -> dict[str, Any]:
        return {**schema_of(core), "enum": FINDING_IDS}


FINDING_IDS = "ids of findings"
FindingId = Annotated[str, _OneOfAll()]
Dimensions = tuple[int, int, int]
NonFinite = Literal["nan", "inf", "-inf"]
"""Values that ncu reports and JSON cannot represent: their value is null."""


class Producer(Document):
    name: Literal["keet"] = "keet"
    version: str = __version__


KEET = Producer()


class CommandResult(Document):
    """What a command prints."""

    schema_version: Literal[1] = 1
    producer: Producer = KEET


class QuantityDocument(Document):
    value: Number | None
    """Null if the number is not finite: see `nonfinite`."""
    unit: str
    nonfinite: NonFinite | None = None


class NumberDocument(Document):
    """One number that a text may cite."""

    metric: str
    """ncu's name of the metric; for computed numbers, keet's own name."""
    value: Number | None
    """Null if the number is not finite: see `nonfinite`."""
    unit: str
    line: str | None
    """For example `file.cu:31`, if the number belongs to one source line."""
    derived_from: list[str] | None
    """Ids of the numbers that it was computed from."""
    label: str
    nonfinite: NonFinite | None = None


class WrittenAs:
    """The form of a value in JSON, for pydantic."""

    def __init__(self, form: Any) -> None:
        self._form = form

    def __get_pydantic_core_schema__(self, _source: Any, handler: Any) -> Any:
        return handler.generate_schema(self._form)


class Described:
    """The description of a type, for fields of several documents; for pydantic."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get_pydantic_json_schema__(self, core: Any, schema_of: Any) -> dict[str, Any]:
        return {**schema_of(core), "description": self._text}


JsonQuantity = Annotated[Quantity, WrittenAs(QuantityDocument)]
EvidenceId = Annotated[Evidence, WrittenAs(str)]
JsonNumber = Annotated[Evidence, WrittenAs(NumberDocument)]
"""In a mapping by id."""
JsonSentence = Annotated[Sentence, WrittenAs(str)]
JsonProse = Annotated[Prose, WrittenAs(str)]


class SourcePlace(Document):
    file: str
    line: int


JsonLocation = Annotated[Location, WrittenAs(SourcePlace)]


NumbersById = Annotated[
    dict[str, JsonNumber],
    Described(
        "Numbers by id. An id consists of the metric, the source line if there is one, and the "
        "launch: `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. `#run` means several launches."
    ),
]


class OriginDocument(Document):
    size: int
    """Bytes."""
    sha256: str


class ReportDocument(Document):
    path: str
    """Of a snapshot: of the report that it was made from, as the snapshot states."""
    sha256: str
    """Hash of the bytes of the file that was read."""
    format: Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]
    size: int
    """Bytes of the file that was read."""
    reader: str
    """The reader that parsed the bytes."""
    ncu_version: str | None
    cuda_version: str | None
    driver_version: str | None
    command_line: str | None
    """ncu's command line, which ncu records since version 2022.2."""
    created: str | None
    """ISO 8601, UTC."""
    launch_count: int
    snapshot: str | None = None
    """The .keet.json file that was read instead of the report."""
    notes: list[str] = field(default_factory=list)
    origin: OriginDocument | None = None
    """The report that a snapshot was made from, as the snapshot states."""
    evidence: dict[str, JsonNumber] = LEFT_OUT
    """Numbers of the notes, by id; left out if they have none."""


class ReportResult(CommandResult):
    report: ReportDocument


class LaunchResult(Document):
    id: int
    kernel: str
    """Short stable name."""


class DeviceDocument(Document):
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    index: int | None = None
    """Index of the GPU in its machine, if recorded."""


class RunKernelDocument(Document):
    """One kernel of the run, in all its launch shapes."""

    kernel: str
    """Short stable name."""
    kernel_full: str
    """Demangled name, as far as the run table has it."""
    share_pct: float
    """Per cent of the run's GPU time."""
    launches: int
    busy: JsonQuantity
    """The kernel's part of the GPU time in microseconds; overlapping kernels share it."""
    shortest: JsonQuantity | None
    """Duration of the shortest launch; null if only totals are known."""
    longest: JsonQuantity | None
    profiled: tuple[int, ...]
    """Ids of the launches in the report that represent it."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the run's `evidence`."""


class SkippedKernelDocument(Document):
    """A kernel that was selected for profiling but could not be profiled."""

    kernel: str
    reason: str
    remedy: str


class MigrationsDocument(Document):
    """Data that managed memory moved between host and GPU, over the whole run."""

    to_gpu_bytes: int
    to_host_bytes: int
    fault_groups: int
    """Groups of page faults caused by kernels."""


class RunDocument(Document):
    """A run of the whole program without a profiler."""

    recorder: Literal["cupti", "nsys", "ncu", "file"]
    recorded: str
    """How the times were measured, in words."""
    created: str | None
    """ISO 8601, UTC."""
    path: str | None
    """The run table that was read; null if it is part of the snapshot."""
    launches: int
    busy: JsonQuantity
    """Microseconds in which the GPU ran at least one kernel, over all GPUs. The sum of all
    durations if `overlap_known` is false."""
    total: JsonQuantity
    """Sum of all durations; more than `busy` if kernels overlap."""
    span: JsonQuantity | None
    """Time from the start of the first kernel to the end of the last one."""
    wall_seconds: float | None
    """Wall time of the whole program in that run."""
    overlap_known: bool
    """Whether the table shows which kernels ran at the same time."""
    gpus: int | None
    """Number of GPUs that ran kernels; null if not known."""
    covered_pct: float | None
    """Per cent of the GPU time that the launches of the report represent. Null if the report has
    ranges or graphs, because the table does not show what they contain."""
    kernels: tuple[RunKernelDocument, ...]
    """The largest share comes first."""
    managed_bytes: int | None
    """Bytes of managed memory that the program allocated."""
    migrations: Annotated[Migrations, WrittenAs(MigrationsDocument)] | None
    skipped: tuple[Annotated[SkippedKernel, WrittenAs(SkippedKernelDocument)], ...]
    notes: tuple[str, ...]
    text: tuple[str, ...]
    """Sentences about the run."""
    evidence: NumbersById


class Skipped(Document, kw_only=False):
    """A check that could not be made."""

    check: str
    reason: str
    remedy: str


class FigureDocument(Document):
    """A figure of the launch's head."""

    id: str
    """Rates: `arithmetic` (the type of arithmetic that comes nearest to its peak), `dram`, `l2`,
    `l2_hits`. Bytes and hit rates: `dram_read`, `dram_written`, `l2_bytes` (between L1 and L2),
    `l2_hit_rate`, `l1_hit_rate`. Resources: `waves`, `registers_per_thread`, `spills_per_thread`
    (loads and stores of spilled registers, if there are any), `shared_memory_per_block` (in bytes),
    `blocks_per_sm`, `warps_per_sm` (those that an SM holds at a time)."""
    text: JsonSentence
    value: float | None
    unit: str
    """For example `flop/s` or `byte/s`; empty for plain numbers."""
    share_pct: float | None
    """Per cent of the peak; null if it is not a rate."""
    evidence: tuple[EvidenceId, ...]
