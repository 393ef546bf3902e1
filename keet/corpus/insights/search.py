"""Finds all insights of a store: sweeps, clusters, changes and outliers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from keet.corpus.insights.changes import ChangedHistory, change_insight, find_changes
from keet.corpus.insights.clusters import find_clusters, run_times
from keet.corpus.insights.facts import FactBook, numbered
from keet.corpus.insights.outliers import find_outliers
from keet.corpus.insights.points import (
    InsightSource,
    StoreExtent,
    ceilings_of,
    extent_of,
    kernel_batches,
    read_points,
    with_metrics,
)
from keet.corpus.insights.series import Capture, Series, captures_of, find_series
from keet.corpus.insights.slow_point_text import SweepFacts
from keet.corpus.insights.sweep_text import SweepWriter
from keet.corpus.insights.sweeps import (
    Alternatives,
    MeasuredSweep,
    gpu_alternatives,
    measured_alternatives,
    measured_series,
    representatives,
    version_alternatives,
    with_distinguishing,
)
from keet.corpus.store.reader import Store
from keet.documents.document import numbers_in
from keet.documents.insights import (
    InsightDocument,
    InsightsDocument,
    InsightsGroundingDocument,
)
from keet.evidence import Sentence, constant, counted


def find_insights(
    store: Store, kernel: re.Pattern[str] | None = None, top: int | None = None
) -> InsightsDocument:
    """`kernel`: only kernels whose short or full name matches. `top`: how many of each kind."""
    source = InsightSource(store)
    measured, changes = _across_files(source, kernel)
    measured = with_distinguishing(measured)
    runs = run_times(source)
    clusters, outliers = find_clusters(source, kernel, runs), find_outliers(source, kernel, top)
    found = [
        *_sweep_insights(source, sorted(measured, key=_weight)[:top]),
        *clusters[:top],
        *(change_insight(source, each) for each in changes[:top]),
        *outliers.told,
    ]
    insights = _with_ids(found)
    extent = extent_of(source, kernel)
    notes = [*_extent_notes(extent), *runs.notes]
    if left := len(measured) + len(clusters) + len(changes) + outliers.found - len(found):
        more = constant(left, "", "insights that are left out")
        notes.append(
            Sentence("{more:,.0f} more found; list more of each kind with --top N", more=more)
        )
    numbers = numbers_in(insights)
    return InsightsDocument(
        store=str(store.path),
        files=extent.files,
        launches=extent.launches,
        devices=list(extent.devices),
        insights=insights,
        notes=[*notes],
        grounding=InsightsGroundingDocument(numbers=numbers, verified=numbers, stray=[]),
    )


def _extent_notes(extent: StoreExtent) -> Iterator[Sentence]:
    if extent.untimed:
        launches = counted(extent.untimed, "launch")
        yield Sentence("left out: {launches} without a measured duration", launches=launches)
    if extent.without_code:
        files = counted(extent.without_code, "file")
        yield Sentence(
            "the machine code of {files} was not analysed: `keet explain` may find other causes "
            "(its answers: keet batch --sass DIR -o NEW, which takes about twice as long)",
            files=files,
        )
    if extent.undated:
        files = counted(extent.undated, "file has", "files have")
        yield Sentence("{files} no date and can't be in a history", files=files)
    if extent.silent:
        files = counted(extent.silent, "file has", "files have")
        yield Sentence(
            "{files} no metrics of how busy the units were: the limiter is not known", files=files
        )


def _across_files(
    store: InsightSource, kernel: re.Pattern[str] | None
) -> tuple[list[MeasuredSweep], list[ChangedHistory]]:
    """Sweeps and changes; the largest slowdown first."""
    measured: list[MeasuredSweep] = []
    changes: list[ChangedHistory] = []
    for kernels in kernel_batches(store, kernel):
        points = read_points(store, kernels)
        captures = captures_of(points)
        series = find_series(captures, points)
        used = {id(point) for each in series for point in each.points}
        changed = find_changes(each for each in captures if id(each.point) not in used)
        measured += _measured(store, series, captures, changed)
        changes += changed
    return measured, sorted(changes, key=lambda each: -each.slowdown)


def _with_ids(found: Sequence[InsightDocument]) -> list[InsightDocument]:
    """With ids: `sweep-1`, `sweep-2`, `cluster-1`; in each kind, the most important first."""
    numbers: Counter[str] = Counter()
    named = []
    for each in found:
        numbers[each.kind] += 1
        named.append(replace(each, id=f"{each.kind}-{numbers[each.kind]}"))
    return named


def _measured(
    store: InsightSource,
    series: Sequence[Series],
    captures: Sequence[Capture],
    changes: Sequence[ChangedHistory],
) -> list[MeasuredSweep]:
    """Without version sweeps of kernels that changed over time: the change lists the versions."""
    told = {point.path for each in changes for point in each.history}
    others = [*gpu_alternatives(captures), *version_alternatives(captures)]
    others = [each for each in others if each.kind == "gpu" or not _paths(each) & told]
    chosen = [point for each in series for point in representatives(each)]
    chosen += [point for each in others for point in representatives(each)]
    shares = ceilings_of(store, chosen)
    return [
        *(measured_series(each, shares) for each in series),
        *(measured_alternatives(each, shares) for each in others),
    ]


def _paths(found: Alternatives) -> set[str]:
    return {point.path for _, points in found.values for point in points}


def _weight(measured: MeasuredSweep) -> tuple[bool, float]:
    """Sort key: sweeps with a best point first, then by the difference between slowest and best."""
    times = [point.duration_us for point in measured.points]
    return measured.sweep.best is None, min(times) - max(times)


def _sweep_insights(
    store: InsightSource, measured: Sequence[MeasuredSweep]
) -> list[InsightDocument]:
    """Reads all metrics of their points at once: each query of a large store takes time."""
    every = iter(with_metrics(store, [point for each in measured for point in each.points]))
    full = [each._replace(points=tuple(islice(every, len(each.points)))) for each in measured]
    books = [FactBook(numbered(each.points)) for each in full]
    return [SweepWriter(SweepFacts(each, book)).insight() for each, book in zip(full, books)]
