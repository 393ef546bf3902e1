"""`keet explain --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from keet.analysis.account import TimePart
from keet.diagnosis.finding import Finding
from keet.evidence import Evidence
from keet.explanation.account_notes import Note
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_figures import LaunchFigure
from keet.explanation.program import ProgramCollector
from keet.profile import Launch
from keet.render.common.model_explanation import BY_MODEL, model_explanations
from keet.render.json.encoding.fields import Document, PartlyFilled, field
from keet.render.json.encoding.writing import Streamed
from keet.render.json.evidence import NumberDocument, numbers_by_id
from keet.render.json.finding import (
    FindingDocument,
    ForecastDocument,
    MinorDocument,
    finding_fields,
    forecast_fields,
    minor_fields,
)
from keet.render.json.model_explanation import (
    HypothesisDocument,
    ModelDocument,
    UsageDocument,
    author_name,
    encodable_explanation,
    hypothesis_documents,
    model_document,
    model_numbers,
    unchecked_sentences,
    usage_document,
    why,
)
from keet.render.json.program import ProgramDocument, program_document
from keet.render.json.report import device_document, finite, report_document
from keet.render.json.shared_types import (
    EVIDENCE_IDS,
    DeviceDocument,
    Dimensions,
    FindingId,
    Producer,
    QuantityDocument,
    ReportDocument,
    RunDocument,
    SkippedDocument,
)
from keet.render.json.whole_run import (
    InRunDocument,
    ReplayDocument,
    in_run_document,
    replay_document,
    run_document,
)
from keet.verification.explanation_check import CheckCount, check_launch, check_program, check_run

if TYPE_CHECKING:
    from keet.explanation.model_explanation import Authorship


class VerdictDocument(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"by", "analyst_headline"})

    limiter: str | None = field(
        description="The unit nearest to its peak, ties joined by `+`. `latency` if no unit is "
        "near its peak. Null if the report does not say how busy any unit was."
    )
    reached_pct: float | None = field(
        description="Per cent of its peak that the unit nearest to its peak reached."
    )
    headline: str
    by: Literal["keet", "model, computed by keet"] = field(
        default="keet",
        description="Who found the cause in the headline; left out without a model.",
    )
    analyst_headline: str = field(
        default="",
        description="keet's headline without the model; left out if `headline` is keet's own.",
    )


class HealthyDocument(Document):
    id: FindingId = field(description="Id of the finding that does not apply.")
    text: str
    evidence: list[str]


class NoteDocument(Document):
    id: Literal["instruction_mix", "l2_stage", "bytes_moved"]
    text: str
    evidence: list[str]


class PartDocument(Document):
    """A part of the launch's time. The parts of a launch add up, and so do the children of each
    part."""

    id: str = field(
        description="Stable name, starting with the outermost part: `waiting.busy.dram`."
    )
    part: str = field(description="Name of the part in words.")
    share: float = field(description="Share of the launch's time, 0 to 1.")
    us: float | None = field(description="The same time in microseconds.")
    evidence: list[str] = field(
        description="Ids of the share and of the numbers that it was computed from."
    )
    children: list[PartDocument]


class FigureDocument(Document):
    """A figure of the launch's head."""

    id: Literal["arithmetic", "dram", "waves", "registers_per_thread", "blocks_per_sm"] = field(
        description="`arithmetic`: the type of arithmetic that comes nearest to its peak."
    )
    text: str
    value: float | None
    unit: str = field(description="For example `flop/s` or `byte/s`; empty for plain numbers.")
    share_pct: float | None = field(description="Per cent of the peak; null if it is not a rate.")
    evidence: list[str]


class UnitDocument(Document):
    unit: str = field(description="For example `DRAM`, `L2` or `FMA`.")
    reached_pct: float | None = field(description="Per cent of its peak, over the elapsed cycles.")
    evidence: str


class ExplainLaunch(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"hypotheses", "model", "in_run", "replay"})

    id: int
    kernel: str
    kernel_full: str
    device: int = field(description="Index into `devices`.")
    grid: Dimensions | None
    block: Dimensions | None
    duration: QuantityDocument | None = field(description="Microseconds; null if not measured.")
    figures: list[FigureDocument] = field(
        description="Rates with their shares of the peak, waves, registers per thread, and blocks "
        "that fit on an SM; those that the report has."
    )
    verdict: VerdictDocument
    ceilings: list[UnitDocument] = field(description="The busiest unit comes first.")
    findings: list[FindingDocument] = field(
        description="Causes that gain 10 % or more if they are there, and are likely enough to "
        "report; the first saves most time."
    )
    all_fixed: ForecastDocument | None = field(
        description="If all findings were fixed; null where there are fewer than two."
    )
    order_reason: str | None = field(
        description="Why the first finding ranks before one that takes a larger part of the "
        "account; null if none does."
    )
    minor: list[MinorDocument] = field(description="Causes that are expected to gain less.")
    account: list[PartDocument]
    notes: list[NoteDocument] = field(
        description="What the account shows in addition to its parts."
    )
    healthy: list[HealthyDocument]
    skipped: list[SkippedDocument]
    machine_code: Literal["analysed", "not_needed", "absent", "off"] = field(
        default="off",
        description="`analysed`. `not_needed`: no check needed it. `absent`: `skipped` has the "
        "reason. `off`: switched off, or not one of the longest launches.",
    )
    second_opinion: str | None = field(description="What Nsight Compute's own rules rank first.")
    evidence: dict[str, NumberDocument] = field(description=EVIDENCE_IDS)
    hypotheses: list[HypothesisDocument] = field(
        default=[],
        description="A model's hypotheses from the source alone, before it saw any numbers.",
    )
    model: ModelDocument | None = field(
        default=None, description="What a model adds; null if it says nothing about this launch."
    )
    in_run: InRunDocument | None = field(
        default=None, description="Null if the run is not known, or does not have the kernel."
    )
    replay: ReplayDocument | None = field(
        default=None, description="Null if the replay took about as long as the launch in the run."
    )


class GroundingDocument(Document):
    numbers: int = field(description="Numbers in all texts, including a model's checked sentences.")
    verified: int = field(
        description="Numbers that were found in the report, or that keet printed from it in a "
        "model's text."
    )
    unchecked: list[str] = field(
        description="keet's own numbers that no evidence supports, and a model's sentences with "
        "numbers or comparisons that keet could not check; each with the reason."
    )


class ExplainDocument(PartlyFilled):
    """`keet explain --format json`"""

    optional: ClassVar[frozenset[str]] = frozenset({"problem", "transcript", "run", "program"})

    schema_version: Literal[4] = 4
    producer: Producer = Producer()
    author: str = field(
        default="analyst",
        description="`analyst` (keet alone), or `model:PROVIDER:NAME` if a model contributed.",
    )
    report: ReportDocument
    device: DeviceDocument = field(description="The GPU of the first launch in this document.")
    devices: list[DeviceDocument] = field(description="Every GPU in the report.")
    launches: list[ExplainLaunch]
    grounding: GroundingDocument
    usage: UsageDocument | None = field(default=None, description="Null if no model was used.")
    problem: str | None = field(
        default=None,
        description="Why a model's part is missing or incomplete; null if it is complete.",
    )
    transcript: str | None = field(
        default=None, description="File with the transcript of the model's run."
    )
    run: RunDocument | None = field(
        default=None, description="The run of the whole program; null if no run was recorded."
    )
    program: ProgramDocument | None = field(
        default=None,
        description="All launches together; left out if there is one launch and no run.",
    )


Fields = dict[str, Any]
"""Types of the values in a document; they are written as they are."""


def explain_document(explanation: Explanation) -> ExplainDocument:
    return explain_stream(explanation).document()


def explain_stream(explanation: Explanation) -> Streamed[ExplainDocument]:
    """The document, one launch after the other."""
    return Streamed(ExplainDocument, explain_fields(explanation))


def explain_fields(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Fields after the launches are computed when the launches have been written."""
    explanation = encodable_explanation(explanation)
    profile = explanation.profile
    if explanation.author:
        some = model_explanations(explanation)
        yield "author", author_name(explanation.author) if some else "analyst"
    yield "report", report_document(profile)
    yield "device", device_document(explanation.asked[0].device)
    yield "devices", [device_document(device) for device in profile.devices]
    passed, own = ProgramCollector(explanation), CheckCount()
    own.add(check_run(explanation))
    yield "launches", _launches(explanation, passed, own)
    program = passed.program()
    own.add(check_program(program))
    yield "grounding", _grounding(explanation, own)
    if explanation.author:
        yield from _authorship(explanation.author)
    if explanation.whole_run:
        yield "run", run_document(explanation.whole_run)
    if program:
        yield "program", program_document(program)


def _launches(
    explanation: Explanation, passed: ProgramCollector, own: CheckCount
) -> Iterator[Fields]:
    """Launches may be explained while they are written, so they are iterated once."""
    for each in passed:
        yield _launch_fields(explanation, each)
        own.add(check_launch(each))


def _grounding(explanation: Explanation, own: CheckCount) -> GroundingDocument:
    """keet prints the numbers in a model's sentences. Sentences with others are unchecked."""
    if explanation.author is None:
        return GroundingDocument(
            numbers=own.numbers, verified=own.verified, unchecked=own.unchecked
        )
    model = model_numbers(explanation)
    return GroundingDocument(
        numbers=own.numbers + model,
        verified=own.verified + model,
        unchecked=[*own.unchecked, *unchecked_sentences(explanation)],
    )


def _authorship(author: Authorship) -> Iterator[tuple[str, Any]]:
    """Empty instead of nulls if no model was used."""
    yield "usage", usage_document(author.usage)
    yield "problem", author.problem
    yield "transcript", author.transcript


def launch_json(explanation: Explanation, each: LaunchExplanation) -> str:
    """One of the document's `launches` as text, on one line.

    For a batch, which writes many: the compiled writer takes a fifth of the time of `json_line`,
    but longer to import than to write the launches of most reports.
    """
    from pydantic_core import to_json

    fields = _launch_fields(explanation, each)
    return to_json(fields, inf_nan_mode="null", fallback=vars).decode()


def _launch_fields(explanation: Explanation, each: LaunchExplanation) -> Fields:
    """The fields of an `ExplainLaunch`, in the order of its declaration.

    The functions below return the fields of its parts, also in that order.
    """
    launch = each.launch
    return {
        "id": launch.id,
        "kernel": launch.kernel,
        "kernel_full": launch.name.full,
        "device": explanation.profile.devices.index(launch.device),
        "grid": launch.grid,
        "block": launch.block,
        "duration": _duration(launch),
        "figures": [_figure(figure) for figure in each.figures],
        "verdict": _verdict(each) | _verdict_by(explanation, each),
        "ceilings": [
            {"unit": c.name, "reached_pct": _finite(c.reached), "evidence": c.reached.id}
            for c in each.ceilings
        ],
        "findings": [
            finding_fields(rank, finding, each) | _model_fields(explanation, each, finding)
            for rank, finding in enumerate(each.findings, 1)
        ],
        "all_fixed": forecast_fields(each.all_fixed) if each.all_fixed else None,
        "order_reason": each.order_reason,
        "minor": [minor_fields(finding) for finding in each.minor],
        "account": [_part(part) for part in each.account.parts],
        "notes": [_note(note) for note in each.notes],
        "healthy": [_note(note) for note in each.healthy],
        "skipped": [skipped._asdict() for skipped in each.skipped],
        "machine_code": each.view.code_state,
        "second_opinion": each.second_opinion,
        "evidence": numbers_by_id(each.evidence),
        **_by_model(explanation, each),
        **_in_run(explanation, each),
    }


def _figure(figure: LaunchFigure) -> Fields:
    cited = (figure.value, figure.share) if figure.share else (figure.value,)
    return {
        "id": figure.id,
        "text": figure.text,
        "value": _finite(figure.value),
        "unit": figure.value.unit,
        "share_pct": _finite(figure.share),
        "evidence": _ids(cited),
    }


def _note(note: Note) -> Fields:
    return {"id": note.id, "text": note.text, "evidence": _ids(note.evidence)}


def _part(part: TimePart) -> Fields:
    return {
        "id": part.id,
        "part": part.label,
        "share": round(float(part.share.value) / 100, 6),
        "us": float(part.us.value) if part.us else None,
        "evidence": _ids((part.share, *part.evidence)),
        "children": [_part(child) for child in part.children],
    }


def _in_run(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.whole_run is None:
        return {}
    return {
        "in_run": in_run_document(each.in_run) if each.in_run else None,
        "replay": replay_document(each.replay) if each.replay else None,
    }


def _by_model(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.author is None:
        return {}
    return {"hypotheses": hypothesis_documents(each), "model": model_document(each)}


def _model_fields(explanation: Explanation, each: LaunchExplanation, finding: Finding) -> Fields:
    if explanation.author is None:
        return {}
    return {"why": why(each, finding.id), "origin": finding.origin}


def _duration(launch: Launch) -> Fields | None:
    """Always in microseconds, so that launches are easy to compare."""
    duration = launch.get("duration")
    if duration is None:
        return None
    value, nonfinite = finite(duration.to("us").value)
    return {"value": value, "unit": "us", "nonfinite": nonfinite}


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


def _ids(evidence: Iterable[Evidence]) -> list[str]:
    return [entry.id for entry in evidence]
