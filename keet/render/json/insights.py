"""`keet insights --format json`: its types. They have the fields of the records in keet.corpus."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from keet.render.json.documents import Document, Producer


class FactDocument(Document):
    """A number that a text says."""

    column: str = Field(
        description="of the store's view `launches`; `knob`: a value that a name or launch holds; "
        "`computed`: from others, or over many rows; `explanation.ceilings.UNIT`: in that JSON"
    )
    label: str
    value: float
    unit: str
    path: str | None = Field(description="the report; null: it is not of one report")
    launch: int | None
    derived_from: list[str] = Field(description="ids of what it was computed from")


class CurvePointDocument(Document):
    value: float | str = Field(description="of the knob")
    shown: str
    path: str
    launch: int
    files: int = Field(description="with this value; the one with the median time is shown")
    time_us: float
    cost: float | None = Field(description="us per `work_unit`; null: the work is the same")
    limiter: str | None = Field(description="as in the view `launches`; null: not known")
    reached_pct: float | None
    units: dict[str, float] = Field(
        description="share of peak over the elapsed cycles in per cent, as `ceilings` of "
        "`keet explain` have it; a unit that was not measured is absent"
    )
    tied: bool = Field(description="no slower than the best beyond noise")


class LimiterChangeDocument(Document):
    after: str = Field(description="the last value of the knob before the change")
    until: str = Field(description="the first value after it")
    was: str
    becomes: str


class LeftOutDocument(Document):
    value: float
    shown: str
    path: str
    why: str = Field(description="what else differs there")


class SweepDocument(Document):
    """One kernel while one thing varies."""

    kernel: str
    device: str
    knob: str
    source: str = Field(description="where the knob was seen: `file name`, `command line`, ...")
    kind: Literal["parameter", "size", "gpu", "version"]
    fixed: list[str] = Field(description="what was chosen and stays the same")
    moves_with: list[str] = Field(description="what changes with the knob")
    work: Literal["same", "varies", "unknown"]
    work_unit: str | None
    points: list[CurvePointDocument]
    best: int | None = Field(description="position in `points`; null: none is named")
    only_noise: bool
    changes: list[LimiterChangeDocument]
    left_out: list[LeftOutDocument] = Field(
        description="files with the knob in their name that are no points"
    )


class ClusterKernelDocument(Document):
    kernel: str
    path: str = Field(description="the file in which it takes longest: its times are given here")
    shown_path: str = Field(description="as much of the path as tells it from other rows")
    versions: int = Field(description="files of that folder in which it has the finding")
    launches: int
    files: int
    time_us: float
    share_pct: float = Field(description="of the GPU's time in the store")
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


class ClusterDocument(Document):
    """Kernels of one GPU with the same finding."""

    finding: str = Field(description="an id of keet's catalog")
    label: str
    device: str
    kernels: list[ClusterKernelDocument] = Field(description="the largest savings first; not all")
    kernel_count: int
    row_count: int = Field(description="a kernel has a row in each folder")
    launches: int = Field(description="all that have the finding")
    files: int
    versions: int = Field(
        description="captures of other versions than the slowest of a folder: not in the times"
    )
    time_us: float
    total_us: float = Field(
        description="all launches of this GPU in the store; of basis `run` also kernels that were "
        "not profiled"
    )
    share_pct: float
    saved_low_us: float = Field(description="if all were fixed, by the forecast of each launch")
    saved_likely_us: float
    saved_high_us: float
    remedy: str
    basis: Literal["run", "reports"] = Field(
        description="what times are of: `run`, whole runs, where those of all files on this GPU "
        "are known; `reports`, the profiled launches"
    )


class MovedDocument(Document):
    metric: str = Field(description="id in keet's catalog")
    label: str
    unit: str
    usual: float
    here: float


class OutlierDocument(Document):
    path: str
    launch: int
    time_us: float
    times: float = Field(description="as long as the median of its peers")
    moved: list[MovedDocument]


class OutliersDocument(Document):
    """Launches that take much longer than others of the same kernel and shape in their file."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    peers: int
    median_us: float
    spread_pct: float = Field(description="a standard deviation of the peers, robustly")
    launches: list[OutlierDocument] = Field(description="the longest; not all")
    found: int


class DatedDocument(Document):
    path: str
    launch: int
    created: str = Field(description="UTC")
    time_us: float


class ChangeDocument(Document):
    """The time of a kernel is another from some file on."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    history: list[DatedDocument]
    last_before: int = Field(description="position in `history`: the change follows it")
    before_us: float
    after_us: float
    change_pct: float
    slower: bool
    limiter_before: str | None
    limiter_after: str | None
    moved: list[MovedDocument]
    versions: list[str] = Field(description="what of driver, CUDA and ncu changed there too")


class UncheckedSentenceDocument(Document):
    text: str
    reason: str


class WrittenDocument(Document):
    """What a model wrote; keet printed the numbers in it from the facts of this insight."""

    text: str = Field(description="unchecked sentences are marked with `[unchecked]`")
    unchecked: list[UncheckedSentenceDocument] = Field(
        description="sentences with a number that is no reference to a fact"
    )


class InsightDocument(Document):
    id: str
    kind: Literal["sweep", "cluster", "outliers", "change"]
    title: str
    text: list[str]
    adds: str = Field(
        description="what the set adds over the best single profile; empty: one file shows it all"
    )
    facts: dict[str, FactDocument]
    sweep: SweepDocument | None
    cluster: ClusterDocument | None
    outliers: OutliersDocument | None
    change: ChangeDocument | None
    written: WrittenDocument | None = Field(description="null: no model wrote of it")


class InsightsGroundingDocument(Document):
    numbers: int = Field(description="in all texts of the analyst")
    verified: int
    stray: list[str]


class InsightsUsageDocument(Document):
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None = Field(description="US$; null: the price is not known")
    seconds: float
    estimated: bool


class InsightsDocument(Document):
    """`keet insights --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    store: str
    author: str = Field("analyst", description="`analyst`, or `model:PROVIDER:NAME`")
    files: int
    launches: int
    devices: list[str]
    insights: list[InsightDocument]
    notes: list[str] = Field(description="what could not be judged")
    grounding: InsightsGroundingDocument
    usage: InsightsUsageDocument | None = Field(None, description="null: no model was asked")
    problem: str | None = Field(None, description="why a model's part is missing or incomplete")


def insights_document(insights: object, store: str, **authorship: object) -> InsightsDocument:
    """Of the records of keet.corpus, by their attributes: the two do not know each other."""
    fields = ("files", "launches", "devices", "insights", "notes", "grounding")
    given = {name: getattr(insights, name) for name in fields}
    return InsightsDocument.model_validate(
        {"store": store, **given, **authorship}, from_attributes=True
    )
