"""Figures of a page of insights: the chart of a sweep, the bars of a history, the cited reports.

The drawing of a sweep is that of `--format svg`, with what a point says on hover. Colours are
classes, because the page allows no other style. Changes of the limiter are marked by letters, which
a list below the chart explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from string import ascii_uppercase

from keet.documents.insights import ChangeDocument, SweepDocument
from keet.formats.html.markup import Html, element, from_svg, joined, scrolling, table
from keet.formats.svg.insights import ChartFrame, ChartStyle, Standing, SweepChart
from keet.formats.svg.markup import text_width
from keet.formatting import percent_text
from keet.pages.blocks import HistoryFigure, ReportsFigure, SweepFigure
from keet.pages.insights import compared, mark_of, time_text, unit_names
from keet.safe_text import one_line

_LEAST_STEP, _MOST_STEP = 20.0, 150.0
"""Pixels per point: a bar that can be pointed at, and room for a long name of a GPU."""
_LEAST_WIDTH, _MOST_WIDTH = 300.0, 960.0
"""Of all points. With more of them, labels are left out before the chart gets wider than that."""
_HEAD, _TIME, _GAP, _SHARE, _FOOT = 26.0, 150.0, 40.0, 140.0, 26.0
_LETTERS = 18.0
"""Height of the row of letters, where the limiter changes."""
_PER_UNIT = 15.0
"""Pixels of height per unit, so that the names at the ends of the lines keep apart."""
_COLOURS = 6
"""Of lines; from then on they repeat with dashes (assets/insights.css)."""


_HISTORY_HEIGHT = 120
_LABELS = 18
"""Pixels above the longest bar of a history."""
_MOST_LINKS = 12
"""Insights that a row of a report links to; one of a large set may be in all of them."""


def draw_sweep(figure: SweepFigure) -> Html:
    """The chart, what it shows, and the list of changes."""
    sweep = figure.sweep
    return element(
        "figure",
        scrolling(f"Chart of {sweep.kernel} over {sweep.knob}", _drawing(sweep)),
        element("figcaption", _caption(sweep)),
        _changes(sweep),
        class_="sweep-chart",
    )


def letter(number: int) -> str:
    """A to Z, then A1, B1, ..."""
    rounds, place = divmod(number, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(rounds) if rounds else "")


_CLASSES = ChartStyle(
    most=1_000,
    bar=lambda standing: {"class_": f"time-bar {standing}"},
    line=lambda n: {"class_": f"unit ink-{n % _COLOURS} dash-{n // _COLOURS % 3}"},
    dot=lambda n: {"class_": f"dot ink-{n % _COLOURS}"},
    label=lambda n: {"class_": f"name ink-{n % _COLOURS}"},
)


def _frame(sweep: SweepDocument) -> ChartFrame:
    count = len(sweep.points)
    step = min(max(_label_width(sweep), _LEAST_WIDTH / count), _MOST_STEP, _MOST_WIDTH / count)
    left = min(max(54.0, text_width(sweep.knob, 12) + 24), 140.0)
    units = unit_names(sweep)
    share = max(_SHARE, _PER_UNIT * len(units)) if units else 0.0
    gap = _GAP if units else 0.0
    head = _HEAD + (_LETTERS if sweep.changes else 0)
    return ChartFrame(left, left + max(step, _LEAST_STEP) * count, head, _TIME, gap, share)


def _label_width(sweep: SweepDocument) -> float:
    labels = [(point.shown, time_text(compared(point))) for point in sweep.points]
    return min(max(text_width(text, 12) for pair in labels for text in pair) + 10, _MOST_STEP)


def _drawing(sweep: SweepDocument) -> Html:
    frame = _frame(sweep)
    units = unit_names(sweep)
    room = max((text_width(unit, 12) for unit in units), default=0.0) + 28
    width, height = round(frame.right + room), round(frame.bottom + _FOOT)
    # As many points as labels have room for, at equal distances; the best is among them.
    count = len(sweep.points)
    every = ceil(_label_width(sweep) * count / (frame.right - frame.left) - 1e-6)
    labelled = range((sweep.best or 0) % every, count, every)
    chart = SweepChart(sweep, frame, _CLASSES, labelled)
    drawn = [*chart.times(), *(chart.shares() if units else ()), *chart.axis()]
    what = f"time per {sweep.work_unit}" if sweep.work_unit else "time"
    words = "share of peak over the elapsed cycles"
    heading = element("text", words, x="0", y=f"{frame.top - 14:.0f}", class_="heading")
    return element(
        "svg",
        element("title", one_line(f"{sweep.kernel} over {sweep.knob}")),
        *_change_marks(chart),
        from_svg("".join(drawn)),
        element("text", one_line(what), x="0", y="14", class_="heading"),
        heading if frame.share else None,
        *_columns(chart),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        class_="sweep-drawing",
    )


def _change_marks(chart: SweepChart) -> Iterator[Html]:
    frame = chart.frame
    for number, change in enumerate(chart.sweep.changes):
        x = f"{chart.after(change):.1f}"
        ends = {"y1": f"{frame.head - 2:.0f}", "y2": f"{frame.bottom:.0f}"}
        yield element("line", x1=x, x2=x, **ends, class_="change")
        at = {"x": x, "y": f"{frame.head - 6:.0f}"}
        yield element("text", letter(number), **at, class_="letter middle")


def _columns(chart: SweepChart) -> Iterator[Html]:
    """One area per point over its bar and dots, for hover, touch and the keyboard."""
    frame = chart.frame
    step = chart.x(1) - chart.x(0)
    y, height = f"{frame.head:.0f}", f"{frame.bottom - frame.head + 22:.0f}"
    for i in range(len(chart.sweep.points)):
        title = element("title", "\n".join(_tip(chart.sweep, i)))
        x, width = f"{chart.x(i) - step / 2:.1f}", f"{step:.1f}"
        yield element("rect", title, x=x, y=y, width=width, height=height, class_="column")


def _tip(sweep: SweepDocument, i: int) -> Iterator[str]:
    point, mark = sweep.points[i], mark_of(sweep, i)
    yield one_line(f"{sweep.knob} {point.shown}") + (f" ({mark})" if mark else "")
    yield f"time {time_text(point.time_us)}"
    if point.cost is not None and sweep.work_unit:
        yield f"{time_text(point.cost)} per {sweep.work_unit}"
    if point.units:
        shares = [f"{unit} {percent_text(share)}" for unit, share in point.units.items()]
        yield one_line(f"share of peak: {', '.join(shares)}")
    yield one_line(f"limiter: {point.limiter or 'not known'}")
    yield one_line(f"{point.path} #{point.launch}")
    if point.files > 1:
        yield f"median of {point.files:,} files"


def _caption(sweep: SweepDocument) -> Iterator[Html | str]:
    if sweep.kind != "gpu":
        yield f"{one_line(sweep.device)}. "
    if sweep.best is not None:
        yield _key("best", "best")
        if any(mark_of(sweep, i) == "as good" for i in range(len(sweep.points))):
            yield _key("tied", "as fast within noise")
        yield _key("other", "slower.")
    yield "Bars start at zero; values stand at equal distances."


def _key(standing: Standing, words: str) -> Html:
    square = element("span", class_=f"key {standing}")
    return element("span", square, f" {words}", class_="legend")


def _changes(sweep: SweepDocument) -> Html | None:
    """The letters of the chart."""
    if not sweep.changes:
        return None
    entries = []
    for number, change in enumerate(sweep.changes):
        was, becomes = sweep.limiters_around(change)
        where = f" between {change.after} and {change.until}"
        words = one_line(f"{where}: the limiter was {was} and becomes {becomes}")
        entries.append(element("li", element("b", letter(number), class_="letter"), words))
    return element("ul", *entries, class_="letters")


# --- a change over time


def draw_history(figure: HistoryFigure) -> Html:
    """Bars per file around the change."""
    change, shown = figure.change, figure.shown
    rest = len(change.history) - len(shown)
    caption = f"One bar per file, by date, from zero; {one_line(change.device)}."
    more = f" {rest:,} files further from the change are not shown." if rest else ""
    bars = _bars(change, shown)
    return element("figure", bars, element("figcaption", caption, more), class_="history")


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
    title = element("title", "\n".join(map(one_line, words)))
    x, y = f"{left + 0.1 * step:.2f}%", f"{_HISTORY_HEIGHT - tall:.1f}"
    width, height = f"{0.8 * step:.2f}%", f"{tall:.1f}"
    look = f"time-bar {'before' if i <= change.last_before else 'after'}"
    return element("rect", title, x=x, y=y, width=width, height=height, class_=look)


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


# --- the reports that the page names


def draw_reports(figure: ReportsFigure) -> Html:
    """Listed once, linked from every row and back."""
    rows = []
    for anchor, path, ids in figure.reports:
        links = [element("a", name, href=f"#{name}") for name in ids[:_MOST_LINKS]]
        more = f" and {len(ids) - _MOST_LINKS:,} more" if len(ids) > _MOST_LINKS else None
        name = element("th", element("code", one_line(path), class_="break"), scope="row")
        rows.append(element("tr", name, element("td", joined(links, ", "), more), id=anchor))
    shown = table({"report": "", "named in": ""}, rows, data_sortable=True, data_filter=True)
    command = "keet explain REPORT --format html -o page.html"
    return element(
        "section",
        element("h2", f"Reports named on this page ({len(rows):,})", id="reports"),
        element("p", "To see one of them in full: ", element("code", command)),
        scrolling("Reports named on this page", shown),
        class_="cited-reports",
    )
