"""Findings in results, and `keet finding --format json`, of findings and of measured cases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from keet.documents.document import COMPUTED, LEFT_OUT, Document
from keet.documents.shared_types import CommandResult, Described, EvidenceId, FindingId
from keet.evidence import Confidence
from keet.profile.launch import file_name

CauseCertainty = Annotated[
    Literal["certain", "likely", "possible"],
    Described(
        "`certain`: a counter that only this cause moves shows it. `likely`: the account points at "
        "it, and one assumption is needed. `possible`: it needs a fact that the report lacks."
    ),
]
"""Whether the cause is there."""


class Forecast(Document, kw_only=False):
    """How many times faster it would be, if only this were fixed."""

    low: float
    likely: float
    high: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.likely, self.high))

    @property
    def is_known(self) -> bool:
        """False if it could not be computed."""
        return all(map(math.isfinite, self))


class PrecedentsDocument(Document):
    """How many times faster measured cases of this finding became: `keet finding ID --cases`."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int
    """Cases with the same symptom where the fix gained less than 10 %; not counted in `cases`."""


class NearestDocument(Document):
    """The measured case that is most like the launch: `keet finding ID` shows it in full."""

    id: str
    archetype: str
    """The kind of algorithm."""
    language: Literal["cuda", "triton"]
    gain: float
    """Times faster."""
    changes: tuple[str, ...]
    """Two or three lines of its diff."""


class Place(Document, kw_only=False):
    """A source line, and its share of a finding's effect."""

    file: str
    """The path that the compiler recorded."""
    line: int
    share: float
    """Share of the whole effect, including the part without a source line, 0 to 1."""
    of: str
    """What the share is of, for example `excess sectors` or `samples`."""
    unplaced: float = 0.0
    """Share of that effect without a source line, 0 to 1."""

    @property
    def at(self) -> tuple[str, int]:
        return self.file, self.line

    @property
    def where(self) -> str:
        """`file.cu:31`, without the folders of the machine that compiled it."""
        return f"{file_name(self.file)}:{self.line}"


class MinorDocument(Document):
    """A cause that is not expected to gain 10 %."""

    id: FindingId
    cause_certainty: CauseCertainty
    title: str
    text: str
    forecast: Forecast | None
    """If the cause is there. Null if it cannot be computed."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


class FindingDocument(Document):
    id: FindingId
    rank: int = COMPUTED
    """Starts at 1; the largest gain comes first."""
    cause_certainty: CauseCertainty
    certainty_reason: str | None = COMPUTED
    """Why the cause is only possible; null if it is likely or certain."""
    confidence: Confidence = COMPUTED
    """`cause_certainty` in the words of earlier versions; it will be left out."""
    confidence_reason: str | None = COMPUTED
    """The same as `certainty_reason`."""
    title: str = COMPUTED
    text: str
    action: str = COMPUTED
    forecast: Forecast | None
    """Null if it cannot be computed."""
    precedents: PrecedentsDocument | None = COMPUTED
    """Null if no case was measured."""
    nearest_case: NearestDocument | None = COMPUTED
    """Of the first finding; null for others, and if no case was measured."""
    locations: tuple[Place, ...]
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""
    why: str | None = LEFT_OUT
    """A model's explanation of why the code behaves this way; null if it has none."""
    origin: Literal["keet", "model"] = LEFT_OUT
    """`model` if a model claimed it and keet computed its forecast."""
    amounts_by: Literal["keet", "model"] = LEFT_OUT
    """Whose amounts of work the forecast rests on; left out without a model."""
    keet_alone: Forecast | None = LEFT_OUT
    """keet's own forecast: `forecast` itself, unless the amounts are a model's. Null if keet has no
    estimate."""


class CaseStepDocument(Document):
    """The effect of fixing one of several causes alone."""

    finding: str
    after_us: float
    speedup: float
    why: str


class MovedDocument(Document):
    """The counter that shows that the fixed code no longer has the cause."""

    metric: str
    """ncu's name of the metric; `A / B` is the ratio of two metrics."""
    before: float | None
    after: float | None


class CaseDocument(Document):
    id: str
    family: str
    split: Literal["work", "locked", "opened"]
    """Rules and forecasts are fitted on `work` families alone; `opened`: was locked."""
    finding: str
    """Id of the dominant cause; for a look-alike, the finding that it resembles."""
    lookalike: bool
    """True if the symptom is present but removing it gains less than 10 %."""
    also: list[str]
    """Ids of other causes in the code before the fix."""
    accept: list[str]
    """Ids that are also correct answers, because they describe the same cause differently."""
    archetype: str
    severity: Literal["lookalike", "slight", "mild", "severe"]
    """By speed-up: `lookalike` below 1.1, `slight` below 1.15, `mild` up to 1.5, `severe` above."""
    speedup: float
    """Median time before the fix over median time after it."""
    before_us: float
    """Median duration of the launches in microseconds, with a cold L2."""
    after_us: float
    spread_pct: float
    """10th to 90th percentile as per cent of the median, for the side where it is larger."""
    hidden: bool
    """True if the cause cannot be seen in the kernel's source."""
    start_share_of_roofline: float
    """Shortest possible time of the needed work at the GPU's peaks, over `before_us`."""
    gpu: str
    driver: str
    cuda: str
    ncu: str
    date: str
    launches: int
    """Timed launches per side; the sides alternate."""
    seeds: list[int]
    """Random seeds for which the results were checked."""
    language: Literal["cuda", "triton"]
    title: str
    problem: str
    why: str
    fix: str
    kernel: str
    """The evaluated kernel before the fix."""
    kernel_after: str
    """The evaluated kernel after the fix."""
    file: str
    lines: list[int]
    """Source lines of the cause."""
    moved: MovedDocument
    steps: list[CaseStepDocument] = LEFT_OUT
    """Each of several causes fixed alone; absent if there is only one cause."""
    counters: dict[str, tuple[float | None, float | None]]
    """By catalog id: the values before and after, of the evaluated launches."""
    profiles: tuple[str, str]
    """Paths in keet's repository: before, after."""
    diff: str
    """Unified diff of the code before and after."""

    @property
    def gain(self) -> float:
        """The speed-up of its cause alone, if the case has several."""
        alone = (step.speedup for step in self.steps or () if step.finding == self.finding)
        return next(alone, self.speedup)


class CasesDocument(CommandResult):
    """`keet finding --cases --format json`"""

    cases: list[CaseDocument]


class ParameterDocument(Document):
    """A constant that the forecast of the finding depends on."""

    name: str
    value: float
    meaning: str
    source: Literal["documentation", "fit", "judgement"]
    """`fit`: fitted to measured cases. `documentation`: a published number. `judgement`: chosen by
    keet's authors."""


class SimilarDocument(Document):
    id: FindingId
    label: str
    difference: str
    """How to distinguish the two findings."""


class RemedyDocument(Document):
    name: str
    condition: str
    """When the remedy is suggested, in words; `otherwise` for all other cases."""
    needs: list[str]
    """Ids of facts that must be true."""
    excludes: list[str]
    """Ids of facts that must be false."""
    text: str


class CaseReferenceDocument(Document):
    """A measured case: `keet finding ID` shows it in full."""

    id: str
    fix: str
    """What was changed."""
    speedup: float
    """Speed-up from fixing this cause alone."""


class FindingReferenceDocument(Document):
    id: FindingId
    label: str
    family: Literal["memory", "parallelism", "instructions", "healthy"]
    meaning: str
    judged: str
    """What is measured, and what is assumed to remain after a fix."""
    checks: list[str]
    """Modules that raise the finding."""
    rules: list[str]
    """Rules of Nsight Compute for the same problem."""
    parameters: list[ParameterDocument]
    similar: list[SimilarDocument]
    remedies: list[RemedyDocument]
    """In order: the first one whose condition is true is suggested."""
    precedents: PrecedentsDocument | None
    """Null if no case was measured."""
    best_cases: list[CaseReferenceDocument]
    """The cases with the largest gains, at most 3."""
    lookalike_cases: list[CaseReferenceDocument]
    """Cases with the symptom where the fix gained less than 10 %, at most 3."""


class FindingsDocument(CommandResult):
    """`keet finding --format json`: all findings, or the one that was named."""

    findings: list[FindingReferenceDocument]
