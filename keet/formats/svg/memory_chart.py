"""`keet chart --format svg`: units as boxes from left to right, traffic as arrows between them.

An arrow is as wide as its bytes are many. Waste is a hatched part of its width. What limits the
launch has the accent colour and the word `limit`; what the report does not tell is dashed. A file
has its own style; pages have the same classes in `charts.css`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import NamedTuple

from keet.documents.charts import MemoryChart, MemoryLink, MemoryNode, NodeId
from keet.evidence import Evidence, finite
from keet.formats.svg.markup import cut, drawing_file, tag, text_of, text_width
from keet.formatting import first_sentence
from keet.pages.memory_chart import LEGEND, NOT_KNOWN, chart_text, number_texts, space_of

WIDTH = 710
_COLUMNS: dict[NodeId, tuple[int, int]] = {
    "sm": (0, 66),
    "l1": (232, 344),
    "shared": (232, 344),
    "l2": (438, 522),
    "dram": (616, WIDTH),
    "host": (616, WIDTH),
    "peer": (616, WIDTH),
}
"""Left and right edges of the boxes."""
_WIDEST, _THINNEST = 16.0, 1.5
_HEAD = 7.0
"""Length of the point of an arrow."""
_LINE = 14.0
_BETWEEN = 12.0
"""Between two boxes, one below the other."""
_LEAST_BOX = {"l1": 104.0, "l2": 96.0, "sm": 60.0, "shared": 52.0}
_ROOM = _COLUMNS["l1"][0] - _COLUMNS["sm"][1] - 10
"""Between the SMs and L1."""
_UNKNOWN = ("not in the", "report")
"""`NOT_KNOWN`, where there is less room."""
_OF_LOADS = "hit rate of\nglobal loads"
"""On two lines: a box is narrow."""
_LINE_BYTES = 128
"""Bytes of a wavefront, at most: for the width of an arrow only."""


class _Lane(NamedTuple):
    """A link, or loads and stores of a space that has nothing to tell, with the text below."""

    link: MemoryLink
    label: str
    lines: Sequence[str]

    @property
    def height(self) -> float:
        return _LINE + (_WIDEST if self.lines else _LINE) + _LINE * len(self.lines) + 10


def widest(charts: Sequence[MemoryChart]) -> float:
    """Bytes of the widest arrow: charts that are compared share it."""
    return max((_moved(link) for chart in charts for link in chart.links), default=0.0)


def _moved(link: MemoryLink) -> float:
    return finite(link.bytes) or _LINE_BYTES * (finite(link.wavefronts) or 0.0)


class MemoryDrawing:
    """The drawing of one chart, without a title."""

    def __init__(self, chart: MemoryChart, most: float | None = None) -> None:
        """`most`: bytes of the widest arrow, if it is drawn beside another chart."""
        self._chart = chart
        self._most = most or widest([chart]) or 1.0
        self._drawn: list[str] = []
        left = self._column(("l1", "shared"), "sm", "l2")
        right = self._column(("dram", "host", "peer"), "l2")
        self.height = max(left, right, *_LEAST_BOX.values())
        self._box(chart.node("sm"), 0.0, self.height)
        self._box(chart.node("l2"), 0.0, self.height)

    def draw(self) -> str:
        return "\n".join(self._drawn)

    def _column(self, nodes: Sequence[NodeId], *others: NodeId) -> float:
        """Boxes one below the other, each with its traffic to the units at its left and right.
        Returns the height."""
        top = 0.0
        for node in nodes:
            sides = {other: [*self._lanes(node, other)] for other in others}
            heights = {other: sum(lane.height for lane in own) for other, own in sides.items()}
            tall = max(*heights.values(), _LEAST_BOX.get(node, 0.0))
            for other, lanes in sides.items():
                y = top + (tall - heights[other]) / 2
                one, two = sorted((_COLUMNS[node], _COLUMNS[other]))
                for lane in lanes:
                    self._lane(lane, one[1] + 5.0, two[0] - 5.0, y)
                    y += lane.height
            self._box(self._chart.node(node), top, tall)
            top += tall + _BETWEEN
        return top - _BETWEEN

    def _lanes(self, one: NodeId, other: NodeId) -> Iterator[_Lane]:
        """Loads and stores of a space that is not used, or not known, are one lane."""
        links = self._chart.between(one, other)
        for space in dict.fromkeys(map(space_of, links)):
            own = [link for link in links if space_of(link) == space]
            if all(link.is_idle for link in own):
                yield _Lane(own[0], f"{space}: none".removeprefix(": "), ())
            elif not any(number for link in own for number in link.numbers):
                yield _Lane(own[0], space, [NOT_KNOWN] if space else _UNKNOWN)
            else:
                for link in own:
                    yield _Lane(link, link.label, _lines(link))

    def _lane(self, lane: _Lane, left: float, right: float, y: float) -> None:
        link = lane.link
        words = [tag("text", text_of(lane.label), x=left, y=y + 11, class_="muted")]
        if link.is_limit:
            words.append(tag("text", "limit", x=right, y=y + 11, class_="limit-words right"))
        middle = y + _LINE + _WIDEST / 2 + 1 if lane.lines else y + _LINE + 4
        width = max(_THINNEST, _WIDEST * _moved(link) / self._most)
        arrow = _arrow(link, (left, right), middle, width)
        for number, line in enumerate(lane.lines, 1):
            at = y + _LINE + _WIDEST + _LINE * number + 1
            look = "waste-words" if line.endswith("waste") else None
            look = "muted" if link.amount is None else look
            words.append(tag("text", text_of(line), x=left, y=at, class_=look))
        title = tag("title", text_of(_tooltip(link.label, link.numbers)))
        self._drawn.append(tag("g", title + "".join([*arrow, *words])))

    def _box(self, node: MemoryNode, top: float, height: float) -> None:
        left, right = _COLUMNS[node.id]
        limit = " limit" if node.is_limit else ""
        wide, high = right - left - 2.0, height - 2
        box = f"unit-box{limit}"
        drawn = [tag("rect", x=left + 1.0, y=top + 1, width=wide, height=high, rx=6, class_=box)]
        lines = list(_meters(node))
        tall = _LINE + sum(_LINE + (8 if share is not None else 0) for _, share, _ in lines)
        tall += _LINE if node.is_limit else 0
        y = top + (height - tall) / 2 + 11
        x = (left + right) / 2
        drawn.append(tag("text", text_of(node.label), x=x, y=y, class_="unit-name middle"))
        if node.is_limit:
            y += _LINE
            drawn.append(tag("text", "limit", x=x, y=y, class_="limit-words middle"))
        for words, share, look in lines:
            y += _LINE + 1
            drawn.append(tag("text", text_of(words), x=x, y=y, class_="middle muted"))
            if share is not None:
                y += 5
                part = min(max(share, 0.0), 100.0) / 100
                marked = look + limit * (look == "busy")
                for filled, kind in ((1.0, "track"), (part, marked)):
                    long = (wide - 20.0) * filled
                    bar = tag(
                        "rect", x=left + 11.0, y=y - 1, width=long, height=4, rx=2, class_=kind
                    )
                    drawn.append(bar)
        numbers = filter(None, (node.hit_rate, node.load_hit_rate, node.busy))
        title = tag("title", text_of(_tooltip(node.label, numbers)))
        self._drawn.append(tag("g", title + "".join(drawn)))


def _meters(node: MemoryNode) -> Iterator[tuple[str, float | None, str]]:
    """Words, the percentage if it can be drawn, and the class of its bar."""
    busiest = node.busiest if node.id == "sm" else "busy"
    for words, number, look in (
        ("hit rate", node.hit_rate, "hits"),
        (_OF_LOADS, node.load_hit_rate, "hits"),
        (busiest, node.busy, "busy"),
    ):
        if number is not None:
            *before, last = words.split("\n")
            yield from ((line, None, "") for line in before)
            share = "<0.1%" if 0 < number.value < 0.05 else f"{number:.0f}"  # 0.002% has no room
            yield f"{last} {share}", finite(number), look


def _lines(link: MemoryLink) -> list[str]:
    """The numbers of a link, on one line where there is room."""
    numbers, is_inner = number_texts(link), "sm" in (link.source, link.target)
    together = " · ".join(numbers)
    lines = [together] if is_inner and text_width(together, 13) < _ROOM else numbers
    if link.waste_share is not None:
        lines.append(f"{link.waste_share:.0f} {'of it ' if is_inner else ''}waste")
        lines += [f"({link.waste_reason})"] if is_inner else []
    return lines


def _arrow(link: MemoryLink, ends: tuple[float, float], y: float, width: float) -> Iterator[str]:
    """Pointed at the end where data goes, at both ends if the direction is not known."""
    left, right = ends
    to_right = _COLUMNS[link.target] > _COLUMNS[link.source]
    if link.amount is None:
        yield tag("line", x1=left, x2=right, y1=y, y2=y, class_="unknown")
        return
    look = "flow limit" if link.is_limit else "flow none" if link.is_idle else "flow"
    start = left + (_HEAD if link.is_both or not to_right else 0)
    end = right - (_HEAD if link.is_both or to_right else 0)
    top = y - width / 2
    yield tag("rect", x=start, y=top, width=end - start, height=width, class_=look)
    half = width / 2 + 3
    for base, point in ((start, left), (end, right)):
        if base != point and not link.is_idle:
            corners = f"{base:.1f},{y - half:.1f} {point:.1f},{y:.1f} {base:.1f},{y + half:.1f}"
            yield tag("polygon", points=corners, class_=look)
    if waste := finite(link.waste_share):
        part = width * min(waste, 100.0) / 100
        at = y + width / 2 - part / 2
        yield tag("line", x1=start, x2=end, y1=at, y2=at, stroke_width=part, class_="hatch")


def _tooltip(label: str, numbers: Iterable[Evidence]) -> str:
    """All digits, with the metrics."""
    told = (f"{n} ({n.label if n.derived_from else n.metric})" for n in numbers)
    return f"{label}: {', '.join(told) or NOT_KNOWN}"


# --- the file

_TOP, _MARGIN = 92, 24
_LETTERS = 98
"""Of the headline, per line."""


def memory_svg(charts: Sequence[MemoryChart], titles: Sequence[str] = ()) -> str:
    """Charts side by side, drawn to the same scale. `titles`: what each is, before its kernel."""
    most = widest(charts)
    drawings = [MemoryDrawing(chart, most) for chart in charts]
    step = WIDTH + 2 * _MARGIN
    notes = max(len(chart.notes) for chart in charts)
    height = _TOP + max(each.height for each in drawings) + 18 * (notes + len(LEGEND) + 1) + _MARGIN
    parts = []
    for place, (chart, drawing) in enumerate(zip(charts, drawings)):
        title = titles[place] if titles else "Memory chart"
        name = cut(f"{title}: #{chart.id} {chart.kernel}", WIDTH - 120, 19)
        took = f" ({chart.duration})" if chart.duration else ""
        look = "limit-words" if chart.has_limit else "unit-name"
        drawn = [
            tag("text", text_of(f"{name}{took}"), x=0, y=34, class_="title"),
            tag("g", drawing.draw(), transform=f"translate(0 {_TOP})"),
        ]
        told = wrap(first_sentence(chart.headline)[0], _LETTERS, max_lines=2, placeholder=" …")
        for number, line in enumerate(told):
            at = 56 + 16 * number
            drawn.append(tag("text", text_of(line), x=0, y=at, class_=look))
        y = _TOP + drawing.height + 26
        for line in (*LEGEND, *chart.notes):
            drawn.append(tag("text", text_of(line), x=0, y=y, class_="muted"))
            y += 18
        inner = "\n".join(drawn)
        parts.append(tag("g", inner, transform=f"translate({_MARGIN + place * step} 0)"))
    width = step * len(charts)
    described = "; ".join(map(chart_text, charts))
    return drawing_file("Memory chart", described, "memory_chart", (width, height), parts)
