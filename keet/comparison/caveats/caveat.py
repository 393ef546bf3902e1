"""`Caveat`: something besides the program that makes two sides differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keet.documents.diff import Severity


class CaveatAdvice(NamedTuple):
    """The option of `keet diff` that resolves a caveat."""

    what: str
    """The caveat without the advice."""
    how: str
    """What to do; the option follows."""
    option: str


class Caveat(NamedTuple):
    """Something besides the program that makes two sides differ.

    `forbids`: `keet diff` refuses to compare (exit 6) without --force. `weakens`: a difference must
    exceed the noise plus `doubt`. `note`: is only printed.
    """

    id: str
    severity: Severity
    text: str
    doubt: float = 0.0
    """By how much it may change the logarithm of the ratio of times."""
    no_verdict: bool = False
    """The text itself says that there is no verdict: it is printed without its severity."""
    advice: CaveatAdvice | None = None
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
        return self._replace(severity=weight, doubt=0.0)


def advised(id_: str, what: str, how: str, option: str, doubt: float = 0.0) -> Caveat:
    """A caveat that forbids the comparison, and the option that allows it."""
    text = f"{what}; {how} {option}"
    return Caveat(id_, "forbids", text, doubt, advice=CaveatAdvice(what, how, option))


def doubt_of(caveats: Sequence[Caveat]) -> float:
    return sum(caveat.doubt for caveat in caveats)
