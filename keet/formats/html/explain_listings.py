"""Which launches of a page have a source listing and a prompt context, and how large they may be.

Launches of the same kernel and shape share the listing of their representative launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keet.analysis.source_lines import find_hotspots
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import LaunchGroup
from keet.formats.html.finding import Lines
from keet.formats.html.launch import link_to
from keet.formats.html.listing import source_listing
from keet.formats.html.markup import Content, Html, element
from keet.formatting import capitalized
from keet.pages.anchors import Anchors
from keet.pages.context import context_text
from keet.profile import Absent

_SMALL_PAGE, _LARGE_PAGE = 1_500_000, 6_000_000
"""Bytes of a page with up to five launches, source text not counted, and of one with 150: what the
project promises (the row `HTML page` of its targets)."""
_FEW = 5
_OF_LAUNCH = 30_000
"""Bytes of a launch in full without its listing: 14 and 28 kB on average in pages of 150 launches,
made of two reports (zoo.ncu-repz of the tests, and one of the corpus)."""
_MOST, _LEAST = 0.9, 0.1
"""Of a page's bytes that listings may take. A judgement: the rest is for what all pages have, and
some lines can be opened on any page."""
_ALIKE = 0.5
"""Of a page's room that all listings have the same part of: a short launch has as much code as a
long one. A judgement."""
_LEAST_SHARE = 0.02
"""Of a page's room: a launch with less gets no listing, which would have next to no code."""
_CONTEXT_TOKENS = 2000
"""What `keet context` prints where nothing else is asked for."""


class Shown(NamedTuple):
    """What the page has for one launch."""

    source: Content
    lines: Lines
    context: str


class PageRoom(NamedTuple):
    """What listings may take."""

    size: int
    """Bytes."""
    counts_text: bool
    """Whether the text of source files is counted."""

    def among(self, reports: int) -> PageRoom:
        return self._replace(size=self.size // reports)


class Listings:
    """The listings of one report's launches, made when they are asked for."""

    def __init__(
        self,
        explanation: Explanation,
        owners: Mapping[int, LaunchExplanation],
        anchors: Anchors,
        room: PageRoom,
        groups: Mapping[int, LaunchGroup],
    ) -> None:
        """`owners`: see `listing_owners`. `groups`: launches of one kernel and shape, by launch."""
        self._explanation, self._anchors = explanation, anchors
        self._owners, self._rooms = owners, shared_room(owners, groups, room.size)
        self._counts_text = room.counts_text
        self._made: dict[int, Shown] = {}

    @property
    def largest(self) -> int:
        """The launch that gets most room. It always has a prompt context."""
        return max(self._rooms, key=lambda launch: self._rooms[launch])

    def of(self, each: LaunchExplanation) -> Shown:
        number = each.launch.id
        if number not in self._made:
            has_own = number in self._rooms
            self._made[number] = self._own(each) if has_own else self._elsewhere(each)
        return self._made[number]

    def _own(self, each: LaunchExplanation) -> Shown:
        number = each.launch.id
        found = find_hotspots(each.launch, table=each.view.table)
        alone = self._explanation._replace(launches=(each,))
        # As `keet context --launch N` prints it.
        context = context_text(alone, _CONTEXT_TOKENS, hotspots=found)
        listing = source_listing(
            each,
            self._anchors,
            self._rooms[number],
            counts_text=self._counts_text,
            hotspots=found,
        )
        if isinstance(listing, Absent):
            return Shown(absent_text(listing), Lines(number), context)
        return Shown(listing.html, Lines(number, listing.lines), context)

    def _elsewhere(self, each: LaunchExplanation) -> Shown:
        """Says where the source is: in the listing of another launch, or on a separate page."""
        owner = self._owners.get(each.launch.id)
        if owner is not None and owner.launch.id in self._rooms:
            lines, link = self.of(owner).lines, link_to(owner, self._anchors)
            return Shown(element("p", "The same code, with the samples of ", link, "."), lines, "")
        path = self._explanation.profile.provenance.path
        command = f"keet explain {path} --launch {each.launch.id} --format html -o page.html"
        text = "The source of this launch is left out to keep the page small. To see it: "
        return Shown(element("p", text, element("code", command, class_="break")), Lines(-1), "")


def absent_text(absent: Absent) -> Html:
    """Why there is nothing to list, and how to collect it."""
    reason, remedy = map(capitalized, absent)
    return element("p", f"{reason}. {remedy}.")


def page_room(launches: int, in_full: int) -> PageRoom:
    """For all listings of a page with so many launches, some of them in full."""
    is_large = launches > _FEW
    page = _LARGE_PAGE if is_large else _SMALL_PAGE
    return PageRoom(round(max(_LEAST * page, _MOST * page - in_full * _OF_LAUNCH)), is_large)


def listing_owners(
    shown: Sequence[LaunchExplanation], groups: Mapping[int, LaunchGroup]
) -> dict[int, LaunchExplanation]:
    """For each launch, the launch whose listing it shares: the representative of its kernel and
    shape if that is shown in full, else the first launch that is."""
    in_full = {each.launch.id for each in shown}
    owners: dict[int, LaunchExplanation] = {}
    for each in shown:
        group = groups.get(each.launch.id)
        if each.launch.id in owners:
            continue
        first = group.first if group and group.first.launch.id in in_full else each
        members = group.members if group else (each,)
        owners.update((member.launch.id, first) for member in members)
    return owners


def shared_room(
    owners: Mapping[int, LaunchExplanation], groups: Mapping[int, LaunchGroup], room: int
) -> dict[int, int]:
    """Bytes per launch, for launches that take enough of the time: a part is shared equally, the
    rest in proportion to time. The launch that takes most time always has a listing."""
    times = {each.launch.id: _time(each, groups) for each in owners.values()}
    total = sum(times.values())
    shares = {number: time / total if total else 1 / len(times) for number, time in times.items()}
    most = max(shares, key=lambda number: shares[number], default=None)
    kept = {n: share for n, share in shares.items() if share >= _LEAST_SHARE or n == most}
    alike, rest = _ALIKE / max(1, len(kept)), (1 - _ALIKE) / (sum(kept.values()) or 1.0)
    return {number: round(room * (alike + rest * share)) for number, share in kept.items()}


def _time(each: LaunchExplanation, groups: Mapping[int, LaunchGroup]) -> float:
    group = groups.get(each.launch.id)
    return (group.time_ns or group.report_ns) if group else each.launch.rank_time
