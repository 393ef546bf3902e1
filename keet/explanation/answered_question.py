"""A question about reports and the answer of a model, with its evidence (`keet ask`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keet.analysis.capture.report_document import report_document
from keet.documents.ask import AskDocument, CitedNumberDocument
from keet.documents.document import live, number_fields
from keet.documents.explain import GroundingDocument
from keet.documents.model_explanation import Authorship, unchecked_in
from keet.evidence import Evidence, Prose

if TYPE_CHECKING:
    from keet.explanation.explanation_types import Explanation


class CitedNumber(CitedNumberDocument):
    number: Evidence = live()


class AnsweredQuestion(AskDocument):
    """With what pages print of the reports."""

    evidence: dict[str, CitedNumber]  # type: ignore[assignment]
    explanations: Sequence[Explanation] = live()
    """The reports that were asked about."""
    authorship: Authorship = live()


def answered_question(  # noqa: PLR0913, PLR0917 - the parts of an answer
    question: str,
    answer: Prose,
    evidence: Iterable[Evidence],
    explanations: Sequence[Explanation],
    by: Authorship,
    followups: Iterable[str] = (),
) -> AnsweredQuestion:
    """`evidence`: what the answer refers to. `followups`: commands to go on with."""
    unchecked = unchecked_in([("answer", answer)])
    return AnsweredQuestion(
        author=by.author,
        question=question,
        reports=[report_document(each.profile) for each in explanations],
        answer=answer,
        evidence={entry.id: _cited(entry, explanations) for entry in evidence},
        grounding=GroundingDocument(
            numbers=answer.numbers,
            verified=answer.numbers,
            unchecked=[each.line for each in unchecked],
        ),
        unchecked=unchecked,
        followups=list(followups),
        usage=by.usage,
        problem=by.problem,
        transcript=by.transcript,
        explanations=explanations,
        authorship=by,
    )


def _cited(entry: Evidence, explanations: Sequence[Explanation]) -> CitedNumber:
    """A difference between two launches belongs to none."""
    every = ((n, each) for n, told in enumerate(explanations) for each in told.launches)
    found = next(((n, each.launch) for n, each in every if entry in each.evidence), None)
    report, launch = found or (None, None)
    return CitedNumber(
        **number_fields(entry),
        report=report,
        launch=launch.id if launch else None,
        kernel=launch.kernel if launch else None,
        number=entry,
    )
