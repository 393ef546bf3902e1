"""Occupancy of a launch: three small curves with what they show in words."""

from __future__ import annotations

from keet.formats.html.markup import Html, element, from_svg
from keet.formats.svg.occupancy import HEIGHT, WIDTH, curve_drawing
from keet.formatting import capitalized
from keet.pages.figures import OccupancyFigure

_TITLES = {
    "registers": "registers per thread",
    "shared_memory": "kB of shared memory per block",
    "block_size": "threads per block",
}


def draw_occupancy(block: OccupancyFigure) -> Html:
    charts = []
    for curve, steps in zip(block.document.curves, block.steps):
        title = f"Warps per SM by {_TITLES[curve.of]}"
        drawing = element(
            "svg",
            element("title", title),
            element("desc", "; ".join(steps)),
            from_svg(curve_drawing(block.document, curve)),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
        )
        lines = [element("li", capitalized(step)) for step in steps]
        caption = element("figcaption", element("b", title), element("ul", lines))
        charts.append(element("figure", caption, drawing))
    return element("div", charts, class_="occupancy-curves")
