"""The tool `verify`: checks the numbers of a text against a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keet.serve.arguments import VerifyArguments
from keet.serve.name_patterns import selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import VerifyToolResult
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import WIDTH, ToolReply, page_fields, with_text

if TYPE_CHECKING:
    from keet.documents.verify import NumberCheck, RelationDocument
    from keet.verification.verdicts import CheckedSentence

_CHECKS = 50
"""Checks per page."""
_WORST_FIRST = ("contradicted", "not_found", "confirmed")
_LONGEST_SENTENCE = 800
"""Characters; a longer sentence is cropped around the numbers on the page."""
_MOST_CHECKS = 20
"""In one sentence; one with more is cropped as well."""
_AROUND = 100
"""Characters that a cropped sentence keeps before and after the numbers."""
_ADVICE = {
    "contradicted": "wrong: correct the text; metrics has the values",
    "not_found": "?: name the metric and the launch next to the number; list_reports with this "
    "report says what was not collected",
}


def verify(cache: ReportCache, asked: VerifyArguments, call: ToolCall) -> ToolReply:
    if asked.before is None:
        with cache.reading(asked.report, call) as report:
            return _verified([report], asked, call)
    with cache.reading_two(asked.before, asked.report, call) as both:
        return _verified(both, asked, call)


def _verified(reports: Sequence[OpenReport], asked: VerifyArguments, call: ToolCall) -> ToolReply:
    from keet.comparison.verify_values import verify_against
    from keet.formats import page_text
    from keet.pages.verify import verify_page

    call.begin("checking the text")
    profiles = [report.profile for report in reports]
    verified = verify_against(
        profiles,
        asked.text,
        [n for each in profiles for n in selected_launches(each, asked.launch, asked.kernel)],
        on_launch=call.steps("explaining launch"),
        before_sentence=call.check,
    )
    # All checks of a sentence are on one page.
    checks = [
        (check, sentence)
        for sentence in sorted(verified.sentences, key=_rank)
        for check in sorted(sentence.all, key=_check_rank)
    ]
    entries = (_entry(*each) for each in checks[asked.offset :])
    page = page_of(entries, len(checks), asked.offset, _CHECKS)

    def text_of(count: int) -> str:
        on_page: dict[CheckedSentence, set[int]] = {}
        for check, sentence in checks[asked.offset : asked.offset + count]:
            on_page.setdefault(sentence, set()).add(check.start)
        here = [_cropped(sentence, starts) for sentence, starts in on_page.items()]
        return page_text(
            lambda _: verify_page(verified, shown=here, advice=_ADVICE), "terminal", WIDTH
        )

    page, text, end = with_text(page, "check", text_of)
    result = VerifyToolResult(
        report=reports[-1].name,
        before=reports[0].name if len(reports) > 1 else None,
        summary=verified.summary,
        wrong=verified.is_wrong,
        checks=page.entries,
        **page_fields(page),
    )
    return ToolReply(result, text, end)


def _entry(check: NumberCheck | RelationDocument, of: CheckedSentence) -> dict[str, Any]:
    """With the same part of its sentence as the text has."""
    return {**check.to_dict(), "sentence": _cropped(of, {check.start}).sentence.text}


def _cropped(checked: CheckedSentence, starts: set[int]) -> CheckedSentence:
    """A sentence that is too long for a page is cropped to the part with these checks."""
    sentence = checked.sentence
    if len(sentence.text) <= _LONGEST_SENTENCE and len(checked.verdicts) <= _MOST_CHECKS:
        return checked
    checks = tuple(each for each in checked.checks if each.start in starts)
    relations = tuple(each for each in checked.relations if each.start in starts)
    first = max(min(starts) - sentence.start - _AROUND, 0)
    last = max(each.end for each in checked.all if each.start in starts)
    part = sentence.text[first : last - sentence.start + _AROUND]
    cropped = sentence._replace(text=part, start=sentence.start + first)
    return checked._replace(sentence=cropped, checks=checks, relations=relations)


def _rank(checked: CheckedSentence) -> tuple[int, int]:
    """Sentences with something wrong first."""
    worst = min(map(_WORST_FIRST.index, checked.verdicts), default=len(_WORST_FIRST))
    return worst, checked.sentence.start


def _check_rank(check: NumberCheck | RelationDocument) -> tuple[int, int]:
    return _WORST_FIRST.index(check.verdict), check.start
