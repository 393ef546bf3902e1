"""An explanation as its document, which JSON, the Python API and MCP give; and the answer to a
question about reports (`keet ask`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keet.analysis.capture.report_document import report_document
from keet.documents.document import Streamed, computed, live, number_fields, numbers_in
from keet.documents.explain import (
    AskDocument,
    CitedNumberDocument,
    ExplainDocument,
    ExplainLaunch,
    GroundingDocument,
)
from keet.documents.model_explanation import (
    Authorship,
    UncheckedDocument,
    UsageDocument,
    unchecked_in,
)
from keet.documents.shared_types import DeviceDocument, ReportDocument
from keet.evidence import Evidence
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
        some = any(launch.model for launch in explanation.launches)
        yield "author", author.author if some else "analyst"
    devices = [DeviceDocument.taken_from(device) for device in profile.devices]
    yield "report", report_document(profile)
    yield "device", devices[profile.devices.index(explanation.asked[0].device)]
    yield "devices", devices
    passed = ProgramCollector(explanation)
    printed: list[int] = []
    """Numbers in the sentences of each launch."""

    def launches() -> Iterator[ExplainLaunch]:
        """They may be explained while they are written, so they are iterated once."""
        for each in passed:
            printed.append(numbers_in(each))
            yield each

    yield "launches", launches()
    run, program = explanation.whole_run, passed.program()
    unchecked = (
        f"launch {each.launch.id}, {sentence.line}"
        for each in (explanation.launches if author else ())
        for sentence in (each.model.unchecked if each.model else ())
    )
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


class CitedNumber(CitedNumberDocument):
    number: Evidence = live()


class AnsweredQuestion(AskDocument):
    """The answer to a question about reports, with what pages print of them."""

    explanations: Sequence[Explanation] = live()
    """The reports that were asked about."""
    authorship: Authorship = live()
    author: str = computed(lambda each: each.authorship.author)
    reports: list[ReportDocument] = computed(
        lambda each: [report_document(told.profile) for told in each.explanations]
    )
    evidence: dict[str, CitedNumber]  # type: ignore[assignment]
    grounding: GroundingDocument = computed(
        lambda each: GroundingDocument.of(each.answer.numbers, (u.line for u in each.unchecked))
    )
    unchecked: tuple[UncheckedDocument, ...] = computed(
        lambda each: unchecked_in([("answer", each.answer)])
    )
    usage: UsageDocument = computed(lambda each: each.authorship.usage)
    problem: str | None = computed(lambda each: each.authorship.problem)
    transcript: str | None = computed(lambda each: each.authorship.transcript)


def cited_numbers(
    evidence: Iterable[Evidence], explanations: Sequence[Explanation]
) -> dict[str, CitedNumber]:
    """What an answer refers to; a difference between two launches belongs to none."""
    cited = {}
    every = [(n, each) for n, told in enumerate(explanations) for each in told.launches]
    for entry in evidence:
        entry_place = next(
            ((n, each.launch) for n, each in every if entry in each.view.ledger), None
        )
        report, launch = entry_place or (None, None)
        cited[entry.id] = CitedNumber(
            **number_fields(entry),
            report=report,
            launch=launch.id if launch else None,
            kernel=launch.kernel if launch else None,
            number=entry,
        )
    return cited
