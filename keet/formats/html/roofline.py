"""Charts: the roofline of launches, which is the drawing of `keet roofline --format svg` with a
tooltip for each mark and roof, and the same as a table; the memory chart, which is that of `keet
chart --format svg`; curves of occupancy: warps per SM over registers, shared memory or block size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from keet.analysis.roofline.launch_roofline import LaunchRoofline, find_roofline
from keet.documents.charts import OccupancyCurve, OccupancyDocument, RooflineLaunch
from keet.evidence import Sentence, constant
from keet.formats.html.account import share_bar
from keet.formats.html.blocks import html_part
from keet.formats.html.markup import Content, Html, element, from_svg, scrolling, small_print, table
from keet.formats.svg.markup import Box, tag
from keet.formats.svg.memory_chart import WIDTH, MemoryDrawing, widest
from keet.formats.svg.roofline import (
    EMPTY,
    LEVEL_NAMES,
    SHAPES,
    SMALL,
    LaunchMarks,
    Plot,
    Roof,
    Titles,
    by_device,
    dram_intensity,
    longest,
    rate_words,
    why_no_nearest,
)
from keet.formatting import capitalized
from keet.pages.blocks import Fold, MemoryFigure, OccupancyFigure, RooflineFigure
from keet.pages.capture import range_text, workload_count
from keet.pages.memory_chart import LEGEND, chart_text
from keet.pages.roofline import absences
from keet.profile import Launch
from keet.safe_text import one_line
from keet.units import format_number


@lru_cache(maxsize=64)
def _roofline(launch: Launch) -> LaunchRoofline:
    """Kept for launches in full, which are on their own chart and on that of all launches."""
    return find_roofline(launch)


def draw_roofline(block: RooflineFigure) -> Html:
    """One chart per GPU, and what the report lacks."""
    if block.is_small:
        return _small(_roofline(block.launches[0]))
    links = {launch: f"#{block.anchors.launch(launch)}" for launch in block.linked}
    groups = by_device(block.launches)
    shown = {device: list(map(_roofline, longest(own))) for device, own in groups.items()}
    charts = [_chart(device, own, shown[device], links) for device, own in groups.items()]
    notes = _notes([roofline for own in shown.values() for roofline in own])
    return element("div", charts, notes, class_="roofline")


def _small(roofline: LaunchRoofline) -> Html:
    """The chart of one launch and its reading; the table and notes are behind a summary."""
    one = [roofline]
    plot = Plot(one, _PageTitles(one), SMALL)
    chart: Content = None
    if plot.rows and not plot.is_empty:
        words = roofline.launch.kernel
        chart = [element("p", _legend(plot), class_="muted marks"), _drawing(plot, "small", words)]
    notes = _notes(one, *(f"Note: {note}." for note in roofline.notes))
    summary = element("summary", "Roofline as a table")
    fold = element("details", summary, _table(one, {}), notes, class_="fold")
    return element("div", chart, element("p", roofline.reading), fold, class_="roofline")


def _notes(rooflines: Sequence[LaunchRoofline], *first: str) -> list[Html]:
    missing = (f"{capitalized(text)}." for text in absences(rooflines))
    return [small_print(text) for text in (*first, _clock_note(rooflines), *missing) if text]


def _chart(
    device: str,
    launches: Sequence[Launch],
    shown: Sequence[LaunchRoofline],
    links: Mapping[int, str],
) -> Html:
    """`launches`: all launches on this GPU, of which some are shown."""
    plot = Plot(shown, _PageTitles(shown))
    words = _subtitle(device, launches, len(shown))
    if plot.is_empty or not plot.rows:
        text = f"{EMPTY}." if plot.is_empty else _NO_MARKS
        cut = element("p", words, class_="muted") if len(shown) < len(launches) else None
        figure: Content = [element("p", text, class_="note"), cut]
    else:
        legend = element("p", words, _legend(plot), class_="muted marks")
        figure = [legend, scrolling("Roofline", _drawing(plot, "wide", words))]
    return element("figure", figure, _table(shown, links))


_NO_MARKS = (
    "No chart: nothing that these launches compute is counted as arithmetic. The table tells how "
    "near each came to the bandwidth of a memory."
)
_SAME_CLOCK = 0.01


def _subtitle(device: str, launches: Sequence[Launch], shown: int) -> str:
    """The GPU, the number of launches, and their SM clock as the rest of the page has it."""
    words = [device, workload_count(launches)]
    if clocks := range_text(launch.get("sm_frequency") for launch in launches):
        words.append(Sentence("SM clock {clocks}", clocks=clocks))
    if shown < len(launches):
        most = constant(shown, "", "launches on one chart")
        words.append(Sentence("the {most:d} longest are shown", most=most))
    return Sentence(", ").join(words)


def _clock_note(rooflines: Sequence[LaunchRoofline]) -> str:
    """A note if peaks were computed at another clock than the one on the page."""
    others = [
        roofline.sm_clock
        for roofline in rooflines
        if roofline.sm_clock and (clock := roofline.launch.get("sm_frequency")) and clock.value > 0
        if abs(roofline.sm_clock.value / clock.value - 1) > _SAME_CLOCK
    ]
    if not others:
        return ""
    return Sentence(
        "Peaks of arithmetic are those at {clocks}, as in Nsight Compute's chart: cycles of the "
        "SMs over duration. The SM clock on this page is cycles of the GPCs over the same "
        "duration. The two counts differ, most likely because they are of different replay passes.",
        clocks=range_text(others),
    )


def _drawing(plot: Plot, kind: str, words: str) -> Html:
    return element(
        "svg", from_svg(plot.draw()), class_=kind, role="img",
        viewBox=f"0 0 {plot.frame.width} {plot.frame.height}",
        aria_label=f"Roofline: {words}. The table below has the same numbers.",
    )  # fmt: skip


def _legend(plot: Plot) -> Content:
    """Which mark stands for which level: by shape as well as by colour."""
    names = plot.level_names
    if not names:
        return None
    keys = []
    for level, label in names.items():
        mark = from_svg(SHAPES[level](7.0, 7.0, 5.0))
        drawn = element("svg", mark, width=14, height=14, aria_hidden="true")
        keys.append(element("span", drawn, label, class_="mark-key"))
    return [element("span", "Marks, at the bytes of:"), *keys]


# --- what marks say


class _PageTitles(Titles):
    reach = True

    def __init__(self, rooflines: Sequence[RooflineLaunch]) -> None:
        self._rooflines = rooflines

    def launch(self, row: LaunchMarks) -> list[str]:
        roofline = row.roofline
        lines = [f"#{roofline.id} {roofline.kernel}", rate_words(roofline)]
        lines += [
            Sentence(
                "{value:number} operations per {level} byte",
                value=entry.evidence[0],
                level=LEVEL_NAMES[entry.level],
            )
            for entry in roofline.lead_intensities()
            if entry.level in row.points
        ]
        if roofline.nearest:
            reached = [
                Sentence("{name} {reached:.0f}", name=ceiling.label, reached=ceiling.reached)
                for ceiling in roofline.nearest_ceilings
            ]
            text = "Nearest ceiling: {reached} of peak"
            lines.append(Sentence(text, reached=Sentence(", ").join(reached)))
        return lines

    def roof(self, roof: Roof) -> list[str]:
        """Its peak, the source of the peak, and the launch that came nearest to it."""
        known = [
            (ceiling, roofline)
            for roofline in self._rooflines
            for ceiling in roofline.ceilings
            if ceiling.id in roof.ids and ceiling.peak
        ]
        name, _, peak = roof.label.partition("|")
        best, roofline = max(known, key=lambda pair: pair[0].share)
        reached = Sentence(
            "{reached:.0f} reached by {launch}", reached=best.reached, launch=f"#{roofline.id}"
        )
        told = Sentence("{name}: peak {peak}", name=name, peak=peak)
        return [told, f"Source of the peak: {best.source}", reached]


# --- the table


def _table(rooflines: Sequence[RooflineLaunch], links: Mapping[int, str]) -> Html:
    heads = {
        "#": "number",
        "Kernel": "",
        "Time": "number",
        "Arithmetic": "",
        "Per DRAM byte": "number",
        "Nearest ceiling": "",
    }
    rows = [_row(roofline, links) for roofline in rooflines]
    shown = table(heads, rows, data_sortable=len(rooflines) > 1)
    return scrolling("Roofline as a table", shown)


def _row(roofline: RooflineLaunch, links: Mapping[int, str]) -> Html:
    lead = roofline.lead_ceiling
    duration = roofline.duration
    per_byte = dram_intensity(roofline)
    name = element("code", one_line(roofline.kernel))
    link = links.get(roofline.id)
    share = lead.share if lead else ""
    return element(
        "tr",
        _number(str(roofline.id), roofline.id),
        element("td", element("a", name, href=link) if link else name),
        _number(str(duration), duration.value) if duration else _number("-", ""),
        element("td", rate_words(roofline), data_value=share),
        _number("-", "") if per_byte is None else _number(format_number(per_byte), per_byte),
        _nearest(roofline),
    )


def _number(text: str, value: object) -> Html:
    return element("td", text, class_="number", data_value=str(value))


def _nearest(roofline: RooflineLaunch) -> Html:
    if not roofline.nearest:
        return element("td", why_no_nearest(roofline), class_="muted", data_value="")
    nearest = roofline.nearest_ceilings
    first, labels = nearest[0], ", ".join(ceiling.label for ceiling in nearest)
    words = Sentence("{reached:.0f} {labels}", reached=first.reached, labels=labels)
    # A stage of a memory may be busier than its bytes suggest.
    stages = (ceiling.busiest for ceiling in nearest if ceiling.kind == "memory")
    busiest = max(filter(None, stages), key=lambda stage: stage.busy_pct, default=None)
    if busiest:
        text = "{words} by bytes; {part} is {busy:.0f} busy"
        words = Sentence(text, words=words, part=busiest.part, busy=busiest.evidence)
    shown = element("div", share_bar(first.share), element("span", words), class_="nearest")
    return element("td", shown, data_value=first.share)


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
