"""The tools `explain` and `context`: what limits kernels; `context` within a number of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.documents.document import numbers_in
from keet.documents.explain import GroundingDocument
from keet.documents.shared_types import DeviceDocument
from keet.errors import one_line
from keet.evidence import Sentence, constant, finite
from keet_tools.arguments import ContextArguments, ExplainArguments
from keet_tools.calls import ToolCall, ToolReply, page_of, paged_reply
from keet_tools.reports import Reports, about_launch, main_launch
from keet_tools.results import (
    CodeLine,
    ContextToolResult,
    ExplainedLaunchEntry,
    ExplainToolResult,
    NotChecked,
    ProgramLine,
    ProgramSummary,
    TimeRow,
)

if TYPE_CHECKING:
    from keet.explanation.explanation_types import Explanation, LaunchExplanation


_PER_PAGE = 20
"""Launches."""
_ROWS = 8
"""Kernels listed in the program table, as in `keet explain`."""
_UNITS = 4
"""Hardware units per launch."""
_ESCAPED = 0.88
"""Length of a text / its length as JSON, at least."""


def explain(reports: Reports, asked: ExplainArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.program import program_of
    from keet.pages.explain import explain_part, plans_of
    from keet.pages.program import shown_launches

    with reports.reading(asked.report, call, source=asked.source) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        explanation = report.explained(launches, asked.top, call)
        call.begin("writing the result")
        program = program_of(explanation)
        everything = asked.launch is not None or asked.kernel is not None
        shown = shown_launches(explanation, program, everything=everything)
        rest = shown[asked.offset :]
        page = page_of(map(_entry, rest), len(shown), asked.offset, _PER_PAGE)

        def text_of(count: int) -> str:
            """In as much detail as there is room for."""
            here = rest[:count]
            text = ""
            for plan in plans_of(len(here)):
                make = partial(explain_part, explanation, here, plan, is_first=not asked.offset)
                text = call.page(make, "markdown")
                if len(text) <= call.most * _ESCAPED:
                    break
            return text

        summary = None
        if program and not asked.offset:
            rows = [ProgramLine.taken_from(row) for row in program.rows[:_ROWS]]
            summary = ProgramSummary.taken_from(program, rows=rows)
        hidden = _hidden(len(explanation.asked) - len(shown))
        return paged_reply(
            call,
            ExplainToolResult,
            page,
            "launch",
            text_of,
            notes=[*_notes(explanation), *hidden],
            end=hidden,
            report=report.name,
            device=DeviceDocument.taken_from(shown[0].launch.device),
            program=summary,
            grounding=lambda page: GroundingDocument.of(numbers_in(rest[: len(page.entries)])),
        )


def _notes(explanation: Explanation) -> Iterator[str]:
    from keet.analysis.capture.report_document import profile_notes, report_cautions
    from keet.explanation.capture_hints import caution_about

    yield from report_cautions(explanation.profile)
    yield from profile_notes(explanation.profile)
    hints = explanation.capture_hints
    yield from map(" ".join, hints.commands)
    yield from filter(None, [caution_about(hints.command)])


def _hidden(rest: int) -> list[str]:
    if rest <= 0:
        return []
    text = "{rest} launch takes little time or repeats another: not listed; name it with launch."
    if rest > 1:
        text = (
            "{rest} launches take little time or repeat others: not listed; name one with launch, "
            "or several with kernel."
        )
    return [Sentence(text, rest=constant(rest, "", "launches"))]


def _entry(each: LaunchExplanation) -> ExplainedLaunchEntry:
    """A part of the launch in `keet explain --format json`."""
    from keet.explanation.account_texts import account_rows

    verdict, units = each.verdict, each.ceilings[:_UNITS]
    cited = [unit.evidence for unit in units]
    cited += [piece for finding in each.findings for piece in finding.evidence]
    return ExplainedLaunchEntry.taken_from(
        each,
        headline=verdict.headline,
        limiter=verdict.limiter,
        reached_pct=verdict.reached_pct,
        evidence={piece.id: piece for piece in cited},
        units=list(units),
        time=[
            TimeRow(part=row.label, share=row.share.value / 100, us=finite(row.us), depth=0)
            for row in account_rows(each.view, each.account)
        ],
        code=list(_code(each)),
        looks_good=[note.text for note in each.healthy],
        remarks=[
            *(note.text for note in each.notes),
            *filter(None, [each.second_opinion, each.replay and each.replay.text]),
        ],
        not_checked=list(map(NotChecked.taken_from, each.skipped)),
    )


def _code(each: LaunchExplanation) -> Iterator[CodeLine]:
    from keet.analysis.hotspots.source_lines import source_lines

    lines = source_lines(each.launch)
    places = ((place.file, place.line) for finding in each.findings for place in finding.locations)
    for file, number in dict.fromkeys(places):
        text = lines.get(file, ())
        if 0 < number <= len(text):
            yield CodeLine(file=file, line=number, text=text[number - 1].strip())


_CAUSES = 5
"""Findings that `keet context` has room for."""


def context(reports: Reports, asked: ContextArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.capture_hints import caution_about
    from keet.pages.context import context_text

    with reports.reading(asked.report, call, source=asked.source) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        launch = main_launch(report, launches)
        explanation = report.explained([launch], _CAUSES, call)
        text = context_text(explanation, asked.max_tokens, of=len(launches))
        command = explanation.capture_hints.command
        caution = caution_about(command) if one_line(command or "") in text else None
        result = ContextToolResult(
            **about_launch(report, launch),
            chosen_from=len(launches),
            context=text,
            notes=[caution] if caution else [],
        )
        return ToolReply(result, text)
