"""The row of a line or an instruction: its heat, its code, what it waits for, its traffic."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.examined import first_wait
from keet.analysis.hardware.rates import SECTOR
from keet.analysis.source_lines import Spot
from keet.formats.html.heat import heat_class
from keet.formats.html.markup import Content, Html, element
from keet.formats.html.source.data import Mention, SourceData
from keet.formats.html.source.stalls import reason_text, stall_bar
from keet.formatting import percent_text, share_cell
from keet.pages.hotspots import purposes_text, size_text, stall_reasons
from keet.safe_text import one_line

LEAST_EXCESS = 0.1
"""Share of the sectors or wavefronts of a row below which excess is not shown."""


def share_text(spot: Spot | None) -> str:
    """Empty if there are no samples, as on most lines."""
    if spot is None or not spot.share:
        return ""
    return share_cell(spot.share)


def cells(
    data: SourceData, spot: Spot, number: Content, code: Content, *, has_text: bool = True
) -> list[Content]:
    """All cells of a row with costs. The columns are those of `.listing .row` in source.css.

    `has_text`: whether `code` is code, and not what the instructions are for.
    """
    share = share_text(spot)
    mix = purposes_text(data.row(spot).purposes) if has_text else None
    return [
        element("span", number, class_="n"),
        element("span", share, class_=f"share {heat_class(spot.share) or ''}".rstrip()),
        element("span", stall_bar(spot, data.most), class_="bar-of"),
        element("code", code),
        element("span", waiting(data, spot), class_="why"),
        element("span", traffic(spot), class_="traffic"),
        element("span", mix, class_="mix"),
    ]


def opening_row(row: Sequence[Content], panel: Html | None, key: str | None) -> Html:
    """A row, and what it shows when it is opened."""
    if panel is None:
        return element("div", row, class_="line row", id=key)
    return element("details", element("summary", row, class_="row"), panel, class_="line", id=key)


def heads(number: str, costs: str, code: str) -> Html:
    """The names of the columns."""
    names = {
        "n": number,
        "share": costs,
        "bar-of": "waits",
        "code-head": code,
        "why": "waits for",
        "traffic": "memory touched",
        "mix": "instructions for",
    }
    spans = [element("span", name, class_=each) for each, name in names.items()]
    return element("div", spans, class_="row heads")


def waiting(data: SourceData, spot: Spot) -> str:
    """The largest stall reason, its share of the row's samples, and what it waits for."""
    largest = next(iter(stall_reasons(spot)), None)
    if largest is None:
        return ""
    awaited = data.awaits(first_wait(data.row(spot).waits, largest), spot)
    return f"{reason_text(spot, largest)}{awaited}"


def traffic(spot: Spot) -> Content:
    """Bytes of touched sectors of global and local memory, wavefronts of shared memory."""
    parts: list[Content] = []
    if spot.sectors_global:
        size = size_text(spot.sectors_global * SECTOR)
        parts.append([f"{size} global", _excess(spot.sectors_global_excess, spot.sectors_global)])
    if spot.sectors_local:
        parts.append(element("b", f"{size_text(spot.sectors_local * SECTOR)} local"))
    if spot.wavefronts_shared:
        excess = _excess(spot.wavefronts_shared_excess, spot.wavefronts_shared)
        parts.append([f"{compact(spot.wavefronts_shared)} wavefronts shared", excess])
    return [[", " if n else None, part] for n, part in enumerate(parts)]


def _excess(excess: int | None, whole: int) -> Content:
    share = (excess or 0) / whole
    return (
        [" ", element("b", f"{percent_text(100 * share)} excess")]
        if share >= LEAST_EXCESS
        else None
    )


_SCALES = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


def compact(count: int) -> str:
    """`8.39M`: three digits, for a narrow column; panels have the whole number."""
    for scale, letter in _SCALES:
        if count >= scale:
            value = count / scale
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{letter}"
    return str(count)


def badges(data: SourceData, mentions: Sequence[Mention]) -> list[Html]:
    """Links to the findings that name the row; where it is their first place, they stand out."""
    return [
        data.finding_link(
            each,
            f"finding {each.number}",
            class_="badge warn" if each.is_first else "badge",
            title=f"Finding {each.number}: {one_line(each.finding.title)}",
        )
        for each in mentions
    ]
