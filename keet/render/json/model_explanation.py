"""A model's explanation as JSON: its types, and the code that fills them.

Texts contain the numbers as keet prints them, and `[unchecked]` before a sentence whose numbers
keet could not resolve. The ids of the numbers are in `evidence` beside each text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keet.documents.model_explanation import (
    CauseDocument,
    ClaimDocument,
    EditDocument,
    HypothesisDocument,
    ModelDocument,
    UncheckedDocument,
    UsageDocument,
)
from keet.render.common.model_explanation import causes_of, model_explanations, unchecked_lines
from keet.render.json.finding import forecast_document
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.diagnosis.claims.evaluation import EvaluatedClaim
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
    return ClaimDocument(
        supported=claim.supported,
        reason=claim.reason,
        gain=claim.possible if computed else None,
        forecast=forecast_document(claim.forecast) if claim.forecast else None,
        next_limiter=claim.next_limiter,
        floor=Quantity(claim.floor.value, claim.floor.unit) if claim.floor else None,
    )


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
