"""The function `keet.insights` and its result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

from keet.api.inputs import Kernel, StrPath, compiled, positive
from keet.api.result import PageResult, chosen_table, data_frame
from keet.corpus.insights.search import find_insights
from keet.corpus.store.reader import Store, open_store
from keet.documents.insights import InsightDocument, InsightsDocument
from keet.errors import UsageError
from keet.formatting import count_noun
from keet.pages.blocks import Page, Reader
from keet.pages.insights import insights_page

if TYPE_CHECKING:
    import pandas as pd

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
                fact.metric,
                fact.path,
                fact.launch,
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
