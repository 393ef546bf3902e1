"""A model's explanation of a launch on a page: summary, causes and edits, each with keet's check.

Numbers in its texts link to their table; sentences that keet could not check are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.model_explanation import (
    Authorship,
    CauseDocument,
    HypothesisDocument,
    ModelExplanation,
)
from keet.evidence import Prose
from keet.explanation.explain_document import unchecked_lines
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html.finding import Lines
from keet.formats.html.markup import Content, Html, element, joined, prose
from keet.formats.html.model_edits import edits_section
from keet.formats.html.model_texts import ModelWords
from keet.pages.anchors import Anchors
from keet.pages.model_words import (
    MARKS,
    OWN_WORDS,
    causes_beyond,
    claim_notes,
    model_explanations,
    not_confirmed,
    objections_beyond,
    standing,
    title_of,
    unchecked_text,
    usage_text,
)
from keet.safe_text import flat

_BADGES = {"confirmed": "badge good", "refuted": "badge bad", "inconclusive": "badge warn"}


def model_section(
    each: LaunchExplanation, anchors: Anchors, lines: Lines | None = None
) -> Html | None:
    """Everything that the model wrote about a launch; None without a model.

    `lines`: source lines that texts link to.
    """
    said = each.model_explanation
    if said is None:
        return None
    words = ModelWords(each, anchors, lines)
    return element(
        "section",
        element("h3", "What the model says"),
        element("p", words.of(said.summary), class_="summary") if said.summary else None,
        _causes(each, words),
        edits_section(each, words),
        _analyst(said),
        _expected(said, words),
        words.numbers(),
        class_="model",
        id=anchors.launch(each.launch.id, "model"),
    )


# --- causes and objections


def _causes(each: LaunchExplanation, words: ModelWords) -> Iterator[Html]:
    said = each.model_explanation
    if said is None:
        return
    beyond, unlisted = causes_beyond(each), objections_beyond(each)
    titled = (
        ("Why", [cause for cause in said.causes if cause not in beyond], True),
        ("It also names", list(beyond), True),
        ("It objects to", [c for c in said.objections if c not in unlisted], False),
        ("It also objects to", list(unlisted), False),
    )
    for title, causes, is_cause in titled:
        if causes:
            rows = [
                _cause(cause, standing(cause, each) if is_cause else not_confirmed(cause), words)
                for cause in causes
            ]
            yield element("h4", title)
            yield element("ul", rows, class_="causes")


def _cause(cause: CauseDocument, known: str, words: ModelWords) -> Html:
    """`known`: what keet says about it."""
    at = [" at ", words.place(flat(cause.where))] if cause.where else None
    head = element("strong", words.finding(cause.finding, title_of(cause.finding)), at, ":")
    return element("li", head, " ", words.of(cause.text), _notes(cause, known, words))


def _notes(cause: CauseDocument, known: str, words: ModelWords) -> Iterator[Content]:
    notes = "; ".join([*filter(None, [known]), *claim_notes(cause)])
    if notes:
        kind = "warn" if known.startswith("not confirmed") else "muted"
        yield [" ", element("span", f"({notes})", class_=kind)]
    if cause.because:
        facts = joined([words.reference(*fact.references) for fact in cause.because], ", ")
        yield element("p", "Based on: ", facts, ".", class_="rests")


def _analyst(statement: ModelExplanation) -> Html | None:
    if not (statement.leads and statement.analyst_headline):
        return None
    text = prose(flat(statement.analyst_headline))
    return element("p", "Without the model, keet's headline is: ", text, class_="note")


# --- what it expected


def _expected(statement: ModelExplanation, words: ModelWords) -> Html | None:
    about = (("The code", statement.purpose), ("Threads", statement.mapping))
    facts = [_fact(name, text, words) for name, text in about if text]
    guesses = [_hypothesis(guess, words) for guess in statement.hypotheses]
    if not (facts or guesses):
        return None
    expected = "Expected from the source alone, before the model saw any number:"
    return element(
        "details",
        element("summary", "How the model reads the code, and what it expected"),
        element("dl", facts, class_="facts") if facts else None,
        [element("p", expected), element("ul", guesses, class_="causes")] if guesses else None,
        class_="fold",
        data_print=True,
    )


def _fact(name: str, text: Prose, words: ModelWords) -> Content:
    return [element("dt", name), element("dd", words.of(text))]


def _hypothesis(guess: HypothesisDocument, words: ModelWords) -> Html:
    verdict = f"{MARKS[guess.verdict]} {guess.verdict}"
    return element(
        "li",
        element("span", verdict, class_=_BADGES[guess.verdict]),
        " ",
        element("strong", words.of(guess.text)),
        [" ", words.of(guess.reason)] if guess.reason else None,
    )


# --- the end of the page


def model_footer(explanation: Explanation) -> Html | None:
    """What keet checked, what it could not check, and what the model was asked; None without a
    model."""
    author = explanation.author
    if author is None:
        return None
    answered = model_explanations(explanation)
    unchecked = list(unchecked_lines(explanation))
    return element(
        "div",
        _problem(author, answered=bool(answered)),
        element("p", OWN_WORDS) if answered else None,
        _unchecked(unchecked),
        element("p", usage_text(author)) if answered or _was_asked(author) else None,
        class_="model-foot",
    )


def _was_asked(author: Authorship) -> bool:
    return bool(author.usage.calls or author.usage.cached)


def _problem(author: Authorship, *, answered: bool) -> Html | None:
    if not author.problem:
        return None
    lacking = "incomplete" if answered else "missing"
    text = f"The model's part is {lacking}: "
    return element("p", element("strong", text), flat(author.problem), class_="note warn")


def _unchecked(lines: Sequence[str]) -> Html | None:
    if not lines:
        return None
    return element(
        "details",
        element("summary", unchecked_text(len(lines))),
        element("ul", [element("li", prose(line)) for line in lines]),
        class_="fold",
        data_print=True,
    )
