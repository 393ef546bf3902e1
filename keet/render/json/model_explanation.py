"""A model's explanation as JSON: its types, and the code that fills them.

Texts contain the numbers as keet prints them, and `[unchecked]` before a sentence whose numbers
keet could not resolve. The ids of the numbers are in `evidence` beside each text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from keet.render.common.model_explanation import causes_of, model_explanations, unchecked_lines
from keet.render.json.encoding.fields import Document, field
from keet.render.json.finding import ForecastDocument, forecast_fields
from keet.render.json.report import finite
from keet.render.json.shared_types import QuantityDocument

if TYPE_CHECKING:
    from keet.diagnosis.claims.evaluation import EvaluatedClaim
    from keet.evidence import Evidence
    from keet.explanation.explanation_types import Explanation, LaunchExplanation
    from keet.explanation.model_explanation import (
        Authorship,
        Edit,
        Hypothesis,
        ModelCause,
        ModelExplanation,
        UncheckedSentence,
        Usage,
    )
    from keet.prose.text import Prose

_IDS = "Ids of the numbers in the launch's `evidence` that the text refers to."


class HypothesisDocument(Document):
    """Stated from the source before the model saw any numbers, then judged by the numbers."""

    text: str
    finding: str | None = field(
        description="Id of the finding; null if it is not one of keet's findings."
    )
    verdict: Literal["confirmed", "refuted", "inconclusive"]
    reason: str
    evidence: list[str] = field(description=_IDS)


class ClaimDocument(Document):
    """What keet computed from the amount of work that, according to a model, is needed."""

    supported: bool = field(
        description="False if the report contradicts the claim, or has no data on it."
    )
    reason: str = field(description="Why the claim is not supported, or the claimed amounts.")
    gain: float | None = field(
        description="How many times faster the launch would be if the claim is true; null if not "
        "computed."
    )
    forecast: ForecastDocument | None = field(description="Null if the claim is not supported.")
    next_limiter: str | None = field(description="What limits the kernel after the fix.")
    floor: QuantityDocument | None = field(
        description="The shortest time in which the work can be done."
    )


class CauseDocument(Document):
    finding: str = field(description="Id of the finding in keet's catalog.")
    text: str
    where: str | None = field(description="For example `slow.cu:31`.")
    because: list[str] = field(description="Measured facts and comparisons that are true.")
    evidence: list[str] = field(description=_IDS)
    problem: str | None = field(description="What in the report contradicts it.")
    claim: ClaimDocument | None = field(description="Null if the cause claims no amount of work.")
    raised_by_analyst: bool = field(
        description="False if it is not in the launch's `findings`, and therefore has no forecast "
        "there."
    )


class EditDocument(Document):
    """A change to the code that a model proposes."""

    finding: str | None
    what: str
    diff: str = field(
        description="Unified diff that applies to the source; empty if there is none: see "
        "`problem`."
    )
    places: list[str] = field(
        description="Source lines that it changes, for example `slow.cu:31-34`."
    )
    applies: bool
    build: Literal["compiles", "fails", "not checked"]
    build_text: str = field(
        description="Resources before and after, the first error, or why it was not compiled."
    )
    problem: str | None = field(description="Why there is no diff.")
    sketch: str = field(description="The model's code, if it could not be turned into a diff.")
    risk: str
    check: str = field(description="How to check that the change worked.")
    instead_of: int | None = field(
        default=None,
        description="Number of the edit, counted from 1, that this one is an alternative to.",
    )
    evidence: list[str] = field(description=_IDS)


class UncheckedDocument(Document):
    """A sentence whose numbers keet could not resolve. It is printed with a mark."""

    where: str = field(
        description="Where the sentence is, in `model` or in the launch's `hypotheses`: "
        "`causes[0].text`."
    )
    text: str
    reason: str


class ModelDocument(Document):
    """A model's statements about a launch. Texts are empty if it made none."""

    summary: str
    purpose: str = field(description="What the code does.")
    mapping: str = field(description="How the work is distributed over threads, warps and blocks.")
    evidence: list[str] = field(
        description="Ids of the numbers that `summary`, `purpose` and `mapping` refer to."
    )
    leads: bool = field(
        description="True if its cause is the headline, as computed by keet: see `verdict`."
    )
    causes: list[CauseDocument]
    objections: list[CauseDocument] = field(
        default=[], description="Objections to keet's own findings, source lines or remedies."
    )
    edits: list[EditDocument]
    unchecked: list[UncheckedDocument] = field(
        default=[], description="The sentences marked `[unchecked]`."
    )
    numbers: int = field(
        default=0, description="Numbers in its checked sentences; keet printed all of them."
    )
    sent_back: int = field(
        default=0, description="Sentences, facts and edits that were returned for correction."
    )


class UsageDocument(Document):
    """Requests to a model. keet's own analysis makes none."""

    calls: int
    cached: int = field(
        default=0, description="Replies from the cache; they are neither calls nor cost."
    )
    input_tokens: int
    output_tokens: int
    cost: float | Literal["unknown"] = field(description="US dollars.")
    seconds: float = 0.0
    estimated: bool = field(
        default=False,
        description="True if keet counted the tokens because the server did not report them.",
    )


def encodable(record: Any) -> Any:
    """A copy whose texts can be encoded as UTF-8: a reply may contain half of a surrogate pair."""
    from keet.prose.text import ProseSentence

    if isinstance(record, ProseSentence):
        return ProseSentence(encodable(record.parts), encodable(record.problem), record.ends)
    if isinstance(record, str):
        return record.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if isinstance(record, tuple):
        parts = map(encodable, record)
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    return record


def encodable_explanation(explanation: Explanation) -> Explanation:
    """Converts only the model's part: the texts of a report are already valid."""
    if explanation.author is None:
        return explanation
    launches = tuple(
        each._replace(model_explanation=encodable(each.model_explanation))
        for each in explanation.launches
    )
    return explanation._replace(launches=launches, author=encodable(explanation.author))


def author_name(author: Authorship) -> str:
    return f"model:{author.model}"


def usage_document(usage: Usage) -> UsageDocument:
    known = usage.cost is not None and math.isfinite(usage.cost)
    return UsageDocument(**{**usage._asdict(), "cost": usage.cost if known else "unknown"})


def hypothesis_documents(each: LaunchExplanation) -> list[HypothesisDocument]:
    return list(
        map(_hypothesis, each.model_explanation.hypotheses if each.model_explanation else ())
    )


def _hypothesis(guess: Hypothesis) -> HypothesisDocument:
    return HypothesisDocument(
        text=str(guess.text),
        finding=guess.finding,
        verdict=guess.judgement,
        reason=str(guess.reason),
        evidence=_ids(guess.text, guess.reason),
    )


def _ids(*texts: Prose) -> list[str]:
    return list(dict.fromkeys(i for text in texts for i in text.ids))


def model_document(each: LaunchExplanation) -> ModelDocument | None:
    return _model(each.model_explanation, each) if each.model_explanation else None


def _model(said: ModelExplanation, each: LaunchExplanation) -> ModelDocument:
    raised = {finding.id for finding in each.findings}
    return ModelDocument(
        summary=str(said.summary),
        purpose=str(said.purpose),
        mapping=str(said.mapping),
        evidence=_ids(said.summary, said.purpose, said.mapping),
        leads=said.leads,
        causes=_causes(said.causes, raised),
        objections=_causes(said.objections, raised),
        edits=list(map(_edit, said.edits)),
        unchecked=list(map(unchecked_document, said.unchecked)),
        numbers=said.numbers,
        sent_back=said.sent_back,
    )


def _causes(causes: Iterable[ModelCause], raised: set[str]) -> list[CauseDocument]:
    return [
        CauseDocument(
            finding=cause.finding,
            text=str(cause.text),
            where=cause.where,
            because=[reference.text for reference in cause.because],
            evidence=list(cause.ids),
            problem=cause.problem,
            claim=_claim(cause.claim) if cause.claim else None,
            raised_by_analyst=cause.finding in raised,
        )
        for cause in causes
    ]


def _claim(claim: EvaluatedClaim) -> ClaimDocument:
    computed = claim.candidate is not None and math.isfinite(claim.possible)
    fields = forecast_fields(claim.forecast) if claim.forecast else None
    return ClaimDocument(
        supported=claim.supported,
        reason=claim.reason,
        gain=claim.possible if computed else None,
        forecast=ForecastDocument(**fields) if fields else None,
        next_limiter=claim.next_limiter,
        floor=_quantity(claim.floor) if claim.floor else None,
    )


def _quantity(entry: Evidence) -> QuantityDocument:
    value, nonfinite = finite(entry.value)
    return QuantityDocument(value=value, unit=entry.unit, nonfinite=nonfinite)


def _edit(edit: Edit) -> EditDocument:
    texts = {"what": str(edit.what), "risk": str(edit.risk), "check": str(edit.check)}
    own = {**edit._asdict(), **texts, "places": list(edit.places)}
    ids = _ids(edit.what, edit.risk, edit.check)
    return EditDocument(**own, applies=bool(edit.diff), evidence=ids)


def unchecked_document(sentence: UncheckedSentence) -> UncheckedDocument:
    return UncheckedDocument(**sentence._asdict())


def why(each: LaunchExplanation, finding: str) -> str | None:
    return " ".join(str(cause.text) for cause in causes_of(each, finding)) or None


def model_numbers(explanation: Explanation) -> int:
    return sum(statement.numbers for statement in model_explanations(explanation))


def unchecked_sentences(explanation: Explanation) -> list[str]:
    """Each sentence has its launch, because a program may read a line on its own."""
    return list(unchecked_lines(explanation, always_named=True))
