"""A model's part of an explanation, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.statement import Authorship, Cause, Dropped, Judgement, Usage
from keet.render.documents import Document
from keet.render.statement_text import causes_of, claim_text, statements


class HypothesisDocument(Document):
    """Stated from the source before a number was seen; judged by the numbers afterwards."""

    text: str
    finding: str | None = Field(description="an id of keet's catalog, where it is one")
    verdict: Judgement
    reason: str
    evidence: list[str] = Field(description="ids in the launch's `evidence`")


class CauseDocument(Document):
    finding: str = Field(description="an id of keet's catalog")
    text: str
    evidence: list[str] = Field(description="ids in the launch's `evidence`")
    raised_by_analyst: bool = Field(
        description="false: it is not in the launch's `findings`, and has no forecast"
    )


class EditDocument(Document):
    """A change to the code, as the model wrote it: not compiled, not measured."""

    finding: str | None
    file: str | None
    line: int | None
    what: str
    code: str = Field(description="a diff or a sketch")
    risk: str
    check: str = Field(description="how to see that it worked")


class DroppedDocument(Document):
    """A claim of the model that the evidence does not bear out: not part of its texts here."""

    where: str = Field(description="`causes[0].text`, by the positions in the model's reply")
    text: str
    reason: str


class ModelDocument(Document):
    """What a model adds to a launch; texts are empty where it said nothing that holds."""

    purpose: str = Field(description="what the code does")
    mapping: str = Field(description="how work is laid out over threads, warps and blocks")
    summary: str
    causes: list[CauseDocument]
    objections: list[CauseDocument] = Field(
        [], description="what it holds against the analyst's findings, places or remedies"
    )
    edits: list[EditDocument]
    dropped: list[DroppedDocument] = Field([], description="what it said and could not show")
    numbers: int = Field(0, description="in its texts: all of them are verified")


class UsageDocument(Document):
    """What a model was asked; the analyst asks none."""

    calls: int
    cached: int = Field(0, description="replies from the cache: neither calls nor cost")
    input_tokens: int
    output_tokens: int
    cost: float | Literal["unknown"] = Field(description="US dollars")
    seconds: float = 0.0
    estimated: bool = Field(False, description="keet counted the tokens, as the server did not")


def encodable(record: Any) -> Any:
    """A record with every text in it fit for UTF-8: half a surrogate pair in a reply is not."""
    if isinstance(record, str):
        return record.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if isinstance(record, tuple):
        parts = map(encodable, record)
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    return record


def encodable_explanation(explanation: Explanation) -> Explanation:
    """The model's part alone: the reader of a report has seen to the rest."""
    launches = tuple(
        each._replace(statement=encodable(each.statement)) for each in explanation.launches
    )
    return explanation._replace(launches=launches, author=encodable(explanation.author))


def author_name(author: Authorship) -> str:
    return f"model:{author.model}"


def usage_document(usage: Usage) -> UsageDocument:
    known = usage.cost is not None and math.isfinite(usage.cost)
    return UsageDocument(**{**usage._asdict(), "cost": usage.cost if known else "unknown"})


def hypothesis_documents(each: LaunchExplanation) -> list[HypothesisDocument]:
    return [
        HypothesisDocument(
            text=guess.text,
            finding=guess.finding,
            verdict=guess.judgement,
            reason=guess.reason,
            evidence=list(guess.evidence),
        )
        for guess in (each.statement.hypotheses if each.statement else ())
    ]


def model_document(each: LaunchExplanation) -> ModelDocument | None:
    statement = each.statement
    if statement is None:
        return None
    raised = {finding.id for finding in each.findings}
    return ModelDocument(
        purpose=statement.purpose,
        mapping=statement.mapping,
        summary=statement.summary,
        causes=_causes(statement.causes, raised),
        objections=_causes(statement.objections, raised),
        edits=[EditDocument(**edit._asdict()) for edit in statement.edits],
        dropped=[dropped_document(claim) for claim in statement.dropped],
        numbers=statement.numbers,
    )


def _causes(causes: Iterable[Cause], raised: set[str]) -> list[CauseDocument]:
    return [
        CauseDocument(
            finding=cause.finding,
            text=cause.text,
            evidence=list(cause.evidence),
            raised_by_analyst=cause.finding in raised,
        )
        for cause in causes
    ]


def dropped_document(claim: Dropped) -> DroppedDocument:
    return DroppedDocument(**claim._asdict())


def why(each: LaunchExplanation, finding: str) -> str | None:
    return " ".join(cause.text for cause in causes_of(each, finding)) or None


def model_numbers(explanation: Explanation) -> int:
    return sum(statement.numbers for statement in statements(explanation))


def dropped_lines(explanation: Explanation) -> list[str]:
    """Each with its launch: a program reads one line without the others."""
    return [
        f"launch {each.launch.id}, {claim_text(claim)}"
        for each in explanation.launches
        for claim in (each.statement.dropped if each.statement else ())
    ]
