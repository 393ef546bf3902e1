"""A model's part of an explanation, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.analyst import LaunchExplanation
from keet.explanation.statement import Authorship, Cause, Edit, Hypothesis, Statement
from keet.render.excerpt import language
from keet.render.markdown import code, fence, prose, table
from keet.render.statement_text import (
    MARKS,
    causes_beyond,
    causes_of,
    cited,
    code_lines,
    flat,
    is_diff,
    objections_beyond,
    objections_to,
    place_of,
    standing,
    title_of,
    usage_text,
    with_citations,
)
from keet.version import __version__


def words(text: str, evidence: Sequence[str] = ()) -> str:
    return prose(with_citations(text, evidence))


def why_markdown(each: LaunchExplanation, finding: str) -> Iterator[str]:
    for cause in causes_of(each, finding):
        yield f"**Why (model):** {words(cause.text, cause.evidence)}"
    for objection in objections_to(each, finding):
        yield f"**The model objects:** {words(objection.text, objection.evidence)}"


def statement_markdown(each: LaunchExplanation, author: Authorship) -> Iterator[str]:
    if each.statement is None:
        return
    yield f"#### What {code(author.model)} adds"
    yield from _account(each.statement)
    yield from _hypotheses(each.statement.hypotheses)
    yield from _causes_of("It also sees:", causes_beyond(each), each)
    yield from _causes_of("It objects to keet's:", objections_beyond(each), each)
    yield from _edits(each.statement.edits)
    yield from numbers_markdown(cited(each))


def _account(statement: Statement) -> Iterator[str]:
    if statement.summary:
        yield words(statement.summary)
    about = (("The code", statement.purpose), ("Threads", statement.mapping))
    rows = [f"- **{name}:** {words(text)}" for name, text in about if text]
    if rows:
        yield "\n".join(rows)


def _hypotheses(hypotheses: Sequence[Hypothesis]) -> Iterator[str]:
    if hypotheses:
        yield "Expected from the source, before any number was seen:"
        yield "\n".join(map(_hypothesis, hypotheses))


def _hypothesis(guess: Hypothesis) -> str:
    reason = words(guess.reason, guess.evidence)
    verdict = f"{MARKS[guess.judgement]} **{guess.judgement}**"
    return f"- {verdict}: {words(guess.text)}" + (f"\\\n  {reason}" if reason else "")


def _causes_of(title: str, causes: Sequence[Cause], each: LaunchExplanation) -> Iterator[str]:
    if causes:
        yield title
        yield "\n".join(_cause(cause, each) for cause in causes)


def _cause(cause: Cause, each: LaunchExplanation) -> str:
    known = standing(cause, each)
    told = f" ({prose(known)})" if known else ""
    return f"- **{prose(title_of(cause.finding))}**{told}: {words(cause.text, cause.evidence)}"


def _edits(edits: Sequence[Edit]) -> Iterator[str]:
    if edits:
        yield "Edits to try, as the model wrote them: not compiled, not measured."
    for number, edit in enumerate(edits, 1):
        yield f"**Edit {number}{_aim(edit)}:** {words(edit.what)}"
        if edit.code.strip():
            yield code_markdown(edit.code, edit.file)
        notes = (("Risk", edit.risk), ("Check", edit.check))
        rows = [f"- **{name}:** {words(text)}" for name, text in notes if text]
        if rows:
            yield "\n".join(rows)


def _aim(edit: Edit) -> str:
    place = place_of(edit)
    at = f" at {code(place)}" if place else ""
    return at + (f" for {prose(title_of(edit.finding).lower())}" if edit.finding else "")


def code_markdown(text: str, file: str | None = None) -> str:
    """A diff where it looks like one: a sketch would be coloured for nothing."""
    lines = code_lines(text)
    named = language(one_line(file)) if file else ""
    return fence(lines, "diff" if is_diff(lines) else named)


# --- what an answer shares with an explanation


def numbers_markdown(evidence: Sequence[Evidence]) -> Iterator[str]:
    if evidence:
        rows = [[number_name(entry), prose(str(entry))] for entry in evidence]
        yield table(["number cited", "value"], rows)


def number_name(entry: Evidence) -> str:
    line = f", {code(entry.line)}" if entry.line else ""
    return f"{entry.id}: {prose(flat(entry.label))}{line}"


def dropped_markdown(claims: Sequence[str]) -> Iterator[str]:
    if claims:
        yield "Not borne out by the report:"
        yield "\n".join(f"- {prose(claim)}" for claim in claims)


def author_markdown(
    author: Authorship, told: str, *, answered: bool, part: str = "part"
) -> Iterator[str]:
    if author.problem:
        lacking = "incomplete" if answered else "missing"
        yield f"**The model's {part} is {lacking}:** {prose(flat(author.problem))}"
    yield f"*{told}; keet {__version__}; {prose(usage_text(author))}*"
