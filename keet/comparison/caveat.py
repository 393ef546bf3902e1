"""`Caveat`: something besides the program that makes two sides differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from keet.documents.diff import ReasonDocument, Severity
from keet.documents.document import live
from keet.evidence import Sentence, constant


class DiffOption(str):
    """An option of `keet diff` in a text. The text of another command names both."""

    __slots__ = ()


COUNTS = DiffOption("--times N:M")
BEFORE_TABLE = DiffOption("--run-table-before")


def naming_keet_diff(text: Sentence) -> Sentence:
    """The text with `keet diff` before its options."""
    return text.with_parts(f"keet diff {x}" if isinstance(x, DiffOption) else x for x in text.parts)


class CaveatAdvice(NamedTuple):
    """The option of `keet diff` that resolves a caveat."""

    what: str
    """The caveat without the advice."""
    how: str
    """What to do; the option follows."""
    option: DiffOption


class Caveat(ReasonDocument):
    """Something besides the program that makes two sides differ.

    `forbids`: `keet diff` refuses to compare (exit 6) without --force. `weakens`: a difference must
    exceed the noise plus `doubt`. `note`: is only printed.
    """

    doubt: float = live(default=0.0)
    """By how much it may change the logarithm of the ratio of times."""
    no_verdict: bool = live(default=False)
    """The text itself says that there is no verdict: it is printed without its severity."""
    advice: CaveatAdvice | None = live(default=None)
    """Set if the text names an option."""

    def text_with(self, options: Mapping[str, str]) -> str:
        """The text with other option names, by those of `keet diff`. Advice without a counterpart
        is left out."""
        if self.advice is None:
            return self.text
        what, how, option = self.advice
        return f"{what}; {how} {options[option]}" if option in options else what

    @property
    def as_note(self) -> Caveat:
        """The same caveat as a note, for times that it does not affect."""
        weight: Severity = "note" if self.severity == "weakens" else self.severity
        return replace(self, severity=weight, doubt=0.0)


def note(id_: str, text: str) -> Caveat:
    return Caveat(id=id_, severity="note", text=text)


def weakens(id_: str, text: str, doubt: float) -> Caveat:
    return Caveat(id=id_, severity="weakens", text=text, doubt=doubt)


def no_verdict(id_: str, of: str, why: str) -> Caveat:
    """`of`: a kernel, or `the total`."""
    text = Sentence("No verdict on {of}: {why}", of=of, why=why)
    return Caveat(id=id_, severity="weakens", text=text, no_verdict=True)


def forbids(id_: str, text: str) -> Caveat:
    return Caveat(id=id_, severity="forbids", text=text)


def advised(id_: str, what: str, how: str, option: DiffOption, doubt: float = 0.0) -> Caveat:
    """A caveat that forbids the comparison, and the option that allows it."""
    text = Sentence("{what}; {how} {option}", what=what, how=how, option=option)
    advice = CaveatAdvice(what, how, option)
    return Caveat(id=id_, severity="forbids", text=text, doubt=doubt, advice=advice)


def doubt_of(caveats: Sequence[Caveat]) -> float:
    return sum(caveat.doubt for caveat in caveats)


_LISTED = 3


def listed(names: Sequence[str], noun: str = "") -> Sentence:
    """The first three: `a, b, c and 2 more`. `noun`: of what there are more."""
    shown = ", ".join(names[:_LISTED])
    if len(names) <= _LISTED:
        return Sentence("{shown}", shown=shown)
    more = constant(len(names) - _LISTED, "", "names that are not listed")
    behind = f" {noun}" if noun else ""
    return Sentence("{shown} and {more} more{noun}", shown=shown, more=more, noun=behind)
