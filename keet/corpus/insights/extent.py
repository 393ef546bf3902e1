"""How much a store holds, and in which portions it is looked at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from keet.corpus.insights.describe import plural
from keet.corpus.insights.families import function_of
from keet.corpus.insights.points import QuerySource, literals
from keet.records import NamedTuple

_AT_ONCE = 100_000
"""Launches that are held in memory: a few hundred MB."""
_LEAST_FILES = 2
"""Of a kernel: one file shows nothing that varies between files."""


class StoreExtent(NamedTuple):
    files: int
    launches: int
    devices: tuple[str, ...]
    notes: tuple[str, ...]


def kernel_batches(store: QuerySource, kernel: re.Pattern[str] | None) -> Iterator[list[str]]:
    """Full names of kernels, the instances and versions of a function together."""
    sizes: dict[str, int] = defaultdict(int)
    files: dict[str, int] = defaultdict(int)
    names: dict[str, list[str]] = defaultdict(list)
    for full, launches, reports in _kernels(store, kernel):
        family = function_of(full)
        names[family].append(full)
        sizes[family] += launches
        files[family] += reports
    batch: list[str] = []
    held = 0
    for family in sorted(names):
        if files[family] >= _LEAST_FILES:
            if batch and held + sizes[family] > _AT_ONCE:
                yield batch
                batch, held = [], 0
            batch += names[family]
            held += sizes[family]
    if batch:
        yield batch


def _kernels(store: QuerySource, kernel: re.Pattern[str] | None) -> list[tuple[str, int, int]]:
    """Full name, launches, files."""
    table = store.query(
        "SELECT kernel_full, any_value(kernel), count(*), count(DISTINCT report_sha256) "
        "FROM launches WHERE duration_us > 0 AND kernel_full IS NOT NULL "
        "GROUP BY kernel_full ORDER BY kernel_full"
    )
    return [
        (full, launches, files)
        for full, short, launches, files in table.rows
        if kernel is None or kernel.search(full) or kernel.search(short or "")
    ]


def extent_of(store: QuerySource, kernel: re.Pattern[str] | None) -> StoreExtent:
    where = "duration_us > 0"
    if kernel is not None:
        names = [full for full, _, _ in _kernels(store, kernel)]
        where += f" AND kernel_full IN ({literals(names)})" if names else " AND false"
    table = store.query(
        "SELECT count(DISTINCT report_sha256), count(*), "
        "list_sort(list(DISTINCT coalesce(device, 'unknown GPU'))), "
        "count(DISTINCT report_sha256) FILTER (created IS NULL), "
        "count(DISTINCT report_sha256) FILTER (limiter IS NULL) "
        f"FROM launches WHERE {where}"
    )
    files, launches, devices, undated, silent = table.rows[0]
    return StoreExtent(files, launches, tuple(devices or ()), tuple(_notes(undated, silent)))


def _notes(undated: int, silent: int) -> Iterator[str]:
    if undated:
        yield f"{plural(undated, 'file carries', 'files carry')} no date: not in any history"
    if silent:
        files = plural(silent, "file does", "files do")
        yield f"{files} not say how busy any unit was: the limiter is not known"
