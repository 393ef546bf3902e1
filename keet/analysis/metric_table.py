"""Selects the metrics of a launch to list: the key metrics, all, or those that match a pattern."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from keet.catalog import MetricSpec, metric_named, metrics
from keet.documents.show import MetricDocument, MetricsLaunch, PointDocument
from keet.profile import Launch, Metric, Value


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
