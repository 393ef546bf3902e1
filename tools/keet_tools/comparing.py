"""The tools `diff` and `verify`: reports before and after a change, and the numbers of a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from keet.errors import UsageError
from keet_tools.arguments import DiffArguments, VerifyArguments
from keet_tools.calls import ToolCall, ToolReply, page_of, paged_reply
from keet_tools.reports import ReadReport, Reports
from keet_tools.results import DiffToolResult, PairResult, VerifyToolResult

if TYPE_CHECKING:
    from keet.verification.verdicts import CheckedSentence


_PAIRS = 10
"""Pairs of kernels per page."""
_IN_FULL = 5
"""Kernels that the text describes in full, as `keet diff` does."""


def diff(reports: Reports, asked: DiffArguments, call: ToolCall) -> ToolReply:
    from keet.pages.diff import diff_page

    if (asked.before_launch is None) != (asked.after_launch is None):
        raise UsageError("name a launch of both reports: before_launch and after_launch")
    with reports.reading_two(asked.before, asked.after, call) as (before, after):
        call.begin("comparing")
        difference = reports.difference_of((before, after), asked, call)
        call.begin("writing the result")
        rest = difference.pairs[asked.offset :]
        entries = map(PairResult.taken_from, rest)
        page = page_of(entries, len(difference.pairs), asked.offset, _PAIRS)

        def text_of(count: int) -> str:
            shown = rest[:count]
            make = partial(diff_page, difference, top=_IN_FULL, shown=shown)
            return call.page(make, "markdown")

        return paged_reply(
            call,
            DiffToolResult,
            page,
            "kernel",
            text_of,
            before=before.name,
            after=after.name,
            verdict=difference.verdict,
            comparability=difference.comparability,
            next=difference.next,
            evidence=lambda page: {
                piece.id: piece
                for pair in rest[: len(page.entries)]
                for each in pair.attribution
                for piece in each.evidence
            },
            grounding=difference.grounding,
        )


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


def verify(reports: Reports, asked: VerifyArguments, call: ToolCall) -> ToolReply:
    if asked.before is None:
        with reports.reading(asked.report, call) as report:
            return _verified([report], asked, call)
    with reports.reading_two(asked.before, asked.report, call) as both:
        return _verified(both, asked, call)


def _verified(opened: Sequence[ReadReport], asked: VerifyArguments, call: ToolCall) -> ToolReply:
    from keet.pages.verify import verify_page
    from keet.verification.verify_against import verify_against

    call.begin("checking the text")
    profiles = [report.profile for report in opened]
    verified = verify_against(
        profiles,
        asked.text,
        [n for each in opened for n in each.chosen(asked.launch, asked.kernel)],
        on_launch=call.steps("explaining launch"),
        before_sentence=call.check,
    )

    def rank(checked: CheckedSentence) -> tuple[int, int]:
        """Sentences with something wrong first."""
        worst = min(map(_WORST_FIRST.index, checked.verdicts), default=len(_WORST_FIRST))
        return worst, checked.sentence.start

    # All checks of a sentence are on one page.
    checks = [
        (check, sentence)
        for sentence in sorted(verified.sentences, key=rank)
        for check in sorted(
            sentence.all, key=lambda each: (_WORST_FIRST.index(each.verdict), each.start)
        )
    ]
    entries = (  # with the same part of its sentence as the text has
        {**check.to_dict(), "sentence": _cropped(sentence, {check.start}).sentence.text}
        for check, sentence in checks[asked.offset :]
    )
    page = page_of(entries, len(checks), asked.offset, _CHECKS)

    def text_of(count: int) -> str:
        on_page: dict[CheckedSentence, set[int]] = {}
        for check, sentence in checks[asked.offset : asked.offset + count]:
            on_page.setdefault(sentence, set()).add(check.start)
        here = [_cropped(sentence, starts) for sentence, starts in on_page.items()]
        return call.page(lambda _: verify_page(verified, shown=here, advice=_ADVICE))

    return paged_reply(
        call,
        VerifyToolResult,
        page,
        "check",
        text_of,
        report=opened[-1].name,
        before=opened[0].name if len(opened) > 1 else None,
        summary=verified.summary,
        wrong=verified.is_wrong,
    )


def _cropped(checked: CheckedSentence, starts: set[int]) -> CheckedSentence:
    """A sentence that is too long for a page is cropped to the part with these checks."""
    sentence = checked.sentence
    if len(sentence.text) <= _LONGEST_SENTENCE and len(checked.verdicts) <= _MOST_CHECKS:
        return checked
    checks = tuple(check for check in checked.checks if check.start in starts)
    relations = tuple(relation for relation in checked.relations if relation.start in starts)
    first = max(min(starts) - sentence.start - _AROUND, 0)
    last = max(each.end for each in checked.all if each.start in starts)
    part = sentence.text[first : last - sentence.start + _AROUND]
    cropped = sentence._replace(text=part, start=sentence.start + first)
    return checked._replace(sentence=cropped, checks=checks, relations=relations)
