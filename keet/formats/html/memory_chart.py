"""The memory chart of a launch, or of two launches side by side: the drawing of
`keet chart --format svg`, and the same as a table."""

from __future__ import annotations

from itertools import zip_longest

from keet.formats.html.blocks import html_part
from keet.formats.html.markup import Html, element, from_svg
from keet.formats.svg.memory_chart import WIDTH, MemoryDrawing, widest
from keet.pages.blocks import Fold
from keet.pages.figures import MemoryFigure
from keet.pages.memory_chart import LEGEND, chart_text


def draw_memory(block: MemoryFigure) -> Html:
    most = widest(block.charts)
    drawings = []
    for chart, name in zip_longest(block.charts, block.names):
        drawing = MemoryDrawing(chart, most)
        view = f"0 0 {WIDTH} {drawing.height:g}"
        svg = element(
            "svg", from_svg(drawing.draw()), viewBox=view, role="img", aria_label=chart_text(chart)
        )
        scrolled = element(
            "div", svg, class_="scroll", tabindex="0", role="region", aria_label="Memory chart"
        )
        drawings.append(element("div", element("p", name) if name else None, scrolled))
    table = html_part([Fold("As a table", block.short)])
    legend = element("p", element("small", " ".join(LEGEND)), class_="muted")
    return element(
        "figure", element("div", drawings, class_="charts"), legend, table, class_="memory-chart"
    )
