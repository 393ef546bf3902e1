"""`keet insights --format svg`: the curve of each sweep, time above and shares of peak below.

Self-contained like the roofline: no script, no font, no address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.render.insights import summary_line
from keet.render.insights_documents import InsightDocument, InsightsDocument, SweepDocument
from keet.render.svg import cut, spread, tag, text_of
from keet.units import Quantity

_WIDTH = 760.0
_LEFT, _RIGHT = 90.0, 640.0
_HEAD, _TIME, _GAP, _SHARE, _FOOT = 54.0, 110.0, 22.0, 120.0, 56.0
_PANEL = _HEAD + _TIME + _GAP + _SHARE + _FOOT
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
    yield tag("text", text_of(cut(insight.title, _WIDTH - 48, 15)), x=24, y=22, class_="title")
    yield tag("text", text_of(_subtitle(sweep)), x=24, y=40, class_="muted")
    yield from _times(sweep)
    yield from _shares(sweep)
    yield from _changes(sweep)
    yield from _axis(sweep)


def _subtitle(sweep: SweepDocument) -> str:
    what = f"time per {sweep.work_unit}" if sweep.work_unit else "time"
    return f"{sweep.device}; {what} above, share of peak over the elapsed cycles below"


def _x(sweep: SweepDocument, i: float) -> float:
    """Values stand at equal distances: knobs are chosen, and mostly doubled."""
    return _LEFT + (i + 0.5) * (_RIGHT - _LEFT) / len(sweep.points)


def _times(sweep: SweepDocument) -> Iterator[str]:
    costs = [point.time_us if point.cost is None else point.cost for point in sweep.points]
    base, width = _HEAD + _TIME, min(46.0, 0.6 * (_RIGHT - _LEFT) / len(costs))
    yield tag("line", x1=_LEFT, x2=_RIGHT, y1=base, y2=base, class_="rule")
    for i, (point, cost) in enumerate(zip(sweep.points, costs)):
        tall = (_TIME - 18) * cost / max(costs)
        look = "best" if i == sweep.best else "tied" if point.tied else "bar"
        left, top = _x(sweep, i) - width / 2, base - tall
        yield tag("rect", x=left, y=top, width=width, height=tall, rx=2, class_=look)
        words = str(Quantity(cost, "us").to_base())
        yield tag("text", text_of(words), x=left + width / 2, y=top - 4, class_="muted middle")


def _shares(sweep: SweepDocument) -> Iterator[str]:
    top, base = _HEAD + _TIME + _GAP, _HEAD + _TIME + _GAP + _SHARE
    for share in (0, 50, 100):
        y = base - _SHARE * share / 100
        yield tag("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="rule")
        yield tag("text", f"{share}%", x=_LEFT - 8, y=y + 4, class_="muted right")
    units = list(dict.fromkeys(unit for point in sweep.points for unit in point.units))
    ends = [_line(sweep, unit, base) for unit in units]
    labels = spread([line[-1][1] if line else base for line in ends], 14, top, base)
    for unit, line, y, ink in zip(units, ends, labels, _INKS):
        yield tag("polyline", points=_joined(line), class_="unit", stroke=ink)
        yield from (tag("circle", cx=cx, cy=cy, r=2.5, fill=ink) for cx, cy in line)
        yield tag("text", text_of(unit), x=_RIGHT + 8, y=y + 4, style=f"fill: {ink}")


def _line(sweep: SweepDocument, unit: str, base: float) -> list[tuple[float, float]]:
    """Where it was measured; nothing stands for what was not."""
    return [
        (_x(sweep, i), base - _SHARE * min(point.units[unit], 100) / 100)
        for i, point in enumerate(sweep.points)
        if unit in point.units
    ]


def _joined(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in line)


def _changes(sweep: SweepDocument) -> Iterator[str]:
    known = {point.shown: i for i, point in enumerate(sweep.points)}
    bottom = _HEAD + _TIME + _GAP + _SHARE
    for change in sweep.changes:
        x = _x(sweep, known[change.after] + 0.5)
        yield tag("line", x1=x, x2=x, y1=_HEAD, y2=bottom, class_="change")
        words = f"{change.was} → {change.becomes}"
        yield tag("text", text_of(words), x=x, y=bottom + 30, class_="muted middle")


def _axis(sweep: SweepDocument) -> Iterator[str]:
    y = _HEAD + _TIME + _GAP + _SHARE + 16
    for i, point in enumerate(sweep.points):
        shown = cut(point.shown, (_RIGHT - _LEFT) / len(sweep.points), 12)
        yield tag("text", text_of(shown), x=_x(sweep, i), y=y, class_="middle")
    yield tag("text", text_of(cut(sweep.knob, _LEFT - 20, 12)), x=_LEFT - 12, y=y, class_="right")
