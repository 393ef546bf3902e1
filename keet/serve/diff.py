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
    from keet.comparison.pairing.sides import Side
    from keet.documents.diff import DiffDocument

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
    from keet.comparison.option_advice import check_comparable

    call.begin("comparing")
    sides = _side(before, asked.before_launch, asked), _side(after, asked.after_launch, asked)
    guess = asked.force or asked.before_launch is not None
    difference = compare(*sides, guess=guess, on_launch=call.steps("explaining launch"))
    if not asked.force:
        check_comparable(difference, _OPTIONS, "force")
    return difference


def _side(report: OpenReport, launch: int | None, asked: DiffArguments) -> Side:
    from keet.comparison.pairing.sides import Side, SideCapture

    return Side(
        (SideCapture(report.profile, selected_launches(report.profile, launch, asked.kernel)),)
    )


def _reply(difference: Difference, before: str, after: str, offset: int) -> ToolReply:
    from keet.render.json.diff import diff_document
    from keet.render.markdown.diff import diff_markdown

    document = diff_document(difference, None)
    pairs = (_pair(document, at) for at in range(offset, len(document.pairs)))
    page = page_of(pairs, len(document.pairs), offset, _PAIRS)

    def text_of(count: int) -> str:
        return diff_markdown(difference, None, _IN_FULL, difference.pairs[offset : offset + count])

    page, text, end = with_text(page, "kernel", text_of)
    result = DiffToolResult(
        before=before,
        after=after,
        verdict=document.verdict,
        comparability=document.comparability,
        pairs=page.entries,
        next=document.next,
        evidence=_cited(document, offset, len(page.entries)),
        grounding=document.grounding,
        **page_fields(page),
    )
    return ToolReply(result, text, end)


def _pair(document: DiffDocument, at: int) -> dict[str, Any]:
    whole = document.pairs[at].to_dict()
    return {name: whole[name] for name in PairResult.names()}


def _cited(document: DiffDocument, offset: int, count: int) -> dict[str, Any]:
    """The evidence that the pairs on the page refer to, first causes first."""
    here = document.pairs[offset : offset + count]
    ids = [id_ for pair in here for each in pair.attribution for id_ in each.evidence]
    return {id_: document.evidence[id_] for id_ in dict.fromkeys(ids) if id_ in document.evidence}
