"""Finds all insights of a store: sweeps, clusters, changes and outliers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from keet.corpus.insights.clusters import find_clusters, run_times
from keet.corpus.insights.outliers import (
    ChangedHistory,
    change_insight,
    find_changes,
    find_outliers,
)
from keet.corpus.insights.points import (
    FactBook,
    InsightSource,
    StoreExtent,
    ceilings_of,
    extent_of,
    kernel_batches,
    numbered,
    read_points,
    with_metrics,
)
from keet.corpus.insights.series import captures_of, find_series, gpu_series, version_series
from keet.corpus.insights.slow_point_text import SweepFacts
from keet.corpus.insights.sweep_text import sweep_insight
from keet.corpus.insights.sweeps import (
    MeasuredSweep,
    measured,
    representatives,
    with_distinguishing,
)
from keet.corpus.store.reader import Store, launches_by_gpu
from keet.documents.document import numbers_in
from keet.documents.insights import InsightDocument, InsightsDocument, InsightsGroundingDocument
from keet.evidence import Sentence, constant, counted


def find_insights(
    store: Store, kernel: re.Pattern[str] | None = None, top: int | None = None
) -> InsightsDocument:
    """`kernel`: only kernels whose short or full name matches. `top`: how many of each kind."""
    source = InsightSource(store.query, launches_by_gpu(store))
    sweeps, changes = _across_files(source, kernel)
    sweeps = with_distinguishing(sweeps)
    runs = run_times(source)
    clusters, outliers = find_clusters(source, kernel, runs), find_outliers(source, kernel, top)
    unnumbered = [
        *_sweep_insights(source, sorted(sweeps, key=_weight)[:top]),
        *clusters[:top],
        *(change_insight(source, change) for change in changes[:top]),
        *outliers.told,
    ]
    kinds: Counter[str] = Counter()
    insights = []
    for insight in unnumbered:  # in each kind, the most important first
        kinds[insight.kind] += 1
        insights.append(replace(insight, id=f"{insight.kind}-{kinds[insight.kind]}"))
    extent = extent_of(source, kernel)
    notes = [*_extent_notes(extent), *runs.notes]
    if left := len(sweeps) + len(clusters) + len(changes) + outliers.found - len(insights):
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
    sweeps: list[MeasuredSweep] = []
    changes: list[ChangedHistory] = []
    for kernels in kernel_batches(store, kernel):
        points = read_points(store, kernels)
        captures = captures_of(points)
        series = find_series(captures, points)
        used = {id(point) for one in series for point in one.points}
        changed = find_changes(capture for capture in captures if id(capture.point) not in used)
        # Of kernels that changed over time, the change lists the versions.
        told = {point.path for change in changed for point in change.history}
        series += gpu_series(captures)
        series += [
            one for one in version_series(captures) if told.isdisjoint(p.path for p in one.points)
        ]
        shares = ceilings_of(store, [point for one in series for point in representatives(one)])
        sweeps += [measured(one, shares) for one in series]
        changes += changed
    return sweeps, sorted(changes, key=lambda change: -change.slowdown)


def _weight(measured: MeasuredSweep) -> tuple[bool, float]:
    """Sort key: sweeps with a best point first, then by the difference between slowest and best."""
    times = [point.duration_us for point in measured.points]
    return measured.sweep.best is None, min(times) - max(times)


def _sweep_insights(store: InsightSource, sweeps: Sequence[MeasuredSweep]) -> list[InsightDocument]:
    """Reads all metrics of their points at once: each query of a large store takes time."""
    every = iter(with_metrics(store, [point for sweep in sweeps for point in sweep.points]))
    full = [sweep._replace(points=tuple(islice(every, len(sweep.points)))) for sweep in sweeps]
    return [sweep_insight(SweepFacts(each, FactBook(numbered(each.points)))) for each in full]
