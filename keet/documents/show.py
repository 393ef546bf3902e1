"""`keet show --format json` and `keet metrics --format json`, and which metrics of a launch are
listed: the key metrics, all, or those that match a pattern.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from keet.catalog import MetricSpec, metric_named, metrics
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
from keet.profile import Launch, Metric, Value
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


def launch_metrics(
    launch: Launch,
    matches: Callable[[str], object] | None = None,
    *,
    everything: bool = False,
) -> MetricsLaunch:
    """Metrics of a launch, in the order of the catalog.

    Without a pattern: the key metrics that the report has. With `everything`, or `matches` of a
    name, id or label: every metric; those that the catalog does not know come last.
    """
    rows: list[tuple[Metric, MetricSpec | None]] = []
    if matches is None and not everything:
        specs = [spec for spec in metrics().values() if spec.key]
        rows += [
            (collected, spec) for spec in specs if (collected := launch.find(spec.id)) is not None
        ]
    else:
        for name in launch.metric_names():
            spec = metric_named(name)
            texts = (name,) if spec is None else (name, spec.id, spec.label)
            metric = launch.metric(name)
            if metric is not None and (matches is None or any(map(matches, texts))):
                rows.append((metric, spec))
        order = {spec_id: index for index, spec_id in enumerate(metrics())}
        # Sorted by name where the catalog has no order.
        rows.sort(key=lambda row: (order[row[1].id] if row[1] else len(order), row[0].name))
    listed = [_metric(launch, metric, spec) for metric, spec in rows]
    return MetricsLaunch(id=launch.id, kernel=launch.kernel, metrics=listed)


def containing(pattern: str) -> Callable[[str], object]:
    """Whether a text has a match of a regular expression, not case-sensitive."""
    return re.compile(pattern, re.IGNORECASE).search


def _metric(launch: Launch, metric: Metric, spec: MetricSpec | None) -> MetricDocument:
    instances = launch.instances(metric.name)
    value: Value = metric.value
    points = None
    if spec is not None and not spec.total:
        value = None  # a sum of values that cannot be added
        if instances is not None:
            points = [PointDocument(at=at, value=part) for at, part in instances.pairs()]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return MetricDocument(
        name=metric.name,
        id=spec.id if spec else None,
        label=spec.label if spec else None,
        value=None if is_odd else value,
        nonfinite=str(value) if is_odd else None,  # type: ignore[arg-type]
        unit=metric.unit,
        section=spec.section if spec else None,
        meaning=spec.meaning if spec else None,
        instances=len(instances) if instances else 0,
        points=points,
    )


HEADER = ("launch", "kernel", "metric", "id", "label", "value", "unit", "section")


def long_rows(launches: Iterable[MetricsLaunch]) -> Iterator[tuple[object, ...]]:
    for launch in launches:
        for row in launch.metrics:
            value = row.quantity.value if row.quantity else row.value
            named = (row.name, row.id, row.label)
            yield (launch.id, launch.kernel, *named, value, row.unit, row.section)
