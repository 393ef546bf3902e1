"""`keet explain --format json`: its types, and how an explanation becomes a document."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import to_json

from keet.analysis.account import Part
from keet.analysis.findings import Finding
from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.notes import Note
from keet.explanation.program import Program, program_of
from keet.profile import Launch
from keet.render.common.statement import BY_MODEL, statements
from keet.render.json.documents import (
    EVIDENCE_IDS,
    DeviceDocument,
    Dimensions,
    Document,
    NonFinite,
    PartlyFilled,
    Producer,
    QuantityDocument,
    ReportDocument,
    RunDocument,
    SkippedDocument,
)
from keet.render.json.finding import FindingDocument, finding_fields
from keet.render.json.program import ProgramDocument, program_document
from keet.render.json.report import device_document, finite, report_document
from keet.render.json.statement import (
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
from keet.render.json.whole_run import (
    InRunDocument,
    ReplayDocument,
    in_run_document,
    replay_document,
    run_document,
)
from keet.units import Number
from keet.verification.own_texts import Grounded


class VerdictDocument(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"by", "analyst_headline"})

    limiter: str | None = Field(
        description="the unit nearest to its peak, ties joined by `+`; `latency`: none is near; "
        "null: the report does not say how busy any unit was"
    )
    reached_pct: float | None = Field(description="of its peak, by the unit that came nearest")
    headline: str
    by: Literal["keet", "model, computed by keet"] = Field(
        "keet", description="who found the cause that the headline names; left out without a model"
    )
    analyst_headline: str = Field(
        "", description="what keet says alone; left out where the headline is keet's"
    )


class HealthyDocument(Document):
    id: str = Field(description="the finding that is not there")
    text: str
    evidence: list[str]


class NoteDocument(Document):
    id: Literal["instruction_mix", "l2_stage", "bytes_moved"]
    text: str
    evidence: list[str]


class PartDocument(Document):
    """A part of the launch's time. The parts of a launch, and the children of each, add up."""

    id: str = Field(description="stable name, from the outermost part: `waiting.busy.dram`")
    part: str = Field(description="in words")
    share: float = Field(description="of the launch's time, 0 to 1")
    us: float | None = Field(description="the same as microseconds")
    evidence: list[str] = Field(description="ids of the share and of what it was computed from")
    children: list[PartDocument]


class UnitDocument(Document):
    unit: str = Field(description="`DRAM`, `L2`, `FMA`")
    reached_pct: float | None = Field(description="of its peak, over the elapsed cycles")
    evidence: str


class NumberDocument(Document):
    """One number that a text may cite."""

    metric: str = Field(description="ncu's name, or one of keet's own for what is computed")
    value: Number | None = Field(description="null: see `nonfinite`")
    unit: str
    line: str | None = Field(description="`file.cu:31`, where it is of one source line")
    derived_from: list[str] | None = Field(description="ids of what it was computed from")
    label: str
    nonfinite: NonFinite | None = None


class ExplainLaunch(PartlyFilled):
    optional: ClassVar[frozenset[str]] = frozenset({"hypotheses", "model", "in_run", "replay"})

    id: int
    kernel: str
    kernel_full: str
    device: int = Field(description="index into `devices`")
    grid: Dimensions | None
    block: Dimensions | None
    duration: QuantityDocument | None = Field(description="microseconds; null: not measured")
    verdict: VerdictDocument
    ceilings: list[UnitDocument] = Field(description="the busiest unit first")
    findings: list[FindingDocument]
    account: list[PartDocument]
    notes: list[NoteDocument] = Field(description="what the account shows beyond its parts")
    healthy: list[HealthyDocument]
    skipped: list[SkippedDocument]
    machine_code: Literal["analysed", "not_needed", "absent", "off"] = Field(
        "off",
        description="analysed; not_needed: no check asked for it; absent: why is in `skipped`; "
        "off: switched off, or not one of the longest launches",
    )
    second_opinion: str | None = Field(description="what Nsight Compute's own rules put first")
    evidence: dict[str, NumberDocument] = Field(description=EVIDENCE_IDS)
    hypotheses: list[HypothesisDocument] = Field(
        [], description="by a model, from the source alone, before it saw a number"
    )
    model: ModelDocument | None = Field(
        None, description="what a model adds; null: nothing of this launch"
    )
    in_run: InRunDocument | None = Field(
        None, description="null: the run is not known, or has no such kernel"
    )
    replay: ReplayDocument | None = Field(
        None, description="null: the replay took about as long as the launch in the run"
    )


class GroundingDocument(Document):
    numbers: int = Field(description="in all texts, with those of a model's checked sentences")
    verified: int = Field(
        description="found in the report, or printed by keet from it in a model's text"
    )
    unchecked: list[str] = Field(
        description="numbers of the analyst that no evidence supports, and sentences of a model "
        "with numbers or comparisons that keet could not check; each with the reason"
    )


class ExplainDocument(PartlyFilled):
    """`keet explain --format json`"""

    optional: ClassVar[frozenset[str]] = frozenset({"problem", "transcript", "run", "program"})

    schema_version: Literal[3] = 3
    producer: Producer = Producer()
    author: str = Field(
        default="analyst", description="`analyst`, or `model:PROVIDER:NAME` where one had a part"
    )
    report: ReportDocument
    device: DeviceDocument = Field(description="of the first launch here")
    devices: list[DeviceDocument] = Field(description="every GPU of the report")
    launches: list[ExplainLaunch]
    grounding: GroundingDocument
    usage: UsageDocument | None = Field(None, description="null: no model was asked")
    problem: str | None = Field(
        None, description="why a model's part is missing or incomplete; null: it is whole"
    )
    transcript: str | None = Field(None, description="where the run with the model is recorded")
    run: RunDocument | None = Field(
        None, description="the whole program; null: nobody recorded a run of it"
    )
    program: ProgramDocument | None = Field(
        None, description="the launches together; left out where there is one, and no run"
    )


Fields = dict[str, Any]
"""What a document is made of, before pydantic has checked it."""


def explain_document(explanation: Explanation) -> ExplainDocument:
    explanation = encodable_explanation(explanation)
    profile = explanation.profile
    program = program_of(explanation)
    return ExplainDocument(
        report=report_document(profile),
        device=device_document(explanation.launches[0].launch.device),
        devices=[device_document(device) for device in profile.devices],
        launches=[
            ExplainLaunch(**_launch_fields(explanation, each)) for each in explanation.launches
        ],
        grounding=_grounding(explanation, program),
        **_authorship(explanation),
        **_run(explanation),
        **_program(program),
    )


def _run(explanation: Explanation) -> Fields:
    return {"run": run_document(explanation.whole_run)} if explanation.whole_run else {}


def _program(program: Program | None) -> Fields:
    return {"program": program_document(program)} if program else {}


def _grounding(explanation: Explanation, program: Program | None) -> GroundingDocument:
    """A model's numbers are printed by keet; sentences with others are unchecked."""
    own, model = Grounded(explanation, program), model_numbers(explanation)
    return GroundingDocument(
        numbers=own.numbers + model,
        verified=own.verified + model,
        unchecked=[*own.unchecked, *unchecked_sentences(explanation)],
    )


def _authorship(explanation: Explanation) -> Fields:
    """Nothing, rather than nulls, where no model was asked."""
    author = explanation.author
    if author is None:
        return {}
    return {
        "author": author_name(author) if statements(explanation) else "analyst",
        "usage": usage_document(author.usage),
        "problem": author.problem,
        "transcript": author.transcript,
    }


def launch_json(explanation: Explanation, each: LaunchExplanation) -> str:
    """The text of one of the document's `launches`.

    A batch makes many: it writes the fields as they are, which pydantic would only find in order.
    """
    return to_json(_launch_fields(explanation, each)).decode()


def _launch_fields(explanation: Explanation, each: LaunchExplanation) -> Fields:
    """Of an `ExplainLaunch`, in its order, as are those of its parts below."""
    launch = each.launch
    return {
        "id": launch.id,
        "kernel": launch.kernel,
        "kernel_full": launch.name.full,
        "device": explanation.profile.devices.index(launch.device),
        "grid": launch.grid,
        "block": launch.block,
        "duration": _duration(launch),
        "verdict": _verdict(each) | _verdict_by(explanation, each),
        "ceilings": [
            {"unit": c.name, "reached_pct": _percent(c.reached), "evidence": c.reached.id}
            for c in each.ceilings
        ],
        "findings": [
            finding_fields(rank, finding, each) | _model_fields(explanation, each, finding)
            for rank, finding in enumerate(each.findings, 1)
        ],
        "account": [_part(part) for part in each.account.parts],
        "notes": [_note(note) for note in each.notes],
        "healthy": [_note(note) for note in each.healthy],
        "skipped": [skipped._asdict() for skipped in each.skipped],
        "machine_code": each.view.code_state,
        "second_opinion": each.second_opinion,
        "evidence": {e.id: number(e) for e in each.evidence},
        **_by_model(explanation, each),
        **_in_run(explanation, each),
    }


def _note(note: Note) -> Fields:
    return {"id": note.id, "text": note.text, "evidence": _ids(note.evidence)}


def _part(part: Part) -> Fields:
    return {
        "id": part.id,
        "part": part.label,
        "share": round(float(part.share.value) / 100, 6),
        "us": part.us.value if part.us else None,
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
    """In microseconds whatever the report has: readers compare launches without looking twice."""
    duration = launch.get("duration")
    if duration is None:
        return None
    value, nonfinite = finite(duration.to("us").value)
    return {"value": value, "unit": "us", "nonfinite": nonfinite}


def _verdict(each: LaunchExplanation) -> Fields:
    verdict = each.verdict
    return {
        "limiter": verdict.limiter if verdict.reached else None,
        "reached_pct": _percent(verdict.reached),
        "headline": verdict.headline,
    }


def _verdict_by(explanation: Explanation, each: LaunchExplanation) -> Fields:
    if explanation.author is None:
        return {}
    said = each.statement
    if said is None or not said.leads:
        return {"by": "keet"}
    return {"by": BY_MODEL, "analyst_headline": said.analyst_headline}


def _percent(reached: Evidence | None) -> float | None:
    return float(reached.value) if reached and math.isfinite(reached.value) else None


def _ids(evidence: Iterable[Evidence]) -> list[str]:
    return [entry.id for entry in evidence]


def number(evidence: Evidence) -> Fields:
    """The fields of a `NumberDocument`."""
    value, nonfinite = finite(evidence.value)
    return {
        "metric": evidence.metric,
        "value": value,
        "unit": evidence.unit,
        "line": evidence.line,
        "derived_from": None if evidence.derived_from is None else list(evidence.derived_from),
        "label": evidence.label,
        "nonfinite": nonfinite,
    }
