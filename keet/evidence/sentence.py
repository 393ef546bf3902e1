"""A sentence is words and evidence: its numbers are printed from evidence, and keep their ids.

`Sentence("{share:.0f} of the {sectors}s are not needed.", share=share, sectors=sectors)` has the
text `75% of the 33,554,432 sectors are not needed.` and knows which parts of it are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple, Self

from keet.evidence.evidence import Evidence, constant
from keet.formatting import capitalized, plural_of, uncapitalized

_MAY_BE_NUMBER = re.compile(r"[\d&]|[^\x00-\x7f]")
"""Digits, and characters that may stand for them."""


class Reference(NamedTuple):
    """A number in a sentence, printed or computed by keet."""

    text: str
    """`82%`; in a model's text with its label: `82.0% (L2 hit rate)`, or with its computation:
    `32,768 (DRAM bytes read 537 MB / (N 4,096 × 4 B))`."""
    ids: tuple[str, ...]
    """Evidence; empty for constants of the source, the launch or the device."""
    written: str = ""
    """As a model wrote it, without braces."""
    result: str = ""
    """For arithmetic, the result alone: `32,768`. Short texts print the computation separately."""
    evidence: Evidence | None = None
    """What keet's own sentences print it from; None in a model's text."""

    def __str__(self) -> str:
        return self.text


class Sentence(str):
    """A sentence of keet or of a model, or a clause of one. As a `str` it is the printed text;
    methods of `str` other than `join` lose the parts."""

    parts: tuple[str | Reference, ...] = ()
    problem: str | None = None
    """Why keet could not check the numbers of a model's sentence: it is printed as unchecked."""
    ends: str = " "
    """What follows it in a model's text: a space, or the end of a line or paragraph."""

    def __new__(cls, template: str = "", /, **values: Evidence | str) -> Self:
        """The template has names in braces, with formats as in `Evidence.__format__`. A value is
        evidence, another sentence, or words that state no number: a name from a report or of
        the catalog. ValueError: the template has a number of its own."""
        return cls.of(_filled(template, values))

    @classmethod
    def of(
        cls, parts: Iterable[str | Reference], problem: str | None = None, ends: str = " "
    ) -> Self:
        """Of parts that are checked already, or have a problem."""
        parts = tuple(parts)
        sentence = str.__new__(cls, "".join(map(str, parts)))
        sentence.parts, sentence.problem, sentence.ends = parts, problem, ends
        return sentence

    def with_parts(self, parts: Iterable[str | Reference]) -> Sentence:
        return Sentence.of(parts, self.problem, self.ends)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made from the parts: the text itself is not a template."""
        return self.of, (self.parts,), vars(self)

    @property
    def references(self) -> tuple[Reference, ...]:
        return tuple(part for part in self.parts if isinstance(part, Reference))

    @property
    def ids(self) -> tuple[str, ...]:
        """The evidence of its numbers, each once, in the order of the text."""
        return tuple(dict.fromkeys(i for reference in self.references for i in reference.ids))

    @property
    def evidence(self) -> dict[str, Evidence]:
        """Of the numbers in keet's own sentences, by id; constants have none."""
        return {r.evidence.id: r.evidence for r in self.references if r.evidence and r.ids}

    @property
    def numbers(self) -> int:
        """How many it prints; none if it is unchecked."""
        return 0 if self.problem else len(self.references)

    @property
    def written(self) -> str:
        """As a model wrote it."""
        return "".join(
            part if isinstance(part, str) else f"{{{part.written}}}" for part in self.parts
        )

    def join(self, clauses: Iterable[str], /) -> Sentence:
        between: tuple[str | Reference, ...] = ()
        parts: list[str | Reference] = []
        for clause in clauses:
            parts += (*between, *_parts_of(clause))
            between = self.parts
        return Sentence.of(parts)

    def capitalized(self) -> Sentence:
        first = self.parts[0] if self.parts else ""
        if isinstance(first, Reference):
            return self
        return Sentence.of((capitalized(first), *self.parts[1:]))

    def uncapitalized(self) -> Sentence:
        first = self.parts[0] if self.parts else ""
        if isinstance(first, Reference):
            return self
        return Sentence.of((uncapitalized(first), *self.parts[1:]))


def counted(number: Evidence | int, noun: str, plural: str = "") -> Sentence:
    """`1 kernel`, `2,048 launches`; `plural` where it is irregular."""
    if not isinstance(number, Evidence):
        number = constant(number, "", plural or plural_of(noun))
    word = noun if number.value == 1 else plural or plural_of(noun)
    return Sentence("{number:,d} {word}", number=number._replace(unit=""), word=word)


def _filled(template: str, values: Mapping[str, Evidence | str]) -> Iterator[str | Reference]:
    for words, name, form in _parsed(template):
        if words:
            yield words
        if name is None:
            continue
        value = values[name]
        if isinstance(value, Evidence):
            ids = (value.id,) if value.id else ()
            yield Reference(format(value, form), ids, evidence=value)
        elif isinstance(value, str):
            yield from _parts_of(value)
        else:
            raise TypeError(f"{{{name}}} is {value!r}, but numbers are printed from evidence")


def _parts_of(text: str) -> tuple[str | Reference, ...]:
    return text.parts if isinstance(text, Sentence) else (text,) if text else ()


@lru_cache(maxsize=4096)
def _parsed(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Words, the name of the value that follows them (None at the end), and its format."""
    parsed = Formatter().parse(template)
    pieces = tuple((words, name, form or "") for words, name, form, _ in parsed)
    words = "{}".join(words for words, _, _ in pieces)
    if _MAY_BE_NUMBER.search(words):
        from keet.evidence.digits import number_in

        if number := number_in(words):
            raise ValueError(f"{template!r} states {number}: print numbers from evidence")
    return pieces
