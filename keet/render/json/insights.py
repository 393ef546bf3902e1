"""`keet insights --format json`: the types of the document. Their fields are those of the records
in keet.corpus."""

from __future__ import annotations

from typing import Any, Literal

from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer


class FactDocument(Document):
    """A number in a text."""

    column: str = field(
        description="Where the number comes from. A column of the store's view `launches`. `knob`: "
        "a value in a file name or of a launch. `computed`: computed from other facts, "
        "or over many rows. `explanation.ceilings.UNIT`: in that JSON document."
    )
    label: str
    value: float
    unit: str
    path: str | None = field(
        description="The report; null if the number does not belong to a single report."
    )
    launch: int | None
    derived_from: list[str] = field(description="Ids of the facts that it was computed from.")


class CurvePointDocument(Document):
    value: float | str = field(description="Value of the knob.")
    shown: str
    path: str
    launch: int
    files: int = field(
        description="Number of files with this value; the one with the median time is shown."
    )
    time_us: float
    cost: float | None = field(
        description="Microseconds per `work_unit`; null if the work is the same at all points."
    )
    limiter: str | None = field(description="As in the view `launches`; null if not known.")
    reached_pct: float | None
    units: dict[str, float] = field(
        description="Per cent of peak over the elapsed cycles, as in `ceilings` of `keet explain`. "
        "A unit that was not measured is absent."
    )
    tied: bool = field(description="True if it is not slower than the best point beyond noise.")


class LimiterChangeDocument(Document):
    after: str = field(description="The last value of the knob before the change.")
    until: str = field(description="The first value of the knob after the change.")
    was: str
    becomes: str


class LeftOutDocument(Document):
    value: float
    shown: str
    path: str
    why: str = field(description="What else differs in that file.")


class SweepDocument(Document):
    """One kernel measured at several values of one parameter (the knob)."""

    kernel: str
    device: str
    knob: str
    source: str = field(description="Where the knob was found: `file name`, `command line`, ...")
    kind: Literal["parameter", "size", "gpu", "version"]
    fixed: list[str] = field(description="Parameters that stay the same.")
    moves_with: list[str] = field(description="What changes together with the knob.")
    work: Literal["same", "varies", "unknown"]
    work_unit: str | None
    points: list[CurvePointDocument]
    best: int | None = field(description="Position in `points`; null if no point is the best.")
    only_noise: bool
    changes: list[LimiterChangeDocument]
    left_out: list[LeftOutDocument] = field(
        description="Files with the knob in their name that are not among the points."
    )


class ClusterKernelDocument(Document):
    kernel: str
    path: str = field(
        description="The file in which the kernel takes longest; the times here are from it."
    )
    shown_path: str = field(
        description="The shortest part of the path that distinguishes it from other rows."
    )
    versions: int = field(
        description="Number of files in that folder in which the kernel has the finding."
    )
    launches: int
    files: int
    time_us: float
    share_pct: float = field(description="Per cent of the GPU's time in the store.")
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


class ClusterDocument(Document):
    """Kernels of one GPU with the same finding."""

    finding: str = field(description="Id of the finding in keet's catalog.")
    label: str
    device: str
    kernels: list[ClusterKernelDocument] = field(
        description="The largest savings first; not all of them."
    )
    kernel_count: int
    row_count: int = field(description="Number of rows; a kernel has one row per folder.")
    launches: int = field(description="Number of launches with the finding.")
    files: int
    versions: int = field(
        description="Captures of other versions than the slowest one in a folder; they are not in "
        "the times."
    )
    time_us: float
    total_us: float = field(
        description="Time of all launches of this GPU in the store; with basis `run` it includes "
        "kernels that were not profiled."
    )
    share_pct: float
    saved_low_us: float = field(
        description="Time saved if all were fixed, by the forecast of each launch."
    )
    saved_likely_us: float
    saved_high_us: float
    remedy: str
    basis: Literal["run", "reports"] = field(
        description="What the times cover. `run`: whole runs, if they are known for all files of "
        "this GPU. `reports`: the profiled launches."
    )


class MovedDocument(Document):
    metric: str = field(description="Id of the metric in keet's catalog.")
    label: str
    unit: str
    usual: float
    here: float


class OutlierDocument(Document):
    path: str
    launch: int
    time_us: float
    times: float = field(description="Duration over the median duration of its peers.")
    moved: list[MovedDocument]


class OutliersDocument(Document):
    """Launches that take much longer than others of the same kernel and shape in their file."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    peers: int
    median_us: float
    spread_pct: float = field(description="Robust standard deviation of the peers, in per cent.")
    launches: list[OutlierDocument] = field(description="The longest ones; not all of them.")
    found: int


class DatedDocument(Document):
    path: str
    launch: int
    created: str = field(description="UTC.")
    time_us: float


class ChangeDocument(Document):
    """From some file on, a kernel takes a different time."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    history: list[DatedDocument]
    last_before: int = field(
        description="Position in `history` of the last file before the change."
    )
    before_us: float
    after_us: float
    change_pct: float
    slower: bool
    limiter_before: str | None
    limiter_after: str | None
    moved: list[MovedDocument]
    versions: list[str] = field(
        description="Versions of driver, CUDA and ncu that changed at the same file."
    )


class UncheckedSentenceDocument(Document):
    text: str
    reason: str


class WrittenDocument(Document):
    """A model's text; keet printed its numbers from the facts of this insight."""

    text: str = field(description="Unchecked sentences are marked with `[unchecked]`.")
    unchecked: list[UncheckedSentenceDocument] = field(
        description="Sentences with a number that does not refer to a fact."
    )


class InsightDocument(Document):
    id: str
    kind: Literal["sweep", "cluster", "outliers", "change"]
    title: str
    text: list[str]
    adds: str = field(
        description="What the files show together, compared with the best single profile; empty "
        "if they add nothing to it."
    )
    facts: dict[str, FactDocument]
    sweep: SweepDocument | None
    cluster: ClusterDocument | None
    outliers: OutliersDocument | None
    change: ChangeDocument | None
    written: WrittenDocument | None = field(description="Null if no model wrote about it.")


class InsightsGroundingDocument(Document):
    numbers: int = field(description="Numbers in all of keet's own texts.")
    verified: int
    stray: list[str]


class InsightsUsageDocument(Document):
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None = field(description="US dollars; null if the price is not known.")
    seconds: float
    estimated: bool


class InsightsDocument(Document):
    """`keet insights --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    store: str
    author: str = field(
        default="analyst", description="`analyst` (keet alone), or `model:PROVIDER:NAME`."
    )
    files: int
    launches: int
    devices: list[str]
    insights: list[InsightDocument]
    notes: list[str] = field(description="What could not be checked.")
    grounding: InsightsGroundingDocument
    usage: InsightsUsageDocument | None = field(
        default=None, description="Null if no model was used."
    )
    problem: str | None = field(
        default=None, description="Why a model's part is missing or incomplete."
    )


def insights_document(insights: object, store: str, **authorship: Any) -> InsightsDocument:
    """Reads the records of keet.corpus by attribute, because render must not import corpus."""
    fields = ("files", "launches", "devices", "insights", "notes", "grounding")
    given = {name: getattr(insights, name) for name in fields}
    return InsightsDocument(store=store, **given, **authorship)
