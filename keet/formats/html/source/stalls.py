"""Stall reasons in groups that a reader tells apart by colour, and the bar that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from keet.analysis.account import KINDS
from keet.analysis.source_lines import Spot
from keet.catalog import stalls
from keet.formats.html.markup import Html, element
from keet.formatting import share_text

LABELS = {
    "memory": "global, local and texture memory",
    "shared": "shared memory, special functions and other MIO instructions",
    "sync": "barriers and memory fences",
    "math": "math pipes and tensor cores",
    "latency": "fixed latency",
    "constant": "constant cache",
    "fetch": "instruction fetch, branches",
    "other": "other",
    "issue": "not stalled",
}
"""Groups in the order in which bars and legends have them. There is a colour for each in
source.css."""
_KINDS = {
    "memory": "memory stores textures",
    "shared": "shared",
    "sync": "barrier membar",
    "math": "pipe tensor",
    "latency": "fixed",
    "constant": "constants",
    "fetch": "fetch branch",
}
"""Kinds of waits, as the account of the launch's time calls them."""
_GROUP_OF = {kind: group for group, own in _KINDS.items() for kind in own.split()}


class ReasonGroup(NamedTuple):
    group: str
    samples: int


def group_of(reason: str) -> str:
    if not stalls()[reason].counts_as_stall:
        return "issue"
    return _GROUP_OF.get(KINDS.get(reason, ""), "other")


def parts(counts: Iterable[tuple[str, int]]) -> list[ReasonGroup]:
    """Samples by group, in the order of the legend."""
    sums: dict[str, int] = {}
    for reason, samples in counts:
        group = group_of(reason)
        sums[group] = sums.get(group, 0) + samples
    return [ReasonGroup(group, sums[group]) for group in LABELS if sums.get(group)]


def stall_bar(spot: Spot, most: int) -> Html | None:
    """A bar as long as the row's samples are of `most`, split by group of reasons.

    It repeats what the text says, so screen readers skip it.
    """
    split = parts(spot.samples_by_reason.items())
    if not split or not most:
        return None
    marks, at = [], 0.0
    for part in split:
        width = 100 * part.samples / most
        if width >= _THINNEST:
            marks.append(_mark(part.group, at, width))
        at += width
    if not marks:  # what is there can be seen
        marks = [_mark(max(split, key=lambda part: part.samples).group, 0.0, _THINNEST)]
    title = element("title", _told(spot))
    return element("svg", title, marks, class_="stalls", aria_hidden="true")


_THINNEST = 1.0
"""Percent of the bar's column, about a pixel."""
_TOLD = 3
"""Reasons that a tooltip lists."""


def _mark(group: str, at: float, width: float) -> Html:
    start = f"{at:.4g}%" if at else None
    return element("rect", class_=group, x=start, width=f"{width:.3g}%", height="100%")


def _told(spot: Spot) -> str:
    told = [reason_text(spot, stall.reason) for stall in spot.stalls[:_TOLD]]
    return ", ".join([*told, "…"] if len(spot.stalls) > _TOLD else told)


FEW_IN_ROW = 10
"""Samples of a row below which no share is printed: one sample would move it by over 10 points."""


def reason_text(spot: Spot, reason: str) -> str:
    """`Long Scoreboard 92%`; of few samples the reason alone."""
    label = stalls()[reason].label
    if not spot.samples or spot.samples < FEW_IN_ROW:
        return label
    return f"{label} {share_text(spot.samples_by_reason[reason] / spot.samples)}"


@cache
def swatch(group: str) -> Html:
    mark = element("rect", class_=group, width="100%", height="100%")
    return element("svg", mark, class_="swatch stalls", aria_hidden="true")


def legend(by_reason: Mapping[str, int]) -> Html | None:
    """The groups that occur, with the share of all samples that each has."""
    split = parts(by_reason.items())
    whole = sum(part.samples for part in split)
    if not whole:
        return None
    items = [
        element(
            "li", swatch(part.group), f" {LABELS[part.group]} {share_of_all(part.samples / whole)}"
        )
        for part in split
    ]
    said = element("p", "Warps wait for (of all samples; a bar is as long as its row has samples):")
    return element("div", said, element("ul", items), class_="stall-legend")


def share_of_all(share: float) -> str:
    return share_text(share)
