"""Parts of a model's explanation, for tests of pages."""

from __future__ import annotations

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
    return CauseDocument(
        finding=finding, text=text, because=facts, where=where, problem=problem, claim=claim
    )


def edit(
    finding: str | None,
    what: Prose = Prose(),  # noqa: B008
    diff: str = "",
    places: tuple[str, ...] = (),
    sketch: str = "",
    problem: str | None = None,
    build: Any = "not checked",
    build_text: str = "",
    risk: Prose = Prose(),  # noqa: B008
    check: Prose = Prose(),  # noqa: B008
) -> EditDocument:
    return EditDocument(
        finding=finding,
        what=what,
        diff=diff,
        places=places,
        sketch=sketch,
        problem=problem,
        build=build,
        build_text=build_text,
        risk=risk,
        check=check,
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
