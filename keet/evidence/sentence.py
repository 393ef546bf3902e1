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

from keet.evidence.evidence import Evidence
from keet.formatting import capitalized, uncapitalized

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

    def __str__(self) -> str:
        return self.text


class Sentence(str):
    """A sentence, or a clause of one. As a `str` it is the printed text; methods of `str` other
    than `join` lose the parts."""

    parts: tuple[str | Reference, ...] = ()

    def __new__(cls, template: str = "", /, **values: Evidence | str) -> Self:
        """The template has names in braces, with formats as in `Evidence.__format__`. A value is
        evidence, another sentence, or words that state no number: a name from a report or of
        the catalog. ValueError: the template has a number of its own."""
        return cls.of(_filled(template, values))

    @classmethod
    def of(cls, parts: Iterable[str | Reference]) -> Self:
        """Of parts that are checked already."""
        parts = tuple(parts)
        sentence = str.__new__(cls, "".join(map(str, parts)))
        sentence.parts = parts
        return sentence

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


def _filled(template: str, values: Mapping[str, Evidence | str]) -> Iterator[str | Reference]:
    for words, name, form in _parsed(template):
        if words:
            yield words
        if name is None:
            continue
        value = values[name]
        if isinstance(value, Evidence):
            yield Reference(format(value, form), (value.id,) if value.id else ())
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
        from keet.evidence.free_numbers import number_in

        if number := number_in(words):
            raise ValueError(f"{template!r} states {number}: print numbers from evidence")
    return pieces
