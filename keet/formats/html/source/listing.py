"""The code of one launch with the cost of each line; details of a line open on a click."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.examined import first_wait, source_line
from keet.analysis.source_lines import Hotspots, Spot, find_hotspots
from keet.evidence import Sentence, counted
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.markup import Content, Html, element, fragment, joined
from keet.formats.html.source.data import SourceData
from keet.formats.html.source.file import SourceFile
from keet.formats.html.source.line import reasons_of_all
from keet.formats.html.source.panels import fill_rows, left_out
from keet.formats.html.source.row import cells, opening_row, share_text
from keet.formats.html.source.shown_lines import OF_ID, extents_within
from keet.formats.html.source.stalls import legend
from keet.formatting import capitalized, count_noun
from keet.pages.anchors import Anchors
from keet.pages.figures import ListingFigure
from keet.pages.hotspots import chance_error, hotspots_notes, hotspots_summary
from keet.profile import Absent, Location

_HOTTEST = 5
_LEAST = 0.01
"""Share of the samples below which a line is not mentioned."""
_TEXT = 0.5
"""Share of a listing's room that source text may take, if text is counted. A judgement."""
_FEW = 1_000
"""Samples below which chance moves the shares by whole percents."""


class Listing(NamedTuple):
    """The code of a launch on a page. It has headings from h4 on."""

    html: Html
    lines: frozenset[tuple[str, int]]
    """Files and lines that have an anchor."""
    note: str = ""
    """What was left out because of the size of the page; empty if nothing was."""


def draw_listing(block: ListingFigure) -> Html:
    listing = source_listing(block.each, block.anchors, block.room, counts_text=block.counts_text)
    if isinstance(listing, Absent):
        reason, remedy = map(capitalized, listing)
        return element("p", f"{reason}. {remedy}.")
    return listing.html


def source_listing(
    each: LaunchExplanation,
    anchors: Anchors,
    room: int,
    *,
    counts_text: bool = False,
    hotspots: Hotspots | Absent | None = None,
) -> Listing | Absent:
    """The listing, or why the report has none.

    `room`: bytes for rows and for what they show when they are opened. The hottest lines get theirs
    first. `counts_text`: the text of the files has to fit too. `hotspots`: of this launch, where
    they were found before.
    """
    found = hotspots or find_hotspots(each.launch, table=each.view.table)
    if isinstance(found, Absent):
        return found
    data = SourceData(each, found, anchors)
    if found.by == "instruction":
        from keet.formats.html.source.instructions import instruction_rows

        rows, note = instruction_rows(data, room)
        return Listing(_listing(data, [rows], note), frozenset(), note)
    if counts_text:
        data.extents, used = extents_within(data.files, round(room * _TEXT))
        room -= used
    else:
        room -= OF_ID * len(data.anchored)
    files = {path: SourceFile(data, path, extent) for path, extent in data.extents.items()}
    filled = fill_rows(data, files, room)
    blocks = [file.block() for file in files.values()]
    note = left_out(data, filled)
    whole = _listing(data, [blocks, _unplaced(data, filled.unplaced)], note)
    return Listing(whole, data.anchored, note)


def _listing(data: SourceData, blocks: Sequence[Content], note: str) -> Html:
    return element(
        "div",
        _hottest(data),
        [element("p", text, class_="note warn") for text in _warnings(data.found)],
        [element("p", text, class_="note") for text in _missing(data)],
        legend(reasons_of_all(data.found.rows)),
        _touched(data.found),
        blocks,
        element("p", note, class_="muted") if note else None,
        class_="listing" if data.most else "listing unsampled",
    )


# --- what stands above and below the listing


def _hottest(data: SourceData) -> Html:
    """`Hottest: k.cu:31 41.0%, …`, and what was counted."""
    links = [
        fragment(link, " ", share_text(spot), _ended(data, spot))
        for spot in data.found.rows[:_HOTTEST]
        if (spot.share or 0.0) >= _LEAST and (link := _row_link(data, spot.location, spot.address))
    ]
    counted = f"{hotspots_summary(data.found)}.{_without_line(data)}"
    if not links:
        return element("p", counted)
    return element("p", element("b", "Hottest: "), joined(links, ", "), f". {counted}")


def _ended(data: SourceData, spot: Spot) -> Content:
    """Why a row is hot at which warps have ended, often a closing brace: they wait for stores."""
    if spot.stall_shares().get("drain", 0.0) <= 0.5:
        return None
    wait = first_wait(data.row(spot).waits, "drain")
    is_elsewhere = wait is not None and (spot.address is not None or wait.producer != spot.location)
    awaited = data.linked_awaits(wait, spot) if is_elsewhere else None
    is_brace = (source_line(spot, data.text) or "").strip() == "}"
    brace = "}: " if is_brace else ""
    return [f" ({brace}warps have ended and wait", awaited or " for their stores", ")"]


def _touched(found: Hotspots) -> Content:
    """Says what the bytes of rows are, because they look like traffic and are not."""
    if not any(spot.sectors_global or spot.sectors_local for spot in found.rows):
        return None
    text = (
        "Memory touched: bytes of the sectors (32 bytes each) that accesses touch, before hits in "
        "L1; not the traffic of L2 or DRAM."
    )
    return element("p", element("small", text), class_="muted")


def _without_line(data: SourceData) -> str:
    spot = data.unplaced if data.found.by == "line" else None
    if spot is None or (spot.share or 0.0) < _LEAST:
        return ""
    return f" {share_text(spot)} of {data.shares_of} have no source line."


def _row_link(data: SourceData, line: Location | None, address: int | None) -> Content:
    if address is not None:
        return data.address_link(address)
    return data.line_link(line) if line else None


def _warnings(found: Hotspots) -> Iterator[str]:
    """Why the shares may be misleading."""
    if found.partial:
        text, remedy = found.partial.text.capitalized(), found.partial.remedy
        yield Sentence("{text}; {remedy}.", text=text, remedy=remedy)
    if few := few_samples(found):
        yield few
    if found.ranked_by != "samples":
        yield "The report has no warp samples: shares are of executed warp instructions."


def few_samples(found: Hotspots) -> str | None:
    """The sampling error of the hottest row's share, if it is one percentage point or more."""
    leading = found.rows[0].share if found.rows else None
    if found.ranked_by != "samples" or found.total >= _FEW or not leading:
        return None
    points = round(100 * chance_error(leading, found.total))
    if not points:
        return None
    return Sentence(
        "Only {total:,d} samples: the share of the hottest row may be off by up to about {points} "
        "by chance, more if samples of different SMs are not independent.",
        total=found.number("all samples", found.total),
        points=counted(found.number("error of the hottest share", points), "percentage point"),
    )


def _missing(data: SourceData) -> Iterator[str]:
    """What the report does not have, and how to get it."""
    for text in hotspots_notes(data.launch, data.found, data.text):
        yield f"{capitalized(text)}."
    absent = data.each.view.code_absent
    if absent is not None:
        yield f"Machine code not analysed: {absent.reason}; {absent.remedy}."


def _unplaced(data: SourceData, panel: Html | None) -> Content:
    """The instructions without a line, as one row."""
    spot = data.unplaced
    if spot is None or not spot.share:
        return None
    count = count_noun(spot.instructions, "instruction")
    row = cells(data, spot, "", element("span", f"{count} without a source line", class_="muted"))
    return element(
        "section",
        element("h4", f"No source line: {share_text(spot)} of {data.shares_of}"),
        element("div", opening_row(row, panel, None), class_="rows"),
        class_="file",
    )
