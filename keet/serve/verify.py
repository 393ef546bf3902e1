"""The tool `verify`: checks the numbers of a text against a report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keet.serve.arguments import VerifyArguments
from keet.serve.name_patterns import selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import VerifyToolResult
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import ToolReply, page_fields, view_text, with_text

if TYPE_CHECKING:
    from keet.documents.verify import NumberCheck, RelationDocument, VerifyDocument
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
    from keet.render.json.verify import verify_document
    from keet.render.terminal.verify import verify_view
    from keet.verification.verdicts import ClaimVerdict

    found = sorted(_found(reports, asked, call), key=_rank)
    profiles = [report.profile for report in reports]
    document = verify_document(profiles, "text", found)
    checks = _by_sentence(document, found)
    dumped = (_check(check, found[at]) for check, at in checks[asked.offset :])
    page = page_of(dumped, len(checks), asked.offset, _CHECKS)

    def text_of(count: int) -> str:
        on_page: dict[int, set[int]] = {}
        for check, at in checks[asked.offset : asked.offset + count]:
            on_page.setdefault(at, set()).add(check.start)
        here = [_cropped(found[at], starts) for at, starts in on_page.items()]
        advice = {ClaimVerdict(word): line for word, line in _ADVICE.items()}
        return view_text(verify_view(profiles[-1], found, shown=here, advice=advice))

    page, text, end = with_text(page, "check", text_of)
    result = VerifyToolResult(
        report=reports[-1].name,
        before=reports[0].name if len(reports) > 1 else None,
        summary=document.summary,
        wrong=any(ClaimVerdict.CONTRADICTED in checked.verdicts for checked in found),
        checks=page.entries,
        **page_fields(page),
    )
    return ToolReply(result, text, end)


def _check(check: NumberCheck | RelationDocument, of: CheckedSentence) -> dict[str, Any]:
    """With the same part of its sentence as the text has."""
    sentence = _cropped(of, {check.start}).sentence.text
    return {**check.to_dict(), "sentence": sentence}


def _cropped(checked: CheckedSentence, starts: set[int]) -> CheckedSentence:
    """A sentence that is too long for a page is cropped to the part with these checks."""
    sentence = checked.sentence
    if len(sentence.text) <= _LONGEST_SENTENCE and len(checked.verdicts) <= _MOST_CHECKS:
        return checked
    checks = tuple(each for each in checked.checks if each.number.start in starts)
    relations = tuple(each for each in checked.relations if each.start in starts)
    first = max(min(starts) - sentence.start - _AROUND, 0)
    last = max([each.number.end for each in checks] + [each.end for each in relations])
    part = sentence.text[first : last - sentence.start + _AROUND]
    cropped = sentence._replace(text=part, start=sentence.start + first)
    return checked._replace(sentence=cropped, checks=checks, relations=relations)


def _rank(checked: CheckedSentence) -> tuple[int, int]:
    """Sentences with something wrong first."""
    worst = min(
        (_WORST_FIRST.index(each.value) for each in checked.verdicts), default=len(_WORST_FIRST)
    )
    return worst, checked.sentence.start


def _by_sentence(
    document: VerifyDocument, found: Sequence[CheckedSentence]
) -> list[tuple[NumberCheck | RelationDocument, int]]:
    """Each check with the index of its sentence, in the order of the sentences, so that the checks
    of a sentence are on one page."""
    starts = sorted((each.sentence.start, at) for at, each in enumerate(found))
    every: list[NumberCheck | RelationDocument] = [*document.checks, *document.relations]
    with_index = [
        (check, starts[bisect_right(starts, (check.start, len(found))) - 1][1]) for check in every
    ]
    return sorted(
        with_index, key=lambda each: (each[1], _WORST_FIRST.index(each[0].verdict), each[0].start)
    )


def _found(
    reports: Sequence[OpenReport], asked: VerifyArguments, call: ToolCall
) -> Sequence[CheckedSentence]:
    from keet.comparison.verify_values import computed_values
    from keet.verification.verify import verify_text

    call.begin("checking the text")
    profiles = [report.profile for report in reports]
    launches = [
        launch
        for each in profiles
        for launch in selected_launches(each, asked.launch, asked.kernel)
    ]
    everything = [launch for each in profiles for launch in each.launches]
    known = computed_values(profiles, on_launch=call.steps("explaining launch"))
    both = len(profiles) > 1
    found = verify_text(
        asked.text, launches, everything, known, both_sides=both, before_sentence=call.check
    )
    for profile in profiles:
        if profile.run:
            from keet.verification.checks.run_check import with_run_checks

            found = with_run_checks(found, profile)
    return list(found)
