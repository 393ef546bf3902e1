"""Metrics in long form, one row per launch and metric: for CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keet.documents.show import MetricsLaunch

HEADER = ("launch", "kernel", "metric", "id", "label", "value", "unit", "section")


def long_rows(launches: Iterable[MetricsLaunch]) -> Iterator[tuple[object, ...]]:
    for launch in launches:
        for each in launch.metrics:
            value = each.quantity.value if each.quantity else each.value
            named = (each.name, each.id, each.label)
            yield (launch.id, launch.kernel, *named, value, each.unit, each.section)
