"""The tools `diff` and `verify`: reports before and after a change, and the numbers of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keet.errors import UsageError
from keet.serve.arguments import DiffArguments, VerifyArguments
from keet.serve.calls import WIDTH, ToolCall, ToolReply, page_fields, page_of, with_text
from keet.serve.name_patterns import selected_launches
from keet.serve.report_cache import OpenReport, ReportCache
from keet.serve.results import DiffToolResult, PairResult, VerifyToolResult

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.comparison.sides import Side
    from keet.documents.diff import PairDocument
    from keet.documents.verify import NumberCheck, RelationDocument
    from keet.verification.verdicts import CheckedSentence


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
