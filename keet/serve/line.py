"""The tool `line`: one source line in full, or the hottest lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keet.documents.document import Document
from keet.documents.hotspots import HotspotsLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant
from keet.profile import Absent, Launch, Location
from keet.serve.allowed_folders import quoted
from keet.serve.arguments import LineArguments
from keet.serve.name_patterns import longest_in, selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import LineSummary, LineToolResult, NotChecked
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import WIDTH, ToolReply, page_fields, with_text

if TYPE_CHECKING:
    from keet.analysis.source_lines import Hotspots

_LINES = 20
"""Hottest lines per page."""
_INSTRUCTIONS = 30

Found = tuple[Launch, "Hotspots | Absent"]


def line(cache: ReportCache, asked: LineArguments, call: ToolCall) -> ToolReply:
    with cache.reading(asked.report, call, source=asked.source) as report:
        launches = selected_launches(report.profile, asked.launch, asked.kernel)
        if asked.line is None:
            return _hottest(
                report, asked, longest_in(report.profile, launches), len(launches), call
            )
        return _one(report, asked, launches, call)


def _hottest(
    report: OpenReport, asked: LineArguments, launch: Launch, of: int, call: ToolCall
) -> ToolReply:
    from keet.analysis.examined import examined
    from keet.analysis.source_lines import find_hotspots
    from keet.formats import page_text
    from keet.pages.hotspots import hotspots_page

    call.begin(f"analysing {launch.kernel}")
    shown = slice(asked.offset, asked.offset + _LINES)
    each = examined(launch, find_hotspots(launch, None), has_sass=True, which=shown)
    rows = (row.to_dict() for row in each.rows[shown])
    page = page_of(rows, each.rows_total, asked.offset, _LINES)
    longest = Sentence(
        "The longest of {of:d} launches: name another with launch.",
        of=constant(of, "", "launches"),
    )
    notes = [longest] if of > 1 else []

    def text_of(count: int) -> str:
        text = page_text(
            lambda reader: hotspots_page([each], reader, max(count, 1), page_at=asked.offset),
            "terminal",
            WIDTH,
        )
        return "\n".join([*notes, text])

    page, text, end = with_text(page, "line", text_of)
    result = LineToolResult(
        **_common(report, each),
        line=None,
        row=None,
        entries=page.entries,
        **page_fields(page, notes),
    )
    return ToolReply(result, text, end)


def _one(
    report: OpenReport, asked: LineArguments, launches: Sequence[Launch], call: ToolCall
) -> ToolReply:
    from keet.analysis.examined import examined
    from keet.analysis.line_facts import with_line
    from keet.formats import page_text
    from keet.pages.hotspots_line import line_page, other_launches

    place, ranked = _place(asked.line or "", launches, call)
    launch, spots = ranked[0]
    call.begin(f"analysing {launch.kernel}")
    document = with_line(examined(launch, spots, has_sass=True), place)
    instructions = document.line.instructions if document.line else []
    starts = launch.function_starts
    rows = (_with_offsets(row.to_dict(), starts) for row in instructions[asked.offset :])
    page = page_of(rows, len(instructions), asked.offset, _INSTRUCTIONS)
    others = [*filter(None, [other_launches(ranked[1:], "name one with launch.")])]

    def text_of(count: int) -> str:
        listed = slice(asked.offset, asked.offset + count)
        page = line_page([document], place, instructions=listed)
        return "\n".join([page_text(lambda _: page, "terminal", WIDTH), *others])

    page, text, end = with_text(page, "instruction", text_of)
    result = LineToolResult(
        **_common(report, document),
        line=_summary(document, place, starts),
        row=document.rows[0] if document.rows else None,
        entries=page.entries,
        **page_fields(page, others),
    )
    return ToolReply(result, text, end)


def _place(wanted: str, launches: Sequence[Launch], call: ToolCall) -> tuple[Location, list[Found]]:
    """The line, and the launches with code for it, most samples first."""
    from keet.analysis.line_facts import NoSuchLine, place_of, samples_at
    from keet.analysis.source_lines import find_hotspots

    match = re.fullmatch(r"(.+):([0-9]{1,9})", wanted, re.DOTALL)
    if match is None:
        raise UsageError(f"line {quoted(wanted)} must be FILE:LINE, for example kernel.cu:29")
    watched = call.each(launches, "looking at launch", len(launches))
    try:
        place, own = place_of(watched, (match[1], int(match[2])))
    except NoSuchLine as wrong:
        host = "; host code, such as a launch, has none" if wrong.is_empty else ""
        raise UsageError(f"line {wrong.place}: {wrong.problem}{host}") from None
    found: list[Found] = []
    for launch in call.each(own, "looking at launch", len(own)):
        spots = find_hotspots(launch, None)
        if not isinstance(spots, Absent):
            at = tuple(spot for spot in spots.rows if spot.location == place)
            spots = replace(spots, rows=at, rows_total=len(at))
        found.append((launch, spots))
    return place, sorted(found, key=lambda each: -samples_at(each[1]))


def _common(report: OpenReport, document: HotspotsLaunch) -> dict[str, Any]:
    return {
        "report": report.name,
        "launch": document.id,
        "kernel": document.kernel,
        "samples": document.total if document.ranked_by == "samples" else None,
        "pointers": document.reuse or [],
        "not_checked": list(map(NotChecked.taken_from, document.skipped)),
    }


_OFFSETS = {"address": "offset", "producer_address": "producer_offset", "recurrence": "recurrence"}
"""Fields with addresses, and their names as offsets."""


def _with_offsets(value: Any, starts: Sequence[int]) -> Any:
    """Replace addresses by offsets in the function, as in the text; `value`: a part of a
    document."""
    if isinstance(value, list):
        return [_with_offsets(each, starts) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        _OFFSETS.get(name, name): _offset(each, starts)
        if name in _OFFSETS
        else _with_offsets(each, starts)
        for name, each in value.items()
    }


def _offset(address: Any, starts: Sequence[int]) -> Any:
    if isinstance(address, list):
        return [_offset(each, starts) for each in address]
    if address is None:
        return None
    return f"{address - max((each for each in starts if each <= address), default=0):#06x}"


def _summary(document: HotspotsLaunch, place: Location, starts: Sequence[int]) -> LineSummary:
    own, rows = document.line, document.rows

    def dumped(parts: Iterable[Document]) -> Any:
        return [_with_offsets(part.to_dict(), starts) for part in parts]

    return LineSummary(
        file=place.file,
        line=place.line,
        source=rows[0].source if rows else None,
        executed=own.executed if own else sum(row.executed or 0 for row in rows) or None,
        executed_share=own.executed_share if own else None,
        purposes=list(own.purposes) if own else [],
        waited_for_by=list(own.waited_for_by) if own else [],
        accesses=dumped(own.accesses if own else []),
        loops=dumped(own.loops if own else []),
    )
