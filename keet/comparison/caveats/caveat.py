"""What makes two sides differ besides the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from keet.records import NamedTuple

Severity = Literal["forbids", "weakens", "note"]


class CaveatAdvice(NamedTuple):
    """What an option of `keet diff` would do about a reason."""

    what: str
    """The reason alone."""
    how: str
    """What to do, to be followed by the option."""
    option: str


class Caveat(NamedTuple):
    """Something that makes the two sides differ besides the program."""

    id: str
    severity: Severity
    text: str
    doubt: float = 0.0
    """By how much it may change the ratio of times."""
    no_verdict: bool = False
    """The text is a sentence that says that there is no verdict, so no severity precedes it."""
    advice: CaveatAdvice | None = None
    """Set where the text names an option."""

    def text_with(self, options: Mapping[str, str]) -> str:
        """The text for users of other options, by those of `keet diff`. What has no counterpart is
        not advised."""
        if self.advice is None:
            return self.text
        what, how, option = self.advice
        return f"{what}; {how} {options[option]}" if option in options else what

    @property
    def as_note(self) -> Caveat:
        """The same, where it does not weaken the comparison of times."""
        weight: Severity = "note" if self.severity == "weakens" else self.severity
        return self._replace(severity=weight, doubt=0.0)


def advised(id_: str, what: str, how: str, option: str, doubt: float = 0.0) -> Caveat:
    """A reason that forbids the comparison, and the option that allows it."""
    text = f"{what}; {how} {option}"
    return Caveat(id_, "forbids", text, doubt, advice=CaveatAdvice(what, how, option))


def doubt_of(caveats: Sequence[Caveat]) -> float:
    return sum(caveat.doubt for caveat in caveats)
