"""`keet roofline --format svg`: one log-log chart per GPU, with roofs and a row of marks for each
launch, and a table of its launches below."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from keet.analysis.roofline.launch_roofline import SHOWN_WORK, LaunchRoofline
from keet.documents.charts import CeilingDocument, RooflineLaunch
from keet.evidence import Sentence, constant, counted
from keet.formats.svg.markup import (
    Axis,
    Box,
    OccupiedArea,
    cut,
    drawing_file,
    span,
    spread,
    tag,
    text_of,
    text_width,
)
from keet.pages.capture import describe_device
from keet.profile import Launch
from keet.profile.run_link import longest_first
from keet.units import Quantity, format_number


class PlotFrame(NamedTuple):
    """The size of a plot, and what it leaves to axes and labels."""

    width: int
    height: int
    area: Box
    margin: bool = True
    """Whether flat roofs have their labels beside the area; otherwise on the line."""
    scale: float = 28.0
    """Where the title of the vertical axis is: left of its numbers."""


WIDE = PlotFrame(960, 520, Box(84, 6, 790, 440))
SMALL = PlotFrame(460, 288, Box(60, 6, 454, 240), margin=False, scale=12.0)
"""For one launch, beside other charts and on a phone."""
WIDTH, HEIGHT = WIDE.width, WIDE.height
_SAME = 1.02
"""Roofs within 2 % are one line."""

_COMPARED = ("fp32", "fp64")
LEVEL_NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "Shared"}


def _shape(
    level: str, corners: Sequence[tuple[float, float]]
) -> Callable[[float, float, float], str]:
    def draw(x: float, y: float, r: float) -> str:
        points = " ".join(f"{x + dx * r:.1f},{y + dy * r:.1f}" for dx, dy in corners)
        return tag("polygon", points=points, class_=f"mark {level}-ink")

    return draw


SHAPES: Mapping[str, Callable[[float, float, float], str]] = {
    "dram": lambda x, y, r: tag("circle", cx=x, cy=y, r=r, class_="mark dram-ink"),
    "l2": _shape("l2", ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9))),
    "l1": _shape("l1", ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0))),
    "shared": _shape("shared", ((0, -1.2), (1.15, 0.9), (-1.15, 0.9))),
}


_SIZES = {"dram": 8.0, "l2": 6.2, "l1": 4.4, "shared": 3.4}
"""Sizes of marks. Nearer levels have smaller marks that are drawn later: all are visible."""


class Roof(NamedTuple):
    """A line of the plot: ceilings that are (nearly) the same."""

    ids: tuple[str, ...]
    label: str
    peak: float
    used: bool


class LaunchMarks(NamedTuple):
    """One launch: the rate of its leading arithmetic, at the intensity of each level."""

    roofline: RooflineLaunch
    rate: float
    points: Mapping[str, float]


def rate_words(roofline: RooflineLaunch) -> Sentence:
    """`Tensor BF16 823 of 872 TFLOP/s`: what the launch computed, of the peak."""
    lead = roofline.lead_ceiling
    if lead is None or lead.achieved is None or lead.peak is None:
        return Sentence("not counted" if roofline.lacks("fp32") else "none")
    unit = lead.peak.scaled_unit()
    achieved, peak = lead.achieved.to(unit), lead.peak.to(unit)
    return Sentence(
        "{name} {achieved:.3g} of {peak:.3g} {unit}",
        name=lead.label,
        achieved=lead.evidence[1]._replace(value=achieved.value, unit=""),
        peak=lead.evidence[2]._replace(value=peak.value, unit=""),
        unit=achieved.parts()[1],
    )


def dram_intensity(roofline: RooflineLaunch) -> float | None:
    """Operations of the leading arithmetic per byte of DRAM."""
    return next((e.value for e in roofline.lead_intensities() if e.level == "dram"), None)


def why_no_nearest(roofline: RooflineLaunch) -> str:
    return "none: nothing done" if roofline.ceilings else "not measured"


class Titles:
    """What marks say when a reader points at them, in lines."""

    reach = False
    """Whether each line has a wide invisible line around it, which is easier to point at."""

    def launch(self, row: LaunchMarks) -> Sequence[str]:
        roofline = row.roofline
        return [f"#{roofline.id} {roofline.kernel}: {rate_words(roofline)}"]

    def roof(self, roof: Roof) -> Sequence[str]:  # noqa: ARG002 - other charts say more
        """None: the roof's label says it."""
        return ()


class Plot:
    """Roofs at the highest peak of the launches, whose clocks differ a little."""

    def __init__(
        self,
        rooflines: Sequence[RooflineLaunch],
        titles: Titles | None = None,
        frame: PlotFrame = WIDE,
    ) -> None:
        self.rooflines = rooflines
        self.titles = titles or Titles()
        self.frame, self.area = frame, frame.area
        self.rows = [row for row in map(_row, rooflines) if row]
        # Roofs that were used, and FP32 and FP64 to compare with.
        compute = [
            peak for peak in _peaks(rooflines, "compute") if peak[2] or peak[0].id in _COMPARED
        ]
        self.flat = _merged(compute, "")
        self.slopes = _merged(_peaks(rooflines, "memory"), "byte/s")
        self.room = OccupiedArea(self.area)

    @property
    def is_empty(self) -> bool:
        return not (self.flat and self.slopes)

    @property
    def level_names(self) -> dict[str, str]:
        """Of the memory levels that have marks."""
        drawn = {level for row in self.rows for level in row.points}
        return {level: label for level, label in LEVEL_NAMES.items() if level in drawn}

    @cached_property
    def x(self) -> Axis:
        ridges = [flat.peak / slope.peak for flat in self.flat for slope in self.slopes]
        points = [value for row in self.rows for value in row.points.values()]
        return Axis(*span([*ridges, *points], 3.0), self.area.left, self.area.right)

    @cached_property
    def y(self) -> Axis:
        roofs = [flat.peak for flat in self.flat]
        rates = [row.rate for row in self.rows]
        low, high = span([*roofs, *rates], 2.5)
        return Axis(low, high, self.area.bottom, self.area.top)

    @cached_property
    def top(self) -> float:
        return max(roof.peak for roof in self.flat)

    def draw(self) -> str:
        """Marks are placed first and labels around them; marks are drawn last, on top."""
        marks = [part for row in self.rows for part in self._row_marks(row)]
        labels = [*self._names()]
        roofs = [*self._slopes(), *self._flats()]
        return "\n".join([*self._frame(), *roofs, *marks, *labels])

    # --- frame

    def _frame(self) -> Iterator[str]:
        left, top, right, bottom = self.area
        yield tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_="area")
        for decade in self.x.decades():
            at = self.x.at(10.0**decade)
            yield tag("line", x1=at, x2=at, y1=top, y2=bottom, class_="grid")
            yield tag("text", _power(decade), x=at, y=bottom + 18, class_="muted middle")
        for decade in self.y.decades():
            at = self.y.at(10.0**decade)
            yield tag("line", x1=left, x2=right, y1=at, y2=at, class_="grid")
            words = " ".join(Quantity(10.0**decade, "flop/s").parts()).removesuffix("LOP/s")
            words = words.removesuffix("F").strip()
            yield tag("text", words, x=left - 8, y=at + 4, class_="muted right")
        middle, words = (left + right) / 2, "arithmetic intensity, operations per byte"
        yield tag("text", words, x=middle, y=bottom + 42, class_="muted middle")
        turned = f"translate({self.frame.scale:g} {(top + bottom) / 2:g}) rotate(-90)"
        yield tag("text", "operations per second", transform=turned, class_="muted middle")

    # --- roofs

    def _flats(self) -> Iterator[str]:
        """Flat roofs begin at the steepest slope."""
        steepest = max(roof.peak for roof in self.slopes)
        heights = [self.y.at(roof.peak) for roof in self.flat]
        labels = self._margin_labels if self.frame.margin else self._line_labels
        for roof, at, label in zip(self.flat, heights, labels(heights)):
            start = self.x.clamped(roof.peak / steepest)
            style = "roof" if roof.used else "idle"
            path = f"M{start:.1f} {at:.1f} L{self.area.right:g} {at:.1f}"
            line = tag("line", x1=start, x2=self.area.right, y1=at, y2=at, class_=style)
            yield self._titled(roof, line, path)
            yield from label

    def _margin_labels(self, heights: Sequence[float]) -> Iterator[Sequence[str]]:
        right = self.area.right
        places = spread([h + 4 for h in heights], 30, self.area.top + 8, self.area.bottom)
        for roof, at, place in zip(self.flat, heights, places):
            bend = f"M{right:g} {at:.1f} L{right + 8:g} {place - 4:.1f}"
            name, _, peak = roof.label.partition("|")
            ink = "strong" if roof.used else "muted"
            yield (
                tag("path", d=bend, class_="lead"),
                tag("text", text_of(name), x=right + 12, y=place, class_=ink),
                tag("text", text_of(peak), x=right + 12, y=place + 13, class_="muted"),
            )

    def _line_labels(self, heights: Sequence[float]) -> Iterator[Sequence[str]]:
        right = self.area.right - 4
        places = spread([h - 5 for h in heights], 15, self.area.top + 11, self.area.bottom)
        for roof, place in zip(self.flat, places):
            ink = "strong" if roof.used else "muted"
            words = text_of(roof.label.replace("|", " "))
            yield (tag("text", words, x=right, y=place, class_=f"right halo {ink}"),)

    def _slopes(self) -> Iterator[str]:
        """From where they enter the area to the highest flat roof."""
        for roof in self.slopes:
            first = max(10**self.x.low, 10**self.y.low / roof.peak)
            start = self.x.at(first), self.y.at(first * roof.peak)
            end = self.x.clamped(self.top / roof.peak), self.y.at(self.top)
            path = f"M{start[0]:.1f} {start[1]:.1f} L{end[0]:.1f} {end[1]:.1f}"
            yield self._titled(roof, tag("path", d=path, class_=f"slope {roof.ids[0]}"), path)
            yield self._slope_label(roof, start, end)

    def _titled(self, roof: Roof, line: str, path: str) -> str:
        title = _title(self.titles.roof(roof))
        return tag("g", title + line + self._reach(path)) if title else line

    def _reach(self, path: str, width: str = "") -> str:
        return tag("path", d=path, class_=f"reach {width}".rstrip()) if self.titles.reach else ""

    def _slope_label(self, roof: Roof, start: tuple[float, float], end: tuple[float, float]) -> str:
        """Along the line and above it, where it is least crowded."""
        words = roof.label.replace("|", " ")
        length = math.dist(start, end)
        half = text_width(words, 12) / 2
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
        places = [half + 8 + step * (length - 2 * half - 16) / 12 for step in range(13)]
        boxes = (self._along(start, (dx, dy), place, half) for place in places)
        place = places[self.room.least_crowded(boxes)]
        for box in self._along(start, (dx, dy), place, half):
            self.room.take(box)
        x, y = start[0] + dx * place, start[1] + dy * place
        return tag(
            "text",
            text_of(words),
            transform=f"translate({x:.1f} {y:.1f}) rotate({angle:.2f}) translate(0 -6)",
            class_=f"middle halo strong {roof.ids[0]}-ink",
        )

    @staticmethod
    def _along(
        start: tuple[float, float], way: tuple[float, float], place: float, half: float
    ) -> list[Box]:
        """Small boxes along a slanted label: one large box would take far too much."""
        boxes = []
        steps = max(2, int(half / 6))
        for step in range(-steps, steps + 1):
            at = place + half * step / steps
            x, y = start[0] + way[0] * at + way[1] * 10, start[1] + way[1] * at - way[0] * 10
            boxes.append(Box(x - 7, y - 7, x + 7, y + 7))
        return boxes

    # --- launches

    def _row_marks(self, row: LaunchMarks) -> Iterator[str]:
        y = self.y.clamped(row.rate)
        places = {level: self.x.clamped(value) for level, value in row.points.items()}
        parts = []
        if len(places) > 1:
            ends = sorted(places.values())
            parts.append(self._reach(f"M{ends[0]:.1f} {y:.1f} L{ends[-1]:.1f} {y:.1f}", "thin"))
            parts.append(tag("line", x1=ends[0], x2=ends[-1], y1=y, y2=y, class_="link"))
            self.room.take(Box(ends[0], y - 3, ends[-1], y + 3))
        for level, x in places.items():
            near = [other for key, other in places.items() if key != level and abs(other - x) < 11]
            parts.append(SHAPES[level](x, y, _SIZES[level] if near else 5.5))
            self.room.take(Box(x - 7, y - 7, x + 7, y + 7))
        yield tag("g", _title(self.titles.launch(row)) + "".join(parts))

    def _names(self) -> Iterator[str]:
        """The number of each launch beside its marks, where there is room for it."""
        for row in self.rows:
            y = self.y.clamped(row.rate)
            ends = sorted(self.x.clamped(value) for value in row.points.values())
            words = f"#{row.roofline.id}"
            half = text_width(words, 12) / 2
            for x, dy in _around(ends[0], ends[-1], half):
                box = Box(x - half, y + dy - 10, x + half, y + dy + 3)
                if self.room.free(box):
                    self.room.take(box)
                    yield tag("text", words, x=x, y=y + dy, class_="middle halo strong")
                    break


def _title(lines: Sequence[str]) -> str:
    return tag("title", "\n".join(map(text_of, lines))) if lines else ""


def _around(left: float, right: float, half: float) -> Iterator[tuple[float, float]]:
    """Places for a label of marks between two ends, the best first."""
    yield right + half + 10, 4
    yield left - half - 10, 4
    for dy in (-12, 20, -26, 34):
        yield right, dy
        yield left, dy


def _row(roofline: RooflineLaunch) -> LaunchMarks | None:
    lead = roofline.lead_ceiling
    if lead is None or lead.achieved is None:
        return None
    shares = {ceiling.id: ceiling.reached_pct for ceiling in roofline.of_kind("memory")}
    points = {e.level: e.value for e in roofline.lead_intensities()}
    # A level that hardly moved anything says nothing, and would stretch the axis by decades.
    worth = {
        level: value for level, value in points.items() if shares[level] >= SHOWN_WORK
    } or points
    return LaunchMarks(roofline, float(lead.achieved.value), worth) if worth else None


def _peaks(
    rooflines: Iterable[RooflineLaunch], kind: str
) -> list[tuple[CeilingDocument, float, bool]]:
    """The highest peak of each ceiling, and whether a launch used it at all."""
    best: dict[str, tuple[CeilingDocument, float, bool]] = {}
    for roofline in rooflines:
        for ceiling in roofline.of_kind(kind):
            if ceiling.peak is None:
                continue
            used = ceiling.id == roofline.lead or ceiling.reached_pct >= SHOWN_WORK
            _, peak, was_used = best.get(ceiling.id, (ceiling, 0.0, False))
            best[ceiling.id] = (ceiling, max(peak, float(ceiling.peak.value)), used or was_used)
    return list(best.values())


def _merged(peaks: Sequence[tuple[CeilingDocument, float, bool]], unit: str) -> list[Roof]:
    """From the highest to the lowest; ceilings that share a line share a label."""
    groups: list[list[tuple[CeilingDocument, float, bool]]] = []
    for entry in sorted(peaks, key=lambda e: -e[1]):
        if groups and groups[-1][0][1] <= entry[1] * _SAME:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    roofs = []
    for group in groups:
        ceilings, (peak, *_), used = zip(*group)
        given = unit or (ceilings[0].peak.unit if ceilings[0].peak else "flop/s")
        label = f"{', '.join(each.label for each in ceilings)}|{Quantity(peak, given)}"
        roofs.append(Roof(tuple(each.id for each in ceilings), label, peak, any(used)))
    return roofs


def _power(decade: int) -> str:
    if 0 <= decade <= 3:
        return f"{10**decade:,}"
    raised = str(decade).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{10.0**decade:g}" if -3 <= decade < 0 else f"10{raised}"


_HEAD = 88
_ROW = 22
_MOST_LAUNCHES = 30
"""Most launches on one chart, the longest ones: more cannot be distinguished."""


def roofline_svg(rooflines: Sequence[LaunchRoofline]) -> str:
    """All launches, a chart for each GPU that they ran on."""
    parts: list[str] = []
    top = 0.0
    by_launch = {roofline.id: roofline for roofline in rooflines}
    for device, group in by_device([roofline.launch for roofline in rooflines]).items():
        shown = [by_launch[launch.id] for launch in longest(group)]
        drawn, height = _chart(device, [by_launch[launch.id] for launch in group], shown)
        parts.append(tag("g", drawn, transform=f"translate(0 {top:g})"))
        top += height
    names = "; ".join(f"#{r.id} {r.kernel}: {r.reading}" for r in rooflines[:_MOST_LAUNCHES])
    return drawing_file("Roofline", names, "roofline", (WIDTH, top), parts)


def by_device(launches: Sequence[Launch]) -> Mapping[str, Sequence[Launch]]:
    """The launches of each GPU: peaks of two do not belong on one chart."""
    launches_of: dict[str, list[Launch]] = {}
    for launch in launches:
        launches_of.setdefault(describe_device(launch.device), []).append(launch)
    return launches_of


def longest(launches: Sequence[Launch]) -> list[Launch]:
    """The launches that one chart has room for, in the order of the report."""
    by_time = longest_first(launches)
    return sorted(by_time[:_MOST_LAUNCHES], key=lambda launch: launch.id)


def _chart(
    device: str, rooflines: Sequence[RooflineLaunch], shown: Sequence[RooflineLaunch]
) -> tuple[str, float]:
    plot = Plot(shown)
    words = subtitle(device, rooflines, len(rooflines) - len(shown))
    parts = [
        tag("text", "Roofline", x=40, y=40, class_="title"),
        tag("text", text_of(words), x=40, y=62, class_="muted"),
        *_legend(plot),
    ]
    height = float(_HEAD)
    if plot.is_empty:
        parts.append(tag("text", text_of(EMPTY), x=40, y=height + 10, class_="muted"))
        height += 30
    else:
        parts.append(tag("g", plot.draw(), transform=f"translate(0 {_HEAD})"))
        height += HEIGHT
    parts += _table(shown, height)
    return "\n".join(parts), height + _ROW * (len(shown) + 1) + 28


EMPTY = (
    "No chart: the report counts no arithmetic, or no bytes; "
    "profile with: ncu --section SpeedOfLight_RooflineChart --section MemoryWorkloadAnalysis"
)


def subtitle(device: str, rooflines: Sequence[RooflineLaunch], left_out: int) -> Sentence:
    """The GPU, how many launches, and at which clock they ran."""
    clocks = [float(r.sm_clock.value) / 1e9 for r in rooflines if r.sm_clock]
    words = [device, counted(len(rooflines), "launch")]
    if clocks:
        ends = (constant(clock, "", "SM clock") for clock in (min(clocks), max(clocks)))
        told = dict.fromkeys(Sentence("{clock:.2f}", clock=end) for end in ends)
        clock = Sentence(" to ").join(told)
        words.append(Sentence("SM clock {clock} GHz", clock=clock))
    if left_out:
        most = constant(_MOST_LAUNCHES, "", "launches on one chart")
        words.append(Sentence("the {most:d} longest are shown", most=most))
    return Sentence(", ").join(words)


def _legend(plot: Plot) -> Iterator[str]:
    """Which mark stands for which level: by shape as well as by colour."""
    names = plot.level_names
    x = float(WIDTH - 40 - 68 * len(names))
    if names:
        yield tag("text", "at the bytes of", x=x, y=62, class_="muted right")
    for level, label in names.items():
        yield SHAPES[level](x + 18, 58.0, 5.0)
        yield tag("text", label, x=x + 28, y=62, class_="muted")
        x += 68


_COLUMNS = {
    "#": (56, "right"),
    "kernel": (72, ""),
    "time": (408, "right"),
    "arithmetic": (428, ""),
    "per DRAM byte": (722, "right"),
    "nearest ceiling": (744, ""),
}


def _table(rooflines: Sequence[RooflineLaunch], top: float) -> Iterator[str]:
    y = top + 14
    for heading, (x, anchor) in _COLUMNS.items():
        yield tag("text", heading, x=x, y=y, class_=f"head {anchor}".strip())
    for roofline in rooflines:
        yield tag("line", x1=40, x2=WIDTH - 40, y1=y + 7.5, y2=y + 7.5, class_="rule")
        y += _ROW
        yield from _table_row(roofline, y)


def _table_row(roofline: RooflineLaunch, y: float) -> Iterator[str]:
    kernel = cut(roofline.kernel, 270, 12)
    per_byte = dram_intensity(roofline)
    cells = (
        (str(roofline.id), "strong"),
        (kernel, ""),
        (str(roofline.duration) if roofline.duration else "-", ""),
        (rate_words(roofline), ""),
        ("-" if per_byte is None else format_number(per_byte), ""),
    )
    for (words, weight), (x, anchor) in zip(cells, _COLUMNS.values()):
        yield tag("text", text_of(words), x=x, y=y, class_=f"{weight} {anchor}".strip() or None)
    yield from _nearest(roofline, y)


def _nearest(roofline: RooflineLaunch, y: float) -> Iterator[str]:
    x = _COLUMNS["nearest ceiling"][0]
    if not roofline.nearest:
        yield tag("text", why_no_nearest(roofline), x=x, y=y, class_="muted")
        return
    nearest = roofline.nearest_ceilings
    share = min(nearest[0].share, 1.0)
    yield tag("rect", x=x, y=y - 9, width=60, height=9, rx=2, class_="track")
    yield tag("rect", x=x, y=y - 9, width=60 * share, height=9, rx=2, class_="fill")
    labels = ", ".join(ceiling.label for ceiling in nearest)
    words = cut(f"{nearest[0].reached:.0f} {labels}", WIDTH - 40 - x - 68, 12)
    yield tag("text", text_of(words), x=x + 68, y=y)
