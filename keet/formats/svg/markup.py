"""Small parts of hand-made SVG: escaping, logarithmic axes, and labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keet.errors import one_line

_ADVANCE = 0.56
"""Width of an average letter of a sans-serif face, in its size: enough to keep labels apart."""


def text_of(words: str) -> str:
    """Text from a report, escaped for XML."""
    return _escape(one_line(words))


def _escape(text: str) -> str:
    """xml.sax does the same, but loads what speaks HTTP: 30 ms."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `class_` is `class`, `stroke_width` is `stroke-width`."""
    written = ""
    for key, value in attributes.items():
        if value is not None:
            # Tenths of a pixel are enough, and make for a file that can be compared.
            text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
            quoted = _escape(text).replace('"', "&quot;")
            written += f' {key.rstrip("_").replace("_", "-")}="{quoted}"'
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def drawing_file(
    title: str, described: str, style: str, size: tuple[float, float], parts: Sequence[str]
) -> str:
    """A whole file, which needs nothing else. `style`: the name of a file of CSS beside this one;
    light or dark, as the reader's system is set: a viewer without media queries shows the light
    one."""
    width, height = size
    css = Path(__file__).with_name(f"{style}.css").read_text(encoding="ascii")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">\n<title>{title}</title>\n'
        f"<desc>{text_of(described)}</desc>\n<style>\n{css}</style>\n"
        + "\n".join([tag("rect", width=width, height=height, class_="page"), *parts])
        + "\n</svg>\n"
    )


def text_width(words: str, size: float) -> float:
    return len(words) * size * _ADVANCE


def cut(words: str, room: float, size: float) -> str:
    """As many letters as fit, with an ellipsis where some do not."""
    letters = max(1, int(room / (size * _ADVANCE)))
    return words if len(words) <= letters else words[: letters - 1] + "…"


class Axis(NamedTuple):
    """A logarithmic axis between two powers of ten (fractions allowed), in pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def clamped(self, value: float) -> float:
        return self.at(min(max(value, 10**self.low), 10**self.high))

    def decades(self) -> Iterator[int]:
        yield from range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)


def span(values: Iterable[float], least: float) -> tuple[float, float]:
    """Powers of ten around the values, with a third of a decade of margin and a least width."""
    logs = [math.log10(value) for value in values if value > 0]
    low, high = (min(logs) - 0.35, max(logs) + 0.35) if logs else (0.0, least)
    missing = max(0.0, least - (high - low)) / 2
    return low - missing, high + missing


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        is_above = self.left < other.right and other.left < self.right
        return is_above and self.top < other.bottom and other.top < self.bottom

    def within(self, other: Box) -> bool:
        is_between = self.left >= other.left and self.right <= other.right
        return is_between and self.top >= other.top and self.bottom <= other.bottom


class OccupiedArea:
    """The occupied parts of an area: labels are placed where it is free."""

    def __init__(self, area: Box) -> None:
        self.area = area
        self._taken: list[Box] = []

    def take(self, box: Box) -> None:
        self._taken.append(box)

    def free(self, box: Box) -> bool:
        return box.within(self.area) and not any(box.meets(other) for other in self._taken)

    def crowding(self, boxes: Sequence[Box]) -> int:
        """How much the boxes would overlap with what is there; the edge of the area counts too."""
        lefts, tops, rights, bottoms = zip(*boxes)
        whole = Box(min(lefts), min(tops), max(rights), max(bottoms))
        outside = 0 if whole.within(self.area) else sum(not b.within(self.area) for b in boxes)
        near = [other for other in self._taken if whole.meets(other)]
        return outside + sum(box.meets(other) for other in near for box in boxes)

    def least_crowded(self, places: Iterable[Sequence[Box]]) -> int:
        """The place with the least overlap; the first one of several equal ones."""
        best, least = 0, math.inf
        for number, boxes in enumerate(places):
            crowding = self.crowding(boxes)
            if crowding < least:
                best, least = number, crowding
            if not crowding:
                break
        return best


def spread(wanted: Iterable[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart, as near as can be to those wanted (which descend or ascend
    in any order), within bounds as long as there is room."""
    placed = [*wanted]
    order = sorted(range(len(placed)), key=placed.__getitem__)
    least, most = low, high
    for place in order:
        placed[place] = max(placed[place], least)
        least = placed[place] + gap
    for place in reversed(order):
        placed[place] = min(placed[place], most)
        most = placed[place] - gap
    return placed
