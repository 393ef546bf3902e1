"""The tool `cases`: measured kernels before and after a fix."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from keet.documents.cases import CaseDocument
from keet.errors import UsageError
from keet.explanation.casebook import casebook
from keet.serve.allowed_folders import quoted
from keet.serve.arguments import CasesArguments
from keet.serve.report_cache import ReportCache
from keet.serve.results import CaseRow, CasesToolResult
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import WIDTH, ToolReply, page_fields, with_text

_PER_PAGE = 20


def cases(_: ReportCache, asked: CasesArguments, call: ToolCall) -> ToolReply:
    call.begin("reading the casebook")
    if asked.case is not None:
        return _one(asked.case)
    entries = _chosen(asked)
    page = page_of(map(_row, entries[asked.offset :]), len(entries), asked.offset, _PER_PAGE)
    page, text, end = with_text(page, "case", lambda count: _list(entries, asked.offset, count))
    return ToolReply(CasesToolResult(case=None, cases=page.entries, **page_fields(page)), text, end)


def _list(entries: Sequence[CaseDocument], offset: int, count: int) -> str:
    """The text for `count` cases; its introduction is about all of them."""
    from keet.formats import page_text
    from keet.pages.cases import cases_page

    here = entries[offset : offset + count]
    how = "call cases with case"
    return page_text(
        lambda reader: cases_page(here, reader, of=entries, in_full=how), "terminal", WIDTH
    )


def _one(name: str) -> ToolReply:
    from keet.formats import page_text
    from keet.pages.cases import case_page

    entries = casebook()
    found = [each for each in entries if name in (each.id, each.id.partition("/")[2])]
    if len(found) != 1:
        raise UsageError(f"case {quoted(name)}: {_no_case(name, found, entries)}")
    result = CasesToolResult(case=found[0], cases=[], total=1, offset=0, more=0, next_offset=None)
    return ToolReply(result, page_text(lambda _: case_page(found[0]), "terminal", WIDTH))


def _no_case(name: str, found: Sequence[CaseDocument], entries: Sequence[CaseDocument]) -> str:
    if found:
        return f"several cases have this name: {', '.join(each.id for each in found[:5])}"
    close = difflib.get_close_matches(name[:100], [each.id for each in entries], n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "call cases without it for a list"
    return f"there is no such case; {hint}"


def _row(entry: CaseDocument) -> dict[str, object]:
    return {name: getattr(entry, name) for name in CaseRow.names()}


def _chosen(asked: CasesArguments) -> Sequence[CaseDocument]:
    """Grouped by finding, the largest gain first, as `keet cases`."""
    entries = casebook()
    for option in ("finding", "archetype"):
        _check(option, getattr(asked, option), {getattr(each, option) for each in entries})
    found = [
        each
        for each in entries
        if asked.finding in (None, each.finding)
        and asked.archetype in (None, each.archetype)
        and (each.lookalike or not asked.lookalikes)
    ]
    if not found:
        raise UsageError("no case matches all of these arguments; leave one out")
    return sorted(found, key=lambda each: (each.finding, each.lookalike, -each.gain))


def _check(option: str, wanted: str | None, known: set[str]) -> None:
    if wanted is not None and wanted not in known:
        raise UsageError(f"{option} {quoted(wanted)}: there are {', '.join(sorted(known))}")
