"""The chart of a sweep on a page, with what a point says on hover.

The drawing is that of `--format svg`. Colours are classes, because the page allows no other style.
Changes of the limiter are marked by letters, which a list below the chart explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from string import ascii_uppercase

from keet.documents.insights import LimiterChangeDocument, SweepDocument
from keet.formats.html.data_table import scrolling
from keet.formats.html.markup import Html, element, from_svg
from keet.formats.svg.insights_chart import ChartFrame, Standing, SweepChart
from keet.formats.svg.markup import text_width
from keet.formatting import percent_text
from keet.render.common.insights import compared, time_text, unit_names
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


def sweep_figure(sweep: SweepDocument) -> Html:
    """The chart, what it shows, and the list of changes."""
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


def mark_of(sweep: SweepDocument, i: int) -> str | None:
    """What the legend calls a point."""
    return "best" if i == sweep.best else "as good" if sweep.points[i].tied else None


class _Classes:
    """Colours by class."""

    most = 1_000

    def bar(self, standing: Standing) -> Mapping[str, str]:
        return {"class_": f"time-bar {standing}"}

    def line(self, number: int) -> Mapping[str, str]:
        return {"class_": f"unit {_ink(number)} dash-{number // _COLOURS % 3}"}

    def dot(self, number: int) -> Mapping[str, str]:
        return {"class_": f"dot {_ink(number)}"}

    def label(self, number: int) -> Mapping[str, str]:
        return {"class_": f"name {_ink(number)}"}


def _ink(number: int) -> str:
    return f"ink-{number % _COLOURS}"


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


def _labelled(sweep: SweepDocument, frame: ChartFrame) -> list[int]:
    """As many points as labels have room for, at equal distances; the best is among them."""
    count = len(sweep.points)
    every = ceil(_label_width(sweep) * count / (frame.right - frame.left) - 1e-6)
    return list(range((sweep.best or 0) % every, count, every))


def _drawing(sweep: SweepDocument) -> Html:
    frame = _frame(sweep)
    units = unit_names(sweep)
    room = max((text_width(unit, 12) for unit in units), default=0.0) + 28
    width, height = round(frame.right + room), round(frame.bottom + _FOOT)
    chart = SweepChart(sweep, frame, _Classes(), _labelled(sweep, frame))
    drawn = [*chart.times(), *(chart.shares() if units else ()), *chart.axis()]
    return element(
        "svg",
        element("title", one_line(f"{sweep.kernel} over {sweep.knob}")),
        *_change_marks(chart),
        from_svg("".join(drawn)),
        *_headings(sweep, frame),
        *_columns(chart),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        class_="sweep-drawing",
    )


def _headings(sweep: SweepDocument, frame: ChartFrame) -> Iterator[Html]:
    yield element("text", one_line(_what(sweep)), x="0", y="14", class_="heading")
    if frame.share:
        words = "share of peak over the elapsed cycles"
        yield element("text", words, x="0", y=f"{frame.top - 14:.0f}", class_="heading")


def _what(sweep: SweepDocument) -> str:
    return f"time per {sweep.work_unit}" if sweep.work_unit else "time"


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
    for i in range(len(chart.sweep.points)):
        yield element(
            "rect",
            element("title", "\n".join(_tip(chart.sweep, i))),
            x=f"{chart.x(i) - step / 2:.1f}",
            y=f"{frame.head:.0f}",
            width=f"{step:.1f}",
            height=f"{frame.bottom - frame.head + 22:.0f}",
            class_="column",
        )


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


def _words(sweep: SweepDocument, change: LimiterChangeDocument) -> str:
    was, becomes = sweep.limiters_around(change)
    return f"was {was} and becomes {becomes}"


def _changes(sweep: SweepDocument) -> Html | None:
    """The letters of the chart."""
    if not sweep.changes:
        return None
    entries = [
        element(
            "li",
            element("b", letter(number), class_="letter"),
            one_line(
                f" between {change.after} and {change.until}: the limiter {_words(sweep, change)}"
            ),
        )
        for number, change in enumerate(sweep.changes)
    ]
    return element("ul", *entries, class_="letters")
