"""Selects the metrics of a launch to list: the key metrics, all, or those that match a pattern."""

from __future__ import annotations

import re

from keet.catalog import MetricSpec, metric_named, metrics
from keet.profile import Launch, Metric

Row = tuple[Metric, MetricSpec | None]


def metric_rows(
    launch: Launch, pattern: str | None = None, *, everything: bool = False
) -> list[Row]:
    """Metrics of a launch with their catalog entries, in the order of the catalog.

    Without a pattern: the key metrics that the report has. With a pattern or `everything`: every
    metric whose name, id or label matches (a case-insensitive regular expression); metrics that the
    catalog does not know come last.
    """
    if pattern is None and not everything:
        specs = [spec for spec in metrics().values() if spec.key]
        return [(found, spec) for spec in specs if (found := launch.find(spec.id)) is not None]
    search = re.compile(pattern or "", re.IGNORECASE).search
    rows: list[Row] = []
    for name in launch.metric_names():
        spec = metric_named(name)
        texts = (name,) if spec is None else (name, spec.id, spec.label)
        metric = launch.metric(name)
        if metric is not None and any(search(text) for text in texts):
            rows.append((metric, spec))
    order = {spec_id: index for index, spec_id in enumerate(metrics())}
    # Sorted by name where the catalog has no order.
    rows.sort(key=lambda row: (order[row[1].id] if row[1] else len(order), row[0].name))
    return rows
