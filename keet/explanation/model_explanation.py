"""A model's explanation of a launch, after keet resolved its references and computed its claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.evidence import Reference
from keet.prose.text import Prose, ProseSentence

if TYPE_CHECKING:
    from keet.diagnosis.claims.evaluation import EvaluatedClaim

Judgement = Literal["confirmed", "refuted", "inconclusive"]


class Hypothesis(NamedTuple):
    """A guess from the source alone, which the model later judges by the numbers."""

    text: Prose
    finding: str | None
    """A finding id, if it is one."""
    judgement: Judgement
    reason: Prose


class ModelCause(NamedTuple):
    """Why the code behaves as measured, or what is wrong with a finding of the analyst."""

    finding: str
    """A finding id."""
    text: Prose
    because: tuple[Reference, ...]
    """Measured facts and true comparisons."""
    where: str | None = None
    """`slow.cu:31`"""
    problem: str | None = None
    """Why it remains the model's opinion: a false fact, or what the report shows against it. None:
    the report does not contradict it."""
    claim: EvaluatedClaim | None = None
    """What keet computed for it; None if there is a problem, and for objections."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of its evidence."""
        named = (i for reference in self.because for i in reference.ids)
        return tuple(dict.fromkeys((*self.text.ids, *named)))


class Edit(NamedTuple):
    """A change to the code."""

    finding: str | None
    what: Prose
    diff: str
    """Unified diff that applies to the source, or empty."""
    places: tuple[str, ...]
    """`slow.cu:31-34`, where the diff changes the source."""
    sketch: str
    """What the model wrote, if it could not be turned into a diff."""
    problem: str | None
    """Why there is no diff."""
    build: Literal["compiles", "fails", "not checked"]
    build_text: str
    """Resources before and after, the first error, or why it was not compiled."""
    risk: Prose
    check: Prose
    """How to check that it worked."""
    instead_of: int | None = None
    """Number of the edit that it is an alternative to, from 1."""


class UncheckedSentence(NamedTuple):
    """A sentence with numbers that keet could not check: printed with a mark."""

    where: str
    """`causes[0].text`"""
    text: str
    reason: str


class ModelExplanation(NamedTuple):
    """One launch, as a model explains it."""

    summary: Prose
    """What limits the kernel and why, in one or two sentences."""
    purpose: Prose
    mapping: Prose
    """How the work is laid out over threads, warps and blocks."""
    hypotheses: tuple[Hypothesis, ...]
    causes: tuple[ModelCause, ...]
    """The most important first."""
    objections: tuple[ModelCause, ...]
    """Against findings of the analyst."""
    edits: tuple[Edit, ...]
    leads: bool = False
    """Whether one of its causes is the headline: a claim that keet computed."""
    analyst_headline: str = ""
    """What the analyst alone says, where the model leads."""
    sent_back: int = 0
    """Sentences, facts and edits that were returned for correction."""

    @property
    def texts(self) -> Iterator[tuple[str, Prose]]:
        """All texts with their paths in the answer, in the order of the page."""
        yield "summary", self.summary
        for kind, causes in (("causes", self.causes), ("objections", self.objections)):
            for i, cause in enumerate(causes):
                yield f"{kind}[{i}].text", cause.text
        for i, edit in enumerate(self.edits):
            yield f"edits[{i}].what", edit.what
            yield f"edits[{i}].risk", edit.risk
            yield f"edits[{i}].check", edit.check
        for i, guess in enumerate(self.hypotheses):
            yield f"hypotheses[{i}].text", guess.text
            yield f"hypotheses[{i}].reason", guess.reason
        yield "purpose", self.purpose
        yield "mapping", self.mapping

    @property
    def unchecked(self) -> tuple[UncheckedSentence, ...]:
        return tuple(
            unchecked(where, sentence) for where, text in self.texts for sentence in text.problems
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """Evidence in the order of the page."""
        causes = [i for cause in (*self.causes, *self.objections) for i in cause.ids]
        told = [i for _, text in self.texts for i in text.ids]
        return tuple(dict.fromkeys((*causes, *told)))

    @property
    def numbers(self) -> int:
        """References in checked sentences, all printed by keet."""
        causes = sum(len(cause.because) for cause in (*self.causes, *self.objections))
        return causes + sum(text.numbers for _, text in self.texts)


def unchecked(where: str, sentence: ProseSentence) -> UncheckedSentence:
    return UncheckedSentence(where, str(sentence), sentence.problem or "")


class Usage(NamedTuple):
    """Calls to a model and their cost."""

    calls: int
    cached: int
    """Replies that came from the cache: neither calls nor cost."""
    input_tokens: int
    output_tokens: int
    cost: float | None
    """In US dollars; None: the price is not known."""
    seconds: float
    estimated: bool = False
    """The server did not count the tokens; keet did."""


class Authorship(NamedTuple):
    """Which model explained, its usage, and what went wrong."""

    model: str
    usage: Usage
    problem: str | None
    """Why the model's part is missing or incomplete, in one line."""
    transcript: str | None
