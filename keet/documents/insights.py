"""`keet insights --format json`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from keet.documents.document import Document, plain
from keet.documents.model_explanation import UsageDocument
from keet.documents.shared_types import CommandResult, WrittenAs
from keet.evidence import Evidence
from keet.units import Quantity, base_unit, format_number

Work = Literal["same", "varies", "unknown"]
Basis = Literal["run", "reports"]


class FactDocument(Document):
    """A number in a text."""

    column: str
    """Where the number comes from. A column of the store's view `launches`. `knob`: a value in a
    file name or of a launch. `computed`: computed from other facts, or over many rows.
    `explanation.ceilings.UNIT`: in that JSON document."""
    label: str
    value: float
    unit: str
    path: str | None
    """The report; null if the number does not belong to a single report."""
    launch: int | None
    derived_from: list[str]
    """Ids of the facts that it was computed from."""


class Fact(Evidence):
    """A number in a text: a cell of the store, or computed from cells. Its id says what the number
    is and of which point: `duration_us#2`, `slowest_to_best#set`."""

    path: str | None = None
    launch: int | None = None

    def __str__(self) -> str:
        """Times in a suitable unit: `13.7 ms`, not `13,700 us`."""
        quantity = Quantity(self.value, self.unit)
        return str(quantity.to_base() if self.unit == "us" else quantity)

    def __format__(self, spec: str) -> str:
        """Also `knob`, as names write it: `1024`; and `amount`, after a label: the unit is printed
        only if the label does not imply it."""
        if spec == "knob":
            return shown_value(self.value)
        if spec == "amount":
            head = base_unit(self.unit).partition("/")[0]
            scaled = head in ("%", "ns", "byte", "hz", "bit", "flop", "op")
            return str(self) if scaled else format_number(float(self.value))
        if spec and self.unit == "x":
            return f"{self.value:{spec}}x"
        return super().__format__(spec)

    def json_fields(self) -> dict[str, Any]:
        """Those of a `FactDocument`."""
        return {
            "column": self.metric,
            "label": self.label,
            "value": plain(self.value),
            "unit": self.unit,
            "path": self.path,
            "launch": self.launch,
            "derived_from": list(self.derived_from or ()),
        }


JsonFact = Annotated[Fact, WrittenAs(FactDocument)]
"""In a mapping by id."""


def shown_value(value: float | str) -> str:
    """The value of a knob, as names write it."""
    return value if isinstance(value, str) else f"{value:g}" if value < 1e6 else f"{value:.0f}"


class CurvePointDocument(Document):
    value: float | str
    """Value of the knob."""
    shown: str
    path: str
    launch: int
    files: int
    """Number of files with this value; the one with the median time is shown."""
    time_us: float
    cost: float | None
    """Microseconds per `work_unit`; null if the work is the same at all points."""
    limiter: str | None
    """As in the view `launches`; null if not known."""
    reached_pct: float | None
    units: dict[str, float]
    """Per cent of peak over the elapsed cycles, as in `ceilings` of `keet explain`. A unit that was
    not measured is absent."""
    tied: bool
    """True if it is not slower than the best point beyond noise."""


class LimiterChangeDocument(Document):
    after: str
    """The last value of the knob before the change."""
    until: str
    """The first value of the knob after the change."""
    was: str
    becomes: str


class LeftOutDocument(Document):
    value: float
    shown: str
    path: str
    why: str
    """What else differs in that file."""


class SweepDocument(Document):
    """One kernel measured at several values of one parameter (the knob)."""

    kernel: str
    device: str
    knob: str
    source: str
    """Where the knob was found: `file name`, `command line`, ..."""
    kind: Literal["parameter", "size", "gpu", "version"]
    fixed: list[str]
    """Parameters that stay the same."""
    moves_with: list[str]
    """What changes together with the knob."""
    work: Work
    work_unit: str | None
    points: list[CurvePointDocument]
    best: int | None
    """Position in `points`; null if no point is the best."""
    only_noise: bool
    changes: list[LimiterChangeDocument]
    left_out: list[LeftOutDocument]
    """Files with the knob in their name that are not among the points."""

    def limiters_around(self, change: LimiterChangeDocument) -> tuple[str, str]:
        """The limiters before and after a change, in the words of the table."""
        named = {point.shown: point.limiter or "" for point in self.points}
        return named[change.after], named[change.until]


class ClusterKernelDocument(Document):
    kernel: str
    path: str
    """The file in which the kernel takes longest; the times here are from it."""
    shown_path: str
    """The shortest part of the path that distinguishes it from other rows."""
    versions: int
    """Number of files in that folder in which the kernel has the finding."""
    launches: int
    files: int
    time_us: float
    share_pct: float
    """Per cent of the GPU's time in the store."""
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


class ClusterDocument(Document):
    """Kernels of one GPU with the same finding."""

    finding: str
    """Id of the finding in keet's catalog."""
    label: str
    device: str
    kernels: list[ClusterKernelDocument]
    """The largest savings first; not all of them."""
    kernel_count: int
    row_count: int
    """Number of rows; a kernel has one row per folder."""
    launches: int
    """Number of launches with the finding."""
    files: int
    versions: int
    """Captures of other versions than the slowest one in a folder; they are not in the times."""
    time_us: float
    total_us: float
    """Time of all launches of this GPU in the store; with basis `run` it includes kernels that were
    not profiled."""
    share_pct: float
    saved_low_us: float
    """Time saved if all were fixed, by the forecast of each launch."""
    saved_likely_us: float
    saved_high_us: float
    remedy: str
    basis: Basis
    """What the times cover. `run`: whole runs, if they are known for all files of this GPU.
    `reports`: the profiled launches."""


class MovedDocument(Document):
    metric: str
    """Id of the metric in keet's catalog."""
    label: str
    unit: str
    usual: float
    here: float


class OutlierDocument(Document):
    path: str
    launch: int
    time_us: float
    times: float
    """Duration over the median duration of its peers."""
    moved: list[MovedDocument]


class OutliersDocument(Document):
    """Launches that take much longer than others of the same kernel and shape in their file."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    peers: int
    median_us: float
    spread_pct: float
    """Robust standard deviation of the peers, in per cent."""
    launches: list[OutlierDocument]
    """The longest ones; not all of them."""
    found: int


class DatedDocument(Document):
    path: str
    launch: int
    created: str
    """UTC."""
    time_us: float


class ChangeDocument(Document):
    """From some file on, a kernel takes a different time."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    history: list[DatedDocument]
    last_before: int
    """Position in `history` of the last file before the change."""
    before_us: float
    after_us: float
    change_pct: float
    slower: bool
    limiter_before: str | None
    limiter_after: str | None
    moved: list[MovedDocument]
    versions: list[str]
    """Versions of driver, CUDA and ncu that changed at the same file."""


class UncheckedSentenceDocument(Document):
    text: str
    reason: str


class WrittenDocument(Document):
    """A model's text; keet printed its numbers from the facts of this insight."""

    text: str
    """Unchecked sentences are marked with `[unchecked]`."""
    unchecked: list[UncheckedSentenceDocument]
    """Sentences with a number that does not refer to a fact."""


class InsightDocument(Document):
    id: str
    kind: Literal["sweep", "cluster", "outliers", "change"]
    title: str
    text: list[str]
    adds: str
    """What the files show together, compared with the best single profile; empty if they add
    nothing to it."""
    facts: dict[str, JsonFact]
    sweep: SweepDocument | None
    cluster: ClusterDocument | None
    outliers: OutliersDocument | None
    change: ChangeDocument | None
    written: WrittenDocument | None
    """Null if no model wrote about it."""

    def knob_values(self) -> dict[tuple[str | None, int | None], str]:
        """What distinguishes facts of the points of a sweep: `BLOCK 32`, by path and launch."""
        if self.sweep is None:
            return {}
        points, knob = self.sweep.points, self.sweep.knob
        return {(point.path, point.launch): f"{knob} {point.shown}" for point in points}


class InsightsGroundingDocument(Document):
    numbers: int
    """Numbers in all of keet's own texts."""
    verified: int
    stray: list[str]


class InsightsUsageDocument(UsageDocument):
    cost: float | None  # type: ignore[assignment]
    """US dollars; null if the price is not known."""


class InsightsDocument(CommandResult):
    """`keet insights --format json`"""

    store: str
    author: str = "analyst"
    """`analyst` (keet alone), or `model:PROVIDER:NAME`."""
    files: int
    launches: int
    devices: list[str]
    insights: list[InsightDocument]
    notes: list[str]
    """What could not be checked."""
    grounding: InsightsGroundingDocument
    usage: InsightsUsageDocument | None = None
    """Null if no model was used."""
    problem: str | None = None
    """Why a model's part is missing or incomplete."""

    def first_of_each_kind(self, most: int) -> list[InsightDocument]:
        counts: Counter[str] = Counter()
        first = []
        for insight in self.insights:
            counts[insight.kind] += 1
            if counts[insight.kind] <= most:
                first.append(insight)
        return first
