"""The hottest lines or instructions of both sides, where the sources can't be aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.source_lines import Hotspots, Spot, find_hotspots
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.formats.html.data_table import scrolling
from keet.formats.html.markup import Html, element, fragment
from keet.formatting import share_cell
from keet.profile import Absent
from keet.profile.names import file_name
from keet.render.common.hotspots import hotspots_notes, waiting_for
from keet.render.common.machine_code import function_start
from keet.render.common.source_text import source_line, source_lines
from keet.safe_text import one_line, shortened
from keet.units import Quantity

_HOTTEST = 10
"""Rows per launch."""
_LONGEST = 200
"""Characters of a source line or an instruction."""


def hottest_code(
    before: Sequence[WeightedLaunch], after: Sequence[WeightedLaunch], lacks: Sequence[str]
) -> Html:
    """`lacks`: why the sources can't be aligned."""
    why = f"The sources can't be shown side by side: {', '.join(lacks)}." if lacks else None
    tables = [
        _launch(each, word)
        for word, side in (("before", before), ("after", after))
        for each in side
    ]
    return fragment(
        element("p", why, class_="note") if why else None,
        element("div", tables, class_="two"),
    )


def _launch(each: WeightedLaunch, word: str) -> Html:
    launch = each.explanation.launch
    found = find_hotspots(launch)
    kernel = one_line(launch.kernel)
    heading = element("p", element("b", f"Hottest {word}"), f": {kernel}", class_="break")
    if isinstance(found, Absent):
        return element("div", heading, element("p", f"{found.reason}; {found.remedy}"))
    timed = found.ranked_by == "samples" and not found.partial
    table = element(
        "table",
        element("thead", element("tr", _headings(found, timed=timed))),
        element("tbody", _rows(each, found, timed=timed)),
    )
    notes: list[str] = [found.partial.text] if found.partial else []
    notes += hotspots_notes(launch, found, source_lines(launch))
    said = [element("p", one_line(note), class_="muted") for note in notes]
    return element("div", heading, scrolling(f"Hottest {word}: {kernel}", table), said)


def _headings(found: Hotspots, *, timed: bool) -> Iterator[Html]:
    yield element("th", "Line" if found.by == "line" else "Instruction", scope="col")
    of = "Samples" if found.ranked_by == "samples" else "Executed"
    yield element("th", of, scope="col", class_="number")
    if timed:
        yield element("th", "Time", scope="col", class_="number")
    yield element("th", "Waits for", scope="col")


def _rows(each: WeightedLaunch, found: Hotspots, *, timed: bool) -> Iterator[Html]:
    launch = each.explanation.launch
    lines, starts = source_lines(launch), launch.function_starts
    # Code that was not analysed is not fetched for a table.
    analysed = found.by == "instruction" and each.explanation.view.code is not None
    texts = launch.disassembly if analysed else {}
    code = {} if isinstance(texts, Absent) else texts
    for spot in found.rows[:_HOTTEST]:
        text = source_line(spot, lines) if spot.address is None else code.get(spot.address)
        share = spot.share or 0.0
        shown = element("code", shortened(" ".join((text or "").split()), _LONGEST))
        yield element(
            "tr",
            element("td", one_line(_place(spot, starts)), element("br"), shown),
            element("td", share_cell(share), class_="number"),
            _time(each, share) if timed else None,
            element("td", waiting_for(spot)),
        )


def _time(each: WeightedLaunch, share: float) -> Html:
    time = "" if each.time is None else str(Quantity(share * each.time, "ns"))
    return element("td", time, class_="number")


def _place(spot: Spot, starts: Sequence[int]) -> str:
    """`tour.cu:21`; of an instruction its offset in its function, as in cuobjdump."""
    line = f"{file_name(spot.location.file)}:{spot.location.line}" if spot.location else ""
    if spot.address is None:
        return line or "no source line"
    return f"{spot.address - function_start(starts, spot.address):#06x} {line}".strip()
