"""`keet ask --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from keet.documents.ask import AskDocument, CitedNumberDocument
from keet.documents.document import number_fields
from keet.documents.explain import GroundingDocument
from keet.evidence import Evidence
from keet.explanation.answered_question import AnsweredQuestion
from keet.render.common.answer import origin_of
from keet.render.common.model_explanation import unchecked_line
from keet.render.json.model_explanation import (
    author_name,
    encodable,
    unchecked_document,
    usage_document,
)
from keet.render.json.report import report_document


def ask_document(answered: AnsweredQuestion) -> AskDocument:
    author = encodable(answered.author)
    text, unchecked = encodable(answered.text), encodable(answered.unchecked)
    return AskDocument(
        author=author_name(author),
        question=encodable(answered.question),
        reports=[report_document(each.profile) for each in answered.explanations],
        answer=str(text),
        evidence={entry.id: _number(entry, answered) for entry in answered.evidence},
        grounding=GroundingDocument(
            numbers=text.numbers,
            verified=text.numbers,
            unchecked=[unchecked_line(each) for each in unchecked],
        ),
        unchecked=[unchecked_document(each) for each in unchecked],
        followups=list(encodable(answered.followups)),
        usage=usage_document(author.usage),
        problem=author.problem,
        transcript=author.transcript,
    )


def _number(entry: Evidence, answered: AnsweredQuestion) -> CitedNumberDocument:
    origin = origin_of(entry, answered)
    return CitedNumberDocument(
        **number_fields(entry),
        report=origin.report if origin else None,
        launch=origin.launch.launch.id if origin else None,
        kernel=origin.launch.launch.kernel if origin else None,
    )
