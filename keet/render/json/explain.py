"""`keet explain --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from keet.analysis.account import TimePart
from keet.diagnosis.finding import Finding
from keet.documents.document import Streamed, json_line, numbers_in
from keet.documents.explain import (
    ExplainDocument,
    ExplainLaunch,
    FigureDocument,
    GroundingDocument,
    HealthyDocument,
    LaunchVerdict,
    NoteDocument,
    PartDocument,
    UnitDocument,
)
from keet.evidence import Evidence
from keet.explanation.account_notes import Note
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_figures import LaunchFigure
from keet.explanation.program import ProgramCollector
from keet.profile import Launch
from keet.render.common.model_explanation import (
    BY_MODEL,
    causes_of,
    model_explanations,
    unchecked_lines,
)
from keet.render.json.finding import finding_document, forecast_document, minor_document
from keet.render.json.report import device_document, report_document
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.documents.model_explanation import Authorship


Fields = dict[str, Any]
N = TypeVar("N", HealthyDocument, NoteDocument)
"""Types of the values in a document; they are written as they are."""


def explain_document(explanation: Explanation) -> ExplainDocument:
    return explain_stream(explanation).document()


def explain_stream(explanation: Explanation) -> Streamed[ExplainDocument]:
    """The document, one launch after the other."""
    return Streamed(ExplainDocument, explain_fields(explanation))


def explain_fields(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Fields after the launches are computed when the launches have been written."""
    profile = explanation.profile
    if explanation.author:
        some = model_explanations(explanation)
        yield "author", explanation.author.author if some else "analyst"
    yield "report", report_document(profile)
    yield "device", device_document(explanation.asked[0].device)
    yield "devices", [device_document(device) for device in profile.devices]
    passed = ProgramCollector(explanation)
    printed: list[int] = []
    yield "launches", _launches(explanation, passed, printed)
    run, program = explanation.whole_run, passed.program()
    yield (
        "grounding",
        GroundingDocument.of(
            sum(printed) + numbers_in([run, program]),
            unchecked_lines(explanation, always_named=True) if explanation.author else (),
        ),
    )
    if explanation.author:
        yield from _authorship(explanation.author)
    if run:
        yield "run", run
    if program:
        yield "program", program


def _launches(
    explanation: Explanation, passed: ProgramCollector, printed: list[int]
) -> Iterator[ExplainLaunch]:
    """Launches may be explained while they are written, so they are iterated once. `printed`: how
    many numbers the sentences of each launch have."""
    for each in passed:
        document = launch_document(explanation, each)
        printed.append(numbers_in(document))
        yield document


def _authorship(author: Authorship) -> Iterator[tuple[str, Any]]:
    """Empty instead of nulls if no model was used."""
    yield "usage", author.usage
    yield "problem", author.problem
    yield "transcript", author.transcript


def launch_json(explanation: Explanation, each: LaunchExplanation) -> str:
    """One of the document's `launches` as text, on one line."""
    return json_line(launch_document(explanation, each))


def launch_document(explanation: Explanation, each: LaunchExplanation) -> ExplainLaunch:
    launch = each.launch
    return ExplainLaunch(
        id=launch.id,
        kernel=launch.kernel,
        kernel_full=launch.name.full,
        device=explanation.profile.devices.index(launch.device),
        grid=launch.grid,
        block=launch.block,
        duration=_duration(launch),
        figures=[_figure(figure) for figure in each.figures],
        verdict=LaunchVerdict(**_verdict(each), **_verdict_by(explanation, each)),
        ceilings=[
            UnitDocument(unit=c.name, reached_pct=_finite(c.reached), evidence=c.reached)
            for c in each.ceilings
        ],
        findings=[
            finding_document(rank, finding, each, **_model_fields(explanation, each, finding))
            for rank, finding in enumerate(each.findings, 1)
        ],
        all_fixed=forecast_document(each.all_fixed) if each.all_fixed else None,
        order_reason=each.order_reason,
        minor=[minor_document(finding) for finding in each.minor],
        account=[_part(part) for part in each.account.parts],
        notes=[_note(note, NoteDocument) for note in each.notes],
        healthy=[_note(note, HealthyDocument) for note in each.healthy],
        skipped=list(each.skipped),
        machine_code=each.view.code_state,
        second_opinion=each.second_opinion,
        evidence={piece.id: piece for piece in each.evidence},
        **_by_model(explanation, each),
        **_in_run(explanation, each),
    )


def _figure(figure: LaunchFigure) -> FigureDocument:
    cited = (figure.value, figure.share) if figure.share else (figure.value,)
    return FigureDocument(
        id=figure.id,  # type: ignore[arg-type]
        text=figure.text,
        value=_finite(figure.value),
        unit=figure.value.unit,
        share_pct=_finite(figure.share),
        evidence=list(cited),
    )


def _note(note: Note, kind: type[N]) -> N:
    return kind(id=note.id, text=note.text, evidence=list(note.evidence))  # type: ignore[arg-type]


def _part(part: TimePart) -> PartDocument:
    return PartDocument(
        id=part.id,
        part=part.label,
        share=round(float(part.share.value) / 100, 6),
        us=float(part.us.value) if part.us else None,
        evidence=[part.share, *part.evidence],
        children=[_part(child) for child in part.children],
    )


def _in_run(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.whole_run is None:
        return {}
    return {"in_run": each.in_run, "replay": each.replay}


def _by_model(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.author is None:
        return {}
    said = each.model_explanation
    return {"hypotheses": said.hypotheses if said else (), "model": said}


def _model_fields(explanation: Explanation, each: LaunchExplanation, finding: Finding) -> Fields:
    if explanation.author is None:
        return {}
    why = " ".join(cause.text for cause in causes_of(each, finding.id)) or None
    return {"why": why, "origin": finding.origin}


def _duration(launch: Launch) -> Quantity | None:
    """Always in microseconds, so that launches are easy to compare."""
    duration = launch.get("duration")
    if duration is None:
        return None
    return duration.to("us")


def _verdict(each: LaunchExplanation) -> Fields:
    verdict = each.verdict
    return {
        "limiter": verdict.limiter if verdict.reached else None,
        "reached_pct": _finite(verdict.reached),
        "headline": verdict.headline,
    }


def _verdict_by(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.author is None:
        return {}
    said = each.model_explanation
    if said is None or not said.leads:
        return {"by": "keet"}
    return {"by": BY_MODEL, "analyst_headline": said.analyst_headline}


def _finite(number: Evidence | None) -> float | None:
    return float(number.value) if number and math.isfinite(number.value) else None
