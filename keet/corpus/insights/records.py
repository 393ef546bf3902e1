"""The records of insights, with the fields of the JSON of `keet insights`."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

Kind = Literal["sweep", "cluster", "outliers", "change"]
Work = Literal["same", "varies", "unknown"]


class InsightFact(NamedTuple):
    """A number in a text: a cell of the store, or computed from cells."""

    column: str
    """A column of the view `launches`; `knob`: a value in a name; or `computed`."""
    label: str
    value: float
    unit: str
    path: str | None
    launch: int | None
    derived_from: tuple[str, ...]


class CurvePoint(NamedTuple):
    """One value of the knob."""

    value: float | str
    shown: str
    path: str
    launch: int
    files: int
    """Number of files with this value; the one with the median time is shown."""
    time_us: float
    cost: float | None
    """Time per unit of work, if the work varies with the knob."""
    limiter: str | None
    reached_pct: float | None
    units: dict[str, float]
    """Share of peak of units that are the limiter at some point; absent if not measured."""
    tied: bool
    """As fast as the best within noise."""


class LimiterChange(NamedTuple):
    """The limiter changes between two neighbouring values."""

    after: str
    until: str
    was: str
    becomes: str


class ExcludedFile(NamedTuple):
    """A file with the knob in its name that is not in the sweep."""

    value: float
    shown: str
    path: str
    why: str


class Sweep(NamedTuple):
    """One kernel while one parameter varies."""

    kernel: str
    device: str
    knob: str
    source: str
    """Where the knob was found: file name, command line, kernel name, launch or report."""
    kind: Literal["parameter", "size", "gpu", "version"]
    fixed: tuple[str, ...]
    moves_with: tuple[str, ...]
    """What else changes with the knob."""
    work: Work
    work_unit: str | None
    points: tuple[CurvePoint, ...]
    best: int | None
    """Position in `points`; None if the points can't be compared, or differ only by noise."""
    only_noise: bool
    changes: tuple[LimiterChange, ...]
    left_out: tuple[ExcludedFile, ...] = ()


Basis = Literal["run", "reports"]


class ClusterKernel(NamedTuple):
    """A kernel in the files of one folder."""

    kernel: str
    path: str
    """The file in which it takes longest, which is the version that counts."""
    shown_path: str
    """The end of the path, long enough to be unique."""
    versions: int
    """Files of the folder in which it has the finding."""
    launches: int
    files: int
    time_us: float
    share_pct: float
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float


class Cluster(NamedTuple):
    """Kernels of one GPU that have one finding in common."""

    finding: str
    label: str
    device: str
    kernels: tuple[ClusterKernel, ...]
    """The largest savings first; not all if there are many."""
    kernel_count: int
    row_count: int
    """A kernel has a row in each folder."""
    launches: int
    files: int
    versions: int
    """Files with another version of a kernel than the slowest one, which are not counted."""
    time_us: float
    total_us: float
    share_pct: float
    saved_low_us: float
    saved_likely_us: float
    saved_high_us: float
    remedy: str
    basis: Basis = "reports"
    """What times are of: whole runs, or only the profiled launches."""


class MetricChange(NamedTuple):
    """A metric that changed along with the time."""

    metric: str
    label: str
    unit: str
    usual: float
    here: float


class Outlier(NamedTuple):
    path: str
    launch: int
    time_us: float
    times: float
    """Factor over the median of its peers."""
    moved: tuple[MetricChange, ...]


class Outliers(NamedTuple):
    """Launches that take much longer than their peers."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    peers: int
    median_us: float
    spread_pct: float
    launches: tuple[Outlier, ...]
    """The longest ones; not all if there are many."""
    found: int


class HistoryEntry(NamedTuple):
    path: str
    launch: int
    created: str
    time_us: float


class TimeChange(NamedTuple):
    """The time of a kernel changes from some file on."""

    kernel: str
    device: str
    grid: str | None
    block: str | None
    history: tuple[HistoryEntry, ...]
    last_before: int
    """Position in `history`; the change is between this and the next."""
    before_us: float
    after_us: float
    change_pct: float
    slower: bool
    limiter_before: str | None
    limiter_after: str | None
    moved: tuple[MetricChange, ...]
    versions: tuple[str, ...]
    """Versions of driver, CUDA and ncu that changed as well."""


class UncheckedText(NamedTuple):
    """A sentence of a model with a number or comparison that does not refer to a fact."""

    text: str
    reason: str


class Written(NamedTuple):
    """What a model wrote about an insight, with numbers printed from the facts."""

    text: str
    """Unchecked sentences are marked in it."""
    unchecked: tuple[UncheckedText, ...]


class Insight(NamedTuple):
    """Something that no single profile of the set shows."""

    id: str
    kind: Kind
    title: str
    text: tuple[str, ...]
    adds: str
    """What the set adds over the best single profile."""
    facts: dict[str, InsightFact]
    sweep: Sweep | None = None
    cluster: Cluster | None = None
    outliers: Outliers | None = None
    change: TimeChange | None = None
    written: Written | None = None


class GroundingCounts(NamedTuple):
    numbers: int
    verified: int
    stray: tuple[str, ...]


class Insights(NamedTuple):
    """All that was found."""

    files: int
    launches: int
    devices: tuple[str, ...]
    insights: tuple[Insight, ...]
    notes: tuple[str, ...]
    """Remarks about the whole set: missing dates, unknown limiters, more insights."""
    grounding: GroundingCounts

    def first_of_each_kind(self, most: int) -> list[Insight]:
        found: Counter[str] = Counter()
        first = []
        for each in self.insights:
            found[each.kind] += 1
            if found[each.kind] <= most:
                first.append(each)
        return first
