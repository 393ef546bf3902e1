"""Charts of one launch: the memory chart, which is the drawing of `keet chart --format svg`, and
curves of occupancy: warps per SM over registers, shared memory or block size, in steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from keet.documents.occupancy import OccupancyCurve, OccupancyDocument
from keet.formats.html.blocks import html_part
from keet.formats.html.markup import Html, element, from_svg, scrolling, small_print
from keet.formats.svg.markup import Box, tag
from keet.formats.svg.memory_chart import WIDTH, MemoryDrawing, widest
from keet.formatting import capitalized
from keet.pages.blocks import Fold
from keet.pages.figures import MemoryFigure, OccupancyFigure
from keet.pages.memory_chart import LEGEND, chart_text

# --- the memory chart


def draw_memory(block: MemoryFigure) -> Html:
    """Of a launch, or of two launches side by side, and the same as a table."""
    most = widest(block.charts)
    drawings = []
    for chart, name in zip_longest(block.charts, block.names):
        drawing = MemoryDrawing(chart, most)
        view = f"0 0 {WIDTH} {drawing.height:g}"
        svg = element(
            "svg", from_svg(drawing.draw()), viewBox=view, role="img", aria_label=chart_text(chart)
        )
        title = element("p", name) if name else None
        drawings.append(element("div", title, scrolling("Memory chart", svg)))
    table = html_part([Fold("As a table", block.short)])
    charts = element("div", drawings, class_="charts")
    return element("figure", charts, small_print(" ".join(LEGEND)), table, class_="memory-chart")


# --- occupancy

_TITLES = {
    "registers": "registers per thread",
    "shared_memory": "kB of shared memory per block",
    "block_size": "threads per block",
}
_TICKS = {
    "registers": (0, 64, 128, 192),
    "shared_memory": (0, 50_000, 100_000, 150_000, 200_000),
    "block_size": (0, 256, 512, 768, 1024),
}
_CURVE_WIDTH, _CURVE_HEIGHT = 220, 132
_AREA = Box(22, 8, 206, 112)


def draw_occupancy(block: OccupancyFigure) -> Html:
    """Small curves with what they show in words."""
    charts = []
    for curve, steps in zip(block.document.curves, block.steps):
        title = f"Warps per SM by {_TITLES[curve.of]}"
        drawing = element(
            "svg",
            element("title", title),
            element("desc", "; ".join(steps)),
            from_svg("".join(_curve(block.document, curve))),
            viewBox=f"0 0 {_CURVE_WIDTH} {_CURVE_HEIGHT}",
            role="img",
        )
        lines = [element("li", capitalized(step)) for step in steps]
        caption = element("figcaption", element("b", title), element("ul", lines))
        charts.append(element("figure", caption, drawing))
    return element("div", charts, class_="occupancy-curves")


def _curve(document: OccupancyDocument, curve: OccupancyCurve) -> Iterator[str]:
    """The steps, what lets more warps in, and the launch's own value on top."""
    left, top, right, bottom = _AREA
    longest = curve.steps[-1].most

    def x_of(value: float) -> float:
        return left + value / longest * (right - left)

    def y_of(warps: float) -> float:
        return bottom - warps / document.most_warps * (bottom - top)

    yield tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_="area")
    for warps in (0, document.most_warps // 2, document.most_warps):
        y = y_of(warps)
        yield tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
        yield tag("text", str(warps), x=left - 4, y=y + 4, class_="muted right")
    unit = 1000 if curve.of == "shared_memory" else 1
    for value in _TICKS[curve.of]:
        if value <= longest:
            words = str(value // unit)
            yield tag("text", words, x=x_of(value), y=bottom + 14, class_="muted middle")
    # `V` to the height of a step, `H` to its end.
    path = "".join(
        f"{'V' if place else f'M{left} '}{y_of(step.warps):.1f}H{x_of(step.most):.1f}"
        for place, step in enumerate(curve.steps)
    )
    yield tag("path", d=path, class_="curve")
    for step in curve.better(document.warps):
        yield tag("circle", cx=x_of(step.most), cy=y_of(step.warps), r=2.5, class_="step")
    now, y = x_of(curve.now), y_of(document.warps)
    yield tag("line", x1=now, x2=now, y1=y, y2=bottom, class_="own")
    yield tag("circle", cx=now, cy=y, r=4.5, class_="now")
