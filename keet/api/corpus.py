"""The functions `keet.batch` and `keet.insights`, and their results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from keet.api.result import (
    WIDTH,
    ApiResult,
    Kernel,
    PageResult,
    StrPath,
    chosen_table,
    compiled,
    data_frame,
    positive,
)
from keet.corpus.batch.run import BatchOptions, BatchOutcome, run_batch
from keet.corpus.insights.search import find_insights
from keet.corpus.store.reader import Store, open_store
from keet.documents.document import Document, computed, live
from keet.documents.insights import InsightDocument, InsightsDocument
from keet.documents.shared_types import KEET, Producer
from keet.errors import UsageError
from keet.formatting import count_noun
from keet.pages.blocks import Page, Reader
from keet.pages.insights import insights_page

if TYPE_CHECKING:
    import pandas as pd

    from keet.corpus.batch.stored_files import Failure


def batch(  # noqa: PLR0913 - the options of the command
    reports: StrPath | Iterable[StrPath],
    store: StrPath,
    *,
    jobs: int | None = None,
    shard: str = "0/1",
    dask: str | None = None,
    timeout: float = 300.0,
    sass: bool = False,
    retry_failed: bool = False,
    prune: bool = False,
) -> BatchResult:
    """Explain all reports in folders, and write the results into a store: `keet batch`. Files that
    the store has already are not analysed again.

    >>> import keet
    >>> result = keet.batch("kernels_samples/matrix_flip", "one_sample")
    >>> result.done + result.unchanged, result.failed
    (2, 0)

    Args:
        reports: a folder or a report, or several of them.
        store: the folder of the store, made if it does not exist.
        jobs: worker processes; by default one per core.
        shard: analyse only part I of N of the files, I from 0: `"0/16"`.
        dask: address of an existing Dask cluster to run on.
        timeout: seconds per file of up to 256 MB; in proportion longer for larger files.
        sass: analyse the machine code too, as `explain` does: takes about twice as long.
        retry_failed: analyse files again that failed earlier.
        prune: remove files from the store that no longer exist.

    Raises:
        keet.KeetError: no report was found, or the store can't be used. A report that can't be read
            raises nothing: it is in `failures` of the result.
    """
    several = [reports] if isinstance(reports, str | os.PathLike) else reports
    places = [Path(each) for each in several]
    if not places:
        raise UsageError("no folder or report was named")
    jobs = None if jobs is None else positive(jobs, "jobs")
    if not 0 < timeout < 1e7:
        raise UsageError(f"timeout={timeout!r}: it must be a positive number of seconds")
    options = BatchOptions(
        places, Path(store), jobs, shard, dask, timeout, sass, retry_failed, prune
    )
    notes: list[str] = []
    outcome = run_batch(options, lambda _: None, notes.append)
    if outcome.progress.stopped:
        raise KeyboardInterrupt
    return BatchResult(store=str(store), notes=notes, outcome=outcome)


class BatchResult(ApiResult, Document):
    """What a batch did. `print(result)` prints the summary of `keet batch`, and the files that
    failed.

    >>> import keet
    >>> result = keet.batch(["kernels_samples/matrix_flip"], "one_sample")
    >>> result
    <BatchResult one_sample: 2 files, 0 failed>
    >>> result.to_pandas().columns.tolist()
    ['path', 'reason']
    """

    producer: Producer = KEET
    store: str
    files: int = computed(lambda each: each.outcome.progress.finished + each.outcome.unchanged)
    """Reports that were found: the sum of the next four."""
    done: int = computed(lambda each: each.outcome.progress.done)
    duplicates: int = computed(lambda each: each.outcome.progress.duplicates)
    """Files that are equal to another one, whose rows are stored."""
    failed: int = computed(lambda each: each.outcome.failed)
    unchanged: int = computed(lambda each: each.outcome.state.done)
    """Files that an earlier batch finished."""
    launches: int = computed(lambda each: each.outcome.progress.launches)
    """Of the files that this batch analysed."""
    gpu_seconds: float = computed(lambda each: each.outcome.progress.gpu_seconds)
    """Duration of these launches, as far as it was measured."""
    seconds: float = computed(lambda each: each.outcome.progress.seconds)
    """Time that the batch took."""
    gone: int = computed(lambda each: each.outcome.gone)
    """Files of the store that no longer exist; with `prune` they were removed from the store."""
    failures: list[Failure] = computed(lambda each: each.outcome.failures)
    """All files of the store that failed at the last attempt, also of earlier batches."""
    notes: list[str]
    """Problems that did not stop the batch, such as folders that can't be read."""
    outcome: BatchOutcome = live()

    def __repr__(self) -> str:
        return f"<BatchResult {self.store}: {count_noun(self.files, 'file')}, {self.failed} failed>"

    @property
    def document(self) -> Self:
        return self

    def to_text(self, width: int = WIDTH) -> str:  # noqa: ARG002 - lines are not wrapped
        from keet.corpus.batch.run import summary_text

        outcome = self.outcome
        counts = summary_text(outcome.progress, outcome.unchanged, outcome.found)
        failed = (f"failed: {failure.path}: {failure.reason}\n" for failure in self.failures)
        return counts + "".join(failed)

    def to_pandas(self) -> pd.DataFrame:
        """One row per file that failed, with the reason. `keet.open_store` has all files."""
        return data_frame(self.failures, ("path", "reason"))


INSIGHT_COLUMNS = ("insight", "kind", "kernel", "device", "title", "text")
FACT_COLUMNS = ("insight", "id", "label", "value", "unit", "column", "path", "launch_id")
POINT_COLUMNS = (
    "insight", "kernel", "device", "knob", "value", "time_us", "cost", "work_unit", "tied",
    "limiter", "reached_pct", "path", "launch_id",
)  # fmt: skip


def insights(
    store: StrPath | Store, *, kernel: Kernel | None = None, top: int | None = None
) -> InsightsResult:
    """What the profiles of a store show together, sweeps, kernels with the same finding, changes
    over time and outliers: `keet insights` without a model.

    >>> import keet
    >>> sample = "kernels_samples/"
    >>> made = keet.batch([sample + "matrix_flip", sample + "blend_frames"], "two_samples")
    >>> keet.insights(made.store).insights[0].title
    '2 kernels, 86% of the time on NVIDIA H200: uncoalesced global access'

    Args:
        store: the folder of a store, or a store of `keet.open_store`.
        kernel: only kernels whose name matches this regular expression.
        top: at most this many insights of each kind; by default all of them.
    """
    pattern = None if kernel is None else compiled(kernel)
    top = None if top is None else positive(top, "top")
    opened = nullcontext(store) if isinstance(store, Store) else open_store(store)
    with opened as source, source.explaining_damage():
        document = find_insights(source, pattern, top)
    if pattern is not None and not document.launches:
        raise UsageError(
            f"kernel {pattern.pattern!r} matches no launch; see: keet top {document.store}"
        )
    name = document.store if isinstance(store, Store) else str(store)
    return InsightsResult(**{**vars(document), "store": name})


class InsightsResult(PageResult, InsightsDocument):
    """Insights of a store. `print(result)` prints what `keet insights` prints.

    >>> import keet
    >>> made = keet.batch("kernels_samples/matrix_flip", "one_sample")
    >>> keet.insights(made.store)
    <InsightsResult one_sample: 2 files, 2 launches, 0 insights>
    """

    def __repr__(self) -> str:
        counts = {"file": self.files, "launch": self.launches, "insight": len(self.insights)}
        told = ", ".join(count_noun(count, noun) for noun, count in counts.items())
        return f"<InsightsResult {self.store}: {told}>"

    def _page(self, reader: Reader) -> Page:
        return insights_page(self, reader)

    def to_svg(self) -> str:
        """The charts of `keet insights --format svg`."""
        from keet.formats.svg.insights import insights_svg

        return insights_svg(self)

    def to_pandas(self, table: Literal["insights", "facts", "points"] = "insights") -> pd.DataFrame:
        """One row per insight, per number in their texts, or per point of a sweep."""
        facts = (
            (
                insight.id,
                key,
                fact.label,
                fact.value,
                fact.unit,
                *(fact.metric, fact.path, fact.launch),
            )
            for insight in self.insights
            for key, fact in insight.facts.items()
        )
        tables = {
            "insights": lambda: data_frame(map(_row, self.insights), INSIGHT_COLUMNS),
            "facts": lambda: data_frame(facts, FACT_COLUMNS),
            "points": lambda: data_frame(self._points(), POINT_COLUMNS),
        }
        return chosen_table(table, tables)

    def _points(self) -> Iterator[tuple[object, ...]]:
        for insight in self.insights:
            if (sweep := insight.sweep) is None:
                continue
            for point in sweep.points:
                yield (
                    *(insight.id, sweep.kernel, sweep.device, sweep.knob, point.value),
                    *(point.time_us, point.cost, sweep.work_unit, point.tied),
                    *(point.limiter, point.reached_pct, point.path, point.launch),
                )


def _row(insight: InsightDocument) -> tuple[object, ...]:
    """A cluster is of several kernels: it has none."""
    subject = insight.sweep or insight.outliers or insight.change
    device = subject.device if subject else insight.cluster.device if insight.cluster else None
    text = " ".join(insight.text)
    named = (insight.id, insight.kind, subject.kernel if subject else None, device)
    return (*named, insight.title, text)
