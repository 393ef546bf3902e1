"""`keet insights --format json`: its types. They have the fields of the records in keet.corpus."""

from __future__ import annotations

from typing import Any, Literal

from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer


class FactDocument(Document):
    """A number that a text says."""

    column: str = field(
        description="of the store's view `launches`; `knob`: a value that a name or launch holds; "
        "`computed`: from others, or over many rows; `explanation.ceilings.UNIT`: in that JSON"
    )
    label: str
    value: float
    unit: str
    path: str | None = field(description="the report; null: it is not of one report")
    launch: int | None
    derived_from: list[str] = field(description="ids of what it was computed from")


class CurvePointDocument(Document):
    value: float | str = field(description="of the knob")
    shown: str
    path: str
    launch: int
    files: int = field(description="with this value; the one with the median time is shown")
    time_us: float
    cost: float | None = field(description="us per `work_unit`; null: the work is the same")
    limiter: str | None = field(description="as in the view `launches`; null: not known")
    reached_pct: float | None
    units: dict[str, float] = field(
        description="share of peak over the elapsed cycles in per cent, as `ceilings` of "
        "`keet explain` have it; a unit that was not measured is absent"
    )
    tied: bool = field(description="no slower than the best beyond noise")


class LimiterChangeDocument(Document):
    after: str = field(description="the last value of the knob before the change")
    until: str = field(description="the first value after it")
    was: str
    becomes: str


class LeftOutDocument(Document):
    value: float
    shown: str
    path: str
    why: str = field(description="what else differs there")


class SweepDocument(Document):
    """One kernel while one thing varies."""

    kernel: str
    device: str
    knob: str
    source: str = field(description="where the knob was seen: `file name`, `command line`, ...")
    kind: Literal["parameter", "size", "gpu", "version"]
    fixed: list[str] = field(description="what was chosen and stays the same")
    moves_with: list[str] = field(description="what changes with the knob")
    work: Literal["same", "varies", "unknown"]
    work_unit: str | None
    points: list[CurvePointDocument]
    best: int | None = field(description="position in `points`; null: none is named")
    only_noise: bool
    changes: list[LimiterChangeDocument]
    left_out: list[LeftOutDocument] = field(
        description="files with the knob in their name that are no points"
    )


class ClusterKernelDocument(Document):
    kernel: str
    path: str = field(description="the file in which it takes longest: its times are given here")
    shown_path: str = field(description="as much of the path as tells it from other rows")
    versions: int = field(description="files of that folder in which it has the finding")
    launches: int
    files: int
    time_us: float
    share_pct: float = field(description="of the GPU's time in the store")
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


class ClusterDocument(Document):
    """Kernels of one GPU with the same finding."""

    finding: str = field(description="an id of keet's catalog")
    label: str
    device: str
    kernels: list[ClusterKernelDocument] = field(description="the largest savings first; not all")
    kernel_count: int
    row_count: int = field(description="a kernel has a row in each folder")
    launches: int = field(description="all that have the finding")
    files: int
    versions: int = field(
        description="captures of other versions than the slowest of a folder: not in the times"
    )
    time_us: float
    total_us: float = field(
        description="all launches of this GPU in the store; of basis `run` also kernels that were "
        "not profiled"
    )
    share_pct: float
    saved_low_us: float = field(description="if all were fixed, by the forecast of each launch")
    saved_likely_us: float
    saved_high_us: float
    remedy: str
    basis: Literal["run", "reports"] = field(
        description="what times are of: `run`, whole runs, where those of all files on this GPU "
        "are known; `reports`, the profiled launches"
    )


class MovedDocument(Document):
    metric: str = field(description="id in keet's catalog")
    label: str
    unit: str
    usual: float
    here: float


class OutlierDocument(Document):
    path: str
    launch: int
    time_us: float
    times: float = field(description="as long as the median of its peers")
    moved: list[MovedDocument]


class OutliersDocument(Document):
    """Launches that take much longer than others of the same kernel and shape in their file."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    peers: int
    median_us: float
    spread_pct: float = field(description="a standard deviation of the peers, robustly")
    launches: list[OutlierDocument] = field(description="the longest; not all")
    found: int


class DatedDocument(Document):
    path: str
    launch: int
    created: str = field(description="UTC")
    time_us: float


class ChangeDocument(Document):
    """The time of a kernel is another from some file on."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    history: list[DatedDocument]
    last_before: int = field(description="position in `history`: the change follows it")
    before_us: float
    after_us: float
    change_pct: float
    slower: bool
    limiter_before: str | None
    limiter_after: str | None
    moved: list[MovedDocument]
    versions: list[str] = field(description="what of driver, CUDA and ncu changed there too")


class UncheckedSentenceDocument(Document):
    text: str
    reason: str


class WrittenDocument(Document):
    """What a model wrote; keet printed the numbers in it from the facts of this insight."""

    text: str = field(description="unchecked sentences are marked with `[unchecked]`")
    unchecked: list[UncheckedSentenceDocument] = field(
        description="sentences with a number that is no reference to a fact"
    )


class InsightDocument(Document):
    id: str
    kind: Literal["sweep", "cluster", "outliers", "change"]
    title: str
    text: list[str]
    adds: str = field(
        description="what the set adds over the best single profile; empty: one file shows it all"
    )
    facts: dict[str, FactDocument]
    sweep: SweepDocument | None
    cluster: ClusterDocument | None
    outliers: OutliersDocument | None
    change: ChangeDocument | None
    written: WrittenDocument | None = field(description="null: no model wrote of it")


class InsightsGroundingDocument(Document):
    numbers: int = field(description="in all texts of the analyst")
    verified: int
    stray: list[str]


class InsightsUsageDocument(Document):
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None = field(description="US$; null: the price is not known")
    seconds: float
    estimated: bool


class InsightsDocument(Document):
    """`keet insights --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    store: str
    author: str = field(default="analyst", description="`analyst`, or `model:PROVIDER:NAME`")
    files: int
    launches: int
    devices: list[str]
    insights: list[InsightDocument]
    notes: list[str] = field(description="what could not be judged")
    grounding: InsightsGroundingDocument
    usage: InsightsUsageDocument | None = field(
        default=None, description="null: no model was asked"
    )
    problem: str | None = field(
        default=None, description="why a model's part is missing or incomplete"
    )


def insights_document(insights: object, store: str, **authorship: Any) -> InsightsDocument:
    """Of the records of keet.corpus, by their attributes: the two do not know each other."""
    fields = ("files", "launches", "devices", "insights", "notes", "grounding")
    given = {name: getattr(insights, name) for name in fields}
    return InsightsDocument(store=store, **given, **authorship)
