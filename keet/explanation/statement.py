"""What a model said of one launch, after it was held to the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from keet.evidence import Evidence
    from keet.explanation.analyst import Explanation

_CITED = re.compile(r"\bE\d+\b")
Judgement = Literal["confirmed", "refuted", "inconclusive"]


class Hypothesis(NamedTuple):
    """Stated from the source before a number was seen, and judged by the numbers afterwards."""

    text: str
    finding: str | None
    """An id of the vocabulary, where it is one."""
    judgement: Judgement
    reason: str
    evidence: tuple[str, ...]


class Cause(NamedTuple):
    """Why the code behaves as measured: what counters can't say."""

    finding: str
    """An id of the vocabulary; one that the analyst did not raise has no forecast."""
    text: str
    evidence: tuple[str, ...]


class Edit(NamedTuple):
    """A change to the code, small enough to be judged by reading it."""

    finding: str | None
    file: str | None
    line: int | None
    what: str
    code: str
    """A diff or a sketch, as the model wrote it: not checked, not compiled."""
    risk: str
    check: str
    """How to see that it worked."""


class Dropped(NamedTuple):
    """A claim that the evidence does not bear out; it is shown as such, not as fact."""

    where: str
    """`causes[0].text`"""
    text: str
    reason: str


class Statement(NamedTuple):
    """One launch, as a model explains it. The analyst's findings and forecasts stand beside it."""

    purpose: str
    mapping: str
    """How the work is laid out over threads, warps and blocks."""
    hypotheses: tuple[Hypothesis, ...]
    summary: str
    causes: tuple[Cause, ...]
    edits: tuple[Edit, ...]
    dropped: tuple[Dropped, ...]
    numbers: int
    """In its texts, those of what was dropped not counted: all of them are verified."""
    objections: tuple[Cause, ...] = ()
    """What it holds against the analyst's findings, places or remedies."""

    @property
    def cited(self) -> Iterator[str]:
        """Ids in the order of the page: causes stand under the findings, before the rest."""
        for cause in (*self.causes, *self.objections):
            yield from (*_CITED.findall(cause.text), *cause.evidence)
        for text in (self.summary, self.purpose, self.mapping):
            yield from _CITED.findall(text)
        for guess in self.hypotheses:
            yield from (*_CITED.findall(f"{guess.text} {guess.reason}"), *guess.evidence)
        for edit in self.edits:
            yield from _CITED.findall(f"{edit.what} {edit.risk} {edit.check}")


class Usage(NamedTuple):
    """What a model was asked, and what that cost."""

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
    """Who explained, and how far it came."""

    model: str
    usage: Usage
    problem: str | None
    """Why the model's part is missing or incomplete, in one line."""
    transcript: str | None


class Answered(NamedTuple):
    """A question about reports, answered by a model and held to the evidence."""

    question: str
    text: str
    evidence: tuple[Evidence, ...]
    """What the answer cites."""
    dropped: tuple[Dropped, ...]
    numbers: int
    explanations: tuple[Explanation, ...]
    """The reports that were asked about."""
    author: Authorship
    followups: tuple[str, ...]
    """Commands to go on with."""
