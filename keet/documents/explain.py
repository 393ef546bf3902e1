"""`keet explain --format json`, with the program and the whole run; `keet ask --format json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final, Literal

from keet.documents.amounts import LaunchAmounts, ProgramAmounts
from keet.documents.document import COMPUTED, LEFT_OUT, Document, live
from keet.documents.finding import FindingDocument, Forecast, MinorDocument
from keet.documents.model_explanation import (
    ModelDocument,
    UncheckedDocument,
    UsageDocument,
)
from keet.documents.shared_types import (
    CommandResult,
    DeviceDocument,
    Dimensions,
    EvidenceId,
    FigureDocument,
    FindingId,
    JsonProse,
    JsonQuantity,
    JsonSentence,
    LaunchResult,
    NumberDocument,
    NumbersById,
    ReportDocument,
    RunDocument,
    Skipped,
)
from keet.evidence import Confidence, Sentence
from keet.profile.run_table import KnownBy


class InRunDocument(Document):
    """The launches of the run that a launch of the report represents."""

    launches: float
    """Number of launches in the run; a fraction if several profiled launches share launches that
    the table does not distinguish."""
    share_pct: float
    """Per cent of the run's GPU time (of all durations if `run.overlap_known` is false)."""
    busy: JsonQuantity
    """GPU time of these launches, in microseconds."""
    plain_duration: JsonQuantity | None
    """Microseconds that this launch took in the run."""
    known_by: KnownBy | None
    """Which launches of the run `plain_duration` is from. `launch`: the one with this number,
    kernel and shape. `shape`: the median (else the average) of launches with this kernel and shape.
    `kernel`: the same over all launches of the kernel."""
    launches_of_shape: int | None
    """Number of launches in the run with the shape of this launch; null if that is all of
    `launches`, or if it is not known."""
    alike_pct: float | None
    """Per cent of `busy` in launches that took between half and twice as long as this one; null if
    not known."""
    warning: str | None
    """Set if `alike_pct` is below 50: findings may not apply to the other launches."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


ReasonId = Literal["managed_or_host_memory", "cold_caches", "clocks", "concurrency", "not_typical"]
ReasonStatus = Literal["likely", "possible", "ruled_out"]


class ReplayReasonDocument(Document):
    id: ReasonId
    status: ReasonStatus
    """`likely`: there is evidence for it. `ruled_out`: there is evidence against it."""
    text: str
    how_to_tell: str
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


class ReplayDocument(Document):
    """The replay of a launch took much longer or shorter than the launch in the run, so the
    findings explain the replay."""

    ratio: float
    """Time in the run over time under replay."""
    replay_duration: JsonQuantity
    """Microseconds."""
    plain_duration: JsonQuantity
    """Microseconds."""
    text: str
    reasons: tuple[ReplayReasonDocument, ...]
    """All reasons that keet knows: likely ones first, ruled-out ones last."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""

    @property
    def open_reasons(self) -> tuple[ReplayReasonDocument, ...]:
        """Those that are not ruled out, likely ones first."""
        return tuple(reason for reason in self.reasons if reason.status != "ruled_out")

    @property
    def likely_reasons(self) -> tuple[ReplayReasonDocument, ...]:
        return tuple(reason for reason in self.reasons if reason.status == "likely")


Kind = Literal["hand_over", "repeated_passes", "same_input", "tiny_launches", "clocks", "sweep"]


class ProgramRowDocument(Document):
    """A group of identical launches; if the run is known, a kernel of the run in all its shapes."""

    kernel: str
    launches: tuple[int, ...]
    """Ids of launches in the report; empty if the kernel was not profiled."""
    representative: int | None
    """The launch that represents the row: among identical launches, the one with the median
    duration. Null if the kernel was not profiled."""
    count: int
    """Number of launches; of the run if it is known."""
    grid: Dimensions | None
    """Null if there are several, or if it is not known."""
    block: Dimensions | None
    us_total: float
    """Microseconds; part of the run's GPU time if the run is known."""
    us_min: float | None
    """Microseconds of the shortest launch."""
    us_median: float | None
    us_max: float | None
    share: float
    """Share of the program's `us_total`, 0 to 1."""
    first_finding: str | None
    """Id of the first finding of the representative launch."""
    headline: str | None
    gain: Forecast | None
    """Gain over the row's time; null if no gain is known."""
    library: str | None
    """For example `cuBLAS`, if the kernel is not the user's own code."""


class CrossLaunchDocument(Document):
    """What several launches show together."""

    kind: Kind
    """`hand_over`: one kernel writes as much as a later one reads. `repeated_passes`: identical
    launches at DRAM's bandwidth. `same_input`: kernels that read the same amount. `tiny_launches`:
    many very short launches. `clocks`: launches that were measured at different clocks. `sweep`:
    one kernel at several sizes."""
    confidence: Confidence
    text: JsonSentence
    launches: tuple[int, ...]
    """Ids of the launches."""
    us_saved: float | None
    """Microseconds of the report's launches that would be saved if the suspicion is true; null if
    not known."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the program's `evidence`."""
    total_us: float = live(default=0.0)
    """Time of these launches."""
    writers: tuple[int, ...] = live(default=())
    """Launches that write what others read."""
    hand_overs: int = live(default=1)
    """Pairs of kernels that all have to hand on the same data."""


class ProgramDocument(Document):
    """Several launches, or a whole run, summarised before the single launches."""

    rows: tuple[ProgramRowDocument, ...]
    """The row whose fix saves most time comes first; of equal ones, the longer."""
    us_total: float
    """Microseconds of all rows."""
    gain: Forecast | None
    """Gain over `us_total` if the first finding of each row's launch were fixed: the sum of the
    savings. Short launches count as merged into one per row; causes that are only possible and
    kernels that seem to do the same work are left out. Null if no gain is known."""
    texts: tuple[str, ...]
    shown: tuple[int, ...]
    """Ids of the launches that matter most."""
    cross_launch: tuple[CrossLaunchDocument, ...]
    """The largest saving comes first."""
    amounts: ProgramAmounts | None
    """What the launches do together. Null if the report has no times."""
    evidence: NumbersById


BY_MODEL: Final = "model, computed by keet"


class LaunchVerdict(Document):
    limiter: str | None
    """The unit nearest to its peak, ties joined by `+`. `latency` if no unit is near its peak. Null
    if the report does not say how busy any unit was."""
    reached_pct: float | None = COMPUTED
    """Per cent of its peak that the unit nearest to its peak reached."""
    headline: str
    by: Literal["keet", "model, computed by keet"] = LEFT_OUT
    """Who found the cause in the headline; left out without a model."""
    analyst_headline: str = LEFT_OUT
    """keet's headline without the model; left out if `headline` is keet's own."""


class Note(Document, kw_only=False):
    """A sentence about a launch."""

    id: str
    """`instruction_mix`, `l2_stage` or `bytes_moved`."""
    text: JsonSentence
    evidence: tuple[EvidenceId, ...]


class HealthyNote(Note, kw_only=False):
    """What looks good."""

    id: FindingId
    """Id of the finding that does not apply."""


class PartDocument(Document):
    """A part of the launch's time. The parts of a launch add up, and so do the children of each
    part."""

    id: str
    """Stable name, starting with the outermost part: `waiting.busy.dram`."""
    part: str
    """Name of the part in words."""
    share: float
    """Share of the launch's time, 0 to 1."""
    us: float | None
    """The same time in microseconds."""
    evidence: tuple[EvidenceId, ...]
    """Ids of the share and of the numbers that it was computed from."""
    children: tuple[PartDocument, ...]


class UnitDocument(Document):
    unit: str
    """For example `DRAM`, `L2` or `FMA`."""
    reached_pct: float | None
    """Per cent of its peak, over the elapsed cycles."""
    evidence: EvidenceId


class FactDocument(Document, kw_only=False):
    """What is known about a launch on one topic. A topic that was not measured has no entry."""

    topic: str
    """For example `busiest_unit`, `load.dram`, `spills`, `coalescing.loads`."""
    value: str
    """In a word: a unit, `none`, `some`, `many`, `low`, `middle`, `high`, a source line."""
    text: JsonSentence
    evidence: tuple[EvidenceId, ...] = field(default=COMPUTED, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.text, Sentence):
            self.__dict__["evidence"] = tuple(self.text.evidence.values())


class ExplainLaunch(LaunchResult):
    kernel_full: str
    device: int
    """Index into `devices`."""
    grid: Dimensions | None
    block: Dimensions | None
    duration: JsonQuantity | None
    """Microseconds; null if not measured."""
    figures: tuple[FigureDocument, ...]
    """Rates with their shares of the peak, waves, registers per thread, and blocks that fit on an
    SM; those that the report has."""
    verdict: LaunchVerdict
    ceilings: tuple[UnitDocument, ...]
    """The busiest unit comes first."""
    findings: tuple[FindingDocument, ...]
    """Causes that gain 10 % or more if they are there, and are likely enough to report; the first
    saves most time."""
    all_fixed: Forecast | None
    """If all findings were fixed; null where there are fewer than two."""
    order_reason: str | None
    """Why the first finding ranks before one that takes a larger part of the account; null if none
    does."""
    minor: tuple[MinorDocument, ...]
    """Causes that are expected to gain less."""
    account: tuple[PartDocument, ...]
    amounts: LaunchAmounts | None
    """How much work is done, and how much is needed; null if the machine code was not analysed:
    `keet amounts` has what counters tell."""
    notes: tuple[Note, ...]
    """What the account shows in addition to its parts."""
    healthy: tuple[HealthyNote, ...]
    facts: tuple[FactDocument, ...] = ()
    """What texts about the launch are checked against: `keet verify`, and a model's words."""
    skipped: tuple[Skipped, ...]
    machine_code: Literal["analysed", "not_needed", "absent", "off"] = "off"
    """`analysed`. `not_needed`: no check needed it. `absent`: `skipped` has the reason. `off`:
    switched off, or not one of the longest launches."""
    second_opinion: str | None
    """What Nsight Compute's own rules rank first."""
    evidence: NumbersById
    hypotheses: tuple[str, ...] = LEFT_OUT
    """Always empty: models are no longer asked for hypotheses."""
    model: ModelDocument | None = LEFT_OUT
    """What a model adds; null if it says nothing about this launch."""
    in_run: InRunDocument | None = LEFT_OUT
    """Null if the run is not known, or does not have the kernel."""
    replay: ReplayDocument | None = LEFT_OUT
    """Null if the replay took about as long as the launch in the run."""


class GroundingDocument(Document):
    numbers: int
    """Numbers in all sentences, including a model's checked ones."""
    verified: int
    """Numbers that are printed from evidence: all of them."""
    unchecked: list[str] = field(default_factory=list)
    """A model's sentences with numbers or comparisons that keet could not check; each with the
    reason."""

    @classmethod
    def of(cls, numbers: int, unchecked: Iterable[str] = ()) -> GroundingDocument:
        return cls(numbers=numbers, verified=numbers, unchecked=list(unchecked))


class ExplainDocument(CommandResult):
    """`keet explain --format json`"""

    schema_version: Literal[4] = 4  # type: ignore[assignment]
    author: str = "analyst"
    """`analyst` (keet alone), or `model:PROVIDER:NAME` if a model contributed."""
    report: ReportDocument
    device: DeviceDocument
    """The GPU of the first launch in this document."""
    devices: list[DeviceDocument]
    """Every GPU in the report."""
    launches: list[ExplainLaunch]
    grounding: GroundingDocument
    usage: UsageDocument | None = None
    """Null if no model was used."""
    problem: str | None = LEFT_OUT
    """Why a model's part is missing or incomplete; null if it is complete."""
    transcript: str | None = LEFT_OUT
    """File with the transcript of the model's run."""
    run: RunDocument | None = LEFT_OUT
    """The run of the whole program; null if no run was recorded."""
    program: ProgramDocument | None = LEFT_OUT
    """All launches together; left out if there is one launch and no run."""


class CitedNumberDocument(NumberDocument):
    report: int | None
    """Index into `reports`; null if the number belongs to several launches."""
    launch: int | None
    """Id of the launch in that report."""
    kernel: str | None


class AskDocument(CommandResult):
    """`keet ask --format json`"""

    schema_version: Literal[2] = 2  # type: ignore[assignment]
    author: str
    """`model:PROVIDER:NAME`."""
    question: str
    reports: list[ReportDocument]
    answer: JsonProse
    """Paragraphs, with numbers as keet prints them. `[unchecked]` marks sentences whose numbers
    keet could not resolve. Empty if there is no answer: see `problem`."""
    evidence: dict[str, CitedNumberDocument]
    """The numbers that the answer refers to, in the order of the text."""
    grounding: GroundingDocument
    unchecked: tuple[UncheckedDocument, ...]
    """The sentences marked `[unchecked]`."""
    followups: list[str]
    """Commands to run next."""
    usage: UsageDocument
    problem: str | None
    """Why the answer is missing or incomplete."""
    transcript: str | None
    """File with the transcript of the model's run."""
