"""Parts of a model's explanation that views share: first screen, `--verbose`, `keet ask`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.model_explanation import Authorship, EditDocument
from keet.evidence import UNCHECKED, Prose, Sentence
from keet.explanation.explain_document import BY_MODEL, unchecked_lines
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.render.common.model_explanation import (
    OWN_WORDS,
    aim_of,
    edit_status,
    places_of,
    unchecked_text,
    usage_text,
)
from keet.render.terminal.finding import indented
from keet.render.terminal.layout import Renderable, Text
from keet.safe_text import flat

BY = "bold magenta"
"""Style of text by a model."""
EDIT_INDENT = 5


def words(text: Prose) -> Text:
    """A model's text, with the mark of unchecked sentences highlighted."""
    return Text(" ").join(_marked(each) for each in text.sentences if each.strip())


def _marked(sentence: Sentence) -> Text:
    text = flat(sentence)
    return Text.assemble((UNCHECKED, "yellow"), f" {text}") if sentence.problem else Text(text)


def headline_view(each: LaunchExplanation) -> Renderable:
    leads = bool(each.model_explanation and each.model_explanation.leads)
    mark = Text(f" ({BY_MODEL})", BY) if leads else Text()
    return indented(Text.assemble((each.verdict.headline, "bold"), mark), 2)


def summary_view(summary: Prose) -> Renderable:
    return indented(Text.assemble(("Model: ", BY), words(summary)), 2)


def edit_head(number: int, edit: EditDocument, each: LaunchExplanation) -> Text:
    """Title of an edit."""
    place, aim = places_of(edit), aim_of(edit, each)
    at = Text.assemble(" at ", (place, "cyan")) if place else ""
    other = f", instead of edit {edit.instead_of}" if edit.instead_of else ""
    return Text.assemble((f"Edit {number} (model)", BY), at, f" {aim}" if aim else "", other)


def edit_status_view(edit: EditDocument) -> Iterator[Renderable]:
    good = bool(edit.diff) and edit.build != "fails"
    if edit.diff or edit.problem:
        yield indented(Text(edit_status(edit), "green" if good else "yellow"), EDIT_INDENT)


# --- the end of the page


def model_closing(
    explanation: Explanation, author: Authorship, unchecked: int, *, verbose: bool
) -> Iterator[Renderable]:
    """Which parts are written by the model, and what they cost. `unchecked`: number of marked
    sentences."""
    answered = any(each.model_explanation for each in explanation.launches)
    if answered:
        yield from own_words_view(unchecked)
    if verbose:
        yield from reasons_view(list(unchecked_lines(explanation)))
    elif answered:
        yield Text("Everything the model wrote, and the numbers it refers to: --verbose", "dim")
    yield from author_view(author, answered=answered)


def own_words_view(unchecked: int) -> Iterator[Renderable]:
    yield Text(OWN_WORDS, "dim")
    if unchecked:
        yield Text(unchecked_text(unchecked), "yellow")


def reasons_view(lines: Sequence[str]) -> Iterator[Renderable]:
    for line in lines:
        yield indented(Text(line), 2)


def author_view(author: Authorship, *, answered: bool, part: str = "part") -> Iterator[Renderable]:
    usage = author.usage
    if answered or usage.calls or usage.cached:
        yield Text(usage_text(author), "dim")
    if author.problem:
        lacking = "incomplete" if answered else "missing"
        yield Text(f"The model's {part} is {lacking}: {flat(author.problem)}", "bold yellow")
    if author.transcript:
        yield Text(f"Transcript: {flat(author.transcript)}", "dim")
