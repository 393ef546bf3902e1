"""The type `Evidence`: a number measured in a report, or computed from such, with its source; and
texts made of words and evidence.

`Sentence("{share:.0f} of the {sectors}s are not needed.", share=share, sectors=sectors)` has the
text `75% of the 33,554,432 sectors are not needed.` and knows which parts of it are numbers. Texts
are never written with bare numbers, so that every printed number can be traced and checked. `Prose`
is a model's text: its sentences that could not be checked are printed with a mark.

Imported by every part that analyses or prints; imports units and formatting only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any, Literal, NamedTuple, Self

from keet.formatting import (
    capitalized,
    count_text,
    noun_for,
    percent_cell,
    percent_text,
    plural_of,
    short_count,
    speedup_text,
    time_share_text,
    times_text,
    uncapitalized,
)
from keet.units import Number, Quantity

MEASURED_SPEEDUPS = ("time before over time after", "time after over time before")
"""Labels of speed-ups measured with two reports, as opposed to forecasts."""


@lru_cache(maxsize=4096)
def slug_of(name: str) -> str:
    """A name in the form of ids: `left.DRAM` becomes `left_dram`. A minus sign becomes a word, and
    the first character is a letter."""
    plain = re.sub(r"(?<![A-Za-z0-9])-(?=[0-9])", "minus ", name)
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_").lower()
    return slug if slug[:1].isalpha() else f"n_{slug}"


Confidence = Literal["high", "medium", "low"]
"""How certain a conclusion from evidence is."""


class Evidence(NamedTuple):
    """One number of one launch."""

    id: str
    """How texts refer to it: the metric, the source line if it belongs to one, and after `#` the
    launch: `l2_hit_rate_pct#0`, `samples_share@flip.cu:31#0`. For several launches: `#run`. With
    several reports, the report precedes the launch: `#before.3`, `#1.3`. Empty for constants."""
    metric: str
    """ncu's name of the metric, or keet's own name for a computed number."""
    value: Number
    unit: str
    label: str
    """Name for display."""
    line: str | None = None
    """`file.cu:31` if the number belongs to one source line."""
    derived_from: tuple[str, ...] | None = None
    """Ids of the evidence that it was computed from."""

    @property
    def slug(self) -> str:
        """The id without the launch."""
        return self.id.partition("#")[0]

    @property
    def quantity(self) -> Quantity:
        return Quantity(self.value, self.unit)

    def __str__(self) -> str:
        return str(self.quantity)

    def __format__(self, spec: str) -> str:
        """For display. A spec such as `.0f` sets the digits; the unit is always added. `base`: in
        the unit that a person would choose. `number`: without the unit. `cell`, `count`, `share`,
        `short`, `speedup`, `times`: see `keet.formatting`."""
        if not spec:
            return str(self)
        if spec in _FORMS:
            return _FORMS[spec](self.value)
        if spec in ("number", "base"):
            return self.quantity.parts()[0] if spec == "number" else str(self.quantity.to_base())
        if self.unit == "%" and spec.endswith("g"):
            return f"{self.value:{spec}}%"
        if self.unit == "%":
            return percent_text(self.value, int(spec.removeprefix(",")[1:-1]))
        return f"{_rounded(self.value, spec)} {self.unit}".rstrip()


def of_quantity(quantity: Quantity, label: str) -> Evidence:
    """A quantity of a document, to be printed in a sentence."""
    return constant(quantity.value, quantity.unit, label)


def constant(value: Number, unit: str, label: str) -> Evidence:
    """A number that no report measures (a constant of the source or of an architecture), or a count
    of a listing, whose document has no evidence. It has no id, and is in no ledger."""
    return Evidence("", slug_of(label), value, unit, label)


def report_number(name: str, value: Number, label: str, unit: str = "") -> Evidence:
    """A number of the whole report, such as how many launches it has."""
    return Evidence(f"{name}#run", name, value, unit, label)


def finite(number: Evidence | None) -> float | None:
    """Its value; None for one that JSON does not have."""
    return float(number.value) if number and math.isfinite(number.value) else None


_FORMS: Mapping[str, Callable[[float], str]] = {
    "cell": percent_cell,
    "count": count_text,
    "share": time_share_text,
    "short": short_count,
    "speedup": speedup_text,
    "times": times_text,
}
_ENOUGH = 100
"""From this value on, tenths are false precision."""


def _rounded(value: Number, spec: str) -> str:
    """An amount that is not zero is not written as 0."""
    if spec == ".1f" and abs(value) >= _ENOUGH:
        return format(value, ",.0f")
    written = format(value, spec)
    if value > _NEGLIGIBLE and not written.strip("0."):
        return format(value, f".{-math.floor(math.log10(value))}f")
    return written


_NEGLIGIBLE = 1e-4
"""Numbers up to this may be written as 0."""


_MAY_BE_NUMBER = re.compile(r"(?<!\bL)\d|&|[^\x00-\x7f]")
"""Digits, and characters that may stand for them. Those of `L1` and `L2` are in many sentences, and
the module that knows such names takes long to import."""


Fault = Literal["unchecked", "contradicted", "undecided"]
"""What is wrong with a model's sentence. `unchecked`: its numbers could not be checked.
`contradicted`: a fact of the launch contradicts it. `undecided`: no fact decides its words; it is
marked like the first, but its numbers are checked, and it is not sent back."""


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
    """Why a model's sentence is printed with a mark."""
    fault: Fault = "unchecked"
    """What the problem is, if there is one."""
    ends: str = " "
    """What follows it in a model's text: a space, or the end of a line or paragraph."""

    def __new__(cls, template: str = "", /, **values: Evidence | str) -> Self:
        """The template has names in braces, with formats as in `Evidence.__format__`. A value is
        evidence, another sentence, or words that state no number: a name from a report or of
        the catalog. ValueError: the template has a number of its own."""
        return cls.of(_filled(template, values))

    @classmethod
    def of(
        cls,
        parts: Iterable[str | Reference],
        problem: str | None = None,
        ends: str = " ",
        fault: Fault = "unchecked",
    ) -> Self:
        """Of parts that are checked already, or have a problem."""
        parts = tuple(parts)
        sentence = str.__new__(cls, "".join(map(str, parts)))
        sentence.parts, sentence.problem, sentence.ends = parts, problem, ends
        sentence.fault = fault
        return sentence

    def with_parts(self, parts: Iterable[str | Reference]) -> Sentence:
        return Sentence.of(parts, self.problem, self.ends, self.fault)

    @property
    def mark(self) -> str:
        """What is printed before it; empty without a problem."""
        if self.problem is None:
            return ""
        if self.fault != "contradicted":
            return UNCHECKED
        return f"{CONTRADICTED} {self.problem.partition(';')[0].rstrip('.')}]"

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
        """How many it prints; none if they are unchecked."""
        return 0 if self.problem and self.fault == "unchecked" else len(self.references)

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
        return self._with_first(capitalized)

    def uncapitalized(self) -> Sentence:
        return self._with_first(uncapitalized)

    def _with_first(self, change: Callable[[str], str]) -> Sentence:
        """Unless it starts with a number."""
        first = self.parts[0] if self.parts else ""
        if isinstance(first, Reference):
            return self
        return Sentence.of((change(first), *self.parts[1:]))


def counted(number: Evidence | int, noun: str, plural: str = "") -> Sentence:
    """`1 kernel`, `2,048 launches`; `plural` where it is irregular."""
    if not isinstance(number, Evidence):
        number = constant(number, "", plural or plural_of(noun))
    word = noun_for(number.value, noun, plural)
    return Sentence("{number:count} {word}", number=number._replace(unit=""), word=word)


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


UNCHECKED = "[unchecked]"
CONTRADICTED = "[contradicted:"
"""How the mark begins; the fact follows."""


class Prose(str):
    """As a `str` it is the whole text, with unchecked sentences marked."""

    sentences: tuple[Sentence, ...] = ()

    def __new__(cls, sentences: Iterable[Sentence] = ()) -> Self:
        sentences = tuple(sentences)
        marks = (f"{sentence.mark} " if sentence.problem else "" for sentence in sentences)
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
        """The marked sentences."""
        return tuple(sentence for sentence in self.sentences if sentence.problem)

    @property
    def numbers(self) -> int:
        """Number of references in checked sentences."""
        return sum(sentence.numbers for sentence in self.sentences)

    def replaced(self, at: int, other: Prose) -> Prose:
        """With one sentence replaced by another text."""
        ends = [*(" " for _ in other.sentences[1:]), self.sentences[at].ends]
        new = (Sentence.of(s.parts, s.problem, e, s.fault) for s, e in zip(other.sentences, ends))
        return Prose((*self.sentences[:at], *new, *self.sentences[at + 1 :]))


def ids_of(texts: Iterable[Sentence | Prose]) -> tuple[str, ...]:
    """The evidence of several texts, each once."""
    return tuple(dict.fromkeys(i for text in texts for i in text.ids))
