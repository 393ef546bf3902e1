"""`diff` and `verify`: two reports, and a text held against a report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keet.errors import UsageError
from keet.serve.arguments import Diff, Verify
from keet.serve.bounds import page_of
from keet.serve.reply import Reply, page_fields, view_text, with_text
from keet.serve.results import DiffResult, PairResult, VerifyResult
from keet.serve.selection import chosen
from keet.serve.shelf import OpenReport, Shelf
from keet.serve.work import Work

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.comparison.pairing.sides import Side
    from keet.render.json.diff import DiffDocument
    from keet.render.json.verify import NumberCheck, RelationDocument, VerifyDocument
    from keet.verification.verdicts import CheckedSentence

_PAIRS = 10
_CHECKS = 50
_TOP = 5
"""Kernels that the text tells in full, as `keet diff`."""
_OPTIONS = {"--launch A:B": "before_launch and after_launch"}
"""By those of `keet diff`."""
_WORST = ("contradicted", "not_found", "confirmed")
_LONGEST_SENTENCE = 800
_MOST_CHECKS = 20
"""Of a sentence that is printed whole."""
_AROUND = 100
"""Characters around the numbers of another one."""
_ADVICE = {
    "contradicted": "wrong: correct the text; metrics has the values",
    "not_found": "?: name the metric, and the launch, beside the number; list_reports with this "
    "report says what was not collected",
}


def diff(shelf: Shelf, asked: Diff, work: Work) -> Reply:
    if (asked.before_launch is None) != (asked.after_launch is None):
        raise UsageError("name a launch of both reports: before_launch and after_launch")
    with shelf.reading_two(asked.before, asked.after, work) as (before, after):
        difference = _compare(before, after, asked, work)
        work.begin("writing the result")
        return _reply(difference, before.name, after.name, asked.offset)


def _compare(before: OpenReport, after: OpenReport, asked: Diff, work: Work) -> Difference:
    from keet.comparison.compare import compare
    from keet.comparison.option_advice import check_comparable

    work.begin("comparing")
    sides = _side(before, asked.before_launch, asked), _side(after, asked.after_launch, asked)
    guess = asked.force or asked.before_launch is not None
    difference = compare(*sides, guess=guess, on_launch=work.steps("explaining launch"))
    if not asked.force:
        check_comparable(difference, _OPTIONS, "force")
    return difference


def _side(report: OpenReport, launch: int | None, asked: Diff) -> Side:
    from keet.comparison.pairing.sides import Capture, Side

    return Side((Capture(report.profile, chosen(report.profile, launch, asked.kernel)),))


def _reply(difference: Difference, before: str, after: str, offset: int) -> Reply:
    from keet.render.json.diff import diff_document
    from keet.render.markdown.diff import diff_markdown

    document = diff_document(difference, None)
    pairs = (_pair(document, at) for at in range(offset, len(document.pairs)))
    page = page_of(pairs, len(document.pairs), offset, _PAIRS)

    def text_of(count: int) -> str:
        return diff_markdown(difference, None, _TOP, difference.pairs[offset : offset + count])

    page, text, end = with_text(page, "kernel", text_of)
    result = DiffResult(
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
    return Reply(result, text, end)


def _pair(document: DiffDocument, at: int) -> dict[str, Any]:
    whole = document.pairs[at].to_dict()
    return {name: whole[name] for name in PairResult.declared}


def _cited(document: DiffDocument, offset: int, count: int) -> dict[str, Any]:
    """The evidence of what is on the page, the first causes first."""
    here = document.pairs[offset : offset + count]
    ids = [id_ for pair in here for each in pair.attribution for id_ in each.evidence]
    return {id_: document.evidence[id_] for id_ in dict.fromkeys(ids) if id_ in document.evidence}


def verify(shelf: Shelf, asked: Verify, work: Work) -> Reply:
    if asked.before is None:
        with shelf.reading(asked.report, work) as report:
            return _verified([report], asked, work)
    with shelf.reading_two(asked.before, asked.report, work) as both:
        return _verified(both, asked, work)


def _verified(reports: Sequence[OpenReport], asked: Verify, work: Work) -> Reply:
    from keet.render.json.verify import verify_document
    from keet.render.terminal.verify import verify_view
    from keet.verification.verdicts import ClaimVerdict

    found = sorted(_found(reports, asked, work), key=_rank)
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
    result = VerifyResult(
        report=reports[-1].name,
        before=reports[0].name if len(reports) > 1 else None,
        summary=document.summary,
        wrong=any(ClaimVerdict.CONTRADICTED in checked.verdicts for checked in found),
        checks=page.entries,
        **page_fields(page),
    )
    return Reply(result, text, end)


def _check(check: NumberCheck | RelationDocument, of: CheckedSentence) -> dict[str, Any]:
    """With as much of its sentence as the text has."""
    sentence = _cropped(of, {check.start}).sentence.text
    return {**check.to_dict(), "sentence": sentence}


def _cropped(checked: CheckedSentence, starts: set[int]) -> CheckedSentence:
    """A sentence that is too long for a page, as the part of it that these checks are about."""
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
    worst = min((_WORST.index(each.value) for each in checked.verdicts), default=len(_WORST))
    return worst, checked.sentence.start


def _by_sentence(
    document: VerifyDocument, found: Sequence[CheckedSentence]
) -> list[tuple[NumberCheck | RelationDocument, int]]:
    """Each check with the place of its sentence, in the order of the sentences: so a page of checks
    is a page of sentences."""
    starts = sorted((each.sentence.start, at) for at, each in enumerate(found))
    every: list[NumberCheck | RelationDocument] = [*document.checks, *document.relations]
    placed = [
        (check, starts[bisect_right(starts, (check.start, len(found))) - 1][1]) for check in every
    ]
    return sorted(placed, key=lambda each: (each[1], _WORST.index(each[0].verdict), each[0].start))


def _found(reports: Sequence[OpenReport], asked: Verify, work: Work) -> Sequence[CheckedSentence]:
    from keet.comparison.verify_values import computed_values
    from keet.verification.verify import verify_text

    work.begin("checking the text")
    profiles = [report.profile for report in reports]
    launches = [launch for each in profiles for launch in chosen(each, asked.launch, asked.kernel)]
    everything = [launch for each in profiles for launch in each.launches]
    known = computed_values(profiles, on_launch=work.steps("explaining launch"))
    both = len(profiles) > 1
    found = verify_text(
        asked.text, launches, everything, known, both_sides=both, before_sentence=work.check
    )
    for profile in profiles:
        if profile.run:
            from keet.verification.checks.run_check import with_run_checks

            found = with_run_checks(found, profile)
    return list(found)
