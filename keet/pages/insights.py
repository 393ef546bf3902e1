"""The page of `keet insights`: sweeps, clusters, changes and outliers, each with its words.

HTML has more: charts, the evidence of every number, and the reports, which rows link to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keet.documents.insights import (
    ChangeDocument,
    ClusterDocument,
    CurvePointDocument,
    InsightDocument,
    InsightsDocument,
    MovedDocument,
    OutliersDocument,
    SweepDocument,
)
from keet.documents.model_explanation import Authorship, UsageDocument
from keet.formatting import count_noun, percent_cell, percent_text, speedup_text
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Fold,
    Foot,
    Gap,
    Heading,
    HistoryFigure,
    Item,
    Items,
    Notice,
    Page,
    Part,
    Reader,
    ReportsFigure,
    Span,
    SweepFigure,
    Table,
    Text,
    Words,
    limited,
    table_of,
)
from keet.pages.model_words import problem_text, usage_text
from keet.safe_text import one_line
from keet.units import Quantity

TITLE = "What these profiles show together"
ADDS = "Compared with a single profile"
NOTHING = (
    "No insights: no kernel has a parameter that varies over three files, no finding is shared by "
    "several kernels, no kernel changed over time, and no launch is an outlier."
)
NO_SWEEP = (
    "No sweep was found, so there is no curve to draw. A sweep needs one kernel in at least three "
    "reports that differ in one value, best given in their names: `BLOCK_64.ncu-rep`, "
    "`BLOCK_128.ncu-rep`, `BLOCK_256.ncu-rep`. Put them into the store with `keet batch`."
)
_IN_ONE_FILE = "All of it is in one file, whose explanation shows it too."
_KINDS = {
    "sweep": ("Sweeps", ": one kernel, one parameter varies"),
    "cluster": ("Clusters", ": the same finding in several kernels"),
    "change": ("Changes", " over time"),
    "outliers": ("Outliers", " among equal launches"),
}
"""In the order in which they are printed: what the bar of a page calls them, and the rest."""
_ABOUT = {
    "sweep": "● best, ○ as fast within noise. Columns of units (DRAM, L2, L1, LSU, issue, …): "
    "share of peak over the elapsed cycles, as in `keet explain`.",
    "cluster": "Sorted by the time that fixing all of a cluster could save. A launch may be in "
    "several clusters: do not add up the savings of different clusters. Files are named by "
    "the end of their path.",
}
_OPEN = 6
"""Insights of a kind that HTML shows open, and answers at its top. A judgement: as many as a reader
scans before searching; each has about ten elements to tab through."""
_HISTORY = 60
"""Files of a history that are shown at most, around the change."""
_WIDE = 110
_ONLY_HTML = 1_000
"""Columns of a terminal: none is as wide, and Markdown is not."""
_MARKS = {"best": "● ", "as good": "○ "}
_LEVELS = "▁▂▃▄▅▆▇█"


def insights_page(document: InsightsDocument, reader: Reader) -> Page:
    first = document.insights[0].title if document.insights else summary_line(document)
    kinds = [kind for kind in _KINDS if any(insight.kind == kind for insight in document.insights)]
    links = [(f"kind-{kind}", _KINDS[kind][0]) for kind in kinds]
    return Page(
        [*_blocks(document, kinds, reader)],
        f"{one_line(first)} - keet insights",
        document.store,
        [*links, *([("reports", "Reports")] if kinds else [])],
    )


def _blocks(document: InsightsDocument, kinds: Sequence[str], reader: Reader) -> Iterator[Block]:
    insights, reports = document.insights, CitedReports(document.insights)
    yield Heading(TITLE)
    yield Text(summary_line(document), "muted")
    if len(document.devices) > 3:
        yield Fold(
            "All GPUs", [Items([Item(device) for device in document.devices])], only=("html",)
        )
    yield from _answers(insights)
    if not insights:
        yield from (Gap(), Text(NOTHING))
    if "sweep" not in kinds:
        yield Notice(NO_SWEEP, "", only=("html",))
    for kind in kinds:
        yield Gap()
        title = "".join(_KINDS[kind])
        yield Heading(title, 2, "strong underline", anchor=f"kind-{kind}")
        if kind in _ABOUT:
            yield Text(_ABOUT[kind], "muted")
        for number, each in enumerate(insight for insight in insights if insight.kind == kind):
            body = [*_insight(each, reports, reader)]
            name: Words = (Span(each.id, "muted"), "  ", each.title)
            yield Gap()
            if reader.format == "html" and number >= _OPEN:  # its title, the rest one click away
                yield Fold(name, body, False, "insight folded", each.id, 3, is_printed=True)
            else:
                heading = Heading(name, 3, anchor=each.id)
                yield Part([heading, *body], "insight", tag="article")
    notes = [problem_text(document.problem, answered=True)] if document.problem else []
    if notes := [*notes, *document.notes]:
        heading = Heading("What could not be judged, or is not shown", 2)
        yield from (Gap(), heading, Items([Item(note) for note in notes]))
    if cited := reports.cited:
        yield ReportsFigure([(reports.anchors[path], path, ids) for path, ids in cited.items()])
    if numbers := document.grounding.numbers:
        what = f"All {numbers:,} numbers in keet's texts are printed from the evidence on this page"
        yield Foot(f"{what}.", only=("html",))
    if usage := document.usage:  # None if no model was asked
        model = document.author.removeprefix("model:")
        took = UsageDocument(**usage.to_dict())
        yield Foot(usage_text(Authorship(model, took, document.problem, None)))
    made = f"Made by keet {document.producer.version}. This page is one file and loads nothing."
    yield Foot(made, only=("html",))


def summary_line(document: InsightsDocument) -> str:
    devices = document.devices
    shown = ", ".join(devices[:3]) + (f" and {len(devices) - 3} more" if len(devices) > 3 else "")
    launches, files = count_noun(document.launches, "launch"), count_noun(document.files, "file")
    return f"{launches} in {files}, on {shown or 'no GPU'}"


def _answers(insights: Sequence[InsightDocument]) -> Iterator[Block]:
    """What each insight adds over single profiles, at the top of a page in HTML."""
    items = [
        Item((Span(insight.title, "strong", insight.id), " ", insight.adds or _IN_ONE_FILE))
        for insight in insights
        if insight.adds or insight.cluster
    ]
    blocks: list[Block] = [Heading(ADDS, 2), Items(items[:_OPEN], kind="answers")]
    if more := items[_OPEN:]:
        shown = Items(more, kind="answers")
        blocks.append(Fold(f"{len(more):,} more", [shown], is_printed=True))
    if items:
        yield Part(blocks, "panel", "answers", only=("html",))


# --- one insight


def _insight(insight: InsightDocument, reports: CitedReports, reader: Reader) -> Iterator[Block]:
    """In a terminal and in Markdown first what was measured, then what it means."""
    drawn: list[Block] = []
    below: list[Block] = []
    if insight.sweep:
        points = _points(insight.sweep, reports, reader)
        drawn.append(SweepFigure(insight.sweep, short=[points]))
        below += [Heading("The points of the chart", 4, only=("html",))]
        below += [Part([points], only=("html",)), *_left_out(insight.sweep, reports)]
    if insight.cluster:
        drawn.append(_kernels(insight.cluster, reports))
    if insight.change:
        drawn += _history(insight.change, reports)
    if insight.outliers:
        drawn.append(_outliers(insight.outliers, reports))
    words = Part([*_words(insight)], "words")
    kind = "insight-grid" if insight.sweep else ""  # HTML has the words beside the chart
    yield Part([*drawn, words], kind, indent=2)
    yield from below
    yield from _evidence(insight, reports)


def _words(insight: InsightDocument) -> Iterator[Block]:
    if insight.adds:
        yield Text((Span(f"{ADDS}: ", "strong"), insight.adds), "adds")
    elif insight.cluster:
        yield Text(_IN_ONE_FILE, "muted")
    yield Items([Item(text) for text in insight.text])
    if written := insight.written:
        blocks: list[Block] = []
        if written.text:
            blocks.append(Text((Span("Model: ", "model"), written.text)))
        unchecked = [f"unchecked: “{each.text}” ({each.reason})" for each in written.unchecked]
        if unchecked:
            blocks.append(Items([Item(Span(text, "muted")) for text in unchecked]))
        yield Part(blocks, "note written", tag="aside")


def _points(sweep: SweepDocument, reports: CitedReports, reader: Reader) -> Table:
    """One row per point of the curve."""
    units = unit_names(sweep)
    is_text = any(isinstance(point.value, str) for point in sweep.points)
    bar = max(6, min(40, reader.width // 2 - 8 * len(units)))
    longest = max(compared(point) for point in sweep.points)
    times = [Column("time", is_number=True, bar=0 if sweep.work_unit else bar)]
    if sweep.work_unit:
        times.append(Column(f"per {sweep.work_unit}", is_number=True, bar=bar))
    rows: list[dict[Column, Words | Cell]] = []
    for i, point in enumerate(sweep.points):
        name = mark_of(sweep, i)
        mark = Span(_MARKS.get(name, "  " if is_text else ""), "good", tip=name)
        costs = zip(times, (point.time_us, compared(point)))
        shares = [(Column(unit, is_number=True), point.units.get(unit)) for unit in units]
        several = Span(f" (median of {point.files:,} files)", "muted") if point.files > 1 else ""
        knob = Column(sweep.knob, is_number=not is_text, look="label")
        rows.append({
            knob: Cell((mark, point.shown), value=point.value),
            **{c: Cell(time_text(us), value=us, share=us / longest) for c, us in costs},
            **{c: "–" if s is None else Cell(percent_text(s), value=s) for c, s in shares},
            Column("limiter"): point.limiter or "not known",
            Column("report", wide=_ONLY_HTML): (reports.link(point.path, point.launch), several),
        })  # fmt: skip
    name = f"Points of {sweep.kernel} over {sweep.knob}"
    caption = limited(rows, reader, "--format json")
    return table_of(rows[: reader.rows], caption, name, is_ruled=False)


def _left_out(sweep: SweepDocument, reports: CitedReports) -> Iterator[Block]:
    """Files with the knob in their name that are not points."""
    if sweep.left_out:
        names = (sweep.knob, "what else differs", "report")
        rows = [
            [Cell(each.shown, value=each.value), each.why, reports.link(each.path)]
            for each in sweep.left_out
        ]
        name = f"Left out of {sweep.kernel} over {sweep.knob}"
        table = Table([*map(Column, names)], rows, name=name)
        summary = f"Left out of the sweep: {count_noun(len(rows), 'file')}"
        yield Fold(summary, [table], is_printed=True, only=("html",))


def _kernels(cluster: ClusterDocument, reports: CitedReports) -> Table:
    """A narrow table has fewer columns; the text has the ranges."""
    most = max((kernel.saved_likely_us for kernel in cluster.kernels), default=0.0) or 1.0
    rows: list[dict[Column, Words | Cell]] = []
    for each in cluster.kernels:
        more = f" (slowest of {each.versions} versions)" if each.versions > 1 else ""
        low, saved, high = each.saved_low_us, each.saved_likely_us, each.saved_high_us
        share = Cell(percent_cell(each.share_pct), "", each.share_pct, each.share_pct / 100)
        ends = Cell(f"{time_text(low)} to {time_text(high)}", value=high)
        rows.append({
            Column("kernel", look="name"): Span(each.kernel, "name plain"),
            Column("file"): (Span(each.shown_path, "code", reports.anchors[each.path]), more),
            Column("launches", is_number=True, wide=_WIDE):
                Cell(f"{each.launches:,}", value=each.launches),
            Column("time", is_number=True): Cell(time_text(each.time_us), value=each.time_us),
            Column("of GPU time", is_number=True, wide=_WIDE): share,
            Column("could save", is_number=True):
                Cell(time_text(saved), value=saved, share=saved / most),
            Column("range", is_number=True, wide=_WIDE): ends,
        })  # fmt: skip
    left = cluster.row_count - len(cluster.kernels)
    caption = f"{left:,} more not shown" if left else ""
    return table_of(rows, caption, f"Kernels with {cluster.label}", is_ruled=False)


def _history(change: ChangeDocument, reports: CitedReports) -> Iterator[Block]:
    """A sparkline with one character per file, and a bar where the time changed."""
    times = [dated.time_us for dated in change.history]
    cut, shown = change.last_before + 1, shown_history(change)
    low, high = min(times), max(times)
    sparks = [_LEVELS[round(7 * (time - low) / (high - low or 1))] for time in times]
    line = "".join(sparks[shown.start : cut]) + "│" + "".join(sparks[cut : shown.stop])
    ends = time_text(times[shown.start]), time_text(times[shown.stop - 1])
    spark = Text(Span(f"{ends[0]} {line} {ends[1]}", "place"))
    yield HistoryFigure(change, shown, short=[spark])
    rows: list[dict[Column, Words | Cell]] = []
    for i in shown:
        dated = change.history[i]
        rows.append({
            Column("created (UTC)"): dated.created,
            Column("time", is_number=True): Cell(time_text(dated.time_us), value=dated.time_us),
            Column(""): "before" if i <= change.last_before else "after",
            Column("report"): reports.link(dated.path, dated.launch),
        })  # fmt: skip
    table = table_of(rows, name=f"History of {change.kernel}")
    yield Fold(f"The {len(shown):,} files", [table], is_printed=True, only=("html",))
    if change.moved:
        numbers = (Column(name, is_number=True) for name in ("before", "after"))
        moved: list[list[Words | Cell]] = [
            [each.label, *(Cell(_amount(v, each), value=v) for v in (each.usual, each.here))]
            for each in change.moved
        ]
        name = "What changed as well"
        table = Table([Column("metric"), *numbers], moved, name=name)
        yield Part([Heading(name, 4), table], tag="div", only=("html",))


def _outliers(outliers: OutliersDocument, reports: CitedReports) -> Table:
    longest = max((launch.time_us for launch in outliers.launches), default=0.0) or 1.0
    rows: list[dict[Column, Words | Cell]] = []
    for each in outliers.launches:
        moved = (f"{m.label} {_amount(m.usual, m)} → {_amount(m.here, m)}" for m in each.moved)
        time = Cell(time_text(each.time_us), "", each.time_us, each.time_us / longest)
        rows.append({
            Column("launch"): Cell(f"#{each.launch}", value=each.launch),
            Column("time", is_number=True): time,
            Column("of median", is_number=True): Cell(speedup_text(each.times), value=each.times),
            Column("also changed"): "; ".join(moved) or "nothing",
            Column("report", wide=_ONLY_HTML): reports.link(each.path),
        })  # fmt: skip
    more = outliers.found - len(outliers.launches)
    caption = f"The median of {outliers.peers:,} launches is {time_text(outliers.median_us)}."
    caption += f" {more:,} more outliers are not shown." if more > 0 else ""
    return table_of(rows, caption, f"Outliers of {outliers.kernel}", is_ruled=False)


def _amount(value: float, moved: MovedDocument) -> str:
    return str(Quantity(value, moved.unit).to_base())


def _evidence(insight: InsightDocument, reports: CitedReports) -> Iterator[Block]:
    """Every number in the text: where it stands in the store, or what it was computed from."""
    at = {place: f" at {value}" for place, value in insight.knob_values().items()}
    rows: list[dict[Column, Words | Cell]] = []
    for name, fact in insight.facts.items():
        origin: Words = ("computed from ", Span(", ".join(fact.derived_from or ()), "code"))
        if not fact.derived_from:
            where = (" of ", reports.link(fact.path, fact.launch)) if fact.path else ""
            origin = (Span(fact.metric, "code"), where)
        label = fact.label + at.get((fact.path, fact.launch), "")
        rows.append({
            Column("what it is"): label,
            Column("value", is_number=True): Cell(str(fact), value=fact.value),
            Column("where it comes from"): origin,
            Column("id"): Span(name, "code"),
        })  # fmt: skip
    if rows:
        table = table_of(rows, name=f"Evidence for {insight.title}")
        summary = f"Evidence: {len(rows):,} numbers"
        yield Fold(summary, [table], is_printed=True, only=("html",))


# --- what charts and tables share


def time_text(value_us: float) -> str:
    return str(Quantity(value_us, "us").to_base())


def mark_of(sweep: SweepDocument, i: int) -> str:
    """What the legend calls a point."""
    return "best" if i == sweep.best else "as good" if sweep.points[i].tied else ""


def unit_names(sweep: SweepDocument) -> list[str]:
    """Hardware units for which a point has a share of peak, in the order of their appearance."""
    return list(dict.fromkeys(unit for point in sweep.points for unit in point.units))


def compared(point: CurvePointDocument) -> float:
    """The value by which points are compared: the time, or the time per unit of work, in us."""
    return point.time_us if point.cost is None else point.cost


def shown_history(change: ChangeDocument) -> range:
    """Positions in the history, with the change in the middle."""
    cut = change.last_before + 1
    return range(max(0, cut - _HISTORY // 2), min(len(change.history), cut + _HISTORY // 2))


class CitedReports:
    """The reports that the page names, by path, in that order. Paths may be long and similar: rows
    show as much of each as is needed to tell them apart."""

    def __init__(self, insights: Sequence[InsightDocument]) -> None:
        self.cited: dict[str, list[str]] = {}
        """Paths, and the insights that name each."""
        for insight in insights:
            for path in dict.fromkeys(_paths(insight)):
                self.cited.setdefault(path, []).append(insight.id)
        self._names = distinct_names([*self.cited])
        self.anchors = {path: f"report-{number}" for number, path in enumerate(self.cited, 1)}

    def link(self, path: str, launch: int | None = None) -> Words:
        """The report, and which of its launches."""
        which = "" if launch is None else f" #{launch}"
        return Span(self._names[path], "place", self.anchors[path]), which


def _paths(insight: InsightDocument) -> Iterator[str]:
    """All that rows and facts of an insight name."""
    if insight.sweep:
        yield from (point.path for point in insight.sweep.points)
        yield from (each.path for each in insight.sweep.left_out)
    if insight.cluster:
        yield from (kernel.path for kernel in insight.cluster.kernels)
    if insight.outliers:
        yield from (launch.path for launch in insight.outliers.launches)
    if insight.change:
        yield from (insight.change.history[i].path for i in shown_history(insight.change))
    yield from (fact.path for fact in insight.facts.values() if fact.path)


def distinct_names(paths: Sequence[str]) -> Mapping[str, str]:
    """The last part of each path, with as many folders before it as it needs to be the only one."""
    names: dict[str, str] = {}
    left, depth = list(dict.fromkeys(paths)), 1
    while left:
        ends = {path: "/".join(path.split("/")[-depth:]) for path in left}
        counts = Counter(ends.values())
        names |= {path: end for path, end in ends.items() if counts[end] == 1 or end == path}
        left = [path for path in left if path not in names]
        depth += 1
    return names
