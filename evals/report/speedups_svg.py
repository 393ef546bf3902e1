"""Draws speed-ups by condition: a row per sample, a mark per condition, geometric means on top.

The drawing has no script, font or link. Shape and colour both show the condition, so that it is
readable without colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.optimize.metrics import geometric_mean
from evals.optimize.summary import ALL, ConditionSummary
from evals.report.documents import OptimizeReport, SampleDocument
from evals.runs import CONDITIONS, Condition
from keet.formats.svg.markup import Axis, cut, tag, text_of, text_width

_WIDTH, _LEFT, _RIGHT = 860.0, 190.0, 730.0
_HEAD, _LEGEND, _MEAN, _ROW, _GROUP, _FOOT = 46.0, 30.0, 24.0, 20.0, 26.0, 44.0
_LANE = 4.0
"""Vertical distance between the marks of a row, so that equal values do not overlap."""
_STYLE = """
svg { color-scheme: light dark }
text { font-size: 12px; fill: #1e293b; font-family: system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif }
.title { font-size: 15px; font-weight: 650 }
.muted { fill: #64748b; font-size: 11px }
.right { text-anchor: end }
.middle { text-anchor: middle }
.page { fill: #ffffff }
.rule { stroke: #e2e8f0; stroke-width: 1 }
.one { stroke: #64748b; stroke-width: 1; stroke-dasharray: 4 3 }
.best { stroke: #94a3b8; stroke-width: 2 }
.mark { stroke-width: 1.6 }
.range { stroke-width: 2.4 }
.blind, .none { stroke: #64748b; fill: #64748b }
.raw { stroke: #c2410c; fill: #c2410c }
.keet { stroke: #2563eb; fill: #2563eb }
.agent { stroke: #9333ea; fill: #9333ea }
.mark.open { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 }
  .muted { fill: #94a3b8 }
  .page, .mark.open { fill: #0b1120 }
  .rule { stroke: #24314b } .one { stroke: #94a3b8 } .best { stroke: #64748b }
  .blind, .none { stroke: #cbd5e1; fill: #cbd5e1 }
  .raw { stroke: #fb923c; fill: #fb923c }
  .keet { stroke: #60a5fa; fill: #60a5fa }
  .agent { stroke: #c084fc; fill: #c084fc }
}
"""


class Mark(NamedTuple):
    """One sample under one condition."""

    value: float
    """Geometric mean of its attempts, failures as 1x."""
    failed: int
    of: int


def speedups_svg(report: OptimizeReport) -> str:
    """One panel per model."""
    models = list(dict.fromkeys(sample.model for sample in report.samples))
    axis = _axis(report)
    drawn, top = [], 0.0
    for model in models:
        panel = _Panel(report, model, axis)
        drawn.append(tag("g", "\n".join(panel.drawn()), transform=f"translate(0 {top:g})"))
        top += panel.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {top:g}" '
        f'width="{_WIDTH:g}" height="{top:g}" role="img">\n<title>Speed-up by condition</title>\n'
        f"<desc>{text_of(_told(report))}</desc>\n<style>{_STYLE}</style>\n"
        + tag("rect", width=_WIDTH, height=top, class_="page")
        + "\n".join(["", *drawn])
        + "\n</svg>\n"
    )


def mark_of(attempts: Sequence[float | str]) -> Mark | None:
    """None: nothing was scored."""
    scored = [each for each in attempts if each != "unscored"]
    if not scored:
        return None
    gains = [each if isinstance(each, float) else 1.0 for each in scored]
    failed = sum(isinstance(each, str) for each in scored)
    return Mark(geometric_mean(gains), failed, len(scored))


def _told(report: OptimizeReport) -> str:
    """The means in words, for readers who cannot see the drawing."""
    return "; ".join(
        f"{s.model}, {s.condition}: {s.geomean.mean:.2f}x ({s.geomean.low:.2f} to "
        f"{s.geomean.high:.2f}) over {s.samples} samples, pass@1 {s.pass_at_1:.2f}"
        + (f", {s.unscored} attempts not scored" if s.unscored else "")
        for s in report.summaries
        if s.group == ALL and s.geomean is not None
    )


def _axis(report: OptimizeReport) -> Axis:
    """Covers all marks with a margin, and always includes 1x."""
    values = [1.0, 2.0, *(sample.best_known for sample in report.samples)]
    for sample in report.samples:
        values += [m.value for a in sample.attempts.values() if (m := mark_of(a))]
    low, high = math.log10(min(values)), math.log10(max(values))
    return Axis(low - 0.06, high + 0.06, _LEFT, _RIGHT)


def _ticks(axis: Axis) -> Iterator[float]:
    wide = axis.high - axis.low > 1.2
    for power in range(math.floor(axis.low), math.ceil(axis.high) + 1):
        for digit in (1, 2, 5) if wide else (1, 1.5, 2, 3, 5, 7):
            if axis.low <= math.log10(digit * 10.0**power) <= axis.high:
                yield digit * 10.0**power


class _Panel:
    """One model: legend, means, then its samples by difficulty."""

    def __init__(self, report: OptimizeReport, model: str, axis: Axis) -> None:
        self.model, self.axis = model, axis
        self.samples = [each for each in report.samples if each.model == model]
        own = [s for s in report.summaries if (s.group, s.model) == (ALL, model)]
        self.means = [s for s in own if s.geomean is not None]
        asked = {condition for sample in self.samples for condition in sample.attempts}
        self.conditions = [condition for condition in CONDITIONS if condition in asked]
        self.groups = list(dict.fromkeys(sample.group for sample in self.samples))

    @property
    def plot_top(self) -> float:
        return _HEAD + _LEGEND

    @property
    def plot_bottom(self) -> float:
        rows = _MEAN * len(self.means) + _GROUP * len(self.groups) + _ROW * len(self.samples)
        return self.plot_top + rows + 8

    @property
    def height(self) -> float:
        return self.plot_bottom + _FOOT

    def drawn(self) -> Iterator[str]:
        title = f"Speed-up over the original by condition: {self.model}"
        yield tag("text", text_of(cut(title, _WIDTH - 48, 15)), x=24, y=30, class_="title")
        yield from self._legend()
        yield from self._grid()
        y = self.plot_top + _MEAN / 2
        for summary in self.means:
            yield from self._mean(summary, y)
            y += _MEAN
        for group in self.groups:
            yield tag("text", text_of(group), x=24, y=y + 8, class_="muted")
            y += _GROUP
            for sample in self.samples:
                if sample.group == group:
                    yield from self._row(sample, y)
                    y += _ROW

    def _legend(self) -> Iterator[str]:
        x, y = 30.0, _HEAD + 8
        marks = [(_shape(condition, 0, 0, 5), str(condition)) for condition in self.conditions]
        marks += [
            (_shape("none", 0, 0, 5, open_=True), "some attempts failed"),
            (_cross("none", 0, 0), "all failed: 1x"),
            (_best(0, 0), "best known"),
        ]
        for mark, words in marks:
            yield tag("g", mark, transform=f"translate({x:.1f} {y:g})")
            yield tag("text", text_of(words), x=x + 11, y=y + 4)
            x += 36 + text_width(words, 12)

    def _grid(self) -> Iterator[str]:
        for value in _ticks(self.axis):
            x = self.axis.at(value)
            kind = "one" if value == 1 else "rule"
            yield tag("line", x1=x, x2=x, y1=self.plot_top, y2=self.plot_bottom, class_=kind)
            below = self.plot_bottom + 16
            yield tag("text", f"{value:g}x", x=x, y=below, class_="muted middle")
        middle, foot = (_LEFT + _RIGHT) / 2, self.plot_bottom + 33
        words = "speed-up over the original program (logarithmic)"
        yield tag("text", words, x=middle, y=foot, class_="muted middle")

    def _mean(self, summary: ConditionSummary, y: float) -> Iterator[str]:
        at, mean = self.axis.clamped, summary.geomean
        if mean is None:
            return
        condition = summary.condition
        words = f"{mean.mean:.2f}x ({mean.low:.2f} to {mean.high:.2f})"
        yield tag("text", f"geomean, {condition}", x=_LEFT - 10, y=y + 4, class_="right")
        kind = f"range {condition}"
        yield tag("line", x1=at(mean.low), x2=at(mean.high), y1=y, y2=y, class_=kind)
        yield _shape(condition, at(mean.mean), y, 6.5)
        yield tag("text", words, x=_RIGHT + 8, y=y + 4, class_="muted")

    def _row(self, sample: SampleDocument, y: float) -> Iterator[str]:
        yield tag("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="rule")
        yield tag("text", text_of(sample.sample), x=_LEFT - 10, y=y + 4, class_="right")
        yield _best(self.axis.clamped(sample.best_known), y)
        first = -_LANE * (len(self.conditions) - 1) / 2
        for lane, condition in enumerate(self.conditions):
            mark = mark_of(sample.attempts.get(condition, ()))
            if mark:
                yield self._mark(sample.sample, condition, mark, y + first + lane * _LANE)

    def _mark(self, name: str, condition: Condition, mark: Mark, y: float) -> str:
        x = self.axis.clamped(mark.value)
        told = f"{name}, {condition}: {mark.value:.2f}x, {mark.failed} of {mark.of} failed"
        if mark.failed == mark.of:
            return tag("g", tag("title", text_of(told)) + _cross(condition, x, y))
        shape = _shape(condition, x, y, 4, open_=mark.failed > 0)
        return tag("g", tag("title", text_of(told)) + shape)


def _shape(condition: Condition, x: float, y: float, r: float, *, open_: bool = False) -> str:
    kind = f"mark {condition}{' open' if open_ else ''}"
    if condition in ("none", "blind"):
        return tag("circle", cx=x, cy=y, r=r, class_=kind)
    if condition == "raw":
        side = 1.8 * r
        return tag("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, class_=kind)
    corners = (
        [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)]
        if condition == "keet"
        else [(0, -1.2), (1.2, 1), (-1.2, 1)]
    )
    points = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
    return tag("polygon", points=points, class_=kind)


def _cross(condition: Condition, x: float, y: float) -> str:
    path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return tag("path", d=path, class_=f"mark {condition}")


def _best(x: float, y: float) -> str:
    return tag("line", x1=x, x2=x, y1=y - 7, y2=y + 7, class_="best")
