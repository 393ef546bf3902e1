"""`keet show --format json` and `keet metrics --format json`."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

from keet.documents.document import LEFT_OUT, Document
from keet.documents.shared_types import (
    DeviceDocument,
    Dimensions,
    JsonQuantity,
    LaunchResult,
    NonFinite,
    ReportResult,
    RunDocument,
)
from keet.units import Number, Quantity


class GapDocument(Document):
    """Data that the report lacks and that keet would use."""

    id: str
    label: str
    gives: str
    """What it would show."""
    launches: tuple[int, ...]
    """Ids of the launches that lack it, in their order."""
    unavailable: bool = False
    """True if ncu cannot collect it for this GPU or workload."""
    section: str | None = None
    """The ncu section that captures it."""
    ncu_flag: str | None = None
    compile_flag: str | None = None
    """The compiler option that the program needs."""

    def is_lacked_by(self, launch: int) -> bool:
        """Binary search: there may be 100,000 launches."""
        at = bisect_left(self.launches, launch)
        return self.launches[at : at + 1] == (launch,)


class ShowLaunch(LaunchResult):
    kernel_full: str
    kernel_function: str
    kernel_mangled: str
    workload: Literal["kernel", "range", "cmdlist", "graph"]
    device: int
    """Index into `devices`."""
    grid: Dimensions | None
    block: Dimensions | None
    cluster: Dimensions | None
    process: str | None
    stream: int | None
    context: int | None
    nvtx: list[str]
    """Open NVTX ranges as DOMAIN/RANGE, outermost first."""
    metric_count: int
    rule_results: int
    sections: list[str]
    values: dict[str, JsonQuantity]
    """By catalog id; values that the report does not have are left out."""
    run_share_pct: float | None = LEFT_OUT
    """Per cent of the run's GPU time in the launches that this one represents; null if the run does
    not have the kernel."""
    run_launches: float | None = LEFT_OUT
    """Number of launches in the run that this one represents."""


class ShowDocument(ReportResult):
    """`keet show --format json`"""

    devices: list[DeviceDocument]
    launches: list[ShowLaunch]
    holds: list[str]
    missing: list[GapDocument]
    capture: str | None
    """The ncu command that would capture what is missing."""
    build: str | None
    """Compiler options to build with first."""
    obstacle: str | None = None
    """Why nothing more can be captured."""
    run: RunDocument | None = LEFT_OUT
    """The run of the whole program; null if no run was recorded."""


class PointDocument(Document):
    at: int | str
    """What the value belongs to, for example a register count, a number of bytes or an opcode."""
    value: Number | str | None


class MetricDocument(Document):
    name: str
    """ncu's name of the metric."""
    id: str | None
    """Id in keet's catalog."""
    label: str | None
    value: Number | str | None
    """Null if there is no value, or if it is not finite: see `nonfinite`."""
    nonfinite: NonFinite | None = None
    unit: str
    section: str | None = None
    meaning: str | None = None
    instances: int = 0
    """Number of parts of the value (ncu's instances)."""
    points: list[PointDocument] | None = None
    """The parts, if the metric has no other value, such as a what-if curve."""

    @property
    def quantity(self) -> Quantity | None:
        """With a number that is not finite; None for a text, or without a value."""
        value = float(self.nonfinite) if self.nonfinite else self.value
        return None if value is None or isinstance(value, str) else Quantity(value, self.unit)


class MetricsLaunch(LaunchResult):
    metrics: list[MetricDocument]


class MetricsDocument(ReportResult):
    """`keet metrics --format json`"""

    launches: list[MetricsLaunch]
