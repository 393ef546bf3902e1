"""`keet insights --format svg`: the curve of each sweep, time above and shares of peak below.

Self-contained like the roofline: no script, no font, no address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keet.documents.insights import InsightDocument, InsightsDocument, SweepDocument
from keet.formats.svg.insights_chart import ChartFrame, Standing, SweepChart
from keet.formats.svg.markup import cut, tag, text_of
from keet.pages.insights import summary_line

_WIDTH = 760.0
_FRAME = ChartFrame(left=90.0, right=640.0, head=54.0, time=110.0, gap=22.0, share=120.0)
_PANEL = _FRAME.bottom + 56.0
_TOP = 40.0
_INKS = ("#2563eb", "#c2410c", "#0d9488", "#9333ea")
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
.bar { fill: #94a3b8 }
.tied { fill: #475569 }
.best { fill: #16a34a }
.change { stroke: #64748b; stroke-width: 1; stroke-dasharray: 4 3 }
.unit { stroke-width: 2; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 }
  .muted { fill: #94a3b8 }
  .page { fill: #0b1120 }
  .rule { stroke: #24314b }
  .bar { fill: #475569 } .tied { fill: #94a3b8 } .best { fill: #4ade80 }
}
"""


def insights_svg(document: InsightsDocument) -> str:
    """Sweeps only: the rest is words and tables."""
    sweeps = [each for each in document.insights if each.sweep]
    height = _TOP + _PANEL * len(sweeps) + (0 if sweeps else 30)
    drawn = [tag("text", text_of(summary_line(document)), x=24, y=24, class_="muted")]
    if not sweeps:
        drawn.append(tag("text", "No sweep was found: there is no curve to draw.", x=24, y=52))
    for place, each in enumerate(sweeps):
        panel = "\n".join(_panel(each))
        drawn.append(tag("g", panel, transform=f"translate(0 {_TOP + place * _PANEL:g})"))
    told = "; ".join(each.title for each in sweeps)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'width="{_WIDTH:g}" height="{height:g}" role="img">\n<title>Sweeps</title>\n'
        f"<desc>{text_of(told)}</desc>\n<style>{_STYLE}</style>\n"
        + tag("rect", width=_WIDTH, height=height, class_="page")
        + "\n".join(["", *drawn])
        + "\n</svg>\n"
    )


def _panel(insight: InsightDocument) -> Iterator[str]:
    sweep = insight.sweep
    if sweep is None:
        return
    chart = SweepChart(sweep, _FRAME, _Inks())
    yield tag("text", text_of(cut(insight.title, _WIDTH - 48, 15)), x=24, y=22, class_="title")
    yield tag("text", text_of(_subtitle(sweep)), x=24, y=40, class_="muted")
    yield from chart.times()
    yield from chart.shares()
    yield from _changes(chart)
    yield from chart.axis()


class _Inks:
    """Colours that are written at each mark."""

    most = len(_INKS)

    def bar(self, standing: Standing) -> Mapping[str, str]:
        return {"class_": "bar" if standing == "other" else standing}

    def line(self, number: int) -> Mapping[str, str]:
        return {"class_": "unit", "stroke": _INKS[number]}

    def dot(self, number: int) -> Mapping[str, str]:
        return {"fill": _INKS[number]}

    def label(self, number: int) -> Mapping[str, str]:
        return {"style": f"fill: {_INKS[number]}"}


def _subtitle(sweep: SweepDocument) -> str:
    what = f"time per {sweep.work_unit}" if sweep.work_unit else "time"
    return f"{sweep.device}; {what} above, share of peak over the elapsed cycles below"


def _changes(chart: SweepChart) -> Iterator[str]:
    bottom = chart.frame.bottom
    for change in chart.sweep.changes:
        x = chart.after(change)
        yield tag("line", x1=x, x2=x, y1=chart.frame.head, y2=bottom, class_="change")
        words = " → ".join(chart.sweep.limiters_around(change))
        yield tag("text", text_of(words), x=x, y=bottom + 30, class_="muted middle")
