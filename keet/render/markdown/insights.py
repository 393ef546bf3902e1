"""`keet insights --format markdown`: tables and texts."""

from __future__ import annotations

from collections.abc import Iterator

from keet.documents.insights import (
    ClusterDocument,
    InsightDocument,
    InsightsDocument,
    SweepDocument,
)
from keet.formatting import percent_cell, percent_text
from keet.render.common.insights import (
    ADDS,
    FILES,
    LEGEND,
    NOTHING,
    OVERLAP,
    shown_file,
    summary_line,
    time_text,
    unit_names,
)
from keet.render.markdown.markup import code, prose, table


def insights_markdown(document: InsightsDocument) -> str:
    lines = ["# What these profiles show together", "", prose(summary_line(document)), ""]
    lines += [] if document.insights else [prose(NOTHING), ""]
    lines += [line for insight in document.insights for line in _insight(insight)]
    about = f"{OVERLAP} {FILES}"
    lines += [f"*{prose(about)}*"] if any(each.cluster for each in document.insights) else []
    lines += [f"*{prose(note)}*" for note in document.notes]
    return "\n".join(lines).rstrip() + "\n"


def _insight(insight: InsightDocument) -> Iterator[str]:
    yield from (f"## {prose(insight.title)}", "")
    if insight.sweep:
        yield from (_curve(insight.sweep), "", f"*{prose(LEGEND)}*", "")
    if insight.cluster:
        yield from (_kernels(insight.cluster), "")
    yield from (f"- {prose(text)}" for text in insight.text)
    yield from ([f"- **{ADDS}:** {prose(insight.adds)}", ""] if insight.adds else [""])
    yield from _written(insight)


def _written(insight: InsightDocument) -> Iterator[str]:
    if insight.written is None:
        return
    if insight.written.text:
        yield from (f"> **Model:** {prose(insight.written.text)}", "")
    for entry in insight.written.unchecked:
        yield from (f"> *unchecked: “{prose(entry.text)}” ({prose(entry.reason)})*", "")


def _curve(sweep: SweepDocument) -> str:
    units = unit_names(sweep)
    cost = [f"per {sweep.work_unit}"] if sweep.work_unit else []
    rows = []
    for i, point in enumerate(sweep.points):
        mark = " (best)" if i == sweep.best else " (as good)" if point.tied else ""
        shares = [percent_text(point.units[u]) if u in point.units else "–" for u in units]
        costs = [] if point.cost is None else [time_text(point.cost)]
        limiter = point.limiter or "not known"
        rows.append([prose(point.shown + mark), time_text(point.time_us), *costs, *shares, limiter])
    return table([code(sweep.knob), "time", *cost, *units, "limiter"], rows)


def _kernels(cluster: ClusterDocument) -> str:
    rows = [
        [
            code(each.kernel),
            code(shown_file(each)),
            f"{each.launches:,}",
            time_text(each.time_us),
            percent_cell(each.share_pct),
            f"{time_text(each.saved_likely_us)} ({time_text(each.saved_low_us)} to "
            f"{time_text(each.saved_high_us)})",
        ]
        for each in cluster.kernels
    ]
    return table(["kernel", "file", "launches", "time", "of GPU time", "could save"], rows)
