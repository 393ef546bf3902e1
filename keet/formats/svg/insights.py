"""`keet insights --format svg`: the curve of each sweep, times as bars above, shares of peak below.

A curve is drawn in pixels from its own corner. `ChartFrame` says where the parts are and
`ChartStyle` how they are coloured: an SVG file has its own style, and a page, which draws the same
curves, allows none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.documents.insights import InsightsDocument, LimiterChangeDocument, SweepDocument
from keet.formats.svg.markup import cut, drawing_file, spread, tag, text_of
from keet.pages.insights import compared, summary_line, time_text, unit_names

_WIDEST_BAR = 46.0
_LABEL_GAP = 14.0
"""Between the names of two lines: a line of text of 12 pixels."""


class ChartFrame(NamedTuple):
    """Where the parts are, in pixels."""

    left: float
    right: float
    head: float
    """Above the bars."""
    time: float
    """Height of the bars, with the label of the longest."""
    gap: float
    share: float
    """Height of the shares of peak; 0 where no unit was measured."""

    @property
    def base(self) -> float:
        """The line on which the bars stand."""
        return self.head + self.time

    @property
    def top(self) -> float:
        """Where a unit at its peak would be."""
        return self.base + self.gap

    @property
    def bottom(self) -> float:
        return self.top + self.share


Standing = Literal["best", "tied", "other"]
"""Of a point among the others: `tied` is no slower than the best beyond noise."""


Attributes = Mapping[str, str]


class ChartStyle(NamedTuple):
    """Attributes that colour bars, and what belongs to a unit by its position among the units."""

    most: int
    """Units that can be told apart; more are not drawn."""
    bar: Callable[[Standing], Attributes]
    line: Callable[[int], Attributes]
    dot: Callable[[int], Attributes]
    label: Callable[[int], Attributes]


class SweepChart:
    """One sweep in one frame."""

    def __init__(
        self,
        sweep: SweepDocument,
        frame: ChartFrame,
        look: ChartStyle,
        labelled: Collection[int] | None = None,
    ) -> None:
        """`labelled`: points with their time and value in words; None: all."""
        self.sweep = sweep
        self._labelled = range(len(sweep.points)) if labelled is None else labelled
        self.frame = frame
        self._look = look
        self._step = (frame.right - frame.left) / len(sweep.points)

    def x(self, i: float) -> float:
        """Values stand at equal distances: knobs are chosen, and mostly doubled."""
        return self.frame.left + (i + 0.5) * self._step

    def after(self, change: LimiterChangeDocument) -> float:
        """Between the two values of a change."""
        known = {point.shown: i for i, point in enumerate(self.sweep.points)}
        return self.x(known[change.after] + 0.5)

    def times(self) -> Iterator[str]:
        sweep, frame = self.sweep, self.frame
        costs = [compared(point) for point in sweep.points]
        base, width = frame.base, min(_WIDEST_BAR, 0.6 * self._step)
        most = max(costs)
        yield self._rule(base)
        for i, (point, cost) in enumerate(zip(sweep.points, costs)):
            tall = (frame.time - 18) * cost / most
            look = self._look.bar("best" if i == sweep.best else "tied" if point.tied else "other")
            left, top = self.x(i) - width / 2, base - tall
            yield tag("rect", x=left, y=top, width=width, height=tall, rx=2, **look)
            at = {"x": left + width / 2, "y": top - 4}
            if i in self._labelled:
                yield tag("text", text_of(time_text(cost)), **at, class_="muted middle")

    def shares(self) -> Iterator[str]:
        frame = self.frame
        for share in (0, 50, 100):
            y = self._share_y(share)
            yield self._rule(y)
            yield tag("text", f"{share}%", x=frame.left - 8, y=y + 4, class_="muted right")
        units = unit_names(self.sweep)
        lines = [
            [  # none where the share was not measured
                (self.x(i), self._share_y(min(point.units[unit], 100)))
                for i, point in enumerate(self.sweep.points)
                if unit in point.units
            ]
            for unit in units
        ]
        ends = [line[-1][1] if line else frame.bottom for line in lines]
        labels = spread(ends, _LABEL_GAP, frame.top, frame.bottom)
        for number, (unit, line, y) in enumerate(zip(units, lines, labels)):
            if number < self._look.most:
                yield from self._unit(number, unit, line, y)

    def _unit(
        self, number: int, unit: str, line: Sequence[tuple[float, float]], label_y: float
    ) -> Iterator[str]:
        look = self._look
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        yield tag("polyline", points=points, **look.line(number))
        for cx, cy in line:
            yield tag("circle", cx=cx, cy=cy, r=2.5, **look.dot(number))
        at = {"x": self.frame.right + 8, "y": label_y + 4}
        yield tag("text", text_of(unit), **at, **look.label(number))

    def _share_y(self, share: float) -> float:
        return self.frame.bottom - self.frame.share * share / 100

    def _rule(self, y: float) -> str:
        return tag("line", x1=self.frame.left, x2=self.frame.right, y1=y, y2=y, class_="rule")

    def axis(self) -> Iterator[str]:
        frame, y = self.frame, self.frame.bottom + 16
        room = self._step * len(self.sweep.points) / len(self._labelled)
        for i in self._labelled:
            shown = cut(self.sweep.points[i].shown, room, 12)
            yield tag("text", text_of(shown), x=self.x(i), y=y, class_="middle")
        knob = cut(self.sweep.knob, frame.left - 20, 12)
        yield tag("text", text_of(knob), x=frame.left - 12, y=y, class_="right")


# --- the file

_WIDTH = 760.0
_FRAME = ChartFrame(left=90.0, right=640.0, head=54.0, time=110.0, gap=22.0, share=120.0)
_PANEL = _FRAME.bottom + 56.0
_TOP = 40.0
_INKS = ("#2563eb", "#c2410c", "#0d9488", "#9333ea")


def insights_svg(document: InsightsDocument) -> str:
    """Sweeps only: the rest is words and tables."""
    sweeps = [(insight.title, insight.sweep) for insight in document.insights if insight.sweep]
    height = _TOP + _PANEL * len(sweeps) + (0 if sweeps else 30)
    drawn = [tag("text", text_of(summary_line(document)), x=24, y=24, class_="muted")]
    if not sweeps:
        drawn.append(tag("text", "No sweep was found: there is no curve to draw.", x=24, y=52))
    for place, sweep in enumerate(sweeps):
        panel = "\n".join(_panel(*sweep))
        drawn.append(tag("g", panel, transform=f"translate(0 {_TOP + place * _PANEL:g})"))
    told = "; ".join(title for title, _ in sweeps)
    return drawing_file("Sweeps", told, "insights", (_WIDTH, height), drawn)


def _panel(title: str, sweep: SweepDocument) -> Iterator[str]:
    chart = SweepChart(sweep, _FRAME, _COLOURS)
    yield tag("text", text_of(cut(title, _WIDTH - 48, 15)), x=24, y=22, class_="title")
    what = f"time per {sweep.work_unit}" if sweep.work_unit else "time"
    words = f"{sweep.device}; {what} above, share of peak over the elapsed cycles below"
    yield tag("text", text_of(words), x=24, y=40, class_="muted")
    yield from chart.times()
    yield from chart.shares()
    bottom = chart.frame.bottom
    for change in sweep.changes:
        x = chart.after(change)
        yield tag("line", x1=x, x2=x, y1=chart.frame.head, y2=bottom, class_="change")
        limiters = " → ".join(sweep.limiters_around(change))
        yield tag("text", text_of(limiters), x=x, y=bottom + 30, class_="muted middle")
    yield from chart.axis()


_COLOURS = ChartStyle(
    most=len(_INKS),
    bar=lambda standing: {"class_": "bar" if standing == "other" else standing},
    line=lambda number: {"class_": "unit", "stroke": _INKS[number]},
    dot=lambda number: {"fill": _INKS[number]},
    label=lambda number: {"style": f"fill: {_INKS[number]}"},
)
"""Written at each mark."""
