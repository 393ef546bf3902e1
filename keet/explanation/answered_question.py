"""A question about reports and the answer of a model, with its evidence (`keet ask`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from keet.explanation.model_explanation import Authorship, UncheckedSentence, unchecked
from keet.prose.text import Prose

if TYPE_CHECKING:
    from keet.evidence import Evidence
    from keet.explanation.explanation_types import Explanation


class AnsweredQuestion(NamedTuple):
    """A question about reports, answered by a model."""

    question: str
    text: Prose
    evidence: tuple[Evidence, ...]
    """What the answer refers to."""
    explanations: tuple[Explanation, ...]
    """The reports that were asked about."""
    author: Authorship
    followups: tuple[str, ...]
    """Commands to go on with."""

    @property
    def unchecked(self) -> tuple[UncheckedSentence, ...]:
        return tuple(unchecked("answer", each) for each in self.text.problems)
