"""The tools `line` and `source`: the hottest lines, one line or address in full, source text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keet.analysis.code_names import line_text, offset_in_function, parsed_line
from keet.analysis.hotspots.line_facts import (
    NoSuchLine,
    file_matches,
    place_of,
    samples_at,
    with_line,
)
from keet.analysis.hotspots.source_lines import find_hotspots, rows_at, source_lines
from keet.analysis.ledger import scope_in
from keet.documents.document import Document
from keet.documents.hotspots import HotspotsLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant
from keet.profile import Absent, Launch, Location
from keet.profile.launch import file_name
from keet.safe_text import shortened
from keet_tools.calls import (
    ReadReport,
    Reports,
    ToolCall,
    ToolReply,
    about_launch,
    main_launch,
    page_of,
    paged_reply,
    quoted,
)
from keet_tools.results import (
    LineArguments,
    LineSummary,
    LineToolResult,
    NotChecked,
    SourceArguments,
    SourceToolResult,
)

if TYPE_CHECKING:
    from keet.analysis.hotspots.source_lines import Hotspots

_LINES = 20
"""Hottest lines per page."""
_INSTRUCTIONS = 30
_BEFORE = 5
"""Instructions before an address that was asked for."""

Found = tuple[Launch, "Hotspots | Absent"]


def line(reports: Reports, asked: LineArguments, call: ToolCall) -> ToolReply:
    with reports.reading(asked.report, call, source=asked.source) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        launch = main_launch(report, launches)
        wanted = (asked.line or "").strip()
        if not wanted or wanted.lower().startswith("0x"):
            return _ranked(report, asked, launch, len(launches), call)
        if wanted.isascii() and wanted.isdigit():  # of the file that costs the most
            wanted = f"{_hottest_file(launch)}:{wanted}"
        return _one_line(report, wanted, asked.offset, launches, call)


def _hottest_file(launch: Launch) -> str:
    hotspots = find_hotspots(launch, "line")
    rows = () if isinstance(hotspots, Absent) else hotspots.rows
    files = [spot.location.file for spot in rows if spot.location]
    return (files or [*source_lines(launch)] or ["source"])[0]


def _ranked(
    report: ReadReport, asked: LineArguments, launch: Launch, of: int, call: ToolCall
) -> ToolReply:
    """The hottest lines, or instructions in the order of the code from an address on."""
    from keet.analysis.hotspots.examined import examined
    from keet.pages.hotspots import hotspots_page

    call.begin(f"analysing {launch.kernel}")
    spots = find_hotspots(launch, None)
    if asked.line and asked.line.strip():
        spots = _from_address(launch, asked.line.strip())
    shown = slice(asked.offset, asked.offset + _LINES)
    each = examined(launch, spots, has_sass=report.reads_code, which=shown)
    if not call.shows_code and each.reuse:
        hidden = [replace(row, pointer=row.parameter or "another") for row in each.reuse]
        each = replace(each, reuse=hidden)
    page = page_of(each.rows[shown], each.rows_total, asked.offset, _LINES)
    form = "The representative of {of:d} launches: name another with launch."
    chosen = Sentence(form, of=constant(of, "", "launches"))
    notes = [chosen] if of > 1 and report.focus is None else []

    def text_of(count: int) -> str:
        text = call.page(
            lambda reader: hotspots_page([each], reader, max(count, 1), page_at=asked.offset),
            scope=scope_in(report.scope, launch.id),
        )
        return "\n".join([*notes, text])

    return paged_reply(
        call,
        LineToolResult,
        page,
        "line",
        text_of,
        notes=notes,
        line=None,
        row=None,
        **about_launch(report, launch),
        **_common(each),
    )


def _from_address(launch: Launch, wanted: str) -> Hotspots | Absent:
    spots = find_hotspots(launch, "instruction")
    if isinstance(spots, Absent):
        return spots
    offset_of = offset_in_function(launch)
    rows = sorted(spots.rows, key=lambda spot: spot.address or 0)
    names = [offset_of(spot.address or 0) for spot in rows]
    try:
        at = f"{int(wanted[:20], 16):#06x}"
        first = max(names.index(at) - _BEFORE, 0)
    except ValueError:
        last = names[-1] if names else "none"
        raise UsageError(
            f"line {quoted(wanted)}: no instruction is at this offset; the last is at {last}"
        ) from None
    return replace(spots, rows=tuple(rows[first:]), rows_total=len(rows) - first)


def _one_line(
    report: ReadReport, wanted: str, offset: int, launches: Sequence[Launch], call: ToolCall
) -> ToolReply:
    from keet.analysis.hotspots.examined import examined
    from keet.pages.hotspots_line import line_page, other_launches

    place, ranked = _place(wanted, report, launches, call)
    launch, spots = ranked[0]
    call.begin(f"analysing {launch.kernel}")
    document = with_line(examined(launch, spots, has_sass=report.reads_code), place)
    instructions = document.line.instructions if document.line else []
    starts = launch.function_starts
    rows = (_with_offsets(row.to_dict(), starts) for row in instructions[offset:])
    page = page_of(rows, len(instructions), offset, _INSTRUCTIONS)
    others = [*filter(None, [other_launches(ranked[1:], "name one with launch.")])]

    def text_of(count: int) -> str:
        page = line_page(
            [document], place, instructions=slice(offset, offset + count), addresses=call.shows_code
        )
        scope = scope_in(report.scope, launch.id)
        text = call.page(lambda _: page, at=line_text(place), scope=scope)
        return "\n".join([text, *others])

    return paged_reply(
        call,
        LineToolResult,
        page,
        "instruction",
        text_of,
        notes=others,
        line=_summary(document, place, starts),
        row=document.rows[0] if document.rows else None,
        **about_launch(report, launch),
        **_common(document),
    )


def _place(
    wanted: str, report: ReadReport, launches: Sequence[Launch], call: ToolCall
) -> tuple[Location, list[Found]]:
    """The line, and the launches with code for it: the one in focus, then most samples first."""
    line = parsed_line(wanted)
    if line is None:
        raise UsageError(
            f"line {quoted(wanted)} must be FILE:LINE, for example kernel.cu:29, or an offset of "
            "the machine code, for example 0x0130"
        )
    watched = call.each(launches, "looking at launch", len(launches))
    try:
        place, own = place_of(watched, line)
    except NoSuchLine as wrong:
        host = "; host code, such as a launch, has none" if wrong.is_empty else ""
        raise UsageError(f"line {quoted(wrong.place)}: {wrong.problem}{host}") from None
    founds: list[Found] = []
    for launch in call.each(own, "looking at launch", len(own)):
        founds.append((launch, rows_at(find_hotspots(launch, None), place)))
    return place, sorted(
        founds, key=lambda each: (each[0] is not report.focus, -samples_at(each[1]))
    )


def _common(document: HotspotsLaunch) -> dict[str, Any]:
    return {
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
    if not isinstance(address, int):
        return address and [_offset(each, starts) for each in address]
    return f"{address - max((start for start in starts if start <= address), default=0):#06x}"


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


_SOURCE_LINES = 200
_LONGEST_LINE = 160
_LEAST_SHARE = 0.001


def source(reports: Reports, asked: SourceArguments, call: ToolCall) -> ToolReply:
    """From a line on, each with its share of the samples."""
    if not call.shows_code:
        raise UsageError("source text is not shown in this session")
    with reports.reading(asked.report, call, source=asked.source) as report:
        launch = main_launch(report, report.chosen(asked.launch, asked.kernel))
        texts = source_lines(launch)
        wanted = asked.file or _hottest_file(launch)
        paths = [path for path in launch.source_files if file_matches(path, wanted)]
        if len(paths) != 1:
            names = sorted(map(file_name, launch.source_files))
            problem = "several files have this name" if paths else "no such file"
            raise UsageError(f"file {quoted(wanted)}: {problem}; files: {', '.join(names[:12])}")
        (path,) = paths
        if path not in texts:
            raise UsageError(f"file {quoted(wanted)}: its text is not in the report; pass source")
        lines = texts[path]
        first = asked.line - 1 + asked.offset
        if not 0 <= first < len(lines):
            last = constant(len(lines), "", "lines of the file")
            raise UsageError(Sentence("there is no such line; the last is {last:d}", last=last))
        hotspots = find_hotspots(launch, "line")
        spots = (
            {} if isinstance(hotspots, Absent) else {spot.location: spot for spot in hotspots.rows}
        )
        entries = []
        for number, text in enumerate(lines[first : first + _SOURCE_LINES], first + 1):
            spot = spots.get(Location(path, number))
            share = spot.share if spot and (spot.share or 0) >= _LEAST_SHARE else None
            entries.append({"line": number, "text": text, "share": share})
        total = len(lines) - asked.line + 1
        page = page_of(entries, total, asked.offset, _SOURCE_LINES)

        def row(entry: dict[str, Any]) -> str:
            cost = ""
            if entry["share"] is not None and not isinstance(hotspots, Absent):
                where = f"{file_name(path)}:{entry['line']}"
                part = hotspots.number(
                    f"{hotspots.ranked_by} share", 100 * entry["share"], "%", where
                )
                share = Sentence(" {share:cell}", share=part)
                cost = call.words(share, scope_in(report.scope, launch.id))
            text = entry["text"].expandtabs(4).rstrip().replace("`", "'")
            code = f" `{shortened(text, _LONGEST_LINE)}`" if text else ""
            return f"L{entry['line']}{cost}{code}"

        def text_of(count: int) -> str:
            heading = f"{file_name(path)}, lines with their share of the samples:"
            return "\n".join([heading, *map(row, entries[:count])])

        about = about_launch(report, launch)
        return paged_reply(call, SourceToolResult, page, "line", text_of, file=path, **about)
