"""Metrics in long form, one row per launch and metric: for CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.metric_table import Row
from keet.profile import Launch

LaunchRows = tuple[Launch, Sequence[Row]]
HEADER = ("launch", "kernel", "metric", "id", "label", "value", "unit", "section")


def long_rows(tables: Iterable[LaunchRows]) -> Iterator[tuple[object, ...]]:
    return (
        (
            launch.id,
            launch.kernel,
            metric.name,
            spec.id if spec else None,
            spec.label if spec else None,
            None if spec and not spec.total else metric.value,
            metric.unit,
            spec.section if spec else None,
        )
        for launch, rows in tables
        for metric, spec in rows
    )
