"""A model's explanation as JSON.

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
    from keet.analysis.model_claims import EvaluatedClaim
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

_IDS = "ids in the launch's `evidence` that it refers to"


class HypothesisDocument(Document):
    """Stated from the source before a number was seen; judged by the numbers afterwards."""

    text: str
    finding: str | None = field(description="finding id; null: not one of keet's findings")
    verdict: Literal["confirmed", "refuted", "inconclusive"]
    reason: str
    evidence: list[str] = field(description=_IDS)


class ClaimDocument(Document):
    """What keet computed from the amount of work that a model says is needed."""

    supported: bool = field(description="false: the report contradicts it, or has no data on it")
    reason: str = field(description="why it is not supported, or the claimed amounts")
    gain: float | None = field(description="times faster if the claim is true; null: not computed")
    forecast: ForecastDocument | None = field(description="null: not supported")
    next_limiter: str | None = field(description="what limits the kernel after the fix")
    floor: QuantityDocument | None = field(description="the least time that the work needs")


class CauseDocument(Document):
    finding: str = field(description="an id of keet's catalog")
    text: str
    where: str | None = field(description="`slow.cu:31`")
    because: list[str] = field(description="measured facts and comparisons that are true")
    evidence: list[str] = field(description=_IDS)
    problem: str | None = field(description="what the report shows against it")
    claim: ClaimDocument | None = field(description="null: it claims no amount")
    raised_by_analyst: bool = field(
        description="false: it is not in the launch's `findings`, and has no forecast there"
    )


class EditDocument(Document):
    """A change to the code by a model."""

    finding: str | None
    what: str
    diff: str = field(description="unified diff that applies to the source; empty: see `problem`")
    places: list[str] = field(description="`slow.cu:31-34`, where it changes the source")
    applies: bool
    build: Literal["compiles", "fails", "not checked"]
    build_text: str = field(
        description="resources before and after, the first error, or why it was not compiled"
    )
    problem: str | None = field(description="why there is no diff")
    sketch: str = field(description="the model's code, if no diff could be made of it")
    risk: str
    check: str = field(description="how to see that it worked")
    instead_of: int | None = field(
        default=None, description="number of the edit that it is an alternative to, from 1"
    )
    evidence: list[str] = field(description=_IDS)


class UncheckedDocument(Document):
    """A sentence whose numbers keet could not resolve: printed with a mark."""

    where: str = field(
        description="`causes[0].text`: its place in `model`, or in the launch's `hypotheses`"
    )
    text: str
    reason: str


class ModelDocument(Document):
    """What a model says about a launch; texts are empty where it said nothing."""

    summary: str
    purpose: str = field(description="what the code does")
    mapping: str = field(description="how work is laid out over threads, warps and blocks")
    evidence: list[str] = field(description="ids that `summary`, `purpose` and `mapping` refer to")
    leads: bool = field(description="its cause is the headline, computed by keet: see `verdict`")
    causes: list[CauseDocument]
    objections: list[CauseDocument] = field(
        default=[], description="its objections to the analyst's findings, places or remedies"
    )
    edits: list[EditDocument]
    unchecked: list[UncheckedDocument] = field(
        default=[], description="sentences marked `[unchecked]`"
    )
    numbers: int = field(default=0, description="in its checked sentences: all are printed by keet")
    sent_back: int = field(
        default=0, description="sentences, facts and edits that were returned for correction"
    )


class UsageDocument(Document):
    """What a model was asked; the analyst asks none."""

    calls: int
    cached: int = field(default=0, description="replies from the cache: neither calls nor cost")
    input_tokens: int
    output_tokens: int
    cost: float | Literal["unknown"] = field(description="US dollars")
    seconds: float = 0.0
    estimated: bool = field(
        default=False, description="keet counted the tokens, as the server did not"
    )


def encodable(record: Any) -> Any:
    """A record whose texts can be encoded as UTF-8: a reply may contain half a surrogate pair."""
    if isinstance(record, str):
        return record.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if isinstance(record, tuple):
        parts = map(encodable, record)
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    return record


def encodable_explanation(explanation: Explanation) -> Explanation:
    """Only the model's part: the texts of a report are already valid."""
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
    """Each with its launch, because a program may read a line on its own."""
    return list(unchecked_lines(explanation, always_named=True))
