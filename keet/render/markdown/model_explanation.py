"""A model's explanation in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from keet.evidence import Evidence
from keet.explanation.explain_document import BY_MODEL
from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import capitalized
from keet.render.common.computations import computations, in_short
from keet.render.common.model_explanation import (
    MARKS,
    OWN_WORDS,
    causes_beyond,
    causes_of,
    cited,
    claim_notes,
    code_lines,
    edit_status,
    is_diff,
    label_of,
    leading_edit,
    not_confirmed,
    objections_beyond,
    objections_to,
    other_edits,
    reason_text,
    standing,
    title_of,
    usage_text,
    without_guesses,
)
from keet.render.markdown.markup import code, fence, prose, table
from keet.safe_text import flat
from keet.version import __version__

if TYPE_CHECKING:
    from keet.documents.model_explanation import (
        Authorship,
        CauseDocument,
        EditDocument,
        HypothesisDocument,
        ModelExplanation,
    )
    from keet.evidence import Prose, Sentence


def words(text: Prose) -> str:
    """A paragraph; unchecked sentences are in italics, with the reason. For computed numbers only
    the result is printed: the table of numbers has the computation."""
    shown = (each for each in in_short(text).sentences if each.strip())
    return " ".join(map(sentence_markdown, shown))


def sentence_markdown(sentence: Sentence) -> str:
    text = prose(flat(sentence))
    return (
        f"*{text}* (unchecked: {prose(reason_text(sentence.problem))})"
        if sentence.problem
        else text
    )


def headline_markdown(each: LaunchExplanation) -> Iterator[str]:
    model = each.model_explanation
    mark = f" ({BY_MODEL})" if model and model.leads else ""
    yield f"**{prose(each.verdict.headline)}**{mark}"
    if model and model.summary:
        yield f"**Model:** {words(model.summary)}"


def why_markdown(each: LaunchExplanation, finding: str) -> Iterator[str]:
    for cause in causes_of(each, finding):
        yield f"**Why (model):** {words(cause.text)}{_notes(cause, standing(cause, each))}"
    for objection in objections_to(each, finding):
        notes = _notes(objection, not_confirmed(objection))
        yield f"**The model objects:** {words(objection.text)}{notes}"


def _notes(cause: CauseDocument, known: str) -> str:
    """keet's remarks."""
    notes = "; ".join([*filter(None, [known]), *claim_notes(cause)])
    facts = ", ".join(map(flat, cause.because))
    text = f" ({prose(notes)})" if notes else ""
    return f"{text} Based on: {prose(facts)}." if facts else text


def edits_markdown(each: LaunchExplanation) -> Iterator[str]:
    first = leading_edit(each)
    edits = [*([first] if first else []), *other_edits(each)]
    for number, edit in enumerate(edits, 1):
        yield f"**Edit {number} (model){_aim(edit)}:** {words(edit.what)}"
        yield from _code(edit)
        yield from _edit_notes(edit)


def _aim(edit: EditDocument) -> str:
    places = ", ".join(code(flat(place)) for place in edit.places)
    at = f" at {places}" if places else ""
    return at + (f" for {prose(label_of(edit.finding))}" if edit.finding else "")


def _code(edit: EditDocument) -> Iterator[str]:
    if edit.diff:
        yield fence(edit.diff.strip("\r\n").splitlines(), "diff")
    elif edit.sketch.strip():
        yield fence(code_lines(edit.sketch), "diff" if is_diff(edit.sketch) else "cuda")


def _edit_notes(edit: EditDocument) -> Iterator[str]:
    status = edit_status(edit)
    rows = [f"- {prose(capitalized(status))}"] if edit.diff or edit.problem else []
    notes = (("Risk", edit.risk), ("Check", edit.check))
    rows += [f"- **{name}:** {words(text)}" for name, text in notes if text]
    if rows:
        yield "\n".join(rows)


def model_markdown(each: LaunchExplanation, *, verbose: bool) -> Iterator[str]:
    """The parts of the model's explanation that are not printed with the findings and edits."""
    if each.model_explanation is None:
        return
    also = [_cause(cause, standing(cause, each)) for cause in causes_beyond(each)]
    yield from _list("The model also names:", also)
    against = [_cause(cause, not_confirmed(cause)) for cause in objections_beyond(each)]
    yield from _list("The model objects to:", against)
    yield from _analyst(each.model_explanation)
    if verbose:
        yield from _about(each.model_explanation)
        yield from _hypotheses(each.model_explanation.hypotheses)
    printed = without_guesses(each.model_explanation, everything=verbose)
    texts = [text for _, text in printed.texts]
    yield from numbers_markdown(cited(each, everything=verbose), texts)


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield title
        yield "\n".join(items)


def _cause(cause: CauseDocument, known: str) -> str:
    at = f" at {code(flat(cause.where))}" if cause.where else ""
    head = f"**{prose(title_of(cause.finding))}**{at}"
    return f"- {head}: {words(cause.text)}{_notes(cause, known)}"


def _analyst(statement: ModelExplanation) -> Iterator[str]:
    if statement.leads and statement.analyst_headline:
        yield f"Without the model, keet's headline is: {prose(flat(statement.analyst_headline))}"


def _about(statement: ModelExplanation) -> Iterator[str]:
    about = (("The code", statement.purpose), ("Threads", statement.mapping))
    rows = [f"- **{name}:** {words(text)}" for name, text in about if text]
    if rows:
        yield "\n".join(rows)


def _hypotheses(hypotheses: Sequence[HypothesisDocument]) -> Iterator[str]:
    items = list(map(_hypothesis, hypotheses))
    yield from _list("Expected from the source alone, before the model saw any number:", items)


def _hypothesis(guess: HypothesisDocument) -> str:
    reason = words(guess.reason)
    verdict = f"{MARKS[guess.verdict]} **{guess.verdict}**"
    return f"- {verdict}: {words(guess.text)}" + (f"\\\n  {reason}" if reason else "")


# --- shared by `keet ask` and `keet explain`


def numbers_markdown(
    evidence: Sequence[Evidence], texts: Sequence[Prose], launches: Sequence[str] = ()
) -> Iterator[str]:
    """The numbers that `texts` refer to, and the numbers computed from them. `launches`: the launch
    of each number, if there are several."""
    head = ["number", "value", "metric", "place", *(["launch"] if launches else []), "id"]
    rows = [
        [prose(flat(entry.label)), prose(str(entry)), code(flat(entry.metric)), _place(entry),
         *launches[place : place + 1], code(flat(entry.id))]
        for place, entry in enumerate(evidence)
    ]  # fmt: skip
    rows += [
        [prose(how), prose(flat(found.result)), "computed", "", *([""] if launches else []),
         ", ".join(code(flat(entry)) for entry in found.ids)]
        for how, found in computations(texts).items()
    ]  # fmt: skip
    if rows:
        yield "Numbers that the model refers to:"
        yield table(head, rows)


def _place(entry: Evidence) -> str:
    return code(flat(entry.line)) if entry.line else ""


def author_markdown(
    author: Authorship, introduction: str, *, answered: bool, part: str = "part"
) -> Iterator[str]:
    if author.problem:
        lacking = "incomplete" if answered else "missing"
        yield f"**The model's {part} is {lacking}:** {prose(flat(author.problem))}"
    sentences = " ".join(filter(None, [introduction, OWN_WORDS if answered else ""]))
    yield f"*{sentences} keet {__version__}; {prose(usage_text(author))}*"
