"""`diff` and `verify`: two reports, and a text held against a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keet.errors import NotComparable, UsageError
from keet.profile import Launch
from keet.serve.arguments import Diff, Verify
from keet.serve.bounds import page_of
from keet.serve.reply import Reply, more_text, page_fields, view_text
from keet.serve.results import DiffResult, PairResult, VerifyResult
from keet.serve.selection import chosen
from keet.serve.shelf import OpenReport, Shelf
from keet.serve.work import Work, watched

if TYPE_CHECKING:
    from keet.comparison.difference import Difference
    from keet.comparison.sides import Side
    from keet.explanation.analyst import LaunchExplanation
    from keet.render.json.diff import DiffDocument
    from keet.verification.checked import CheckedSentence

_PAIRS = 10
_CHECKS = 50
_TOP = 5
"""Kernels that the text tells in full, as `keet diff`."""
_TWO_LAUNCHES = "before_launch and after_launch"
_WORST = {"contradicted": 0, "not_found": 1, "confirmed": 2}


def diff(shelf: Shelf, asked: Diff, work: Work) -> Reply:
    if (asked.before_launch is None) != (asked.after_launch is None):
        raise UsageError("name a launch of both reports: before_launch and after_launch")
    with shelf.reading_two(asked.before, asked.after, work) as (before, after):
        difference = _compare(before, after, asked, work)
        work.begin("writing the result")
        return _reply(difference, before.name, after.name, asked.offset)


def _compare(before: OpenReport, after: OpenReport, asked: Diff, work: Work) -> Difference:
    from keet.comparison.difference import compare

    work.begin("comparing")
    sides = _side(before, asked.before_launch, asked), _side(after, asked.after_launch, asked)

    def explained(_: Launch) -> LaunchExplanation | None:
        """Nothing is explained yet; asked before each launch that is."""
        work.check()
        return None

    guess = asked.force or asked.before_launch is not None
    difference = compare(*sides, guess=guess, explained=explained)
    if difference.forbidden and not asked.force:
        reason = difference.forbidden[0].text.replace("--launch A:B", _TWO_LAUNCHES)
        raise NotComparable(f"{reason}; to compare all the same: force")
    return difference


def _side(report: OpenReport, launch: int | None, asked: Diff) -> Side:
    from keet.comparison.sides import Run, Side

    return Side((Run(report.profile, chosen(report.profile, launch, asked.kernel)),))


def _reply(difference: Difference, before: str, after: str, offset: int) -> Reply:
    from keet.render.json.diff import diff_document
    from keet.render.markdown.diff import diff_markdown

    document = diff_document(difference, None)
    pairs = (_pair(document, at) for at in range(offset, len(document.pairs)))
    page = page_of(pairs, len(document.pairs), offset, _PAIRS)
    own = page_fields(page, len(document.pairs), offset)
    result = DiffResult(
        before=before,
        after=after,
        verdict=document.verdict,
        comparability=document.comparability,
        pairs=page.entries,
        next=document.next,
        evidence=_cited(document, offset, len(page.entries)),
        grounding=document.grounding,
        **own,
    )
    return Reply(result, diff_markdown(difference, None, _TOP) + more_text(page, "kernels"))


def _pair(document: DiffDocument, at: int) -> dict[str, Any]:
    whole = document.pairs[at].model_dump(mode="json")
    return {name: whole[name] for name in PairResult.model_fields}


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
    from keet.verification.checked import Verdict

    found = _found(reports, asked, work)
    profiles = [report.profile for report in reports]
    document = verify_document(profiles, "text", found)
    checks = [each.model_dump(mode="json") for each in (*document.checks, *document.relations)]
    checks.sort(key=lambda check: (_WORST[check["verdict"]], check["start"]))
    page = page_of(checks[asked.offset :], len(checks), asked.offset, _CHECKS)
    result = VerifyResult(
        report=reports[-1].name,
        before=reports[0].name if len(reports) > 1 else None,
        summary=document.summary,
        wrong=any(Verdict.CONTRADICTED in checked.verdicts for checked in found),
        checks=page.entries,
        **page_fields(page, len(checks), asked.offset),
    )
    wrong_first = sorted(found, key=lambda each: Verdict.CONTRADICTED not in each.verdicts)
    text = view_text(verify_view(profiles[-1], wrong_first))
    return Reply(result, text + more_text(page, "checks"))


def _found(reports: Sequence[OpenReport], asked: Verify, work: Work) -> Sequence[CheckedSentence]:
    from keet.comparison.known import knowledge_of
    from keet.verification.verify import verify_text

    work.begin("checking the text")
    profiles = [report.profile for report in reports]
    launches = [launch for each in profiles for launch in chosen(each, asked.launch, asked.kernel)]
    everything = [launch for each in profiles for launch in each.launches]
    known = knowledge_of([watched(each, work) for each in profiles])
    both = len(profiles) > 1
    found = verify_text(asked.text, launches, everything, known, both_sides=both)
    for profile in profiles:
        if profile.run:
            from keet.verification.run_claims import with_run_claims

            found = with_run_claims(found, profile)
    return list(found)
