"""An explanation as its document, which JSON, the Python API and MCP give; and the answer to a
question about reports (`keet ask`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keet.analysis.capture.report_document import report_document
from keet.documents.document import Streamed, live, number_fields, numbers_in
from keet.documents.explain import (
    AskDocument,
    CitedNumberDocument,
    ExplainDocument,
    ExplainLaunch,
    GroundingDocument,
)
from keet.documents.model_explanation import Authorship, unchecked_in
from keet.documents.shared_types import DeviceDocument
from keet.evidence import Evidence, Prose
from keet.explanation.explanation_types import Explanation
from keet.explanation.program import ProgramCollector


def explain_document(explanation: Explanation) -> ExplainDocument:
    return explain_stream(explanation).document()


def explain_stream(explanation: Explanation) -> Streamed[ExplainDocument]:
    """The document, one launch after the other."""
    return Streamed(ExplainDocument, explain_fields(explanation))


def explain_fields(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Fields after the launches are computed when the launches have been written."""
    profile, author = explanation.profile, explanation.author
    if author:
        some = any(each.model for each in explanation.launches)
        yield "author", author.author if some else "analyst"
    devices = [DeviceDocument.taken_from(device) for device in profile.devices]
    yield "report", report_document(profile)
    yield "device", devices[profile.devices.index(explanation.asked[0].device)]
    yield "devices", devices
    passed = ProgramCollector(explanation)
    printed: list[int] = []
    yield "launches", _launches(passed, printed)
    run, program = explanation.whole_run, passed.program()
    unchecked = unchecked_lines(explanation, always_named=True) if author else ()
    # The program's rows repeat headlines of launches.
    together = [program.texts, program.cross_launch] if program else []
    numbers = sum(printed) + numbers_in([run, *together])
    yield "grounding", GroundingDocument.of(numbers, unchecked)
    if author:
        yield "usage", author.usage
        yield "problem", author.problem
        yield "transcript", author.transcript
    if run:
        yield "run", run
    if program:
        yield "program", program


def unchecked_lines(explanation: Explanation, *, always_named: bool = False) -> Iterator[str]:
    """A model's unchecked sentences about all launches, one line each."""
    named = always_named or len(explanation.launches) > 1
    for each in explanation.launches:
        for sentence in each.model.unchecked if each.model else ():
            prefix = f"launch {each.launch.id}, " if named else ""
            yield prefix + sentence.line


def _launches(passed: ProgramCollector, printed: list[int]) -> Iterator[ExplainLaunch]:
    """Launches may be explained while they are written, so they are iterated once. `printed`: how
    many numbers the sentences of each launch have."""
    for each in passed:
        printed.append(numbers_in(each))
        yield each


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
    found = next(((n, each.launch) for n, each in every if entry in each.view.ledger), None)
    report, launch = found or (None, None)
    return CitedNumber(
        **number_fields(entry),
        report=report,
        launch=launch.id if launch else None,
        kernel=launch.kernel if launch else None,
        number=entry,
    )
