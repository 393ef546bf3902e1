"""Which launches of an HTML page have a source listing and a prompt context, and how large they may
be. Launches of the same kernel and shape share the listing of their representative launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.hotspots.source_lines import Hotspots, find_hotspots, source_lines
from keet.evidence import Sentence, counted
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import LaunchGroup
from keet.formatting import capitalized
from keet.pages.blocks import Anchors, Block, Code, Fold, Heading, ListingFigure, Part, Span, Text
from keet.profile import Absent

_ONE_LAUNCH, _SMALL_PAGE, _LARGE_PAGE = 400_000, 1_500_000, 6_000_000
"""Bytes of a page with one launch, with up to five (source text not counted), and of one with 150:
what the project promises (the row `HTML page` of its targets)."""
_FEW_LAUNCHES = 5
_OF_PAGE = 100_000
"""Bytes of what all pages have: style, script, index, capture; 70 to 90 kB in pages of samples."""
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
_FEW_SAMPLES = 1_000
"""Samples below which chance moves the shares by whole percents."""
_CONTEXT_TOKENS = 2000
"""What `keet context` prints where nothing else is asked for."""
COPY_CONTEXT = "Copy prompt context"


class PageRoom(NamedTuple):
    """What listings may take."""

    size: int
    """Bytes."""
    counts_text: bool
    """Whether the text of source files is counted."""


def page_room(launches: int, in_full: int, reports: int = 1) -> PageRoom:
    """For the listings of each of `reports`, on a page with so many launches, some of them in
    full."""
    is_large = launches > _FEW_LAUNCHES
    page = _LARGE_PAGE if is_large else min(launches * _ONE_LAUNCH, _SMALL_PAGE)
    rest = max(_OF_PAGE, (1 - _MOST) * page) + in_full * _OF_LAUNCH
    size = round(max(_LEAST * page, page - rest))
    return PageRoom(size // reports, is_large)


class Listings:
    """The listings of one report's launches."""

    def __init__(
        self,
        explanation: Explanation,
        shown: Sequence[LaunchExplanation],
        groups: Mapping[int, LaunchGroup],
        room: PageRoom,
        anchors: Anchors,
    ) -> None:
        """`groups`: launches of one kernel and shape, by launch."""
        self._explanation, self._anchors = explanation, anchors
        self._owners = listing_owners(shown, groups)
        self._rooms = shared_room(self._owners, groups, room.size)
        self._counts_text = room.counts_text

    @property
    def context_anchor(self) -> str:
        """Of the launch that gets most room, which always has a prompt context."""
        largest = max(self._rooms, key=lambda launch: self._rooms[launch])
        return self._anchors.launch(largest, "context")

    def owner(self, each: LaunchExplanation) -> int:
        """The launch whose listing has its lines."""
        owner = self._owners.get(each.launch.id)
        return owner.launch.id if owner else each.launch.id

    def blocks(self, each: LaunchExplanation) -> Iterator[Block]:
        number = each.launch.id
        source: list[Block] = [Heading("Source", 3)]
        owner = self._owners.get(number)
        if number in self._rooms:
            room, counts_text = self._rooms[number], self._counts_text
            source.append(listing_block(each, self._anchors, room, counts_text=counts_text))
        elif owner is not None and owner.launch.id in self._rooms:
            link = Span(launch_name(owner), "", self._anchors.launch(owner.launch.id))
            source.append(Text(("The same code, with the samples of ", link, ".")))
        else:
            path = self._explanation.profile.provenance.path
            command = f"keet explain {path} --launch {number} --format html -o page.html"
            text = "The source of this launch is left out to keep the page small. To see it: "
            source.append(Text((text, Span(command, "code break"))))
        yield Part(source, anchor=self._anchors.launch(number, "source"))
        if number not in self._rooms:
            return
        from keet.pages.context import context_text

        # As `keet context --launch N` prints it.
        context = context_text(self._explanation._replace(launches=(each,)), _CONTEXT_TOKENS)
        key = self._anchors.launch(number, "context")
        lines = context.removesuffix("\n").split("\n")
        code = Code(lines, "markdown", copied=COPY_CONTEXT, anchor=key)
        yield Fold("Prompt context: this launch explained for a coding assistant", [code])


def listing_block(
    each: LaunchExplanation, anchors: Anchors, room: int, *, counts_text: bool = False
) -> ListingFigure | Text:
    """The listing, or why the report has none."""
    from keet.pages.hotspots import hotspots_notes, hotspots_summary  # HTML only

    hotspots = find_hotspots(each.launch, table=each.view.table)
    if isinstance(hotspots, Absent):
        return Text(f"{capitalized(hotspots.reason)}. {capitalized(hotspots.remedy)}.")
    warnings, summary = [*listing_warnings(hotspots)], hotspots_summary(hotspots)
    # What the report does not have, and how to get it.
    missing = hotspots_notes(each.launch, hotspots, source_lines(each.launch))
    notes = [f"{capitalized(text)}." for text in missing]
    if absent := each.view.code_absent:
        notes.append(f"Machine code not analysed: {absent.reason}; {absent.remedy}.")
    return ListingFigure(each, anchors, room, hotspots, summary, warnings, notes, counts_text)


def listing_warnings(hotspots: Hotspots) -> Iterator[str]:
    """Why the shares may be misleading."""
    if hotspots.partial:
        text, remedy = hotspots.partial.text.capitalized(), hotspots.partial.remedy
        yield Sentence("{text}; {remedy}.", text=text, remedy=remedy)
    if few := few_samples(hotspots):
        yield few
    if hotspots.ranked_by != "samples":
        yield "The report has no warp samples: shares are of executed warp instructions."


def few_samples(hotspots: Hotspots) -> str | None:
    """The sampling error of the hottest row's share, if it is one percentage point or more."""
    leading = hotspots.rows[0].share if hotspots.rows else None
    if hotspots.ranked_by != "samples" or hotspots.total >= _FEW_SAMPLES or not leading:
        return None
    from keet.pages.hotspots import chance_error

    points = round(100 * chance_error(leading, hotspots.total))
    if not points:
        return None
    return Sentence(
        "Only {total:,d} samples: the share of the hottest row may be off by up to about {points} "
        "by chance, more if samples of different SMs are not independent.",
        total=hotspots.number("all samples", hotspots.total),
        points=counted(hotspots.number("error of the hottest share", points), "percentage point"),
    )


def launch_name(each: LaunchExplanation) -> str:
    return f"#{each.launch.id} {each.launch.kernel}"


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
    times: dict[int, float] = {}
    for owner in owners.values():
        group = groups.get(owner.launch.id)
        time = (group.time_ns or group.report_ns) if group else owner.launch.rank_time
        times[owner.launch.id] = time
    total = sum(times.values())
    shares = {number: time / total if total else 1 / len(times) for number, time in times.items()}
    most = max(shares, key=lambda number: shares[number], default=None)
    kept = {n: share for n, share in shares.items() if share >= _LEAST_SHARE or n == most}
    alike, rest = _ALIKE / max(1, len(kept)), (1 - _ALIKE) / (sum(kept.values()) or 1.0)
    return {number: round(room * (alike + rest * share)) for number, share in kept.items()}
