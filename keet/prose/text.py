"""A checked text: sentences of words and references, each with its problem."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from keet.evidence import Reference, Sentence


class ProseSentence(Sentence):
    """A sentence of a model."""

    problem: str | None = None
    """Why keet could not check its numbers: it is printed as unchecked."""
    ends: str = " "
    """What follows: a space, or the end of a line or paragraph."""

    def __new__(
        cls, parts: Iterable[str | Reference], problem: str | None = None, ends: str = " "
    ) -> Self:
        sentence = cls.of(parts)
        sentence.problem, sentence.ends = problem, ends
        return sentence

    def with_parts(self, parts: Iterable[str | Reference]) -> ProseSentence:
        return ProseSentence(parts, self.problem, self.ends)

    @property
    def written(self) -> str:
        """As the author wrote it."""
        return "".join(
            part if isinstance(part, str) else f"{{{part.written}}}" for part in self.parts
        )


class Prose(NamedTuple):
    """A text sentence by sentence."""

    sentences: tuple[ProseSentence, ...] = ()

    def __str__(self) -> str:
        """With unchecked sentences marked."""
        told = "".join(f"{marked(each)}{each.ends}" for each in self.sentences)
        return re.sub(r"\n{3,}", "\n\n", told).strip()

    def __bool__(self) -> bool:
        return any(each.strip() for each in self.sentences)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of evidence, in the order of the text, including those in unchecked sentences."""
        return tuple(dict.fromkeys(i for each in self.sentences for i in each.ids))

    @property
    def problems(self) -> tuple[ProseSentence, ...]:
        return tuple(each for each in self.sentences if each.problem)

    @property
    def checked(self) -> Prose:
        """Without unchecked sentences."""
        return Prose(tuple(each for each in self.sentences if not each.problem))

    @property
    def numbers(self) -> int:
        """Number of references in checked sentences."""
        return sum(len(each.references) for each in self.sentences if not each.problem)

    def replaced(self, at: int, other: Prose) -> Prose:
        """With one sentence replaced by another text."""
        end = self.sentences[at].ends
        ends = [*(" " for _ in other.sentences[1:]), end]
        new = (ProseSentence(s.parts, s.problem, e) for s, e in zip(other.sentences, ends))
        return Prose((*self.sentences[:at], *new, *self.sentences[at + 1 :]))


UNCHECKED = "[unchecked]"


def marked(sentence: ProseSentence) -> str:
    return f"{UNCHECKED} {sentence}" if sentence.problem else sentence


def sentences_of(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence with its end. Braces and code spans are never split."""
    for paragraph, end in _paragraphs(text):
        flat = " ".join(paragraph.split())
        pieces = list(_cut(flat))
        for place, piece in enumerate(pieces):
            yield piece, " " if place + 1 < len(pieces) else end


_ITEM = r"\s*(?:[-*+•]|\d+[.)])\s"
SPAN = re.compile(r"`([^`]*)`|\{{1,2}([^{}]*)\}{1,2}")
"""Code, whose braces are not references; or a reference, also in double braces."""


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and list items, each with its end. Code spans end with their paragraph."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        for part in _items(paragraph):
            if part.strip():
                yield part, "\n" if re.match(_ITEM, part) else "\n\n"


def _items(paragraph: str) -> Iterator[str]:
    begin = 0
    for match in re.finditer(rf"\n(?={_ITEM})", _hidden(paragraph)):
        yield paragraph[begin : match.start()]
        begin = match.end()
    yield paragraph[begin:]


def _hidden(text: str) -> str:
    """With code and references replaced by underscores; positions stay."""
    return SPAN.sub(lambda match: "_" * len(match[0]), text)


_END = re.compile(r"(?<=[.!?])(?:['\")\]*_]*)\s+(?=[^\s])")
_ABBREVIATED = re.compile(
    r"\b(?:e\.g|i\.e|vs|approx|ca|avg|etc|no|fig|max|min|cf)\.$|^\(?\d{1,2}\.$", re.I
)
"""A number at the beginning is a list number."""


def _cut(text: str) -> Iterator[str]:
    hidden = _hidden(text)
    begin = 0
    for match in _END.finditer(hidden):
        if _ABBREVIATED.search(hidden[max(begin, match.start() - 12) : match.start()]):
            continue
        yield text[begin : match.end()].strip()
        begin = match.end()
    if text[begin:].strip():
        yield text[begin:].strip()
