"""`keet ask --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from typing import Literal

from keet.evidence import Evidence
from keet.explanation.answered_question import AnsweredQuestion
from keet.render.common.answer import origin_of
from keet.render.common.model_explanation import unchecked_line
from keet.render.json.encoding.fields import Document, field
from keet.render.json.evidence import NumberDocument, number
from keet.render.json.explain import GroundingDocument
from keet.render.json.model_explanation import (
    UncheckedDocument,
    UsageDocument,
    author_name,
    encodable,
    unchecked_document,
    usage_document,
)
from keet.render.json.report import report_document
from keet.render.json.shared_types import Producer, ReportDocument


class CitedNumberDocument(NumberDocument):
    report: int | None = field(
        description="Index into `reports`; null if the number belongs to several launches."
    )
    launch: int | None = field(description="Id of the launch in that report.")
    kernel: str | None


class AskDocument(Document):
    """`keet ask --format json`"""

    schema_version: Literal[2] = 2
    producer: Producer = Producer()
    author: str = field(description="`model:PROVIDER:NAME`.")
    question: str
    reports: list[ReportDocument]
    answer: str = field(
        description="Paragraphs, with numbers as keet prints them. `[unchecked]` marks sentences "
        "whose numbers keet could not resolve. Empty if there is no answer: see "
        "`problem`."
    )
    evidence: dict[str, CitedNumberDocument] = field(
        description="The numbers that the answer refers to, in the order of the text."
    )
    grounding: GroundingDocument
    unchecked: list[UncheckedDocument] = field(description="The sentences marked `[unchecked]`.")
    followups: list[str] = field(description="Commands to run next.")
    usage: UsageDocument
    problem: str | None = field(description="Why the answer is missing or incomplete.")
    transcript: str | None = field(description="File with the transcript of the model's run.")


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
        **number(entry),
        report=origin.report if origin else None,
        launch=origin.launch.launch.id if origin else None,
        kernel=origin.launch.launch.kernel if origin else None,
    )
