"""The tools `line`, `amounts`, `metrics` and `cases`: one matter in full, after `explain`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keet.analysis.amounts.items import counted_per
from keet.documents.cases import CaseDocument
from keet.documents.document import Document
from keet.documents.hotspots import HotspotsLaunch
from keet.documents.show import MetricsLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant
from keet.explanation.casebook import casebook, cases_named, chosen_cases
from keet.profile import Absent, Launch, Location
from keet.serve.allowed_folders import quoted
from keet.serve.arguments import AmountsArguments, CasesArguments, LineArguments, MetricsArguments
from keet.serve.calls import WIDTH, ToolCall, ToolReply, page_fields, page_of, with_text
from keet.serve.name_patterns import about_regexes, longest_in, matcher, selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import (
    AmountsToolResult,
    CaseRow,
    CasesToolResult,
    LineSummary,
    LineToolResult,
    MetricsToolResult,
    NotChecked,
)

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
        return _one_line(report, asked, launches, call)


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


def _one_line(
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
    from keet.analysis.code_names import parsed_line
    from keet.analysis.line_facts import NoSuchLine, place_of, samples_at
    from keet.analysis.source_lines import find_hotspots, rows_at

    line = parsed_line(wanted)
    if line is None:
        raise UsageError(f"line {quoted(wanted)} must be FILE:LINE, for example kernel.cu:29")
    watched = call.each(launches, "looking at launch", len(launches))
    try:
        place, own = place_of(watched, line)
    except NoSuchLine as wrong:
        host = "; host code, such as a launch, has none" if wrong.is_empty else ""
        raise UsageError(f"line {wrong.place}: {wrong.problem}{host}") from None
    found: list[Found] = []
    for launch in call.each(own, "looking at launch", len(own)):
        found.append((launch, rows_at(find_hotspots(launch, None), place)))
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


_AMOUNTS_PER_PAGE = 60


def amounts(cache: ReportCache, asked: AmountsArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.launch_amounts import PARTS, amount_rows
    from keet.explanation.report_amounts import amounts_document

    with cache.reading(asked.report, call, source=asked.source) as report:
        launches = selected_launches(report.profile, asked.launch, asked.kernel)
        launch = longest_in(report.profile, launches)
        call.begin(f"counting the work of {launch.kernel}")
        document = amounts_document(report.profile, [launch], counted_per(asked.per)).document()
        (found,) = document.launches
        rows = [*amount_rows(found.amounts)]
        entries = (
            {"part": row.part, "label": row.label, "text": row.text, "evidence": [*row.text.ids]}
            for row in rows[asked.offset :]
        )
        page = page_of(entries, len(rows), asked.offset, _AMOUNTS_PER_PAGE)
        program = [*document.program.texts] if document.program else []
        unknown = [f"{each.reason}: {each.remedy}" for each in found.amounts.unknown]

        def text_of(count: int) -> str:
            shown = rows[asked.offset : asked.offset + count]
            lines = (f"- {PARTS[row.part]}, {row.label or row.part}: {row.text}" for row in shown)
            return "\n".join([f"launch {launch.id}, {launch.kernel}", *program, *lines, *unknown])

        page, text, end = with_text(page, "amount", text_of)
        cited = {id_ for entry in page.entries for id_ in entry["evidence"]}
        result = AmountsToolResult(
            report=report.name,
            launch=launch.id,
            kernel=launch.kernel,
            entries=page.entries,
            program=list(map(str, program)),
            evidence={id_: each for id_, each in found.evidence.items() if id_ in cited},
            **page_fields(page, unknown),
        )
        return ToolReply(result, text, end)


_METRICS_PER_PAGE = 40
_EXPLAINED = 20
"""With more metrics, their meaning is left out: it is most of the text."""
_SHORTER = Sentence(
    "For what the metrics mean, name a pattern that {most:d} or fewer match.",
    most=constant(_EXPLAINED, "", "metrics that are explained"),
)


def metrics(cache: ReportCache, asked: MetricsArguments, call: ToolCall) -> ToolReply:
    from keet.formats import page_text
    from keet.pages.metrics import metrics_page

    with cache.reading(asked.report, call) as report:
        launches = selected_launches(report.profile, asked.launch, asked.kernel)
        launch = longest_in(report.profile, launches)
        call.begin(f"reading metrics of {launch.kernel}")
        found = _metrics(launch, asked.pattern)
        rows = found.metrics
        here = rows[asked.offset : asked.offset + _METRICS_PER_PAGE]
        explain = len(rows) <= _EXPLAINED
        left_out = {} if explain else {"meaning": None}
        documents = (each.to_dict() | left_out for each in here)
        page = page_of(documents, len(rows), asked.offset, _METRICS_PER_PAGE)
        of = constant(len(launches), "", "launches")
        notes = [] if of.value == 1 else [Sentence("The longest of {of:d} launches.", of=of)]
        notes += [] if explain else [_SHORTER]

        def text_of(count: int) -> str:
            shown = [replace(found, metrics=here[:count])]
            text = page_text(
                lambda reader: metrics_page(shown, reader, explain=explain, names=True),
                "terminal",
                WIDTH,
            )
            return "\n".join([*notes, text])

        page, text, end = with_text(page, "metric", text_of)
        result = MetricsToolResult(
            report=report.name,
            launch=launch.id,
            kernel=launch.kernel,
            metrics=page.entries,
            **page_fields(page, notes),
        )
        return ToolReply(result, text, end)


def _metrics(launch: Launch, pattern: str | None) -> MetricsLaunch:
    """As in `keet metrics`, but with a name pattern instead of a regular expression."""
    from keet.analysis.metric_table import launch_metrics
    from keet.pages.metrics import INTERNAL

    if pattern is None:
        return launch_metrics(launch)
    found = launch_metrics(launch, matcher(pattern, "pattern"))
    rows = [metric for metric in found.metrics if not metric.name.startswith(INTERNAL)]
    if not rows:
        raise UsageError(
            f"pattern {quoted(pattern)}: no metric matches; * lists all of them"
            f"{about_regexes(pattern)}"
        )
    return replace(found, metrics=rows)


_CASES_PER_PAGE = 20


def cases(_: ReportCache, asked: CasesArguments, call: ToolCall) -> ToolReply:
    call.begin("reading the casebook")
    if asked.case is not None:
        return _one_case(asked.case)
    entries = _chosen_cases(asked)
    page = page_of(
        map(_case_row, entries[asked.offset :]), len(entries), asked.offset, _CASES_PER_PAGE
    )
    page, text, end = with_text(
        page, "case", lambda count: _case_list(entries, asked.offset, count)
    )
    return ToolReply(CasesToolResult(case=None, cases=page.entries, **page_fields(page)), text, end)


def _case_list(entries: Sequence[CaseDocument], offset: int, count: int) -> str:
    """The text for `count` cases; its introduction is about all of them."""
    from keet.formats import page_text
    from keet.pages.cases import cases_page

    here = entries[offset : offset + count]
    how = "call cases with case"
    return page_text(
        lambda reader: cases_page(here, reader, of=entries, in_full=how), "terminal", WIDTH
    )


def _one_case(name: str) -> ToolReply:
    from keet.formats import page_text
    from keet.pages.cases import case_page

    found = cases_named(name)
    if len(found) != 1:
        raise UsageError(f"case {quoted(name)}: {_no_case(name, found)}")
    result = CasesToolResult(case=found[0], cases=[], total=1, offset=0, more=0, next_offset=None)
    return ToolReply(result, page_text(lambda _: case_page(found[0]), "terminal", WIDTH))


def _no_case(name: str, found: Sequence[CaseDocument]) -> str:
    if found:
        return f"several cases have this name: {', '.join(each.id for each in found[:5])}"
    close = difflib.get_close_matches(name[:100], [each.id for each in casebook()], n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "call cases without it for a list"
    return f"there is no such case; {hint}"


def _case_row(entry: CaseDocument) -> dict[str, object]:
    return {name: getattr(entry, name) for name in CaseRow.names()}


def _chosen_cases(asked: CasesArguments) -> Sequence[CaseDocument]:
    for option in ("finding", "archetype"):
        _check_known(option, getattr(asked, option), {getattr(each, option) for each in casebook()})
    found = chosen_cases(asked.finding, asked.archetype, lookalikes=asked.lookalikes)
    if not found:
        raise UsageError("no case matches all of these arguments; leave one out")
    return found


def _check_known(option: str, wanted: str | None, known: set[str]) -> None:
    if wanted is not None and wanted not in known:
        raise UsageError(f"{option} {quoted(wanted)}: there are {', '.join(sorted(known))}")
