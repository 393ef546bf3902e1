"""The types of a diagnosis: findings with their evidence, places, forecast and advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.catalog.loading import precedents
from keet.documents.document import computed, live
from keet.documents.finding import (
    CauseCertainty,
    FindingDocument,
    Forecast,
    NearestDocument,
    Place,
    PrecedentsDocument,
)
from keet.evidence import Confidence, Evidence, Sentence
from keet.findings import FindingSpec, findings
from keet.formatting import capitalized

_CONFIDENCES: Mapping[CauseCertainty, Confidence] = {
    "certain": "high",
    "likely": "medium",
    "possible": "low",
}


class Because(NamedTuple):
    """A fact that selected the advice, and its evidence."""

    fact: str
    """Its id; `general` where no remedy needs more than the finding itself."""
    words: Sentence
    evidence: tuple[Evidence, ...] = ()
    places: tuple[Place, ...] = ()


HERE = "{here}"


class Advice(NamedTuple):
    """What to change, chosen by what the report shows: see keet/diagnosis/advice.py."""

    text: Sentence
    """Its part `HERE` stands for the place in the source, until `Finding.action` fills it in."""
    because: tuple[Because, ...]
    variant: str
    """Name of the remedy's condition."""


class Finding(FindingDocument):
    """One cause, with what shows it and what to do about it."""

    text: Sentence
    """The measurements that show it, as a sentence."""
    forecast: Forecast
    locations: tuple[Place, ...] = ()
    rank: int = 0
    certainty_reason: Sentence | None = None
    nearest_case: NearestDocument | None = None

    variant: str = live(default="")
    """Which of several causes of the finding it is, if known; each variant has its own remedy."""
    here: str = live(default="")
    """The first place as part of a sentence: ` at file.cu:7`."""
    expected: float = live(default=1.0)
    """Times faster, allowing for the chance that the cause is not there. Findings are ranked by
    it."""
    relieves: Mapping[str, float] | None = live(default=None)
    """Units that have less work after a fix, and the share of their work that goes, 0 to 1; None
    where the gain does not follow from units."""
    brief: Sentence | None = live(default=None)
    """How much is done again, in a few words for a headline."""
    advice: Advice | None = live(default=None)
    """`None` until it is selected; `action` is the general remedy then."""

    confidence: Confidence = computed(lambda finding: _CONFIDENCES[finding.cause_certainty])
    confidence_reason: Sentence | None = computed(lambda finding: finding.certainty_reason)
    title: str = computed(lambda finding: capitalized(finding.label))
    action: Sentence = computed(lambda finding: finding._action())
    precedents: PrecedentsDocument | None = computed(lambda finding: finding._precedents())

    @property
    def does_more_work(self) -> bool:
        """Whether its gain is more work in the same time, and not the same work faster."""
        return self.spec.of_launches or self.variant in self.spec.more_work

    @property
    def has_open_gain(self) -> bool:
        """Whether nothing in the report shows how much a fix would gain."""
        return self.variant in self.spec.open_gains

    @property
    def spec(self) -> FindingSpec:
        return findings()[self.id]

    def _action(self) -> Sentence:
        if self.advice is None:
            return Sentence(self.spec.remedy_named(self.variant), here=self.here)
        return Sentence.of(self.here if part == HERE else part for part in self.advice.text.parts)

    @property
    def label(self) -> str:
        """The name in lower case, as within a sentence."""
        spec = self.spec
        default = "redundant work" if self.variant == REDUNDANT_WORK else spec.label
        return spec.labels.get(self.variant, default)

    def _precedents(self) -> PrecedentsDocument | None:
        """None if the casebook has no measured gain for this finding."""
        variants = {self.variant, self.advice.variant if self.advice else ""}
        is_other = not variants.isdisjoint(self.spec.without_cases)
        cases = None if is_other else precedents().get(self.id)
        return PrecedentsDocument.taken_from(cases) if cases else None


BETWEEN_LAUNCHES = ("hand_over", "same_input")
"""Variants of redundant traffic between launches. They have no source line: within each launch,
every byte may be touched once."""


REDUNDANT_WORK = "redundant_work"
"""Variant of a cause that a model claims: work of any kind whose results are already known. Its
label is the same for all findings."""
LOWER_PRECISION = "lower_precision"
"""Variant of a cause that a model claims: a narrower type suffices, for data that is not FP64."""
