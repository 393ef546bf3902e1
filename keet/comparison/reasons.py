"""What makes two sides differ besides the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Severity = Literal["forbids", "weakens", "note"]


class Reason(NamedTuple):
    """Something that makes the two sides differ besides the program."""

    id: str
    severity: Severity
    text: str
    doubt: float = 0.0
    """By how much it may change the ratio of times."""
    no_verdict: bool = False
    """The text is a sentence that says that there is no verdict, so no severity precedes it."""

    @property
    def noted(self) -> Reason:
        """The same, where it does not weaken the comparison of times."""
        weight: Severity = "note" if self.severity == "weakens" else self.severity
        return self._replace(severity=weight, doubt=0.0)


def doubt_of(reasons: Sequence[Reason]) -> float:
    return sum(reason.doubt for reason in reasons)
