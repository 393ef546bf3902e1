"""A model's text: checked sentences, and unchecked ones, which are printed with a mark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self

from keet.evidence.sentence import Sentence

UNCHECKED = "[unchecked]"


class Prose(str):
    """As a `str` it is the whole text, with unchecked sentences marked."""

    sentences: tuple[Sentence, ...] = ()

    def __new__(cls, sentences: Iterable[Sentence] = ()) -> Self:
        sentences = tuple(sentences)
        marks = (f"{UNCHECKED} " if each.problem else "" for each in sentences)
        told = "".join(f"{mark}{each}{each.ends}" for mark, each in zip(marks, sentences))
        prose = super().__new__(cls, re.sub(r"\n{3,}", "\n\n", told).strip())
        prose.sentences = sentences
        return prose

    def __reduce__(self) -> tuple[Any, ...]:
        return Prose, (self.sentences,)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of evidence, in the order of the text, including those in unchecked sentences."""
        return ids_of(self.sentences)

    @property
    def problems(self) -> tuple[Sentence, ...]:
        """The unchecked sentences."""
        return tuple(each for each in self.sentences if each.problem)

    @property
    def numbers(self) -> int:
        """Number of references in checked sentences."""
        return sum(each.numbers for each in self.sentences)

    def replaced(self, at: int, other: Prose) -> Prose:
        """With one sentence replaced by another text."""
        ends = [*(" " for _ in other.sentences[1:]), self.sentences[at].ends]
        new = (Sentence.of(s.parts, s.problem, e) for s, e in zip(other.sentences, ends))
        return Prose((*self.sentences[:at], *new, *self.sentences[at + 1 :]))


def ids_of(texts: Iterable[Sentence | Prose]) -> tuple[str, ...]:
    """The evidence of several texts, each once."""
    return tuple(dict.fromkeys(i for text in texts for i in text.ids))
