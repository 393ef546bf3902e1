"""Computed numbers in a model's text: the result in the sentence, the computation below it."""

from __future__ import annotations

from collections.abc import Iterable

from keet.evidence import Prose, Reference, Sentence
from keet.safe_text import flat


def in_short(text: Prose) -> Prose:
    """The text with results only; `computations` returns how they were computed."""
    return Prose(map(short_sentence, text.sentences))


def short_sentence(sentence: Sentence) -> Sentence:
    return sentence.with_parts(
        part if isinstance(part, str) else part._replace(text=part.result or part.text)
        for part in sentence.parts
    )


def computations(texts: Iterable[Prose]) -> dict[str, Reference]:
    """`DRAM bytes read 537 MB / (N 4,096 × 4 B)` and its result, in the order of the texts."""
    references = (ref for text in texts for each in text.sentences for ref in each.references)
    return {_computed(reference): reference for reference in references if reference.result}


def computation_lines(text: Prose, printed: set[str]) -> list[str]:
    """`32,768 = DRAM bytes read 537 MB / (N 4,096 × 4 B)`.

    `printed`: computations already printed on the page; they are not repeated.
    """
    found = {how: ref for how, ref in computations([text]).items() if how not in printed}
    printed.update(found)
    return [f"{flat(reference.result)} = {how}" for how, reference in found.items()]


def _computed(reference: Reference) -> str:
    """The text is `RESULT (COMPUTATION)`."""
    how = flat(reference.text.removeprefix(reference.result))
    return how[1:-1] if how[:1] == "(" and how[-1:] == ")" else how
