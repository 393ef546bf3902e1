"""An explanation as its document, which JSON, the Python API and MCP give; and the answer to a
question about reports (`keet ask`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from keet.analysis.account import TimePart
from keet.analysis.capture.report_document import report_document
from keet.diagnosis.finding import Finding
from keet.documents.document import LEFT_OUT, Streamed, live, number_fields, numbers_in
from keet.documents.explain import (
    AskDocument,
    CitedNumberDocument,
    ExplainDocument,
    ExplainLaunch,
    GroundingDocument,
    LaunchVerdict,
    PartDocument,
    UnitDocument,
)
from keet.documents.finding import (
    FindingDocument,
    MinorDocument,
    NearestDocument,
    PrecedentsDocument,
)
from keet.documents.model_explanation import Authorship, unchecked_in
from keet.documents.shared_types import DeviceDocument
from keet.evidence import Evidence, Prose, finite
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.finding_notes import nearest_case, precedents_of, why_only_possible
from keet.explanation.known_facts import known_facts
from keet.explanation.program import ProgramCollector

BY_MODEL: Final = "model, computed by keet"
"""Author of the headline if it is a model's cause."""


def explain_document(explanation: Explanation) -> ExplainDocument:
    return explain_stream(explanation).document()


def explain_stream(explanation: Explanation) -> Streamed[ExplainDocument]:
    """The document, one launch after the other."""
    return Streamed(ExplainDocument, explain_fields(explanation))


def explain_fields(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Fields after the launches are computed when the launches have been written."""
    profile, author = explanation.profile, explanation.author
    if author:
        some = any(each.model_explanation for each in explanation.launches)
        yield "author", author.author if some else "analyst"
    devices = [DeviceDocument.taken_from(device) for device in profile.devices]
    yield "report", report_document(profile)
    yield "device", devices[profile.devices.index(explanation.asked[0].device)]
    yield "devices", devices
    passed = ProgramCollector(explanation)
    printed: list[int] = []
    yield "launches", _launches(explanation, passed, printed)
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
        for sentence in each.model_explanation.unchecked if each.model_explanation else ():
            prefix = f"launch {each.launch.id}, " if named else ""
            yield prefix + sentence.line


def _launches(
    explanation: Explanation, passed: ProgramCollector, printed: list[int]
) -> Iterator[ExplainLaunch]:
    """Launches may be explained while they are written, so they are iterated once. `printed`: how
    many numbers the sentences of each launch have."""
    for each in passed:
        document = launch_document(explanation, each)
        printed.append(numbers_in(document))
        yield document


def launch_document(explanation: Explanation, each: LaunchExplanation) -> ExplainLaunch:
    launch, duration = each.launch, each.launch.get("duration")
    return ExplainLaunch(
        id=launch.id,
        kernel=launch.kernel,
        kernel_full=launch.name.full,
        device=explanation.profile.devices.index(launch.device),
        grid=launch.grid,
        block=launch.block,
        duration=duration.to("us") if duration else None,
        figures=each.figures,
        verdict=_verdict(explanation, each),
        ceilings=[
            UnitDocument(unit=c.name, reached_pct=finite(c.reached), evidence=c.reached)
            for c in each.ceilings
        ],
        findings=[
            _finding(rank, finding, each, has_model=explanation.author is not None)
            for rank, finding in enumerate(each.findings, 1)
        ],
        all_fixed=each.all_fixed.if_known if each.all_fixed else None,
        order_reason=each.order_reason,
        minor=[
            MinorDocument.taken_from(
                finding, forecast=finding.forecast.if_known, evidence=list(finding.evidence)
            )
            for finding in each.minor
        ],
        account=[_part(part) for part in each.account.parts],
        amounts=each.amounts,
        notes=each.notes,
        healthy=each.healthy,
        facts=known_facts(each),
        skipped=list(each.skipped),
        machine_code=each.view.code_state,
        second_opinion=each.second_opinion,
        evidence={piece.id: piece for piece in each.evidence},
        hypotheses=() if explanation.author else LEFT_OUT,
        model=each.model_explanation if explanation.author else LEFT_OUT,
        in_run=each.in_run if explanation.whole_run else LEFT_OUT,
        replay=each.replay if explanation.whole_run else LEFT_OUT,
    )


def _verdict(explanation: Explanation, each: LaunchExplanation) -> LaunchVerdict:
    verdict, said = each.verdict, each.model_explanation
    leads = bool(explanation.author and said and said.leads)
    return LaunchVerdict(
        limiter=verdict.limiter if verdict.reached else None,
        reached_pct=finite(verdict.reached),
        headline=verdict.headline,
        by=(BY_MODEL if leads else "keet") if explanation.author else LEFT_OUT,
        analyst_headline=said.analyst_headline if said and leads else LEFT_OUT,
    )


def _part(part: TimePart) -> PartDocument:
    return PartDocument(
        id=part.id,
        part=part.label,
        share=round(float(part.share.value) / 100, 6),
        us=float(part.us.value) if part.us else None,
        evidence=[part.share, *part.evidence],
        children=[_part(child) for child in part.children],
    )


def _finding(
    rank: int, finding: Finding, each: LaunchExplanation, *, has_model: bool
) -> FindingDocument:
    precedents, case = precedents_of(finding), nearest_case(finding, each)
    reason = why_only_possible(finding, each.view, each.account) or None
    causes = each.model_explanation.causes if each.model_explanation else ()
    why = " ".join(cause.text for cause in causes if cause.finding == finding.id)
    alone = finding.forecast if finding.amounts_by == "keet" else finding.keet_alone
    return FindingDocument.taken_from(
        finding,
        rank=rank,
        certainty_reason=reason,
        confidence_reason=reason,
        forecast=finding.forecast.if_known,
        precedents=PrecedentsDocument.taken_from(precedents) if precedents else None,
        nearest_case=NearestDocument.taken_from(case) if case else None,
        locations=finding.places,
        evidence=list(finding.evidence),
        why=(why or None) if has_model else LEFT_OUT,
        origin=finding.origin if has_model else LEFT_OUT,
        amounts_by=finding.amounts_by if has_model else LEFT_OUT,
        keet_alone=(alone and alone.if_known) if has_model else LEFT_OUT,
    )


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
