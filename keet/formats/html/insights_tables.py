"""Clusters, changes and outliers on a page of insights, and the facts behind any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.insights import (
    ChangeDocument,
    ClusterDocument,
    ClusterKernelDocument,
    Fact,
    InsightDocument,
    MovedDocument,
    OutliersDocument,
)
from keet.formats.html.data_table import Cell, Column, data_table, meter
from keet.formats.html.insights_reports import CitedReports
from keet.formats.html.markup import Html, element, fragment
from keet.formatting import percent_cell, speedup_text
from keet.render.common.insights import shown_file, shown_history, time_text
from keet.safe_text import one_line
from keet.units import Quantity

_HISTORY_HEIGHT = 120
_LABELS = 18
"""Pixels above the longest bar of a history."""


# --- kernels with one finding


def kernels_table(cluster: ClusterDocument, reports: CitedReports) -> Html:
    columns = [
        Column("kernel", first="ascending"),
        Column("launches", is_number=True),
        Column("time", is_number=True),
        Column("of the GPU's time", is_number=True),
        Column("could save", is_number=True),
        Column("range", is_number=True),
        Column("report", first="ascending"),
    ]
    most = max((each.saved_likely_us for each in cluster.kernels), default=0.0)
    rows = [list(_kernel_row(each, most, reports)) for each in cluster.kernels]
    table = data_table(f"Kernels with {cluster.label}", columns, rows)
    more = cluster.row_count - len(cluster.kernels)
    return fragment(
        table, element("p", f"{more:,} more not shown", class_="muted") if more else None
    )


def _kernel_row(each: ClusterKernelDocument, most: float, reports: CitedReports) -> Iterator[Cell]:
    saved = 100 * each.saved_likely_us / most if most else 0.0
    low, high = time_text(each.saved_low_us), time_text(each.saved_high_us)
    yield Cell(element("code", one_line(each.kernel), class_="break"))
    yield Cell(f"{each.launches:,}", each.launches)
    yield Cell(time_text(each.time_us), each.time_us)
    yield Cell(fragment(percent_cell(each.share_pct), meter(each.share_pct)), each.share_pct)
    yield Cell(fragment(time_text(each.saved_likely_us), meter(saved)), each.saved_likely_us)
    yield Cell(f"{low} to {high}", each.saved_high_us)
    note = shown_file(each).removeprefix(each.shown_path)
    yield Cell(fragment(reports.link(each.path), note))


# --- a change over time


def history_figure(change: ChangeDocument, reports: CitedReports) -> Html:
    """Bars per file around the change, and the table behind them."""
    shown = shown_history(change)
    rest = len(change.history) - len(shown)
    caption = f"One bar per file, by date, from zero; {one_line(change.device)}."
    more = f" {rest:,} files further from the change are not shown." if rest else ""
    return fragment(
        element(
            "figure", _bars(change, shown), element("figcaption", caption, more), class_="history"
        ),
        element(
            "details",
            element("summary", f"The {len(shown):,} files"),
            _history_table(change, shown, reports),
            class_="fold",
            data_print=True,
        ),
        moved_table("What changed as well", "before", "after", change.moved),
    )


def _bars(change: ChangeDocument, shown: range) -> Html:
    """Widths in per cent: the drawing takes the room that there is."""
    longest = max(change.history[i].time_us for i in shown)
    step = 100 / len(shown)
    cut = 100 * (change.last_before + 1 - shown.start) / len(shown)
    bars = [_bar(change, i, (i - shown.start) * step, step, longest) for i in shown]
    line = {"x1": f"{cut:.2f}%", "x2": f"{cut:.2f}%", "y1": "0", "y2": str(_HISTORY_HEIGHT)}
    return element(
        "svg",
        element("title", one_line(f"{change.kernel} over time")),
        *bars,
        element("line", **line, class_="change"),
        _end_label(time_text(change.before_us), cut, is_before=True),
        _end_label(time_text(change.after_us), cut, is_before=False),
        width="100%",
        height=_HISTORY_HEIGHT,
        role="img",
        class_="history-drawing",
    )


def _bar(change: ChangeDocument, i: int, left: float, step: float, longest: float) -> Html:
    dated = change.history[i]
    tall = (_HISTORY_HEIGHT - _LABELS) * dated.time_us / longest
    words = [dated.created, f"time {time_text(dated.time_us)}", f"{dated.path} #{dated.launch}"]
    return element(
        "rect",
        element("title", "\n".join(map(one_line, words))),
        x=f"{left + 0.1 * step:.2f}%",
        y=f"{_HISTORY_HEIGHT - tall:.1f}",
        width=f"{0.8 * step:.2f}%",
        height=f"{tall:.1f}",
        class_="time-bar before" if i <= change.last_before else "time-bar after",
    )


def _end_label(words: str, cut: float, *, is_before: bool) -> Html:
    """The usual time of a side, beside the line between them."""
    shift, anchor = ("-6", "end") if is_before else ("6", "start")
    near_edge = cut < 25 if is_before else cut > 75
    if near_edge:  # no room on that side of the line: at the edge of the drawing
        at, shift, anchor = ("0", "0", "start") if is_before else ("100%", "0", "end")
    else:
        at = f"{cut:.2f}%"
    which = "before" if is_before else "after"
    return element("text", f"{words} {which}", x=at, dx=shift, y="12", text_anchor=anchor)


def _history_table(change: ChangeDocument, shown: range, reports: CitedReports) -> Html:
    columns = [
        Column("created (UTC)", first="ascending"),
        Column("time", is_number=True),
        Column("", is_number=False),
        Column("report", first="ascending"),
    ]
    rows = []
    for i in shown:
        dated = change.history[i]
        side = "before" if i <= change.last_before else "after"
        cells = (Cell(one_line(dated.created)), Cell(time_text(dated.time_us), dated.time_us))
        rows.append([*cells, Cell(side), Cell(reports.link(dated.path, dated.launch))])
    return data_table(f"History of {change.kernel}", columns, rows)


# --- launches that stand out


def outliers_table(outliers: OutliersDocument, reports: CitedReports) -> Html:
    columns = [
        Column("launch", first="ascending"),
        Column("time", is_number=True),
        Column("of the median", is_number=True),
        Column("what changed as well"),
        Column("report", first="ascending"),
    ]
    longest = max((each.time_us for each in outliers.launches), default=0.0) or 1.0
    rows = [
        [
            Cell(f"#{each.launch}", each.launch),
            Cell(
                fragment(time_text(each.time_us), meter(100 * each.time_us / longest)),
                each.time_us,
            ),
            Cell(speedup_text(each.times), each.times),
            Cell("; ".join(map(_moved_words, each.moved)) or "nothing"),
            Cell(reports.link(each.path)),
        ]
        for each in outliers.launches
    ]
    table = data_table(f"Outliers of {outliers.kernel}", columns, rows)
    usual = f"The median of {outliers.peers:,} launches is {time_text(outliers.median_us)}."
    more = outliers.found - len(outliers.launches)
    rest = f" {more:,} more outliers are not shown." if more > 0 else ""
    return fragment(table, element("p", usual, rest, class_="muted"))


# --- metrics that moved


def moved_table(label: str, usual: str, here: str, moved: Sequence[MovedDocument]) -> Html | None:
    if not moved:
        return None
    columns = [Column("metric", first="ascending"), Column(usual, is_number=True)]
    columns.append(Column(here, is_number=True))
    rows = [
        [
            Cell(one_line(each.label)),
            Cell(_amount(each.usual, each.unit), each.usual),
            Cell(_amount(each.here, each.unit), each.here),
        ]
        for each in moved
    ]
    return fragment(element("h4", label), data_table(label, columns, rows))


def _moved_words(moved: MovedDocument) -> str:
    usual, here = _amount(moved.usual, moved.unit), _amount(moved.here, moved.unit)
    return one_line(f"{moved.label} {usual} → {here}")


def _amount(value: float, unit: str) -> str:
    return one_line(str(Quantity(value, unit).to_base()))


# --- the facts that the words rest on


def facts_fold(insight: InsightDocument, reports: CitedReports) -> Html | None:
    """Every number in the text: where it stands in the store, or what it was computed from."""
    if not insight.facts:
        return None
    columns = [
        Column("what it is", first="ascending"),
        Column("value", is_number=True),
        Column("where it comes from"),
        Column("id", first="ascending"),
    ]
    at = {place: f" at {value}" for place, value in insight.knob_values().items()}
    rows = [
        [
            Cell(one_line(fact.label + at.get((fact.path, fact.launch), ""))),
            Cell(one_line(str(fact)), fact.value),
            Cell(_origin(fact, reports)),
            Cell(element("code", one_line(name), class_="break")),
        ]
        for name, fact in insight.facts.items()
    ]
    return element(
        "details",
        element("summary", f"Evidence: {len(rows):,} numbers"),
        data_table(f"Evidence for {insight.title}", columns, rows),
        class_="fold",
        data_print=True,
    )


def _origin(fact: Fact, reports: CitedReports) -> Html:
    """A computed number names its inputs; any other names the column and its report."""
    if fact.derived_from:
        return fragment("computed from ", element("code", one_line(", ".join(fact.derived_from))))
    where = reports.link(fact.path, fact.launch) if fact.path else None
    return fragment(element("code", one_line(fact.metric)), " of " if where else None, where)
