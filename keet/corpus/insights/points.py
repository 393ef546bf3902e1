"""Reads points from the store: one launch for each kernel and shape in each file.

A file that launches a kernel a thousand times gives one point, the median launch: a row of the
store that a user can look up, not a mean that was never measured.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from keet.corpus.insights.knob_names import (
    CONTROL_OPTIONS,
    LONGEST_COMMAND,
    Naming,
    capture_control,
    function_of,
    naming_of,
)
from keet.corpus.store.launch_sql import UNKNOWN_GPU
from keet.corpus.store.reader import QueryResult
from keet.corpus.store.schema import METRICS

Shape = tuple[int | None, int | None, int | None]

_TEXTS = (
    *("report_sha256", "path", "kernel", "kernel_full", "device", "grid", "block"),
    *("ncu_version", "cuda_version", "driver_version", "limiter", "healthy", "top_finding"),
)
_COMMAND_SQL = (
    f"process, right(command_line, {LONGEST_COMMAND}) AS command, "
    "CASE WHEN command_line IS NOT NULL THEN array_to_string(regexp_extract_all(command_line, "
    f"'{CONTROL_OPTIONS}'), ' ') END AS control"
)
"""A command line may start with kilobytes of ncu options; the program's arguments are at its end.
"""
_AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_OTHERS = ("launch_id", "created", "duration_us", "reached_pct", *_AXES)
_METRICS_OF_POINTS = (
    *("cluster_size", "shared_memory_dynamic", "shared_memory_static", "registers_per_thread"),
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written"),
    *("global_store_sectors", "global_store_bytes_per_sector", "sm_frequency"),
)
"""Metrics that every point has: launch parameters, and counters of work."""
_ALIKE = (
    *("report_sha256", "kernel_full", "device", "grid", "block"),
    *("cluster_size", "shared_memory_dynamic", "registers_per_thread"),
)
"""Launches of one file with the same values are one point."""
_AT_ONCE = 400
"""Rows per query: a longer SQL text is slow to parse."""


class InsightSource(NamedTuple):
    """A store, as this package reads it."""

    query: Callable[[str], QueryResult]
    launches: str
    """SQL to select from: the view `launches`, with one `device` per GPU."""


class Point(NamedTuple):
    """One row of the store, which stands for all equal launches of its file."""

    texts: Mapping[str, str | None]
    launch: int
    alike: int
    """Number of launches that it stands for."""
    created: datetime | None
    duration_us: float
    grid: Shape
    block: Shape
    naming: Naming
    control: str
    """Clock and cache control of ncu."""
    metrics: Mapping[str, float]
    """Metrics that were not measured are absent."""

    @property
    def path(self) -> str:
        return self.texts["path"] or ""

    @property
    def sha256(self) -> str:
        return self.texts["report_sha256"] or ""

    @property
    def kernel(self) -> str:
        return self.texts["kernel"] or ""

    @property
    def full_name(self) -> str:
        return self.texts["kernel_full"] or self.kernel

    @property
    def device(self) -> str:
        return self.texts["device"] or UNKNOWN_GPU

    def number(self, column: str) -> float | None:
        return self.duration_us if column == "duration_us" else self.metrics.get(column)


def read_points(store: InsightSource, kernels: Iterable[str]) -> list[Point]:
    """A point for each shape of these kernels (by full name) in each file, without launches that
    have no duration."""
    columns = ", ".join([*_TEXTS, *_OTHERS, *_METRICS_OF_POINTS])
    keys = ", ".join(_ALIKE)
    sql = f"""
        WITH placed AS (
            SELECT {columns}, {_COMMAND_SQL},
                row_number() OVER (PARTITION BY {keys} ORDER BY duration_us, launch_id) AS place,
                count(*) OVER (PARTITION BY {keys}) AS alike
            FROM {store.launches} WHERE duration_us > 0 AND kernel_full IN ({literals(kernels)})
        )
        SELECT * EXCLUDE (place) FROM placed WHERE place = (alike + 1) // 2
        ORDER BY path, launch_id
    """
    table = store.query(sql)
    known: dict[Any, Any] = {}
    return [_point(dict(zip(table.columns, row)), _METRICS_OF_POINTS, known) for row in table.rows]


def literals(texts: Iterable[str]) -> str:
    """SQL literals, escaped: names in a store may contain any character."""
    return ", ".join("'" + text.replace("'", "''") + "'" for text in texts)


def with_metrics(store: InsightSource, points: Iterable[Point]) -> list[Point]:
    """The same points with all metrics that the store has."""
    points = list(points)
    names = [spec.id for spec in METRICS]
    cells = dict(_looked_up(store, points, names))
    stored = (_numbers(cells[point.sha256, point.launch], names) for point in points)
    return [
        point._replace(metrics={**point.metrics, **more}) for point, more in zip(points, stored)
    ]


def ceilings_of(
    store: InsightSource, points: Iterable[Point]
) -> dict[tuple[str, int], dict[str, float]]:
    """Share of peak of each hardware unit from the stored explanations, by report and launch."""
    rows = _looked_up(store, list(points), ["explanation"])
    return {key: dict(_shares(row["explanation"])) for key, row in rows}


def _shares(explanation: object) -> Iterator[tuple[str, float]]:
    """Skips what is not as expected: another version of keet may have written the store."""
    try:
        document = json.loads(str(explanation))
        entries = document.get("ceilings") or []
    except (ValueError, AttributeError):
        return
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("reached_pct"), int | float):
            yield str(entry.get("unit")), float(entry["reached_pct"])


def _looked_up(
    store: InsightSource, points: Sequence[Point], columns: Sequence[str]
) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    for start in range(0, len(points), _AT_ONCE):
        some = points[start : start + _AT_ONCE]
        wanted = ", ".join(f"({literals([point.sha256])}, {point.launch})" for point in some)
        table = store.query(
            f"SELECT report_sha256, launch_id, {', '.join(columns)} FROM {store.launches} "
            f"WHERE (report_sha256, launch_id) IN (VALUES {wanted})"
        )
        for row in table.rows:
            cells = dict(zip(table.columns, row))
            yield (str(cells["report_sha256"]), int(cells["launch_id"])), cells


def _point(cells: Mapping[str, Any], metrics: Sequence[str], known: dict[Any, Any]) -> Point:
    """`known`: texts of other points, to keep equal texts in memory once."""
    axes = [cells[name] for name in _AXES]
    naming = naming_of(cells["path"] or "", cells["process"], cells["command"])
    control = capture_control(cells["control"])
    return Point(
        texts={name: known.setdefault(cells[name], cells[name]) for name in _TEXTS},
        launch=int(cells["launch_id"]),
        alike=int(cells["alike"]),
        created=cells["created"],
        duration_us=float(cells["duration_us"]),
        grid=(axes[0], axes[1], axes[2]),
        block=(axes[3], axes[4], axes[5]),
        naming=known.setdefault(naming, naming),
        control=known.setdefault(control, control),
        metrics=_numbers(cells, [*metrics, "reached_pct"]),
    )


def _numbers(cells: Mapping[str, Any], names: Iterable[str]) -> dict[str, float]:
    return {name: float(cells[name]) for name in names if cells.get(name) is not None}


def point_at(store: InsightSource, sha256: str, launch: int) -> Point:
    """One row of the store, with all metrics."""
    names = [spec.id for spec in METRICS]
    columns = ", ".join(dict.fromkeys([*_TEXTS, *_OTHERS, *names]))
    table = store.query(
        f"SELECT {columns}, {_COMMAND_SQL}, 1 AS alike FROM {store.launches} "
        f"WHERE report_sha256 = {literals([sha256])} AND launch_id = {launch}"
    )
    return _point(dict(zip(table.columns, table.rows[0])), names, {})


_BATCH_LAUNCHES = 100_000
"""Launches in memory at a time: a few hundred MB."""
_LEAST_FILES = 2
"""Files of a kernel: in one file nothing can vary between files."""


class StoreExtent(NamedTuple):
    files: int
    launches: int
    devices: tuple[str, ...]
    undated: int
    """Files without a date."""
    silent: int
    """Files without metrics of how busy the units were."""
    untimed: int
    """Launches without a measured duration, which are left out."""
    without_code: int
    """Files whose machine code was not analysed."""


def kernel_batches(store: InsightSource, kernel: re.Pattern[str] | None) -> Iterator[list[str]]:
    """Full names of kernels, with all instances and versions of a function in one batch."""
    families: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for entry in _kernels(store, kernel):
        families[function_of(entry[0])].append(entry)
    batch: list[str] = []
    held = 0
    for _, entries in sorted(families.items()):
        names, launches, files = zip(*entries)
        if sum(files) >= _LEAST_FILES:
            if batch and held + sum(launches) > _BATCH_LAUNCHES:
                yield batch
                batch, held = [], 0
            batch += names
            held += sum(launches)
    if batch:
        yield batch


def _kernels(store: InsightSource, kernel: re.Pattern[str] | None) -> list[tuple[str, int, int]]:
    """Full name, launches, files."""
    table = store.query(
        "SELECT kernel_full, any_value(kernel), count(*), count(DISTINCT report_sha256) "
        f"FROM {store.launches} WHERE duration_us > 0 AND kernel_full IS NOT NULL "
        "GROUP BY kernel_full ORDER BY kernel_full"
    )
    return [
        (full, launches, files)
        for full, short, launches, files in table.rows
        if kernel is None or kernel.search(full) or kernel.search(short or "")
    ]


def extent_of(store: InsightSource, kernel: re.Pattern[str] | None) -> StoreExtent:
    where = "true"
    if kernel is not None:
        names = [full for full, _, _ in _kernels(store, kernel)]
        where = f"kernel_full IN ({literals(names)})" if names else "false"
    table = store.query(
        "SELECT count(DISTINCT report_sha256) FILTER (timed), count(*) FILTER (timed), "
        "list_sort(list(DISTINCT device) FILTER (timed)), "
        "count(DISTINCT report_sha256) FILTER (timed AND created IS NULL), "
        "count(DISTINCT report_sha256) FILTER (timed AND limiter IS NULL), "
        "count(*) FILTER (NOT timed), count(DISTINCT report_sha256) FILTER (timed) "
        "- count(DISTINCT report_sha256) FILTER (timed AND machine_code IS DISTINCT FROM 'off') "
        f"FROM (SELECT *, coalesce(duration_us > 0, false) AS timed FROM {store.launches}) "
        f"WHERE {where}"
    )
    files, launches, devices, *counts = table.rows[0]
    return StoreExtent(files, launches, tuple(devices or ()), *counts)
