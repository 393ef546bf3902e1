"""Parts of a model's explanation, for tests of pages."""

from typing import Any

from keet.documents.model_explanation import (
    CauseDocument,
    EditDocument,
    ModelExplanation,
    UsageDocument,
)
from keet.evidence import Prose, Reference, Sentence


def cause(
    finding: str,
    text: Prose,
    because: tuple[Reference, ...] = (),
    where: str | None = None,
    problem: str | None = None,
    claim: Any = None,
) -> CauseDocument:
    facts = tuple(Sentence.of([fact]) for fact in because)
    given = {"finding": finding, "text": text, "where": where, "problem": problem, "claim": claim}
    return CauseDocument(because=facts, **given)


EDIT = {
    "diff": "",
    "places": (),
    "sketch": "",
    "problem": None,
    "build": "not checked",
    "build_text": "",
    "risk": Prose(),
    "check": Prose(),
}


def edit(
    finding: str | None,
    what: Prose = Prose(),  # noqa: B008
    *in_order: Any,
    **parts: Any,
) -> EditDocument:
    """Parts in the order of `EDIT`, or by name."""
    return EditDocument(
        finding=finding, what=what, **{**EDIT, **dict(zip(EDIT, in_order)), **parts}
    )


def said(summary: Prose = Prose(), **parts: Any) -> ModelExplanation:  # noqa: B008
    texts = {"purpose": Prose(), "causes": (), "edits": (), "leads": False}
    return ModelExplanation(summary=summary, **{**texts, **parts})


def usage(
    calls: int, cached: int, into: int, out: int, cost: Any, seconds: float, *more: bool
) -> UsageDocument:
    return UsageDocument(
        calls=calls,
        cached=cached,
        input_tokens=into,
        output_tokens=out,
        cost=cost,
        seconds=seconds,
        estimated=any(more),
    )
