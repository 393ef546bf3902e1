"""The tool `diff`: compares two reports, or two launches of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keet.errors import UsageError
from keet.serve.arguments import DiffArguments
from keet.serve.name_patterns import selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import DiffToolResult, PairResult
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import ToolReply, page_fields, with_text

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.comparison.sides import Side
    from keet.documents.diff import PairDocument

_PAIRS = 10
"""Pairs of kernels per page."""
_IN_FULL = 5
"""Kernels that the text describes in full, as `keet diff` does."""
_OPTIONS = {"--launch A:B": "before_launch and after_launch"}
"""What messages call the options of `keet diff` here."""


def diff(cache: ReportCache, asked: DiffArguments, call: ToolCall) -> ToolReply:
    if (asked.before_launch is None) != (asked.after_launch is None):
        raise UsageError("name a launch of both reports: before_launch and after_launch")
    with cache.reading_two(asked.before, asked.after, call) as (before, after):
        difference = _compare(before, after, asked, call)
        call.begin("writing the result")
        return _reply(difference, before.name, after.name, asked.offset)


def _compare(
    before: OpenReport, after: OpenReport, asked: DiffArguments, call: ToolCall
) -> Difference:
    from keet.comparison.compare import compare
    from keet.comparison.sentences import check_comparable

    call.begin("comparing")
    sides = _side(before, asked.before_launch, asked), _side(after, asked.after_launch, asked)
    guess = asked.force or asked.before_launch is not None
    difference = compare(*sides, guess=guess, on_launch=call.steps("explaining launch"))
    if not asked.force:
        check_comparable(difference, "force", _OPTIONS)
    return difference


def _side(report: OpenReport, launch: int | None, asked: DiffArguments) -> Side:
    from keet.comparison.sides import Side, SideCapture

    return Side(
        (SideCapture(report.profile, selected_launches(report.profile, launch, asked.kernel)),)
    )


def _reply(difference: Difference, before: str, after: str, offset: int) -> ToolReply:
    from keet.formats import page_text
    from keet.pages.diff import diff_page

    pairs = (_pair(pair) for pair in difference.pairs[offset:])
    page = page_of(pairs, len(difference.pairs), offset, _PAIRS)

    def text_of(count: int) -> str:
        shown = difference.pairs[offset : offset + count]
        return page_text(lambda reader: diff_page(difference, reader, _IN_FULL, shown), "markdown")

    page, text, end = with_text(page, "kernel", text_of)
    here = difference.pairs[offset : offset + len(page.entries)]
    cited = [piece for pair in here for each in pair.attribution for piece in each.evidence]
    result = DiffToolResult(
        before=before,
        after=after,
        verdict=difference.verdict,
        comparability=difference.comparability,
        pairs=page.entries,
        next=difference.next,
        evidence={piece.id: piece for piece in cited},
        grounding=difference.grounding,
        **page_fields(page),
    )
    return ToolReply(result, text, end)


def _pair(pair: PairDocument) -> dict[str, Any]:
    whole = pair.to_dict()
    return {name: whole[name] for name in PairResult.names()}
