"""What a model says about a launch, after keet resolved its references and computed its claims.

In JSON, texts contain the numbers as keet prints them, and `[unchecked]` before a sentence that
keet could not check, or `[contradicted: …]` with what the report shows. The ids of the numbers are
in `evidence` beside each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.documents.document import COMPUTED, Document, computed, live
from keet.documents.finding import Forecast
from keet.documents.shared_types import JsonProse, JsonQuantity, JsonSentence
from keet.evidence import Prose, ids_of
from keet.safe_text import flat


class ClaimDocument(Document):
    """What keet computed from the amount of work that, according to a model, is needed."""

    supported: bool
    """False if the report contradicts the claim, or has no data on it."""
    reason: str
    """Why the claim is not supported, or the claimed amounts."""
    gain: float | None
    """How many times faster the launch would be if the claim is true; null if not computed."""
    forecast: Forecast | None
    """Null if the claim is not supported."""
    next_limiter: str | None
    """What limits the kernel after the fix."""
    floor: JsonQuantity | None
    """The shortest time in which the work can be done."""
    amounts_by: Literal["keet", "model"] = "model"
    """Whose amounts of work the forecast rests on."""
    keet_alone: Forecast | None = None
    """keet's own forecast for the finding; null if it has none."""


class UnusedClaimDocument(Document):
    """A claim that the report refutes, or that could not be read."""

    claim: str
    """As the model wrote it: `bytes of DRAM, needed N * 4 B`."""
    reason: str
    evidence: tuple[str, ...]
    """Ids of the numbers that refute it."""


class CauseDocument(Document):
    """Why the code behaves as measured; or, among objections, what is wrong with a finding."""

    finding: str
    """Id of the finding in keet's catalog."""
    text: JsonProse
    where: str | None
    """For example `slow.cu:31`."""
    because: tuple[JsonSentence, ...]
    """Measured facts and comparisons that are true."""
    evidence: tuple[str, ...] = COMPUTED
    """Ids of the numbers in the launch's `evidence` that the text refers to."""
    problem: str | None
    """What in the report contradicts it, or why it moves nothing."""
    claim: ClaimDocument | None
    """Null if the cause claims no amount of work."""
    unused_claims: tuple[UnusedClaimDocument, ...] = ()
    """Claims that do not count, with the reason. The others of the cause still do."""
    raised_by_analyst: bool = COMPUTED
    """False if it is not in the launch's `findings`, and therefore has no forecast there."""

    def __post_init__(self) -> None:
        if isinstance(self.text, Prose):
            self.__dict__["evidence"] = ids_of((self.text, *self.because))


class EditDocument(Document):
    """A change to the code that a model proposes."""

    finding: str | None
    what: JsonProse
    diff: str
    """Unified diff that applies to the source; empty if there is none: see `problem`."""
    places: tuple[str, ...]
    """Source lines that it changes, for example `slow.cu:31-34`."""
    applies: bool = COMPUTED
    build: Literal["compiles", "fails", "not checked"]
    build_text: str
    """Resources before and after, the first error, or why it was not compiled."""
    warnings: tuple[str, ...] = ()
    """Warnings of the compiler that the original code does not have, at most 3."""
    problem: str | None
    """Why there is no diff."""
    sketch: str
    """The model's code, if it could not be turned into a diff."""
    risk: JsonProse
    check: JsonProse
    """How to check that the change worked."""
    instead_of: int | None = None
    """Number of the edit, counted from 1, that this one is an alternative to."""
    cause_confirmed: bool = True
    """Whether its finding is one of keet's, or a claim of the model that the report supports."""
    in_patch: bool = COMPUTED
    """Whether `--patch` writes it."""
    not_in_patch: str | None = None
    """Why `--patch` leaves it out."""
    evidence: tuple[str, ...] = COMPUTED
    """Ids of the numbers in the launch's `evidence` that the text refers to."""

    def __post_init__(self) -> None:
        self.__dict__["applies"] = bool(self.diff)
        self.__dict__["in_patch"] = bool(self.diff) and self.not_in_patch is None
        if isinstance(self.what, Prose):
            self.__dict__["evidence"] = ids_of((self.what, self.risk, self.check))


class ModelEdit(EditDocument):
    """With the lines that it replaces."""

    patch: object = live(default=None)
    """A `Patch` (keet.agent.edits.patches); None if there is no diff."""


class UncheckedDocument(Document):
    """A sentence that is printed with a mark."""

    where: str
    """Where the sentence is in `model`: `causes[0].text`."""
    text: str
    reason: str
    fault: Literal["unchecked", "contradicted", "undecided"] = "unchecked"
    """`unchecked`: keet could not resolve its numbers or comparisons. `contradicted`: the report
    says otherwise, see `reason`. `undecided`: no known fact decides what it says about the run."""

    @property
    def line(self) -> str:
        """On one line, without the advice to the model, which follows the first semicolon."""
        reason = self.reason.partition(";")[0]
        return f"{flat(self.where)}: “{flat(self.text)}” ({flat(reason)})"


def unchecked_in(texts: Iterable[tuple[str, Prose]]) -> tuple[UncheckedDocument, ...]:
    """`texts`: with their places."""
    return tuple(
        UncheckedDocument(
            where=where, text=sentence, reason=sentence.problem or "", fault=sentence.fault
        )
        for where, text in texts
        for sentence in text.problems
    )


class ModelDocument(Document):
    """A model's statements about a launch. Texts are empty if it made none."""

    summary: JsonProse
    """What limits the kernel and why, in one or two sentences."""
    purpose: JsonProse
    """What the code does."""
    mapping: str = ""
    """Always empty: models are no longer asked for it."""
    evidence: tuple[str, ...] = COMPUTED
    """Ids of the numbers that `summary` and `purpose` refer to."""
    leads: bool
    """True if its cause is the headline, as computed by keet: see `verdict`."""
    causes: tuple[CauseDocument, ...]
    """The most important first."""
    objections: tuple[CauseDocument, ...] = ()
    """Objections to keet's own findings, source lines or remedies."""
    edits: tuple[EditDocument, ...]
    unchecked: tuple[UncheckedDocument, ...] = ()
    """The sentences marked `[unchecked]` or `[contradicted: …]`."""
    numbers: int = 0
    """Numbers in its checked sentences; keet printed all of them."""
    sent_back: int = 0
    """Sentences, facts and edits that were returned for correction."""


class ModelExplanation(ModelDocument):
    evidence: tuple[str, ...] = computed(lambda each: ids_of((each.summary, each.purpose)))
    unchecked: tuple[UncheckedDocument, ...] = computed(lambda each: unchecked_in(each.texts))
    numbers: int = computed(lambda each: each._numbers())

    def _numbers(self) -> int:
        causes = (*self.causes, *self.objections)
        facts = sum(each.numbers for cause in causes for each in cause.because)
        return facts + sum(text.numbers for _, text in self.texts)

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
        yield "purpose", self.purpose

    @property
    def ids(self) -> tuple[str, ...]:
        """Evidence in the order of the page."""
        causes = [i for cause in (*self.causes, *self.objections) for i in cause.evidence]
        return tuple(dict.fromkeys((*causes, *ids_of(text for _, text in self.texts))))

    def beside(self, findings: Iterable[str]) -> ModelExplanation:
        """With the causes marked that are among these findings of the launch."""
        known = frozenset(findings)

        def marked(causes: Iterable[CauseDocument]) -> tuple[CauseDocument, ...]:
            return tuple(
                replace(cause, raised_by_analyst=cause.finding in known) for cause in causes
            )

        return replace(self, causes=marked(self.causes), objections=marked(self.objections))


class UsageDocument(Document):
    """Requests to a model. keet's own analysis makes none."""

    calls: int
    cached: int = 0
    """Replies from the cache; they are neither calls nor cost."""
    input_tokens: int
    output_tokens: int
    cost: float | Literal["unknown"]
    """US dollars."""
    seconds: float = 0.0
    estimated: bool = False
    """True if keet counted the tokens because the server did not report them."""


NO_USAGE = UsageDocument(calls=0, input_tokens=0, output_tokens=0, cost="unknown")


class Authorship(NamedTuple):
    """Which model explained, its usage, and what went wrong."""

    model: str
    usage: UsageDocument
    problem: str | None
    """Why the model's part is missing or incomplete, in one line."""
    transcript: str | None

    @property
    def author(self) -> str:
        """As documents name it."""
        return f"model:{self.model}"
