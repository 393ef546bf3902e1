"""`keet finding --format json`, of findings and of measured cases."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import LEFT_OUT, Document
from keet.documents.finding import PrecedentsDocument
from keet.documents.shared_types import CommandResult, FindingId


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
